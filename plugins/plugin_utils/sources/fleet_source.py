# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of a run, compiled from the inventory, the lockfile and the nodes' copies."""

from __future__ import annotations

import collections
import dataclasses
import typing as t
from types import MappingProxyType

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler, transition, variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host, origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.inventory import Inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.inventory import (
    read as read_inventory,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.node_info import Journal
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import (
    impact,
    node_removal,
    policy_notices,
    pool_modes,
    witnesses,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.impact import Impact
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.pool_modes import (
    MODE_OF,
    MODES,
    live_modes,
    some,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.topology import with_topology
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    NodeAllocations,
    PlannedPool,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.errors import IpamError
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.rebuild import reconcile
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.endpoints import (
    OwnBlocks,
    single_address,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import LeftOut, sentences
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import with_opened
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError, shown
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import AT_REST

from ..datastore import access
from ..etcd import cluster_members
from . import inventory_source, lockfile_store, policy_files
from .targets import Targets


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The result of `compile_targets`."""

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
    impact: Impact
    told_alone: t.Mapping[str, Impact]  # resets and withdrawn routes that only one node's state tells of, by node
    fresh: tuple[str, ...]  # hosts without a stored state
    alone: tuple[str, ...] = ()  # hosts that alone say that they are in a change: they get their target without phases
    fleet_change: bool = False  # modes, MTU or phases require the change, whatever sessions do
    interrupted: tuple[str, ...] = ()  # hosts that say that the run interrupts sessions that routes depend on


def compile_targets(
    task_vars: t.Mapping[str, t.Any],
    observed: t.Mapping[str, t.Optional[NodeState]],
    *,
    copies_complete: bool = True,
    pool: t.Optional[str] = None,
    mode: t.Optional[str] = None,
    as_observed: bool = False,
    given: t.Mapping[str, Journal] = MappingProxyType({}),
    may_be_new: bool = False,
    passwords: t.Mapping[str, t.Collection[str]] = MappingProxyType({}),
    hold: bool = False,
    topology: str = "",
    without: t.Optional[str] = None,
    refused: t.Mapping[str, FleetError] = MappingProxyType({}),
) -> Compiled:
    """Compile the whole fleet, and return the targets of its nodes and the next lockfile. No file is written.

    `observed` has the stored states of the nodes that were read; None for a node without one. `given` has what these
    nodes assigned themselves. `copies_complete` is False if no node was asked (ad hoc). Then the lockfile must exist,
    unless the fleet `may_be_new`. `pool` and `mode` choose the mode of one pool; they are ignored with `as_observed` or
    a `topology`. `as_observed` compiles with the modes, underlay MTU and BGP sessions that the nodes have, not with the
    inventory's.

    `passwords` has the names of the secrets that change, by node. `hold` uses backup routes in the phases, even if
    nothing requires them. With a `topology` other than "", BGP is that of `with_topology`, and pools keep their present
    modes. `without` leaves one node out. `refused` has the reason why nodes take no part, by node; it becomes a notice.
    Warnings on the screen are those of `inventory_source.hosts`.

    Raise FleetError, with file and line if these are known, if the inventory or the lockfile is invalid, if the fleet
    cannot be planned, cannot lose the node `without` or cannot have this `pool` in `mode` or this `topology`, or if new
    nodes cannot join in the modes that they would get. Also raise it if there is no lockfile and a node is `refused`.
    """
    hosts: t.Sequence[Host] = inventory_source.hosts(task_vars)
    if without is not None:
        hosts = node_removal.of(hosts, without).others
    try:
        with uncollected():
            hosts = with_topology(hosts, topology) if topology else hosts
            live_modes_only = as_observed or bool(topology)
            compiled = _compile(
                hosts, task_vars, observed, copies_complete, pool, mode, live_modes_only, given, may_be_new, refused
            )
            return _with_impact(compiled, observed, passwords, as_observed, hold)
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        raise


def _compile(
    hosts: t.Sequence[Host],
    task_vars: t.Mapping[str, t.Any],
    observed: t.Mapping[str, t.Optional[NodeState]],
    copies_complete: bool,
    pool: t.Optional[str],
    mode: t.Optional[str],
    as_observed: bool,
    given: t.Mapping[str, Journal],
    may_be_new: bool,
    refused: t.Mapping[str, FleetError],
) -> Compiled:
    documents = policy_files.documents(fleet_variable(hosts, policy_files.VARIABLE), task_vars)
    inventory = read_inventory(hosts, documents, cluster_members.host_addresses(task_vars))
    overrides: dict[str, str] = {}
    if not as_observed:
        overrides = mode_overrides(inventory, pool, mode)
        inventory = with_modes(inventory, overrides)
    path = lockfile_store.path_for(fleet_variable(hosts, "calico_lockfile"), task_vars)
    previous = lockfile_store.read(path)
    if previous is None and not copies_complete and not may_be_new:
        raise FleetError(
            "lockfile",
            path,
            "does not exist.",
            "Run playbooks/site.yml first: it plans the blocks and writes this file.",
        )
    if as_observed:
        known_modes = previous.encapsulations if previous else {}
        inventory = _as_live(inventory, [state for state in observed.values() if state is not None], known_modes)
    if previous is None:
        for dummy, error in sorted(refused.items()):
            raise error  # without a lockfile, the refused node's blocks would be granted to other nodes
    before = lockfile_store.text(previous) if previous is not None else ""
    remembered = previous
    if not as_observed and observed:
        pool_modes.check_newcomers(inventory, remembered, observed, overrides)
    notices: tuple[str, ...] = ()
    not_its_own: dict[str, FleetError] = {}
    if copies_complete:
        owners = [node.name for node in inventory.nodes.values() if node.workload_node]
        limited = task_vars.get("ansible_play_hosts_all") or owners
        try:
            reconciled = reconcile(
                previous,
                {
                    node: with_opened(state.ipam, given.get(node, Journal()).opened)
                    for node, state in observed.items()
                    if state is not None
                },
                unreachable=[node for node in owners if node not in observed and node in limited],
                not_asked=[node for node in owners if node not in observed and node not in limited],
                inventory_nodes=owners,
                accept_missing=bool(fleet_variable(hosts, "calico_rebuild_lockfile")),
                lockfile_name=path,
                pools={item.name: PlannedPool(item.cidr, item.blockSize) for item in inventory.pools},
                routes=lambda node: _routes(observed.get(node)),
            )
        except IpamError as error:
            raise _fleet_error(error) from error
        previous, notices = reconciled.plan, tuple(reconciled.notices)
        not_its_own = {node: _fleet_error(error) for node, error in reconciled.refused.items()}
    allocated, odd = _own_addresses(given, previous)
    notices += tuple(str(error) for dummy, error in sorted(refused.items())) + tuple(sentences(odd))
    told = _Told(inventory, remembered, previous, allocated)
    fleet, culprits = told.fleet()
    notices += tuple(str(error) for dummy, error in sorted(culprits.items()))
    previous, allocated = told.previous_without(culprits), told.allocated_without(culprits)
    found = _fleet_change(fleet, observed, remembered)
    change, alone = found.needed, found.alone
    fresh = sorted(name for name, state in observed.items() if state is None)
    if change and fresh and not as_observed:
        inventory = _joined_first(inventory, observed, fresh, mode)
        fleet = Fleet.build(inventory, previous, allocated)
        change, alone = False, _fleet_change(fleet, observed, remembered).alone
        are = "is" if len(fresh) == 1 else "are"
        notices += (
            f"{', '.join(fresh)} {are} new and joined the fleet in the modes that it runs. Run again to change them.",
        )
    if alone and not as_observed:
        says = "says that it is" if len(alone) == 1 else "say that they are"
        notices += (
            f"{some(alone)} {says} in a change of mode, MTU or sessions, and the other nodes are not: brought to the "
            "plan without phases.",
        )
    others = {name: state for name, state in observed.items() if name not in alone}
    encapsulations = pool_modes.to_remember(inventory, remembered, others, change)
    fleet = dataclasses.replace(fleet, allocation=dataclasses.replace(fleet.allocation, encapsulations=encapsulations))
    labels = {item.name: label for label, item in inventory.labelled_pools()}
    origins = {
        name: next((host.origins[label] for host in hosts if label in host.origins), "")
        for name, label in labels.items()
    }
    return Compiled(
        Targets(
            fleet,
            lockfile=path,
            encapsulations={item.name: item.encapsulation for item in fleet.pools},
            refused={**refused, **culprits, **not_its_own},
            datastore=access.of(hosts, task_vars),
        ),
        fleet,
        path,
        before,
        lockfile_store.text(fleet.allocation),
        notices + fleet.allocation.warnings + policy_notices.notices(fleet, hosts),
        change,
        {item.name: MODE_OF[item.encapsulation] for item in fleet.pools},
        origins,
        remembered,
        Impact(),
        {},
        (),
        alone,
        change,
    )


def _routes(state: t.Optional[NodeState]) -> t.Iterator[tuple[str, str]]:
    """Yield the blocks of other nodes that a node with this state has from BGP, as (CIDR, name of the node)."""
    yield from ((route.destination, route.node) for route in (state.bird_routes if state is not None else ()))


def _fleet_error(error: IpamError) -> FleetError:
    return FleetError(error.variable, error.value, error.rule, error.remedy)


def _own_addresses(
    given: t.Mapping[str, Journal], previous: t.Optional[AllocationPlan]
) -> tuple[dict[str, tuple[str, ...]], list[LeftOut]]:
    """Return the addresses in its own blocks that each node assigned, by node, and the parts that are left out.

    A node's own blocks are those that `previous` grants to it or keeps in quarantine for it. Without a previous plan
    all addresses are accepted. Opened blocks that are not the node's own are also reported as left out.
    """
    if previous is None:
        return {node: own.allocated for node, own in given.items()}, []
    found, left_out = {}, []
    aside: dict[str, list[str]] = {}
    for entry in previous.quarantine:
        aside.setdefault(entry.node, []).append(entry.cidr)
    for node, journal in given.items():
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


class _Told:
    """A plan from the inventory, the lockfile and the nodes' answers, without answers that prevent it, if need be.

    `remembered` is the lockfile's plan, `previous` the same plan corrected by the nodes' copies. `allocated` has the
    addresses that nodes assigned, by node.
    """

    def __init__(
        self,
        inventory: Inventory,
        remembered: t.Optional[AllocationPlan],
        previous: t.Optional[AllocationPlan],
        allocated: t.Mapping[str, tuple[str, ...]],
    ) -> None:
        self._inventory = inventory
        self._remembered = remembered
        self._previous = previous
        self._allocated = allocated

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
        return Fleet.build(self._inventory, self.previous_without(without), self.allocated_without(without))

    def _suspects(self) -> list[str]:
        """Return the sorted nodes that assigned addresses, or whose part differs from the one in the lockfile's plan.

        The result is [] if there is no lockfile, or no plan corrected by copies.
        """
        if self._remembered is None or self._previous is None:
            return []
        before, now = self._remembered.nodes, self._previous.nodes
        return sorted(
            node
            for node in {*before, *now, *self._allocated}
            if self._allocated.get(node) or before.get(node) != now.get(node)
        )

    def previous_without(self, nodes: t.Collection[str]) -> t.Optional[AllocationPlan]:
        """Return the plan to start from: `previous`, in which these nodes have what the lockfile's plan grants them.

        A node that the lockfile lacks has nothing then. The result is `previous` itself if there is no lockfile, or if
        `nodes` is empty. It is the lockfile's plan if `nodes` has all suspects.
        """
        if not nodes or self._previous is None or self._remembered is None:
            return self._previous
        if set(nodes) >= set(self._suspects()):
            return self._remembered
        parts = {**self._previous.nodes}
        for node in nodes:
            parts.pop(node, None)
            if node in self._remembered.nodes:
                parts[node] = self._remembered.nodes[node]
        restored = [parts[node] for node in nodes if node in parts]
        owned = {grant.cidr for part in restored for grant in (*part.blocks, *part.spare_blocks)}
        quarantine = tuple(entry for entry in self._previous.quarantine if entry.cidr not in owned)
        return dataclasses.replace(self._previous, nodes=parts, quarantine=quarantine)

    def allocated_without(self, nodes: t.Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the addresses that nodes assigned, by node, without those of `nodes`."""
        return {node: found for node, found in self._allocated.items() if node not in nodes}


#: The most nodes that are left out one by one to find the one that makes a plan fail. Each attempt is a whole plan.
_SUSPECTS = 64


def _does_not_fit(node: str, error: FleetError) -> FleetError:
    value = "" if error.value is None else f" {shown(error.value)}"
    return FleetError(
        f"what {node} says that it has",
        None,
        f"does not fit, and nothing is changed on it: {error.variable}{value} {error.rule}",
        error.remedy,
    )


def _with_impact(
    compiled: Compiled,
    observed: t.Mapping[str, t.Optional[NodeState]],
    passwords: t.Mapping[str, t.Collection[str]],
    as_observed: bool,
    hold: bool,
) -> Compiled:
    """Return the result with its impact, and with a change in phases if interrupted sessions require it.

    `hold` uses backup routes even if nothing requires them. With `as_observed` the impact is empty, because the nodes
    keep the sessions that they have.
    """
    targets = dataclasses.replace(compiled.targets, sessions_of=observed if as_observed else {})
    found = Impact()
    told_alone: t.Mapping[str, Impact] = {}
    interrupted: tuple[str, ...] = ()
    if not as_observed:
        fleet = compiled.fleet
        after = {name: compiler.bird(fleet, name) for name in observed if name in fleet.nodes}
        found = impact.of_run(observed, after, fleet.announced, fleet.nodes, passwords, compiled.alone)
        if found.resets or found.withdrawn:
            told_alone = impact.told_alone(found, observed, after, passwords)
        if found.hold:
            interrupted = tuple(
                sorted(
                    name
                    for name, bird in after.items()
                    if transition.endangered(observed[name], bird, fleet.nodes, passwords.get(name, ()))
                )
            )
    return dataclasses.replace(
        compiled,
        targets=dataclasses.replace(targets, hold=found.hold or hold, divert=found.divert),
        change=compiled.change or found.hold,
        impact=found,
        told_alone=told_alone,
        interrupted=interrupted,
        fresh=tuple(sorted(name for name, state in observed.items() if state is None)),
    )


def _fleet_change(
    fleet: t.Union[Fleet, Inventory],
    observed: t.Mapping[str, t.Optional[NodeState]],
    remembered: t.Optional[AllocationPlan],
) -> witnesses.FleetChange:
    modes = remembered.encapsulations if remembered is not None else {}
    return witnesses.fleet_change(observed, fleet.pools, fleet.settings.underlay_mtu, modes)


def _joined_first(
    inventory: Inventory, observed: t.Mapping[str, t.Optional[NodeState]], fresh: t.Sequence[str], mode: t.Optional[str]
) -> Inventory:
    """Return the inventory with the modes and the MTU that the running nodes have, so that new nodes can join first.

    Those nodes count that `_agreeing` returns. A node without sessions and routes cannot take part in a change in
    phases. Raise FleetError if the command line asks for a mode (`mode`), or if a node that counts would need phases
    even so, as when it is in the middle of a change or the nodes that count have different modes.
    """
    states = [state for state in observed.values() if state is not None]
    agreeing = _agreeing(states)
    live = _as_live(inventory, agreeing, {})
    settled = not any(transition.needed(state, live.pools, live.settings.underlay_mtu) for state in agreeing)
    if mode is None and settled:
        return live
    are = "is" if len(fresh) == 1 else "are"
    stopped = [state for state in states if state.phase not in AT_REST]
    if stopped:
        names = sorted(state.node for state in stopped)
        raise FleetError(
            "plan",
            None,
            f"has to end a change of {_what_was_changed(inventory, states)} first, which an earlier run left half-way "
            f"on {some(names)}, and {', '.join(fresh)} {are} not running yet.",
            f"Take {'it' if len(fresh) == 1 else 'them'} out of the inventory for one run of playbooks/site.yml, which "
            "ends that change, and put back for the next. Nothing was changed.",
        )
    raise FleetError(
        "calico_ip_pools",
        None,
        f"asks for a change of mode or MTU, and {', '.join(fresh)} {are} not running yet.",
        "Run playbooks/site.yml first, so that they join the fleet as it is, or leave them out of group calico_nodes. "
        "Nothing was changed.",
    )


def _agreeing(states: t.Sequence[NodeState]) -> t.Sequence[NodeState]:
    """Return those of the states that are at rest in the same modes and MTU, if they are more than half; else all.

    Raise ValueError if there are no states.
    """
    alike: dict[t.Any, list[NodeState]] = {}
    for state in states:
        modes = tuple(sorted(live_modes([state]).items()))
        alike.setdefault((state.phase in AT_REST, state.underlay_mtu, modes), []).append(state)
    (resting, *dummy), most = max(alike.items(), key=lambda item: len(item[1]))
    return most if resting and 2 * len(most) > len(states) else states


def _what_was_changed(inventory: Inventory, states: t.Sequence[NodeState]) -> str:
    """Return "BGP sessions" or "mode or MTU", the change that a stopped run began.

    It is the former if one of the states has backup routes, all have the inventory's MTU, and their modes by
    `live_modes` are the inventory's.
    """
    wanted = {item.name: item.encapsulation for item in inventory.pools}
    modes = [entry for state in states for entry in live_modes([state]).items()]
    same_modes = all(wanted.get(name, mode) == mode for name, mode in modes)
    same_mtu = {state.underlay_mtu for state in states} == {inventory.settings.underlay_mtu}
    if same_modes and same_mtu and any(state.bird and state.bird.backups for state in states):
        return "BGP sessions"
    return "mode or MTU"


def fleet_variable(hosts: t.Iterable[Host], name: str) -> t.Any:
    """Return the value of a variable that only the controller needs, from the first host that has it, or None.

    Raise FleetError if the value is invalid, KeyError if a host has the variable and it is none of the fleet.
    """
    found = next((host.variables[name] for host in hosts if name in host.variables), None)
    return None if found is None else variables.check(name, found)


def _as_live(inventory: Inventory, states: t.Sequence[NodeState], remembered: t.Mapping[str, str]) -> Inventory:
    """Return the inventory with the modes that the nodes run, and the underlay's MTU that most of those at rest have.

    Most are more than half; without such an MTU the inventory's stays. A pool whose mode `live_modes` does not tell has
    the mode that the lockfile remembers, or else the inventory's. A pool that no node has keeps the inventory's mode,
    and so does an IPv6 pool if its other mode were IPIP.
    """
    mtus = collections.Counter(state.underlay_mtu for state in states if state.phase in AT_REST)
    mtu, count = next(iter(mtus.most_common(1)), (0, 0))
    if 2 * count > sum(mtus.values()):
        settings = dataclasses.replace(inventory.settings, underlay_mtu=mtu)
        inventory = dataclasses.replace(inventory, settings=settings)
    live = live_modes(states)
    contested = {pool.name for state in states for pool in state.pools if pool.name not in live}
    live.update((name, remembered[name]) for name in contested if name in remembered)
    six = {item.name for item in inventory.pools if item.version == 6}
    return with_modes(inventory, {name: mode for name, mode in live.items() if name not in six or "IPIP" not in mode})


def needs_phases(current: t.Optional[NodeState], target: NodeState) -> bool:
    """Return whether pools, the underlay's MTU or an interrupted change require phases from `current` to `target`.

    BGP sessions do not count. It is False if `current` is None, for a node without a state.
    """
    return transition.needed(current, target.pools, target.underlay_mtu)


def mode_overrides(inventory: Inventory, pool: t.Optional[str], mode: t.Optional[str]) -> dict[str, str]:
    """Return the encapsulation that the parameters `pool` and `mode` choose, by pool; {} if both are None.

    Raise FleetError if only one of them is given, if the pool or the mode does not exist, or if the pool cannot have
    that mode: IPIP for IPv6, or without BGP another one than VXLAN.
    """
    if pool is None and mode is None:
        return {}
    names = [item.name for item in inventory.pools]
    if pool not in names:
        raise FleetError("pool", pool, "is not a pool of this inventory.", f"Choose one of {', '.join(names)}.")
    if mode not in MODES:
        raise FleetError("mode", mode, "is not a mode.", f"Choose one of {', '.join(MODES)}.")
    if mode.startswith("ipip") and next(item for item in inventory.pools if item.name == pool).version == 6:
        raise FleetError(
            "mode",
            mode,
            f"is not possible for pool {pool}, which is IPv6: IPIP carries IPv4 only.",
            "Choose direct, vxlan or vxlan-crosssubnet.",
        )
    if not inventory.settings.bgp_enabled and not mode.startswith("vxlan"):
        raise FleetError(
            "mode",
            mode,
            "needs BGP, but calico_bgp_enabled is false.",
            "Choose vxlan or vxlan-crosssubnet, or enable BGP.",
        )
    return {pool: MODES[mode]}


def with_modes(inventory: Inventory, modes: t.Mapping[str, str]) -> Inventory:
    """Return the inventory with these encapsulations of its pools (by pool name, such as IPIP).

    Pools that are not in `modes` are unchanged. Raise ResourceError for an encapsulation that its pool cannot have.
    """
    if not modes:
        return inventory
    pools = tuple(pool.with_encapsulation(modes[pool.name]) if pool.name in modes else pool for pool in inventory.pools)
    return dataclasses.replace(inventory, pools=pools)
