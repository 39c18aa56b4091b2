# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last plan, from the lockfile and from the copies that the nodes keep of their own parts.

The lockfile decides as long as no node runs anything newer. Where it is missing, or older than a node's copy (a git
revert, a checkout thrown away), the copies decide, and they have to be complete: a block that is live on a node nobody
could ask must never look free. What the plan is made of never depends on which nodes a run is limited to.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .allocation_plan import AllocationPlan, BlockGrant, NodePlan, QuarantinedBlock
from .block_walk import parse_address, parse_cidr
from .errors import RebuildError, names

__all__ = ["NodeCopy", "RebuildError", "Reconciled", "reconcile"]

#: A block: IP version, first address, prefix length.
_Key = t.Tuple[int, int, int]


class BlockCopy(t.Protocol):
    @property
    def cidr(self) -> str: ...

    @property
    def pool(self) -> str: ...


class NodeCopy(t.Protocol):
    """A node's own part of a plan, as the node keeps it (fleet.node_state.Ipam)."""

    @property
    def generation(self) -> int: ...

    @property
    def blocks(self) -> t.Sequence[BlockCopy]: ...

    @property
    def spare_blocks(self) -> t.Sequence[BlockCopy]: ...

    @property
    def tunnels(self) -> t.Mapping[str, str]: ...

    @property
    def workloads(self) -> t.Mapping[str, str]: ...

    @property
    def workloads6(self) -> t.Mapping[str, str]: ...


@dataclasses.dataclass(frozen=True)
class Reconciled:
    """`plan` is what to plan from, None for a fleet that never had a plan; `notices` are sentences for people.

    A plan that differs from the lockfile has a generation above the lockfile's and all copies'. Its blocks may name
    pools that it does not describe, because copies do not: plan() takes those from the inventory.
    """

    plan: t.Optional[AllocationPlan]
    notices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Copy:
    """A copy that was read: blocks by key, in their order."""

    generation: int
    blocks: t.Mapping[_Key, BlockGrant]
    spare: t.Mapping[_Key, BlockGrant]
    tunnels: t.Mapping[str, str]
    workloads: t.Mapping[str, str]
    workloads6: t.Mapping[str, str]


def reconcile(
    lockfile_plan: t.Optional[AllocationPlan],
    node_copies: t.Mapping[str, NodeCopy],
    *,
    unreachable: t.Collection[str],
    inventory_nodes: t.Collection[str],
    not_asked: t.Collection[str] = (),
    accept_missing: bool = False,
    lockfile_name: str = ".calico.lock.yml",
) -> Reconciled:
    """What to plan from. Raises RebuildError.

    `unreachable` are inventory nodes that did not answer, `not_asked` those that a limited run left out. A node that
    answered and has no copy is in neither, and not in `node_copies` (or there with generation 0).
    `accept_missing` (calico_rebuild_lockfile) goes on although copies are missing that would have to be known.
    """
    known = set(inventory_nodes)
    copies = {
        node: _read(node, copy) for node, copy in sorted(node_copies.items()) if node in known and copy.generation > 0
    }
    newest = max((copy.generation for copy in copies.values()), default=0)
    unread = sorted((known & {*unreachable, *not_asked}) - set(copies))
    notices: list[str] = []
    if lockfile_plan is None or newest > lockfile_plan.generation:
        left_out = known & set(not_asked) - set(copies)
        if unread and not accept_missing and (copies or left_out or len(unread) == len(known)):
            raise _incomplete(lockfile_name, lockfile_plan, copies, unread)
        if lockfile_plan is None and not copies:
            new = f"{lockfile_name} is missing and no node that answered has blocks: planned as a new fleet"
            return Reconciled(None, (f"{new}, without the copies of {names(unread)}.",) if unread else ())
        notices.append(_rebuilt(lockfile_name, lockfile_plan, copies, newest))
        if unread:
            notices.append(f"This was done without the copies of {names(unread)}.")
    base = lockfile_plan or AllocationPlan()
    _check_claims(lockfile_name, base, copies)
    merged = _merge(base, copies, max(base.generation, newest) + 1, notices)
    if lockfile_plan is not None and newest <= lockfile_plan.generation and merged.same_content(lockfile_plan):
        return Reconciled(lockfile_plan, tuple(notices))
    return Reconciled(merged, tuple(notices))


def _incomplete(
    name: str, lockfile: t.Optional[AllocationPlan], copies: t.Mapping[str, _Copy], unread: t.Collection[str]
) -> RebuildError:
    if not copies:
        rule = f"is missing, and {names(unread)}, which may have blocks already, could not be read."
    elif lockfile is None:
        rule = f"is missing, {names(copies)} {_have(copies)} blocks already, and {names(unread)} could not be read."
    else:
        ahead = {node: copy.generation for node, copy in copies.items() if copy.generation > lockfile.generation}
        rule = (
            f"(generation {lockfile.generation}) is older than the copy of {names(ahead)} "
            f"(generation {max(ahead.values())}), and {names(unread)} could not be read."
        )
    return RebuildError(
        "lockfile",
        name,
        rule,
        f"Restore the newest one from version control, or run without --limit while {names(unread)} can be reached; "
        "only if they have no blocks, set calico_rebuild_lockfile: true for one run.",
    )


def _have(nodes: t.Collection[str]) -> str:
    return "have" if len(nodes) > 1 else "has"


def _rebuilt(name: str, lockfile: t.Optional[AllocationPlan], copies: t.Mapping[str, _Copy], newest: int) -> str:
    count = f"{len(copies)} node{'s' if len(copies) > 1 else ''}"
    if lockfile is None:
        return (
            f"{name} was missing and is rebuilt from the copies of {count} (generation {newest}). "
            "Blocks of nodes that were removed earlier are not in quarantine any more."
        )
    return (
        f"{name} (generation {lockfile.generation}) was older than what the nodes run (generation {newest}) and is "
        f"brought up to date from the copies of {count}."
    )


def _read(node: str, copy: NodeCopy) -> _Copy:
    def grants(blocks: t.Sequence[BlockCopy]) -> dict[_Key, BlockGrant]:
        found = {}
        for block in blocks:
            try:
                found[parse_cidr(block.cidr)] = BlockGrant(block.cidr, block.pool)
            except ValueError as error:
                raise RebuildError(
                    node, None, f"keeps a copy of its blocks that cannot be read: {error}.", _forget(node)
                ) from error
        return found

    opened = grants(copy.blocks)
    spare = {key: grant for key, grant in grants(copy.spare_blocks).items() if key not in opened}
    return _Copy(copy.generation, opened, spare, dict(copy.tunnels), dict(copy.workloads), dict(copy.workloads6))


def _forget(loser: str) -> str:
    return f"Stop what uses addresses of the block on {loser}, delete /var/lib/calico there, and run again."


def _claims(base: AllocationPlan, copy: _Copy) -> t.Iterator[tuple[_Key, BlockGrant]]:
    """The blocks that a copy insists on. A node that is down can lose a spare block, but no open one."""
    yield from copy.blocks.items()
    if copy.generation > base.generation:
        yield from copy.spare.items()


def _check_claims(name: str, base: AllocationPlan, copies: t.Mapping[str, _Copy]) -> None:
    claimed: dict[_Key, str] = {}
    for node, copy in copies.items():
        for key, grant in _claims(base, copy):
            other = claimed.setdefault(key, node)
            if other != node:
                raise RebuildError(
                    "block",
                    grant.cidr,
                    f"is claimed by {other} (generation {copies[other].generation}) and by {node} "
                    f"(generation {copy.generation}).",
                    "Decide which one keeps it. On the other, stop what uses its addresses and delete /var/lib/calico; "
                    "then run again.",
                )
    for owner, key, cidr, where in _owned(base):
        claimant = claimed.get(key)
        if claimant is None or claimant == owner:
            continue
        if copies[claimant].generation <= base.generation:
            raise RebuildError(
                "block",
                cidr,
                f"{where} {owner} in {name} (generation {base.generation}), but {claimant} has it open "
                f"(generation {copies[claimant].generation}).",
                f"{_forget(claimant)} If {claimant} is to keep it, restore the lockfile that says so.",
            )


def _owned(plan: AllocationPlan) -> t.Iterator[tuple[str, _Key, str, str]]:
    for node, part in plan.nodes.items():
        for grant in (*part.blocks, *part.spare_blocks):
            yield node, parse_cidr(grant.cidr), grant.cidr, "belongs to"
    for entry in plan.quarantine:
        yield entry.node, parse_cidr(entry.cidr), entry.cidr, "is in quarantine for"


def _merge(base: AllocationPlan, copies: t.Mapping[str, _Copy], generation: int, notices: list[str]) -> AllocationPlan:
    newer = {node for node, copy in copies.items() if copy.generation > base.generation}
    claimed = {key: node for node in newer for key in (*copies[node].blocks, *copies[node].spare)}
    quarantine = {parse_cidr(entry.cidr): entry for entry in base.quarantine}
    taken = {key for _node, key, _cidr, _where in _owned(base)} | set(claimed)
    nodes: dict[str, NodePlan] = {}
    for node in sorted({*base.nodes, *copies}):
        part = base.nodes.get(node)
        copy = copies.get(node)
        if node in newer:
            nodes[node] = _from_copy(copies[node])
            continue
        blocks = _keyed(part.blocks) if part else {}
        spare = _keyed(part.spare_blocks) if part else {}
        lost = [key for key in (*blocks, *spare) if claimed.get(key, node) != node]
        for key in lost:
            grant = blocks.pop(key, None) or spare.pop(key)
            notices.append(f"{claimed[key]} has block {grant.cidr}, which the older lockfile gave to {node}.")
        if copy is not None:
            _learn(node, part is None, copy, blocks, spare, quarantine, taken, notices)
        source: t.Union[NodePlan, _Copy, None] = part or copy
        nodes[node] = NodePlan(
            tuple(blocks.values()),
            tuple(spare.values()),
            _inside(blocks, source.tunnels if source else {}),
            _inside(blocks, source.workloads if source else {}),
            _inside(blocks, source.workloads6 if source else {}),
        )
    nodes = {node: part for node, part in nodes.items() if node in base.nodes or part != NodePlan()}
    _set_aside_lost(base, newer, nodes, claimed, quarantine, generation)
    for part in nodes.values():
        for grant in (*part.blocks, *part.spare_blocks):
            quarantine.pop(parse_cidr(grant.cidr), None)
    return AllocationPlan(
        generation,
        base.pools,
        nodes,
        tuple(entry for dummy, entry in sorted(quarantine.items())),
    )


def _from_copy(copy: _Copy) -> NodePlan:
    return NodePlan(
        tuple(copy.blocks.values()),
        tuple(copy.spare.values()),
        _inside(copy.blocks, copy.tunnels),
        _inside(copy.blocks, copy.workloads),
        _inside(copy.blocks, copy.workloads6),
    )


def _learn(
    node: str,
    returning: bool,
    copy: _Copy,
    blocks: dict[_Key, BlockGrant],
    spare: dict[_Key, BlockGrant],
    quarantine: t.Mapping[_Key, QuarantinedBlock],
    taken: t.Container[_Key],
    notices: list[str],
) -> None:
    """Open blocks of a copy that the lockfile, as new as it, does not have as open: the node opened a spare one itself,
    or it is back after its blocks were set aside or even released."""
    for key, grant in copy.blocks.items():
        if key in blocks:
            continue
        if key in spare:
            del spare[key]
            notices.append(f"{node} has opened its spare block {grant.cidr}.")
        elif key in quarantine:
            # Set aside while the node was in the inventory: the plan knows why, and decides again.
            if not returning:
                continue
        elif key in taken:
            continue  # taken back by a newer copy of the same node's; _check_claims has refused all others
        else:
            notices.append(f"{node} still has block {grant.cidr}, which the lockfile had as free; it keeps it.")
        blocks[key] = grant


def _set_aside_lost(
    base: AllocationPlan,
    newer: t.Collection[str],
    nodes: t.Mapping[str, NodePlan],
    claimed: t.Container[_Key],
    quarantine: dict[_Key, QuarantinedBlock],
    generation: int,
) -> None:
    """Blocks that an old lockfile gives to a node whose newer copy lacks them. Why is not known: nobody gets them."""
    for node in newer:
        part = base.nodes.get(node)
        for spare, grants in ((False, part.blocks), (True, part.spare_blocks)) if part else ():
            for grant in grants:
                key = parse_cidr(grant.cidr)
                if key not in claimed:
                    quarantine[key] = QuarantinedBlock(grant.cidr, grant.pool, node, generation, spare)


def _keyed(grants: t.Iterable[BlockGrant]) -> dict[_Key, BlockGrant]:
    return {parse_cidr(grant.cidr): grant for grant in grants}


def _inside(blocks: t.Mapping[_Key, BlockGrant], addresses: t.Mapping[str, str]) -> dict[str, str]:
    """The addresses that lie in the blocks."""
    prefixes = {(version, prefix) for version, dummy, prefix in blocks}
    found = {}
    for name, text in sorted(addresses.items()):
        try:
            version, address = parse_address(text)
        except ValueError:
            continue
        bits = 32 if version == 4 else 128
        if any(
            kind == version and (version, address >> (bits - prefix) << (bits - prefix), prefix) in blocks
            for kind, prefix in prefixes
        ):
            found[name] = text
    return found
