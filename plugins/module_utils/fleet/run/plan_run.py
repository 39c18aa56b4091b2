# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a run, from the inventory, the lockfile and the nodes' answers: values in, values out."""

from __future__ import annotations

import dataclasses
import typing as t

from ...ipam import lockfile as lockfile_text
from ...ipam.allocation_plan import AllocationPlan
from ...state.answers.left_out import sentences
from ...state.errors import FleetError
from ...state.fleet_list import FleetMember
from ...state.node_state import NodeState
from .. import compiler, variables
from ..change import transition
from ..fleet import Fleet
from ..garbage import uncollected
from ..host import Host, locate, origin
from ..inventory import inventory as inventory_reader
from ..inventory.inventory import Inventory
from ..inventory.policy_sources import Document
from ..node_answers.observed_nodes import ObservedNodes
from . import impact, live_inventory, plan_inputs, policy_notices, pool_modes, witnesses
from .impact import Impact
from .plan_inputs import PlanInputs
from .pool_modes import MODE_OF, some
from .request import Lockfile, RunRequest
from .targets import Targets


@dataclasses.dataclass(frozen=True)
class FleetRun:
    """What a run does with the fleet: the result of `plan_run`."""

    targets: Targets
    fleet: Fleet
    lockfile: str  # path
    before: str  # the present lockfile as this release would write it, "" if there is none
    after: str  # text of the lockfile after this run
    notices: tuple[str, ...]  # sentences for the operator
    change: bool  # the run has to take all nodes through the phases of a change
    modes: t.Mapping[str, str]  # pool name -> mode that this run gives it
    origins: t.Mapping[str, str]  # pool name -> file:line of its entry in calico_ip_pools, "" if unknown
    remembered: t.Optional[AllocationPlan]  # the plan in the present lockfile, None if there is none
    fresh: tuple[str, ...]  # hosts without a stored state
    alone: tuple[str, ...] = ()  # hosts that alone say that they are in a change: they get their target without phases
    fleet_change: bool = False  # modes, MTU or phases require the change, whatever sessions do
    impact: Impact = dataclasses.field(default_factory=Impact)
    # the resets and withdrawn routes that only one node's state tells of, by node
    reported_alone: t.Mapping[str, Impact] = dataclasses.field(default_factory=dict)
    interrupted: tuple[str, ...] = ()  # hosts that say that the run interrupts sessions that routes depend on


def plan_run(
    hosts: t.Sequence[Host],
    documents: t.Sequence[Document],
    lockfile: Lockfile,
    answers: ObservedNodes,
    request: RunRequest,
) -> FleetRun:
    """Plan the whole fleet, and return the targets of its nodes and the next lockfile.

    `hosts` are those of `request.hosts_of`, and `documents` are policy resources from files. Raise FleetError, with
    file and line if known, if the inventory is invalid, if the lockfile is missing or a node is refused without one, or
    if the fleet cannot be planned, cannot have the modes of the request or cannot take new nodes in its modes.
    """
    try:
        with uncollected():
            return _Planning(hosts, documents, lockfile, answers, request).run()
    except FleetError as error:
        locate(error, hosts)
        raise


class _Planning:
    """The steps of `plan_run`, which share its arguments."""

    def __init__(
        self,
        hosts: t.Sequence[Host],
        documents: t.Sequence[Document],
        lockfile: Lockfile,
        answers: ObservedNodes,
        request: RunRequest,
    ) -> None:
        self._hosts = hosts
        self._documents = documents
        self._lockfile = lockfile
        self._answers = answers
        self._observed = answers.states
        self._request = request

    def run(self) -> FleetRun:
        """Return the plan. Raise FleetError as `plan_run`, mostly without file and line."""
        remembered = self._lockfile.plan
        inventory = self._inventory()
        copies = plan_inputs.Corrected(remembered)
        if self._request.nodes_asked:
            rebuild = bool(variables.of_fleet(self._hosts, "calico_rebuild_lockfile"))
            copies = plan_inputs.corrected(inventory, self._lockfile, self._answers, self._request.play_hosts, rebuild)
        allocated, odd = plan_inputs.own_addresses(self._answers.journals, copies.plan)
        inputs = PlanInputs(inventory, remembered, copies.plan, allocated)
        fleet, culprits = inputs.fleet()
        notices = (*copies.notices, *_texts(self._answers.refused), *sentences(odd), *_texts(culprits))
        found = self._fleet_change(fleet, fleet.members)
        change, alone = found.needed, found.alone
        fresh = tuple(sorted(name for name, state in self._observed.items() if state is None))
        if change and fresh and not self._request.keeps_modes and self._fleet_change(fleet, ()).needed:
            inventory = live_inventory.joined_first(inventory, self._observed, fresh, self._request.mode)
            fleet = Fleet.build(inventory, inputs.previous_without(culprits), inputs.allocated_without(culprits))
            found = self._fleet_change(fleet, fleet.members)
            change, alone = found.needed, found.alone
            notices += (_joined(fresh),)
        if alone and not self._request.keeps_modes:
            notices += (_brought_to_the_plan(alone),)
        others = {name: state for name, state in self._observed.items() if name not in alone}
        encapsulations = pool_modes.to_remember(inventory, remembered, others, change)
        allocation = dataclasses.replace(fleet.allocation, encapsulations=encapsulations)
        fleet = dataclasses.replace(fleet, allocation=allocation)
        earlier = witnesses.earlier_addresses(self._observed, self._answers.addresses, fleet.members)
        fleet = fleet.with_earlier_addresses(earlier)
        notices += tuple(_sends_from(node, address) for address, node in sorted(earlier.items()))
        return self._with_impact(
            FleetRun(
                Targets(
                    fleet,
                    lockfile=self._lockfile.path,
                    encapsulations={item.name: item.encapsulation for item in fleet.pools},
                    moved=bool(found.moved),
                    refused={**self._answers.refused, **culprits, **copies.refused},
                ),
                fleet,
                self._lockfile.path,
                lockfile_text.dump(remembered) if remembered is not None else "",
                lockfile_text.dump(allocation),
                notices + allocation.warnings + policy_notices.notices(fleet, self._hosts),
                change,
                {item.name: MODE_OF[item.encapsulation] for item in fleet.pools},
                self._pool_origins(inventory),
                remembered,
                fresh,
                alone,
                change,
                Impact(moved=found.moved),
            )
        )

    def _inventory(self) -> Inventory:
        """Return the inventory in the modes that the run is about. Raise FleetError if no plan can begin with it."""
        request, remembered = self._request, self._lockfile.plan
        inventory = inventory_reader.read(self._hosts, self._documents, request.etcd_members)
        overrides: dict[str, str] = {}
        if not request.keeps_modes:
            overrides = request.modes(inventory)
            inventory = live_inventory.with_modes(inventory, overrides)
        if remembered is None and not request.nodes_asked and not request.may_be_new:
            raise FleetError(
                "lockfile",
                self._lockfile.path,
                "does not exist.",
                "Run playbooks/site.yml first: it plans the blocks and writes this file.",
            )
        if request.keeps_modes:
            known_modes = remembered.encapsulations if remembered else {}
            states = [state for state in self._observed.values() if state is not None]
            inventory = live_inventory.as_live(inventory, states, known_modes)
        if remembered is None:
            for dummy, error in sorted(self._answers.refused.items()):
                raise error  # without a lockfile, the refused node's blocks would be granted to other nodes
        if not request.keeps_modes and self._observed:
            pool_modes.check_newcomers(inventory, remembered, self._observed, overrides)
        return inventory

    def _fleet_change(self, fleet: Fleet, members: t.Iterable[FleetMember]) -> witnesses.FleetChange:
        """Return whether all nodes have to go through phases, due to other addresses only if `members` has them."""
        modes = self._lockfile.plan.encapsulations if self._lockfile.plan is not None else {}
        return witnesses.fleet_change(self._observed, fleet.pools, fleet.settings.underlay_mtu, modes, members)

    def _pool_origins(self, inventory: Inventory) -> dict[str, str]:
        """Return the file and line of each pool's entry in calico_ip_pools by its name, "" if it is not known."""
        return {
            pool.name: next((origin(label, [host]) for host in self._hosts if host.has_place_of(label)), "")
            for label, pool in inventory.labelled_pools()
        }

    def _with_impact(self, run: FleetRun) -> FleetRun:
        """Return the plan with its impact (at most `moved` if `as_observed`), in phases if sessions require them."""
        observed, passwords, fleet = self._observed, self._answers.passwords, run.fleet
        if self._request.as_observed:
            targets = dataclasses.replace(run.targets, sessions_of=observed, hold=self._request.hold)
            return dataclasses.replace(run, targets=targets)
        after = {name: compiler.bird(fleet, name) for name in observed if name in fleet.nodes}
        known = variables.of_fleet(self._hosts, "calico_pools_known_to_routers") or ()
        pools = {pool.cidr: pool.name for pool in fleet.pools if pool.name not in known}
        found = impact.of_run(observed, after, fleet.announced, fleet.nodes, passwords, run.alone, pools)
        reported_alone: t.Mapping[str, Impact] = {}
        if found.entries:
            reported_alone = impact.reported_alone(found, observed, after, passwords)
        interrupted: tuple[str, ...] = ()
        if found.hold:
            interrupted = tuple(
                sorted(
                    name
                    for name, bird in after.items()
                    if transition.endangered(observed[name], bird, fleet.nodes, passwords.get(name, ()))
                )
            )
        hold = found.hold or self._request.hold
        return dataclasses.replace(
            run,
            targets=dataclasses.replace(run.targets, hold=hold, divert=found.divert),
            change=run.change or found.hold,
            impact=dataclasses.replace(found, moved=run.impact.moved),
            reported_alone=reported_alone,
            interrupted=interrupted,
        )


def _texts(errors: t.Mapping[str, FleetError]) -> tuple[str, ...]:
    return tuple(str(error) for dummy, error in sorted(errors.items()))


def _joined(fresh: t.Sequence[str]) -> str:
    are = "is" if len(fresh) == 1 else "are"
    return f"{', '.join(fresh)} {are} new and joined the fleet in the modes that it runs. Run again to change them."


def _sends_from(node: str, address: str) -> str:
    return (
        f"{node} still has its earlier address {address}, and IPIP may leave with it: all nodes accept that. Remove it "
        "from the host, and run again."
    )


def _brought_to_the_plan(alone: t.Sequence[str]) -> str:
    says = "says that it is" if len(alone) == 1 else "say that they are"
    return (
        f"{some(alone)} {says} in a change of mode, MTU, sessions or addresses, and the other nodes are not: brought "
        "to the plan without phases."
    )


def needs_phases(current: t.Optional[NodeState], target: NodeState) -> bool:
    """Return whether pools, the underlay's MTU or an interrupted change require phases from `current` to `target`.

    BGP sessions do not count. It is False if `current` is None, for a node without a state.
    """
    return transition.needed(current, target.pools, target.underlay_mtu)
