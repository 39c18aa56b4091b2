# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of a NodeState compiled into iptables tables and IP sets. Module, boot unit and agent all use it. Pure.

There are tables of IPv4 and of IPv6. Each has chains for the workloads with an address of its version.
"""

from __future__ import annotations

import dataclasses
import types
import typing as t

from ..base.addresses import family_of
from ..base.ports import VXLAN_PORT
from ..policy import model
from ..policy.chains.compile import Compiler
from ..policy.chains.settings import IPIP, VXLAN, ChainSettings, Encapsulation
from ..policy.host_endpoints import Interfaces
from ..policy.index.labels import namespaced_labels
from ..policy.index.policy_index import PolicyIndex
from ..policy.model import Endpoint
from ..policy.sets.ip_sets import LOCAL_BLOCKS, name_of
from .node_state import IpSet, IptablesTable, NodeState, VethEndpoint
from .policy_state import PolicySettings, PolicyState
from .policy_tables import PolicyTables

_Key = tuple[str, str]  # an endpoint's kind and name

FAMILIES = (4, 6)

NO_INTERFACES: Interfaces = types.MappingProxyType({})


class NodePolicyTables:
    """A compiler for one node's policy that reuses its last results.

    A chain or set that has not changed since the last call is the same object, and so are all tables if nothing was
    compiled anew. Drivers recognize them by that.
    """

    def __init__(self) -> None:
        self._index: t.Optional[PolicyIndex] = None
        self._elsewhere = _Elsewhere()
        # (all endpoints but this node's workloads, this node's workloads), by kind and name, as the index has them
        self._endpoints: tuple[t.Mapping[_Key, Endpoint], dict[_Key, Endpoint]] = ({}, {})
        self._planned: t.Mapping[str, Endpoint] = {}  # the inventory's workloads of this node, by name
        self._own: dict[str, tuple[VethEndpoint, Endpoint]] = {}  # by interface: a workload of this node, its endpoint
        self._policy: t.Optional[PolicyState] = None
        self._settings: t.Optional[ChainSettings] = None
        self._compilers: tuple[Compiler, ...] = ()
        self._rendering = PolicyTables()
        self._programmed: t.Optional[tuple[tuple[IptablesTable, ...], list[IpSet]]] = None

    def with_policy(
        self, state: NodeState, interfaces: Interfaces = NO_INTERFACES, others: t.Iterable[Endpoint] = ()
    ) -> NodeState:
        """Return `state` with its policy compiled into `iptables` and `ipsets`, for all workloads of the node.

        `state` must be without compiled policy, because the sets are appended to its own. A compiled table replaces the
        one of `state` with its name and IP version. `interfaces` are the host's own interfaces with their addresses;
        they matter to HostEndpoints that are known by address alone (`needs_interfaces`). `others` are endpoints that
        the inventory does not contain. Return `state` itself if it has no policy.

        Raise SelectorError if the selector of a policy, or one in a rule in use, is not valid, and ValueError if the
        mark mask has fewer than five bits. Errors of `Compiler.compile` are passed on, such as ValueError for an
        unknown name of a protocol. After any error this object must not be used again: it would return older results.
        """
        if state.policy is None:
            return state
        if self._index is None or self._index.node != state.node:
            self._index, self._programmed = PolicyIndex(state.node), None
            self._elsewhere, self._endpoints, self._policy = _Elsewhere(), ({}, {}), None
        settings = chain_settings(state, state.policy.settings)
        if settings != self._settings:
            self._settings, self._programmed = settings, None
            self._compilers = tuple(Compiler(settings, family) for family in FAMILIES)
        self._index.update_interfaces(interfaces)
        self._index.update_policy_set(state.policy.policy_set)
        self._feed(self._index, state, state.policy, tuple(others))
        if self._index.commit() or self._programmed is None:
            node = self._index.node_policy()
            compiled = [compiler.compile(node) for compiler in self._compilers]
            self._programmed = self._rendering.render(node, compiled)
        tables, sets = self._programmed
        return dataclasses.replace(state, iptables=_merged(state.iptables, tables), ipsets=(*state.ipsets, *sets))

    def _feed(self, index: PolicyIndex, state: NodeState, policy: PolicyState, others: tuple[Endpoint, ...]) -> None:
        """Update the index with the endpoints that were added, removed or changed since the last call.

        There may be ten thousand endpoints of other nodes. They are compared only if they, or what they depend on, have
        changed.
        """
        if policy is not self._policy:
            self._policy, self._planned, self._own = policy, planned(policy, state.node), {}
        elsewhere = self._elsewhere.of(state, policy, others)
        here = {(one.kind, one.name): one for one in self._here(state, policy)}
        before_elsewhere, before_here = self._endpoints
        self._endpoints = elsewhere, here
        parts = [(before_here, here)]
        if elsewhere is not before_elsewhere:
            parts.append((dict(before_elsewhere), dict(elsewhere)))
        for before, after in parts:
            for key in before.keys() - after.keys():
                index.remove_endpoint(*key)
        for before, after in parts:
            for key, endpoint in after.items():
                known = before.get(key)
                if known is not endpoint and known != endpoint:
                    index.update_endpoint(endpoint)

    def _here(self, state: NodeState, policy: PolicyState) -> t.Iterator[Endpoint]:
        """Yield the endpoints of the node's workloads, and keep them for the next call.

        A workload object of the last call gives the same endpoint object, unless the policy changed since then.
        """
        before, self._own = self._own, {}
        for workload in state.workloads:
            known = before.get(workload.interface)
            if known is None or known[0] is not workload:
                known = workload, own_endpoint(state.node, workload, policy, self._planned)
            self._own[workload.interface] = known
            yield known[1]


class _Elsewhere:
    """A cache of the endpoints that are not this node's workloads, by kind and name.

    `of` returns the same mapping object while nothing has changed. The endpoints depend on the node's own workloads
    only where names or addresses collide.
    """

    def __init__(self) -> None:
        self._made_of: t.Any = None
        self._names: frozenset[str] = frozenset()
        self._addresses: frozenset[str] = frozenset()
        self._found: dict[_Key, Endpoint] = {}

    def of(self, state: NodeState, policy: PolicyState, others: tuple[Endpoint, ...]) -> t.Mapping[_Key, Endpoint]:
        known = self._made_of
        if known is None or known[0] is not policy or known[1] != others:
            known = None
            everybody = [*policy.endpoints, *others]
            self._names = frozenset(one.name for one in everybody if not _is_own_workload(one, state.node))
            self._addresses = frozenset(address for one in others for address in one.addresses)
        names = self._names.intersection([f"{one.namespace}/{one.name}" for one in state.workloads])
        addresses = self._addresses.intersection([own for one in state.workloads for own in one.addresses])
        if known is None or known[2:] != (names, addresses):
            self._found = {(one.kind, one.name): one for one in elsewhere(state, policy, others)}
            self._made_of = policy, others, names, addresses
        return self._found


def with_policy(
    state: NodeState, interfaces: Interfaces = NO_INTERFACES, others: t.Iterable[Endpoint] = ()
) -> NodeState:
    """Return `state` with its policy compiled; see NodePolicyTables.with_policy. Nothing is kept for the next call.

    Raise SelectorError if the selector of a policy, or one in a rule in use, is not valid, and ValueError if the mark
    mask has fewer than five bits or a rule in use has an unknown name of a protocol.
    """
    return NodePolicyTables().with_policy(state, interfaces, others)


def needs_interfaces(state: NodeState) -> bool:
    """Return whether a HostEndpoint of the node names no interface and is known by its addresses alone."""
    return state.policy is not None and any(
        one.kind == model.HOST_ENDPOINT and one.node == state.node and not one.interface
        for one in state.policy.endpoints
    )


def all_endpoints(state: NodeState, policy: PolicyState, others: t.Iterable[Endpoint] = ()) -> t.Iterator[Endpoint]:
    """Yield all endpoints that policy on this node may select.

    They are the policy's, except for this node's workloads; `others`; and the workloads of `state`.

    `others` are what other nodes had some time ago. An address that a workload of `state` or one of those endpoints of
    the policy has is removed from them. One that loses all its addresses this way is left out, and so is one of
    this node. A workload of another node that has the name of an earlier one, or of one here, is renamed to "<name> on
    <node>".
    """
    yield from elsewhere(state, policy, others)
    by_inventory = planned(policy, state.node)
    here = {f"{one.namespace}/{one.name}": one for one in state.workloads}
    for workload in here.values():
        yield own_endpoint(state.node, workload, policy, by_inventory)


def elsewhere(state: NodeState, policy: PolicyState, others: t.Iterable[Endpoint]) -> t.Iterator[Endpoint]:
    """Yield the endpoints of `all_endpoints` that are not the node's own workloads."""
    names = {f"{workload.namespace}/{workload.name}" for workload in state.workloads}
    taken = {address for workload in state.workloads for address in workload.addresses}
    for one in policy.endpoints:
        if not _is_own_workload(one, state.node):
            taken.update(one.addresses)
            yield _told_apart(one, names)
    for one in others:
        if one.node == state.node:
            continue
        if taken.isdisjoint(one.addresses):
            yield _told_apart(one, names)
            continue
        left = tuple(address for address in one.addresses if address not in taken)
        if left:
            yield _told_apart(dataclasses.replace(one, addresses=left), names)


def planned(policy: PolicyState, node: str) -> dict[str, Endpoint]:
    """Return the workloads that the inventory places on `node`, by name ("<namespace>/<name>")."""
    return {one.name: one for one in policy.endpoints if _is_own_workload(one, node)}


def own_endpoint(
    node: str, workload: VethEndpoint, policy: PolicyState, by_inventory: t.Mapping[str, Endpoint]
) -> Endpoint:
    """Return the endpoint of one of the node's own workloads.

    It is that of `by_inventory` (the result of `planned`) if name and interface match, else a new one from the
    workload.
    """
    known = by_inventory.get(f"{workload.namespace}/{workload.name}")
    if known is not None and known.interface == workload.interface:
        return known
    return workload_endpoint(node, workload, workload.interface, workload.addresses, policy.settings.workload_profiles)


def _told_apart(endpoint: Endpoint, names: set[str]) -> Endpoint:
    """Return the endpoint. If it is a workload whose name is in `names`, rename it to "<name> on <node>".

    The resulting name of a workload is added to `names`.
    """
    if endpoint.kind != model.WORKLOAD_ENDPOINT:
        return endpoint
    if endpoint.name in names:
        endpoint = dataclasses.replace(endpoint, name=f"{endpoint.name} on {endpoint.node}")
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
    """Return the settings for the compiler of chains: `settings`, and what the chains depend on in `state`.

    That is the encapsulations of its tunnel devices, its VXLAN port (by default VXLAN_PORT), whether workloads may send
    from any address, and the IP versions for which it has a set of its own blocks.
    """
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
        local_blocks=_local_blocks(state),
    )


def _local_blocks(state: NodeState) -> tuple[int, ...]:
    """Return the IP versions for which the state has a set of the node's own blocks."""
    names = {ipset.name for ipset in state.ipsets}
    return tuple(family for family in FAMILIES if name_of(family, LOCAL_BLOCKS) in names)


def _merged(without: tuple[IptablesTable, ...], policy: tuple[IptablesTable, ...]) -> tuple[IptablesTable, ...]:
    """Return the tables of `policy`, then those of `without` that have another name or IP version."""
    replaced = {(table.family, table.name) for table in policy}
    kept = tuple(table for table in without if (table.family, table.name) not in replaced)
    return (*policy, *kept)
