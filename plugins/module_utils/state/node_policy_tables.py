# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of a NodeState compiled into iptables tables and IP sets. Module, boot unit and agent all use it. Pure."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import types
import typing as t

from ..base.addresses import family_of
from ..base.ports import VXLAN_PORT
from ..policy import model
from ..policy.chains.compile import Compiler
from ..policy.chains.settings import IPIP, VXLAN, ChainSettings, Encapsulation
from ..policy.host_endpoints import Interfaces
from ..policy.index.elsewhere import EndpointsElsewhere
from ..policy.index.labels import namespaced_labels
from ..policy.index.policy_index import PolicyIndex
from ..policy.model import Endpoint
from ..policy.node_policy import NodePolicy
from ..policy.sets.ip_sets import ETCD_MEMBERS, LOCAL_BLOCKS, PROBES, name_of
from .node_state import IpSet, IptablesTable, NodeState, VethEndpoint
from .other_endpoints import OtherEndpoints
from .policy_state import PolicySettings, PolicyState
from .policy_tables import PolicyTables

_Key = tuple[str, str]  # an endpoint's kind and name

FAMILIES = (4, 6)

NO_INTERFACES: Interfaces = types.MappingProxyType({})
NO_OTHERS = OtherEndpoints()

_KEPT = 2  # policies whose chains are kept, the most recently used ones


class NodePolicyTables:
    """A compiler for one node's policy that reuses its last results.

    A chain or set that has not changed since the last call is the same object, and so are all tables if nothing was
    compiled anew. Drivers recognize them by that. Another policy keeps the index of endpoints, and the chains that both
    have. The chains of the policy before it stay as well: one is in force while another is planned.
    """

    def __init__(self) -> None:
        self._index: t.Optional[PolicyIndex] = None
        self._elsewhere = EndpointsElsewhere("")
        self._others: t.Optional[OtherEndpoints] = None  # the collection of the last call
        self._here: dict[_Key, Endpoint] = {}  # this node's workloads, by kind and name, as the index has them
        self._planned: t.Mapping[str, Endpoint] = {}  # the inventory's workloads of this node, by name
        self._own: dict[str, tuple[VethEndpoint, Endpoint]] = {}  # by interface: a workload of this node, its endpoint
        self._policy: t.Optional[PolicyState] = None
        self._revision = 0  # counts the states of the index that differ
        self._programs: list[_Program] = []  # the most recently used last
        #: The version of the collection that the last call took from it; -1 before the first call.
        self.version = -1
        #: The number of policies that were new to a call, so that much was made for them.
        self.loaded = 0

    def with_policy(
        self, state: NodeState, interfaces: Interfaces = NO_INTERFACES, others: OtherEndpoints = NO_OTHERS
    ) -> NodeState:
        """Return `state` with its policy compiled into `iptables` and `ipsets`, for all workloads of the node.

        `state` must be without compiled policy, because the sets are appended to its own. A compiled table replaces the
        one of `state` with its name and IP version. `interfaces` are the host's own with their addresses; they matter
        to HostEndpoints that are known by address alone (`needs_interfaces`). `others` are endpoints that the inventory
        does not contain; another thread may change them meanwhile. If it is the collection of the last call, only what
        changed since then is read. Return `state` itself if it has no policy.

        Raise SelectorError if a selector in use is not valid, and ValueError if the mark mask has fewer than five bits
        or a rule in use has an unknown name of a protocol. After any error this object must not be used again: it would
        return older results.
        """
        if state.policy is None:
            return state
        if self._index is None or self._index.node != state.node:
            self._index, self._elsewhere = PolicyIndex(state.node), EndpointsElsewhere(state.node)
            self._others, self._here, self._policy, self._programs = None, {}, None, []
        program = self._program(state.policy, chain_settings(state, state.policy.settings))
        self._index.update_interfaces(interfaces)
        self._index.update_policy_set(program.policy_set)
        self._feed(self._index, state, state.policy, others)
        if self._index.commit():
            self._revision += 1
        if program.revision != self._revision:
            program.compile(self._index.node_policy(), self._revision)
        return dataclasses.replace(
            state, iptables=_merged(state.iptables, program.tables), ipsets=(*state.ipsets, *program.sets)
        )

    def keep_last(self) -> None:
        """Forget the chains of all policies but that of the last call."""
        self._programs = self._programs[-1:]

    def _feed(self, index: PolicyIndex, state: NodeState, policy: PolicyState, others: OtherEndpoints) -> None:
        """Update the index with the endpoints that changed since the last call. There may be ten thousand elsewhere."""
        if policy is not self._policy:
            self._policy, self._planned, self._own = policy, planned(policy, state.node), {}
        changes = others.changes_since(self.version if others is self._others else -1)
        addresses = frozenset(address for one in state.workloads for address in one.addresses)
        for key, elsewhere in self._elsewhere.update(policy.endpoints, addresses, changes).items():
            if elsewhere is None:
                index.remove_endpoint(*key)
            else:
                index.update_endpoint(elsewhere, key)
        self._others, self.version = others, changes.version
        before, here = self._here, {(one.kind, one.name): one for one in self._workloads(state, policy)}
        self._here = here
        for gone in before.keys() - here.keys():
            index.remove_endpoint(*gone)
        for own, endpoint in here.items():
            known = before.get(own)
            if known is not endpoint and known != endpoint:
                index.update_endpoint(endpoint)

    def _workloads(self, state: NodeState, policy: PolicyState) -> t.Iterator[Endpoint]:
        """Yield the endpoints of the node's workloads, and keep them for the next call."""
        before, self._own = self._own, {}
        for workload in state.workloads:
            known = before.get(workload.interface)
            if known is None or known[0] is not workload:
                known = workload, own_endpoint(state.node, workload, policy, self._planned)
            self._own[workload.interface] = known
            yield known[1]

    def _program(self, policy: PolicyState, settings: ChainSettings) -> _Program:
        """Return the program for this policy, perhaps without its latest changes. A new one reuses the last results."""
        known = next((one for one in self._programs if one.policy is policy and one.settings == settings), None)
        if known is None:
            known = next((one for one in self._programs if (one.policy, one.settings) == (policy, settings)), None)
        if known is not None:
            known.policy = policy
            self._programs.remove(known)
        else:
            self.loaded += 1
            last = self._programs[-1] if self._programs else None
            same = last is not None and last.settings == settings
            known = last.copy(policy) if last is not None and same else _Program(policy, settings)
        self._programs = [*self._programs, known][-_KEPT:]
        return known


class _Program:
    """The chains and sets of one policy, rendered.

    `policy_set` has the objects of the program from which this one was copied where they are equal: a later comparison
    sees at once that they are. `revision` is that of the index from which the chains were compiled, -1 before.
    """

    def __init__(self, policy: PolicyState, settings: ChainSettings) -> None:
        self.policy = policy
        self.policy_set = policy.policy_set
        self.settings = settings
        self.revision = -1
        self.tables: tuple[IptablesTable, ...] = ()
        self.sets: list[IpSet] = []
        self._compilers = tuple(Compiler(settings, family) for family in FAMILIES)
        self._rendering = PolicyTables()

    def copy(self, policy: PolicyState) -> _Program:
        made = copy.copy(self)
        made.policy, made.policy_set = policy, policy.policy_set.sharing(self.policy_set)
        made._compilers, made._rendering = tuple(one.copy() for one in self._compilers), self._rendering.copy()
        return made

    def compile(self, node: NodePolicy, revision: int) -> None:
        self.tables, self.sets = self._rendering.render([one.compile(node) for one in self._compilers])
        self.revision = revision


def with_policy(
    state: NodeState,
    interfaces: Interfaces = NO_INTERFACES,
    others: t.Union[OtherEndpoints, t.Iterable[Endpoint]] = (),
) -> NodeState:
    """Return `state` with its policy compiled as by NodePolicyTables.with_policy, which also says what is raised."""
    known = others if isinstance(others, OtherEndpoints) else OtherEndpoints.from_endpoints(others)
    return NodePolicyTables().with_policy(state, interfaces, known)


def needs_interfaces(state: NodeState) -> bool:
    """Return whether a HostEndpoint of the node names no interface and is known by its addresses alone."""
    return state.policy is not None and any(
        one.kind == model.HOST_ENDPOINT and one.node == state.node and not one.interface
        for one in state.policy.endpoints
    )


def all_endpoints(
    state: NodeState, policy: PolicyState, others: t.Iterable[Endpoint] = (), live: t.Collection[str] = ()
) -> t.Iterator[Endpoint]:
    """Yield all endpoints that policy on this node may select.

    They are the policy's, except for workloads of this node and of the `live` nodes; `others`; and the workloads of
    `state`.

    `others` are what other nodes had some time ago, or the datastore has (OtherEndpoints.endpoints). They lose
    addresses that a workload of `state` or one of those endpoints of the policy has, and one without any left is left
    out, as is one of this node. A workload of another node whose name is taken is renamed to "<name> on <node>", and if
    that is taken to "<name> on <node> (<interface>)", with a number as the last resort.
    """
    yield from elsewhere(state, policy, others, live)
    by_inventory = planned(policy, state.node)
    here = {f"{one.namespace}/{one.name}": one for one in state.workloads}
    for workload in here.values():
        yield own_endpoint(state.node, workload, policy, by_inventory)


def elsewhere(
    state: NodeState, policy: PolicyState, others: t.Iterable[Endpoint], live: t.Collection[str] = ()
) -> t.Iterator[Endpoint]:
    """Yield the endpoints of `all_endpoints` that are not the node's own workloads."""
    names = {f"{workload.namespace}/{workload.name}" for workload in state.workloads}
    taken = {address for workload in state.workloads for address in workload.addresses}
    for one in policy.endpoints:
        if one.kind != model.WORKLOAD_ENDPOINT or (one.node != state.node and one.node not in live):
            taken.update(one.addresses)
            yield told_apart(one, names)
    for one in others:
        if one.node == state.node:
            continue
        if taken.isdisjoint(one.addresses):
            yield told_apart(one, names)
            continue
        left = tuple(address for address in one.addresses if address not in taken)
        if left:
            yield told_apart(dataclasses.replace(one, addresses=left), names)


def planned(policy: PolicyState, node: str) -> dict[str, Endpoint]:
    """Return the workloads that the inventory places on `node`, by name ("<namespace>/<name>")."""
    return {one.name: one for one in policy.endpoints if _is_own_workload(one, node)}


def own_endpoint(
    node: str, workload: VethEndpoint, policy: PolicyState, by_inventory: t.Mapping[str, Endpoint]
) -> Endpoint:
    """Return the endpoint of one of the node's workloads, that of `planned` if name and interface match."""
    known = by_inventory.get(f"{workload.namespace}/{workload.name}")
    if known is not None and known.interface == workload.interface:
        return known
    return workload_endpoint(node, workload, workload.interface, workload.addresses, policy.settings.workload_profiles)


def told_apart(endpoint: Endpoint, names: set[str]) -> Endpoint:
    """Return the endpoint, renamed as `all_endpoints` says if `names` has its name, and add its name to `names`."""
    if endpoint.kind != model.WORKLOAD_ENDPOINT:
        return endpoint
    if endpoint.name in names:
        there, by = f"{endpoint.name} on {endpoint.node}", endpoint.interface
        numbered = (f"{there} ({by}, {number})" for number in itertools.count(2))
        name = next(one for one in itertools.chain((there, f"{there} ({by})"), numbered) if one not in names)
        endpoint = dataclasses.replace(endpoint, name=name)
    names.add(endpoint.name)
    return endpoint


def _is_own_workload(endpoint: Endpoint, node: str) -> bool:
    return endpoint.kind == model.WORKLOAD_ENDPOINT and endpoint.node == node


class LabelledWorkload(t.Protocol):
    """A workload as far as policy needs its definition. It comes from the inventory or from a NodeState."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def labels(self) -> t.Mapping[str, str]: ...


def workload_endpoint(
    node: str,
    workload: LabelledWorkload,
    interface: str,
    addresses: tuple[str, ...],
    profiles: tuple[str, ...],
    ports: tuple[model.DefinedPort, ...] = (),
) -> Endpoint:
    """Return a workload as the Endpoint that policy selects by labels, addresses and named ports.

    Its name is "<namespace>/<name>". Its labels are the workload's, with those for its namespace.
    """
    return Endpoint(
        kind=model.WORKLOAD_ENDPOINT,
        name=f"{workload.namespace}/{workload.name}",
        node=node,
        interface=interface,
        addresses=addresses,
        labels=namespaced_labels(workload.labels, workload.namespace),
        profiles=profiles,
        ports=ports,
        namespace=workload.namespace,
    )


def chain_settings(state: NodeState, settings: PolicySettings) -> ChainSettings:
    """Return the settings for the compiler of chains: `settings`, and what the chains depend on in `state`."""
    encapsulations = tuple(
        Encapsulation(IPIP)
        if device.kind == "ipip"
        else Encapsulation(VXLAN, device.port or VXLAN_PORT, family_of(device.local))
        for device in state.devices
    )
    return ChainSettings(
        default_endpoint_to_host_action=settings.default_endpoint_to_host_action,
        deny_action=settings.deny_action,
        allow_action=settings.allow_action,
        failsafe_inbound=settings.failsafe_inbound,
        failsafe_outbound=settings.failsafe_outbound,
        drop_invalid=settings.drop_invalid,
        allow_vxlan_from_workloads=settings.allow_vxlan_from_workloads,
        allow_ipip_from_workloads=settings.allow_ipip_from_workloads,
        encapsulations=encapsulations,
        # Without a VXLAN device, the rule that keeps workloads from encapsulating is for the assigned port.
        vxlan_port=next((one.port for one in encapsulations if one.port), VXLAN_PORT),
        nflog_group=settings.nflog_group,
        audit=settings.audit,
        cut_marked_flows=settings.cut_denied_flows,
        mark_mask=settings.mark_mask,
        workload_source_spoofing=state.workload_source_spoofing,
        local_blocks=_with_set(state, LOCAL_BLOCKS),
        own_address6=state.address6.partition("/")[0],
        etcd_members=_etcd_members(state),
        probes=_with_set(state, PROBES),
    )


def _with_set(state: NodeState, name: str) -> tuple[int, ...]:
    """Return the IP versions in which `state` has the IP set `name`."""
    names = {ipset.name for ipset in state.ipsets}
    return tuple(family for family in FAMILIES if name_of(family, name) in names)


def _etcd_members(state: NodeState) -> tuple[str, ...]:
    names = {name_of(family, ETCD_MEMBERS) for family in FAMILIES}
    return tuple(address for ipset in state.ipsets if ipset.name in names for address in ipset.members)


def _merged(without: tuple[IptablesTable, ...], policy: tuple[IptablesTable, ...]) -> tuple[IptablesTable, ...]:
    """Return the tables of `policy`, then those of `without` that have another name or IP version."""
    replaced = {(table.family, table.name) for table in policy}
    kept = tuple(table for table in without if (table.family, table.name) not in replaced)
    return (*policy, *kept)
