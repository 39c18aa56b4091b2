# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last plan, from the lockfile and from the copies that the nodes keep of their own parts.

The lockfile decides, except that a node's newer copy decides about the node's own blocks, and that an older copy may
show spare blocks that the node opened itself, or blocks that it still has (see `claims`). Without a lockfile the copies
decide. Then, and if the lockfile is older than most copies (a git revert), the copies must be complete: a block in use
on a node that could not be read must not look free. A limited run keeps the part of the plan of nodes that it leaves
out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ..base.addresses import canonical_address, canonical_cidr
from . import claims
from .allocation_plan import AllocationPlan, BlockGrant, NodeAllocations, PlannedPool, QuarantinedBlock
from .allocations import Granted
from .block_walk import BlockSet
from .errors import RebuildError, names

__all__ = ["NodeCopy", "RebuildError", "Reconciled", "reconcile"]

_Key = claims.Key
_Copy = claims.Copy


class NodeCopy(t.Protocol):
    """A node's own part of a plan, as the node stores it (state.node_state.NodeIpam).

    `generation` is the plan's, 0 if the node has no part. Addresses are as in NodeAllocations.
    """

    @property
    def generation(self) -> int: ...

    @property
    def blocks(self) -> t.Sequence[Granted]: ...

    @property
    def spare_blocks(self) -> t.Sequence[Granted]: ...

    @property
    def tunnels(self) -> t.Mapping[str, str]: ...

    @property
    def workloads(self) -> t.Mapping[str, str]: ...

    @property
    def workloads6(self) -> t.Mapping[str, str]: ...

    @property
    def probes(self) -> t.Mapping[str, str]: ...


@dataclasses.dataclass(frozen=True)
class Reconciled:
    """The result of `reconcile`.

    `plan` is the plan to start from, None if there is neither a lockfile nor a copy that counts. `notices` are
    sentences for people. `refused` maps the name of each node that must not be changed in this run to the reason.

    A plan that differs from the lockfile has a generation above the lockfile's and those of the copies that count. Its
    blocks may name pools that it does not describe, because copies do not; plan() takes these from the inventory.
    """

    plan: t.Optional[AllocationPlan]
    notices: tuple[str, ...] = ()
    refused: t.Mapping[str, RebuildError] = dataclasses.field(default_factory=dict, compare=False)


def reconcile(
    lockfile_plan: t.Optional[AllocationPlan],
    node_copies: t.Mapping[str, NodeCopy],
    *,
    unreachable: t.Collection[str],
    inventory_nodes: t.Collection[str],
    not_asked: t.Collection[str] = (),
    accept_missing: bool = False,
    lockfile_name: str = ".calico.lock.yml",
    pools: t.Optional[t.Mapping[str, PlannedPool]] = None,
    routes: claims.Routes = lambda node: (),
) -> Reconciled:
    """Return, as a Reconciled, the plan to start from: by the lockfile, or by the nodes' copies where these are newer.

    Copies of nodes that are not in `inventory_nodes` are ignored. With a lockfile, the claims of a copy that
    `claims.checked` refuses are left out, which notices say. `pools` are the inventory's. `lockfile_name` is the
    lockfile's name in messages. `routes` returns a node's stored routes, which show what it knows of the blocks of
    others.

    `unreachable` are inventory nodes that did not answer, `not_asked` the nodes that a limited run left out. A node
    that answered and has no copy is in neither of them, and is missing in `node_copies` or has generation 0 there.
    `accept_missing` (calico_rebuild_lockfile) continues without copies that would be necessary.

    Raise RebuildError, unless `accept_missing` is True, if the lockfile is missing or counts as old (`claims.Checked`)
    and the copy of a node in `unreachable` or `not_asked` is missing. A new fleet is no error: no lockfile, no copy,
    some node answered, and `not_asked` is empty. Without a lockfile, also raise it if two copies claim one block, if a
    copy has an invalid block or generation, or, unless `accept_missing` is True, if a copy claims a block that another
    node with a copy routes to a node without one.
    """
    known = set(inventory_nodes)
    notices: list[str] = []
    copies: t.Mapping[str, _Copy] = {
        node: _read(node, copy, notices if lockfile_plan is not None else None)
        for node, copy in sorted(node_copies.items())
        if node in known and copy.generation > 0
    }
    old = False  # whether the lockfile counts as an old one, because most copies are newer (see claims.Checked)
    refused: t.Mapping[str, RebuildError] = {}
    if lockfile_plan is not None:
        base = claims.Base(lockfile_plan, lockfile_name, known, pools or {})
        checked = claims.checked(base, copies, notices, routes)
        copies, old, refused = checked.copies, checked.old, checked.refused
    newest = max((copy.generation for copy in copies.values()), default=0)
    unread = sorted((known & {*unreachable, *not_asked}) - set(copies))
    if lockfile_plan is None or newest > lockfile_plan.generation:
        left_out = known & set(not_asked) - set(copies)
        many = lockfile_plan is None or old
        if many and unread and not accept_missing and (copies or left_out or len(unread) == len(known)):
            raise _incomplete(lockfile_name, lockfile_plan, copies, unread)
        if lockfile_plan is None and not copies:
            new = f"{lockfile_name} is missing and no node that answered has blocks: planned as a new fleet"
            return Reconciled(None, (f"{new}, without the copies of {names(unread)}.",) if unread else ())
        notices.append(_rebuilt(lockfile_name, lockfile_plan, copies, newest, many))
        if unread and many:
            notices.append(f"This was done without the copies of {names(unread)}.")
    if lockfile_plan is None:
        _check_claims(copies)
        if not accept_missing:
            _check_routes(copies, known, routes)
    plan = lockfile_plan or AllocationPlan()
    merged = _merge(plan, copies, max(plan.generation, newest) + 1, notices)
    if lockfile_plan is not None and newest <= lockfile_plan.generation and merged.same_content(lockfile_plan):
        return Reconciled(lockfile_plan, tuple(notices), refused)
    return Reconciled(merged, tuple(notices), refused)


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


def _rebuilt(
    name: str, lockfile: t.Optional[AllocationPlan], copies: t.Mapping[str, _Copy], newest: int, many: bool
) -> str:
    count = f"{len(copies)} node{'s' if len(copies) > 1 else ''}"
    if lockfile is None:
        return (
            f"{name} was missing and is rebuilt from the copies of {count} (generation {newest}). "
            "Blocks of nodes that were removed earlier are not in quarantine any more."
        )
    if not many:
        newer = [node for node, copy in copies.items() if copy.generation > lockfile.generation]
        one = len(newer) == 1
        return (
            f"{names(newer)} {'says that it runs' if one else 'say that they run'} generation {newest}, and {name} has "
            f"generation {lockfile.generation}: {'its' if one else 'their'} own blocks are brought up to date from "
            f"{'its copy' if one else 'their copies'}. If the file is an old one, restore the newest from version "
            "control."
        )
    return (
        f"{name} (generation {lockfile.generation}) was older than what the nodes run (generation {newest}) and is "
        f"brought up to date from the copies of {count}."
    )


def _read(node: str, copy: NodeCopy, notices: t.Optional[list[str]]) -> _Copy:
    """Return the copy with its blocks parsed. A block that is both open and spare counts as open.

    Invalid blocks are left out, and `notices` gets a sentence for each; if it is None, they raise RebuildError.
    """
    if notices is None and copy.generation > claims.GENERATION:
        rule = f"keeps a copy of its blocks of generation {copy.generation}, which no fleet has come to."
        raise RebuildError(node, None, rule, _forget(node))

    def grants(blocks: t.Sequence[Granted]) -> dict[_Key, BlockGrant]:
        found = {}
        for block in blocks:
            try:
                found[canonical_cidr(block.cidr)] = BlockGrant(block.cidr, block.pool)
            except ValueError as error:
                if notices is not None:
                    notices.append(f"{node}: block {block.cidr[:60]!a} is left out: it is not a block.")
                    continue
                raise RebuildError(
                    node, None, f"keeps a copy of its blocks that cannot be read: {error}.", _forget(node)
                ) from error
        return found

    opened = grants(copy.blocks)
    spare = {key: grant for key, grant in grants(copy.spare_blocks).items() if key not in opened}
    workloads, workloads6 = dict(copy.workloads), dict(copy.workloads6)
    return _Copy(copy.generation, opened, spare, dict(copy.tunnels), workloads, workloads6, dict(copy.probes))


def _forget(loser: str) -> str:
    return f"Stop what uses addresses of the block on {loser}, delete /var/lib/calico there, and run again."


def _check_claims(copies: t.Mapping[str, _Copy]) -> None:
    """Raise RebuildError if two copies claim one block."""
    claimed: dict[_Key, str] = {}
    for node, copy in copies.items():
        for key, grant in (*copy.blocks.items(), *copy.spare.items()):
            other = claimed.setdefault(key, node)
            if other != node:
                raise claims.contradiction(grant, other, node, copies)


def _check_routes(copies: t.Mapping[str, _Copy], known: t.Container[str], routes: claims.Routes) -> None:
    """Raise RebuildError if a node's copy claims a block that another copy's node routes to a node without a copy."""
    for witness, copy in copies.items():
        seen = claims.blocks_of_others(witness, known, routes)
        lost = {key: owner for key, owner in seen.items() if owner not in copies}
        for node, other in copies.items() if lost else ():
            if node == witness:
                continue
            for key, grant in (*other.blocks.items(), *other.spare.items()):
                if key in lost:
                    raise RebuildError(
                        "block",
                        grant.cidr,
                        f"is claimed by {node} (generation {other.generation}), and {witness} (generation "
                        f"{copy.generation}) has a route to {lost[key]} for it, which has no copy.",
                        f"If {node} shall keep it, set calico_rebuild_lockfile: true for one run. Else stop what uses "
                        f"its addresses on {node}, delete /var/lib/calico there, and run again.",
                    )


def _owned(plan: AllocationPlan) -> t.Iterator[_Key]:
    """Yield the keys of all blocks of the plan: open, spare or in quarantine."""
    for part in plan.nodes.values():
        for grant in (*part.blocks, *part.spare_blocks):
            yield canonical_cidr(grant.cidr)
    for entry in plan.quarantine:
        yield canonical_cidr(entry.cidr)


def _merge(base: AllocationPlan, copies: t.Mapping[str, _Copy], generation: int, notices: list[str]) -> AllocationPlan:
    newer = {node for node, copy in copies.items() if copy.generation > base.generation}
    # Other claims of older copies to blocks of other nodes have been refused (see claims.checked).
    claimed = {key: node for node, copy in copies.items() for key in copy.blocks if node not in newer}
    claimed.update((key, node) for node in newer for key in (*copies[node].blocks, *copies[node].spare))
    quarantine = {canonical_cidr(entry.cidr): entry for entry in base.quarantine}
    owned = set(_owned(base))
    nodes: dict[str, NodeAllocations] = {}
    for node in sorted({*base.nodes, *copies}):
        part = base.nodes.get(node)
        copy = copies.get(node)
        if node in newer:
            nodes[node] = _part(copies[node].blocks, copies[node].spare, copies[node])
            continue
        blocks = _keyed(part.blocks) if part else {}
        spare = _keyed(part.spare_blocks) if part else {}
        lost = [key for key in (*blocks, *spare) if claimed.get(key, node) != node]
        for key in lost:
            grant = blocks.pop(key, None) or spare.pop(key)
            notices.append(f"{claimed[key]} has block {grant.cidr}, which the older lockfile gave to {node}.")
        if copy is not None:
            _learn(node, part is None, copy, blocks, spare, quarantine, owned, notices)
        nodes[node] = _part(blocks, spare, copies[node] if part is None else part)
    nodes = {node: part for node, part in nodes.items() if node in base.nodes or part != NodeAllocations()}
    _set_aside_lost(base, newer, claimed, quarantine, generation)
    for part in nodes.values():
        for grant in (*part.blocks, *part.spare_blocks):
            quarantine.pop(canonical_cidr(grant.cidr), None)
    return AllocationPlan(
        generation,
        base.pools,
        nodes,
        tuple(entry for dummy, entry in sorted(quarantine.items())),
    )


def _part(
    blocks: t.Mapping[_Key, BlockGrant], spare: t.Mapping[_Key, BlockGrant], source: t.Union[NodeAllocations, _Copy]
) -> NodeAllocations:
    """Return a node's part with these blocks, and those addresses of `source` that lie in the open ones."""
    return NodeAllocations(
        tuple(blocks.values()),
        tuple(spare.values()),
        _inside(blocks, source.tunnels),
        _inside(blocks, source.workloads),
        _inside(blocks, source.workloads6),
        _probes(blocks, source.probes),
    )


def _learn(
    node: str,
    returning: bool,
    copy: _Copy,
    blocks: dict[_Key, BlockGrant],
    spare: dict[_Key, BlockGrant],
    quarantine: t.Mapping[_Key, QuarantinedBlock],
    owned: t.Container[_Key],
    notices: list[str],
) -> None:
    """Add the open blocks of a copy that the lockfile does not have as open to `blocks`, and remove them from `spare`.

    The copy is not newer than the lockfile. Either the node opened a spare block itself, or it is back after its blocks
    went to quarantine or were released. `returning` means that the lockfile lacks the node. `owned` are the blocks that
    the lockfile gives to any node.
    """
    for key, grant in copy.blocks.items():
        if key in blocks:
            continue
        if key in spare:
            del spare[key]
            notices.append(f"{node} has opened its spare block {grant.cidr}.")
        elif key in quarantine:
            # Unless the lockfile lacks the node (`returning`), the planner decides again about a block in quarantine.
            if not returning:
                continue
        elif key not in owned:
            notices.append(f"{node} still has block {grant.cidr}, which the lockfile had as free; it keeps it.")
        blocks[key] = grant


def _set_aside_lost(
    base: AllocationPlan,
    newer: t.Collection[str],
    claimed: t.Container[_Key],
    quarantine: dict[_Key, QuarantinedBlock],
    generation: int,
) -> None:
    """Add the blocks to `quarantine` that the lockfile gives to a node of `newer` and that no newer copy has.

    It is not known why they are missing, so no other node may get them.
    """
    for node in newer:
        part = base.nodes.get(node)
        for entry in part.quarantined(node, generation) if part else ():
            if canonical_cidr(entry.cidr) not in claimed:
                quarantine[canonical_cidr(entry.cidr)] = entry


def _keyed(grants: t.Iterable[BlockGrant]) -> dict[_Key, BlockGrant]:
    return {canonical_cidr(grant.cidr): grant for grant in grants}


def _probes(blocks: t.Mapping[_Key, BlockGrant], addresses: t.Mapping[str, str]) -> dict[str, str]:
    """Return the entries of `addresses` (pool to address) that lie in the blocks of their pool."""
    pools = {grant.pool for grant in blocks.values()}
    found: dict[str, str] = {}
    for pool in pools & addresses.keys():
        own = {key: grant for key, grant in blocks.items() if grant.pool == pool}
        found.update(_inside(own, {pool: addresses[pool]}))
    return dict(sorted(found.items()))


def _inside(blocks: t.Mapping[_Key, BlockGrant], addresses: t.Mapping[str, str]) -> dict[str, str]:
    """Return the entries of `addresses` (name to address) that lie in the blocks. Invalid texts are left out."""
    places = BlockSet(blocks)
    found = {}
    for name, text in sorted(addresses.items()):
        with contextlib.suppress(ValueError):
            if canonical_address(text) in places:
                found[name] = text
    return found
