# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks that a node's copy may claim by the lockfile: only the node's own.

Root on a node writes that node's copy. So a claim to a block that the lockfile does not give to the node is left out,
which a notice says. A node that has such a block open must not be changed meanwhile: its copy may be false, or people
must decide about addresses in use. If most copies are newer than the lockfile, and their nodes are at least two or all
of the fleet, the lockfile is an old one that was restored. Then a node may also claim a block that is free in the
lockfile, or one of another node if there is a second witness: the former owner's own newer copy, which no longer has
the block, or, if the owner has no copy, the newer nodes' routes for it, all to the claimant. A node that is the whole
fleet needs no witness. A block that two nodes claim goes to its owner by the lockfile, else to the one to which all
such routes lead, else to neither.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import typing as t

from ..base.addresses import canonical_cidr
from .allocation_plan import AllocationPlan, BlockGrant, PlannedPool
from .block_walk import BlockSpace, CidrKey
from .errors import RebuildError, names

#: The key of a block.
Key = CidrKey

#: Generations by which a node's copy may be ahead of the lockfile; the generation of a copy further ahead is replaced
#: by the lockfile's. A restored lockfile is a few runs old. A node that claims more would raise the fleet's generation
#: so far that copies of other nodes look wrong.
GENERATIONS_AHEAD = 10_000
#: The largest generation that is accepted if there is no lockfile to compare it with.
GENERATION = 2**40
#: A function that returns a node's stored routes as (CIDR, name of the node that it leads to).
Routes = t.Callable[[str], t.Iterable[t.Tuple[str, str]]]
#: The most refused claims of one node that notices name; the others are only counted.
NAMED = 8


@dataclasses.dataclass(frozen=True)
class Copy:
    """A node's copy of its part of the plan, parsed. Blocks are by key, in their order."""

    generation: int
    blocks: t.Mapping[Key, BlockGrant]
    spare: t.Mapping[Key, BlockGrant]
    tunnels: t.Mapping[str, str]
    workloads: t.Mapping[str, str]
    workloads6: t.Mapping[str, str]
    probes: t.Mapping[str, str]


class Base:
    """The lockfile as the base on which claims are judged: the owner of each block, and the blocks that can exist.

    The owner of a block in quarantine is the node that lost it. `name` is the lockfile's name in messages. `nodes` and
    `pools` are the inventory's; the latter matter for blocks of pools that the lockfile does not have yet.
    """

    def __init__(
        self, plan: AllocationPlan, name: str, nodes: t.Collection[str], pools: t.Mapping[str, PlannedPool]
    ) -> None:
        self.plan = plan
        self.name = name
        self.nodes = nodes
        self.owners: dict[Key, str] = {}
        for entry in plan.quarantine:
            self.owners[canonical_cidr(entry.cidr)] = entry.node
        for node, part in plan.nodes.items():
            for grant in (*part.blocks, *part.spare_blocks):
                self.owners[canonical_cidr(grant.cidr)] = node
        # An invalid pool is skipped; the planner refuses it later, with a message about the inventory.
        self._spaces: dict[str, BlockSpace] = {}
        for pool, shape in {**pools, **plan.pools}.items():
            with contextlib.suppress(ValueError):
                self._spaces[pool] = BlockSpace(shape.cidr, shape.block_size)

    def why_no_block(self, key: Key, grant: BlockGrant) -> str:
        """Return why no node can have the block `grant`, as the rest of a sentence, or "" if one can."""
        space = self._spaces.get(grant.pool)
        if space is None:
            return f"there is no pool {grant.pool[:80]!a}."
        if key[2] != space.block_size or not space.contains(key[0], key[1]):
            return f"it is not a block of pool {grant.pool}."
        return ""


@dataclasses.dataclass(frozen=True)
class Checked:
    """The copies without the claims that their nodes may not make.

    `old` is whether the lockfile counts as an old one: more than half of the copies are newer, and these are at least
    two or the whole fleet's. `refused` maps the name of each node that must not be changed to the reason.
    """

    copies: t.Mapping[str, Copy]
    old: bool
    refused: t.Mapping[str, RebuildError]


def checked(base: Base, copies: t.Mapping[str, Copy], notices: list[str], routes: Routes) -> Checked:
    """Return the copies without the claims that are refused, and add sentences about refused claims to `notices`.

    Per node, up to eight sentences are each about one claim, and one more counts the others. A copy more than
    GENERATIONS_AHEAD generations ahead gets the lockfile's generation, with a notice. With a lockfile, no node's copy
    stops a run: only errors of `routes` are raised. It is called for nodes with newer copies, if the lockfile counts as
    old.
    """
    generation = base.plan.generation
    copies = {node: _in_step(node, copy, base, notices) for node, copy in copies.items()}
    newer = {node for node, copy in copies.items() if copy.generation > generation}
    others_exist = bool(({*base.plan.nodes} & {*base.nodes} | {*copies}) - newer)
    single = len(newer) == 1 and not others_exist  # the node with the newer copy is the whole fleet: no witness exists
    old = 2 * len(newer) > len(copies) and (len(newer) > 1 or single)
    claimants: dict[Key, list[str]] = collections.defaultdict(list)
    for node, copy in copies.items():
        for key in _insisted(copy, node in newer):
            claimants[key].append(node)
    seen = _routed(newer, base.nodes, routes) if old else {}
    found = {}
    errors = {}
    for node, copy in copies.items():
        refused: dict[Key, str] = {}
        for key, grant in _insisted(copy, node in newer).items():
            why = base.why_no_block(key, grant)
            owner = base.owners.get(key, "")
            others = [name for name in claimants[key] if name != node]
            if why or owner == node:
                pass
            elif not owner and not old:
                why = f"{base.name} (generation {generation}) has it as free."
            elif owner and not (old and (single or _may_take(owner, copies, newer, seen.get(key), node, key))):
                why = f"it belongs to {owner} in {base.name} (generation {generation})."
            elif others and seen.get(key) != {node}:
                why = f"{names(others)} {'claims' if len(others) == 1 else 'claim'} it as well."
            if why:
                refused[key] = f"{node}: block {grant.cidr} is left out: {why}"
        _tell(node, list(refused.values()), notices)
        not_its_own = [grant for key, grant in copy.blocks.items() if key in refused]
        if not_its_own:
            errors[node] = _not_its_own(node, not_its_own[0], base)
        if refused:
            copy = dataclasses.replace(
                copy,
                blocks={key: grant for key, grant in copy.blocks.items() if key not in refused},
                spare={key: grant for key, grant in copy.spare.items() if key not in refused},
            )
        found[node] = copy
    return Checked(found, old, errors)


def _not_its_own(node: str, grant: BlockGrant, base: Base) -> RebuildError:
    return RebuildError(
        node,
        None,
        f"has block {grant.cidr} open, which is not its own by {base.name} (generation {base.plan.generation}). "
        "Nothing was changed on it.",
        "If the lockfile is an old one, restore the newest from version control. Else stop what uses addresses of the "
        f"block on {node}, delete /var/lib/calico there, and run again.",
    )


def _insisted(copy: Copy, newer: bool) -> dict[Key, BlockGrant]:
    """Return the blocks that a copy claims: its open ones, and of a `newer` copy also its spare ones.

    A spare block of a node that was down may have been given to another node meanwhile.
    """
    return {**copy.blocks, **copy.spare} if newer else dict(copy.blocks)


def _in_step(node: str, copy: Copy, base: Base, notices: list[str]) -> Copy:
    ahead = copy.generation - base.plan.generation
    if ahead <= GENERATIONS_AHEAD:
        return copy
    notices.append(
        f"{node}: generation {copy.generation} of its blocks is left out: {base.name} has generation "
        f"{base.plan.generation}."
    )
    return dataclasses.replace(copy, generation=base.plan.generation)


def contradiction(grant: BlockGrant, one: str, other: str, copies: t.Mapping[str, Copy]) -> RebuildError:
    """Return the error for a block that the copies of two nodes claim. The caller raises it."""
    return RebuildError(
        "block",
        grant.cidr,
        f"is claimed by {one} (generation {copies[one].generation}) and by {other} "
        f"(generation {copies[other].generation}).",
        "Decide which one keeps it. On the other, stop what uses its addresses and delete /var/lib/calico; "
        "then run again.",
    )


def blocks_of_others(witness: str, known: t.Container[str], routes: Routes) -> dict[Key, str]:
    """Return the `known` nodes, except `witness`, that the routes of `witness` lead to, by block."""
    found = {}
    for cidr, node in routes(witness):
        if node in known and node != witness:
            with contextlib.suppress(ValueError):
                found[canonical_cidr(cidr)] = node
    return found


def _routed(witnesses: t.Iterable[str], known: t.Container[str], routes: Routes) -> dict[Key, set[str]]:
    """Return the nodes to which `witnesses` have a route, by block."""
    found: dict[Key, set[str]] = {}
    for witness in witnesses:
        for key, node in blocks_of_others(witness, known, routes).items():
            found.setdefault(key, set()).add(node)
    return found


def _may_take(
    owner: str,
    copies: t.Mapping[str, Copy],
    newer: t.Container[str],
    seen: t.Optional[t.Collection[str]],
    node: str,
    key: Key,
) -> bool:
    """Return whether a second witness says that a block of `owner` by an old lockfile belongs to `node`.

    `seen` has the nodes that the newer nodes' routes for the block lead to, or is None without such routes.
    """
    if owner in copies:
        copy = copies[owner]
        return owner in newer and key not in copy.blocks and key not in copy.spare
    return seen == {node}


def _tell(node: str, sentences: t.Sequence[str], notices: list[str]) -> None:
    notices += sentences[:NAMED]
    if len(sentences) > NAMED:
        notices.append(f"{node}: {len(sentences) - NAMED} more blocks that it claims are left out.")
