# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks and addresses that a plan starts from: the lockfile, corrected by the copies and answers of nodes."""

from __future__ import annotations

import dataclasses
import typing as t

from ...ipam.allocation_plan import AllocationPlan, NodeAllocations, PlannedPool
from ...ipam.errors import IpamError
from ...ipam.rebuild import reconcile
from ...state.answers.endpoints import OwnBlocks, single_address
from ...state.answers.left_out import LeftOut
from ...state.attachment import with_opened
from ...state.errors import FleetError, shown
from ...state.node_state import NodeState
from ..fleet import Fleet
from ..inventory.inventory import Inventory
from ..node_answers.node_info import Journal
from ..node_answers.observed_nodes import ObservedNodes
from .request import Lockfile

#: The most nodes that are left out one by one to find the one that makes a plan fail. Each attempt is a whole plan.
_SUSPECTS = 64


class Corrected(t.NamedTuple):
    """The lockfile's plan, corrected by the copies of nodes; None if there is neither.

    `notices` are sentences for the operator. `refused` has the error of each node whose copy is not its own.
    """

    plan: t.Optional[AllocationPlan]
    notices: tuple[str, ...] = ()
    refused: t.Mapping[str, FleetError] = {}


def corrected(
    inventory: Inventory, lockfile: Lockfile, answers: ObservedNodes, play_hosts: t.Collection[str], rebuild: bool
) -> Corrected:
    """Return the lockfile's plan, corrected by the copies that nodes keep of their blocks.

    `play_hosts` are the hosts to which the run is limited, () for all. `rebuild` accepts that copies are missing
    (calico_rebuild_lockfile). Raise FleetError if the lockfile and the copies contradict each other, or if without a
    lockfile a copy is missing.
    """
    observed = answers.states
    owners = [node.name for node in inventory.nodes.values() if node.workload_node]
    limited = play_hosts or owners
    try:
        found = reconcile(
            lockfile.plan,
            {
                node: with_opened(state.ipam, answers.journals.get(node, Journal()).opened)
                for node, state in observed.items()
                if state is not None
            },
            unreachable=[node for node in owners if node not in observed and node in limited],
            not_asked=[node for node in owners if node not in observed and node not in limited],
            inventory_nodes=owners,
            accept_missing=rebuild,
            lockfile_name=lockfile.path,
            pools={item.name: PlannedPool(item.cidr, item.blockSize) for item in inventory.pools},
            routes=lambda node: _routes(observed.get(node)),
        )
    except IpamError as error:
        raise _fleet_error(error) from error
    return Corrected(
        found.plan, tuple(found.notices), {node: _fleet_error(error) for node, error in found.refused.items()}
    )


def _routes(state: t.Optional[NodeState]) -> t.Iterator[tuple[str, str]]:
    """Yield the blocks of other nodes that a node with this state has from BGP, as (CIDR, name of the node)."""
    yield from ((route.destination, route.node) for route in (state.bird_routes if state is not None else ()))


def _fleet_error(error: IpamError) -> FleetError:
    return FleetError(error.variable, error.value, error.rule, error.remedy)


def own_addresses(
    journals: t.Mapping[str, Journal], previous: t.Optional[AllocationPlan]
) -> tuple[dict[str, tuple[str, ...]], list[LeftOut]]:
    """Return the addresses in its own blocks that each node assigned, by node, and the parts that are left out.

    A node's own blocks are those that `previous` grants to it or keeps in quarantine for it. Without a previous plan
    all addresses are accepted. Opened blocks that are not the node's own are also reported as left out.
    """
    if previous is None:
        return {node: own.allocated for node, own in journals.items()}, []
    found, left_out = {}, []
    aside: dict[str, list[str]] = {}
    for entry in previous.quarantine:
        aside.setdefault(entry.node, []).append(entry.cidr)
    for node, journal in journals.items():
        part = previous.nodes.get(node, NodeAllocations())
        cidrs = [*(grant.cidr for grant in (*part.blocks, *part.spare_blocks)), *aside.get(node, ())]
        blocks = OwnBlocks(cidrs)
        why = "it lies in none of the node's blocks."
        own = []
        for text in journal.allocated:
            address = single_address(text)
            if address is not None and address in blocks:
                own.append(text)
            else:
                left_out.append(LeftOut(node, f"address {text} of its journal", why))
        left_out += [
            LeftOut(node, f"block {cidr} of its journal", "it is none of the node's.")
            for cidr in journal.opened
            if cidr not in cidrs
        ]
        found[node] = tuple(own)
    return found, left_out


@dataclasses.dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan, from which answers of nodes can be left out if they prevent it.

    `remembered` is the lockfile's plan, `previous` the same plan corrected by the nodes' copies. `allocated` has the
    addresses that nodes assigned, by node.
    """

    inventory: Inventory
    remembered: t.Optional[AllocationPlan]
    previous: t.Optional[AllocationPlan]
    allocated: t.Mapping[str, tuple[str, ...]]

    def fleet(self) -> tuple[Fleet, dict[str, FleetError]]:
        """Return the fleet, and an error for each node whose answers are left out, since with all of them it fails.

        If the fleet cannot be planned with all answers, raise FleetError if there is no lockfile, if no node assigned
        addresses or differs from the lockfile, or if the inventory and the lockfile alone cannot be planned either.
        """
        try:
            return self._built(()), {}
        except FleetError as error:
            suspects = self._suspects()
            if not suspects:
                raise
            try:
                alone = self._built(suspects)
            except FleetError:
                raise error from None
            for node in suspects[:_SUSPECTS]:
                try:
                    return self._built([node]), {node: _does_not_fit(node, error)}
                except FleetError:
                    continue
            return alone, {node: _does_not_fit(node, error) for node in suspects}

    def _built(self, without: t.Collection[str]) -> Fleet:
        return Fleet.build(self.inventory, self.previous_without(without), self.allocated_without(without))

    def _suspects(self) -> list[str]:
        """Return the sorted nodes that assigned addresses or differ from the lockfile's plan, [] without a plan."""
        if self.remembered is None or self.previous is None:
            return []
        before, now = self.remembered.nodes, self.previous.nodes
        return sorted(
            node
            for node in {*before, *now, *self.allocated}
            if self.allocated.get(node) or before.get(node) != now.get(node)
        )

    def previous_without(self, nodes: t.Collection[str]) -> t.Optional[AllocationPlan]:
        """Return the plan to start from: `previous`, in which these nodes have what the lockfile's plan grants them.

        It is the lockfile's plan if `nodes` has all suspects, and `previous` itself if there is no lockfile.
        """
        if not nodes or self.previous is None or self.remembered is None:
            return self.previous
        if set(nodes) >= set(self._suspects()):
            return self.remembered
        parts = {**self.previous.nodes}
        for node in nodes:
            parts.pop(node, None)
            if node in self.remembered.nodes:
                parts[node] = self.remembered.nodes[node]
        restored = [parts[node] for node in nodes if node in parts]
        owned = {grant.cidr for part in restored for grant in (*part.blocks, *part.spare_blocks)}
        quarantine = tuple(entry for entry in self.previous.quarantine if entry.cidr not in owned)
        return dataclasses.replace(self.previous, nodes=parts, quarantine=quarantine)

    def allocated_without(self, nodes: t.Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the addresses that nodes assigned, by node, without those of `nodes`."""
        return {node: found for node, found in self.allocated.items() if node not in nodes}


def _does_not_fit(node: str, error: FleetError) -> FleetError:
    value = "" if error.value is None else f" {shown(error.value)}"
    return FleetError(
        f"what {node} says that it has",
        None,
        f"does not fit, and nothing is changed on it: {error.variable}{value} {error.rule}",
        error.remedy,
    )
