# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks that a node's copy may claim by the lockfile: only the node's own.

Root on a node writes that node's copy. So a claim to a block that the lockfile does not give to the node is left out
and named, and the rest of the plan goes on. A node that has such a block open must not be changed meanwhile: its copy
may be false, or people must decide about addresses in use. If most nodes run something newer than the lockfile, the
lockfile is an old one that was restored. Then a node may also claim a block that is free in the lockfile, or one whose
former owner's own copy no longer has it.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..base.addresses import canonical_cidr
from .allocation_plan import AllocationPlan, BlockGrant, PlannedPool
from .block_walk import BlockSpace
from .errors import RebuildError

#: A block: IP version, first address, prefix length.
Key = t.Tuple[int, int, int]

#: Generations by which a node's copy may be ahead of the lockfile; the generation of a copy further ahead is replaced
#: by the lockfile's. A restored lockfile is a few runs old. A node that claims more would raise the fleet's generation
#: so far that copies of other nodes look wrong.
GENERATIONS_AHEAD = 10_000
#: The largest generation that is accepted if there is no lockfile to compare it with.
GENERATION = 2**40
#: The number of one node's refused claims that notices name; the others are only counted.
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


class Base:
    """The lockfile as the base on which claims are judged: the owner of each block, and the blocks that can exist.

    `name` is the lockfile's name in messages. `nodes` are the inventory's nodes. `pools` are the inventory's pools;
    they matter for blocks of pools that the lockfile does not have yet.
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
        # An invalid pool is skipped here: the planner refuses it with a message about the inventory.
        self._spaces: dict[str, BlockSpace] = {}
        for pool, shape in {**pools, **plan.pools}.items():
            if _is_shape(shape):
                self._spaces[pool] = BlockSpace(shape.cidr, shape.block_size)

    def why_no_block(self, key: Key, grant: BlockGrant) -> str:
        """Return why no node can have such a block, as the rest of a sentence, or "" if one can."""
        space = self._spaces.get(grant.pool)
        if space is None:
            return f"there is no pool {grant.pool[:80]!a}."
        if key[2] != space.block_size or not space.contains(key[0], key[1]):
            return f"it is no block of pool {grant.pool}."
        return ""


def _is_shape(pool: PlannedPool) -> bool:
    try:
        BlockSpace(pool.cidr, pool.block_size)
    except ValueError:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class Checked:
    """The copies without the claims that their nodes may not make.

    `old` is whether most copies are newer than the lockfile. `refused` maps the name of each node that must not be
    changed to the reason.
    """

    copies: t.Mapping[str, Copy]
    old: bool
    refused: t.Mapping[str, RebuildError]


def checked(base: Base, copies: t.Mapping[str, Copy], notices: list[str]) -> Checked:
    """Return the copies without the claims that are refused, and add sentences about these to `notices`.

    A claim is refused if the block cannot exist. It is also refused if the block belongs to another node or is free in
    the lockfile, unless the lockfile is old and the owner gave the block up. The notices name NAMED claims per node and
    count the others. A notice also says if a generation is more than GENERATIONS_AHEAD ahead.

    Raise RebuildError if the lockfile is old and two nodes claim a block that is free in it.
    """
    generation = base.plan.generation
    copies = {node: _in_step(node, copy, base, notices) for node, copy in copies.items()}
    newer = {node for node, copy in copies.items() if copy.generation > generation}
    old = 2 * len(newer) > len(copies)
    claimants: dict[Key, list[str]] = collections.defaultdict(list)
    for node, copy in copies.items():
        for key in _insisted(copy, node in newer):
            claimants[key].append(node)
    found = {}
    errors = {}
    for node, copy in copies.items():
        refused: dict[Key, str] = {}
        for key, grant in _insisted(copy, node in newer).items():
            why = base.why_no_block(key, grant)
            owner = base.owners.get(key)
            if not why and owner is None:
                others = [name for name in claimants[key] if name != node]
                if old and others:
                    raise contradiction(grant, min(node, *others), max(node, *others), copies)
                why = "" if old else f"{base.name} (generation {generation}) has it as free."
            elif not why and owner not in (None, node) and not (old and _gave_up(base, copies, newer, owner, key)):
                why = f"it belongs to {owner} in {base.name} (generation {generation})."
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

    A node that is down may lose a spare block, but never an open one.
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


def _gave_up(
    base: Base, copies: t.Mapping[str, Copy], newer: t.Container[str], owner: t.Optional[str], key: Key
) -> bool:
    """Return whether the owner by an old lockfile no longer uses the block.

    That is so if `owner` is None, left the inventory, has no copy, or is in `newer` and its copy lacks the block.
    """
    if owner is None or owner not in base.nodes or owner not in copies:
        return True
    copy = copies[owner]
    return owner in newer and key not in copy.blocks and key not in copy.spare


def _tell(node: str, sentences: t.Sequence[str], notices: list[str]) -> None:
    notices += sentences[:NAMED]
    if len(sentences) > NAMED:
        notices.append(f"{node}: {len(sentences) - NAMED} more blocks that it claims are left out.")
