# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names behind a record of the policy log: policies by their shortened names in prefixes, workloads by address."""

from __future__ import annotations

import typing as t

from ...policy.chains.rules import log_prefix
from ...policy.chains.rules.log_prefix import Reason
from ...policy.index.elsewhere import EndpointsElsewhere, OtherKey
from ...policy.model import WORKLOAD_ENDPOINT, Endpoint
from ...state.attachment import AttachedWorkload
from ...state.node_state import NodeState
from ...state.other_endpoints import OtherEndpoints
from ...state.policy_state import PolicyState

#: The most addresses that are remembered as named. Beyond them, every change starts a new generation.
_ASKED = 8192


class Decider(t.NamedTuple):
    """The policy, profile, tier or host rule that decided about a packet.

    `kind` is one of log_prefix's kinds. `tier` is that of a policy, or the tier itself, else "". `name` is that of a
    policy or profile, the reason of a host rule, else "". `rule` counts from 1; 0 is no rule.
    """

    kind: str
    tier: str
    name: str
    rule: int


class PolicyNames:
    """The names of policies and workloads that this node knows.

    `state` returns Ansible's state, `workloads` those attached on this node since; `others` has those on other nodes.
    `version` returns a number that grows when the state or the workloads here change.
    """

    def __init__(
        self,
        state: t.Callable[[], t.Optional[NodeState]],
        workloads: t.Callable[[], t.Iterable[AttachedWorkload]],
        version: t.Callable[[], int],
        others: t.Optional[OtherEndpoints] = None,
    ) -> None:
        self._state = state
        self._workloads = workloads
        self._version_here = version
        self._others = others or OtherEndpoints()
        self._policy: t.Optional[PolicyState] = None
        self._version = -1  # that of `_others` in `_elsewhere`
        self._seen_here = version()
        self._endpoints = EndpointsElsewhere("")
        self._known: dict[OtherKey, Endpoint] = {}  # workloads on other nodes
        self._whole: dict[tuple[str, str], str] = {}
        self._tiers: dict[str, str] = {}
        self._hosts: dict[str, str] = {}  # names of nodes by their addresses
        self._elsewhere: dict[str, OtherKey] = {}  # keys of `_known` by their addresses
        self._here: t.Optional[dict[str, str]] = None
        self._asked: set[str] = set()  # addresses that `workload` named in this generation
        self._generation = 0

    @property
    def generation(self) -> int:
        """A number that grows whenever one of the names that were given may have changed."""
        self._read()
        return self._generation

    def _begin(self) -> None:
        self._asked.clear()
        self._generation += 1

    def decider(self, reason: Reason) -> Decider:
        """Return the decider that a reason names. A name that this node does not know stays as it was shortened."""
        self._read()
        name = self._whole.get((reason.kind, reason.name), reason.name)
        tier = {log_prefix.POLICY: self._tiers.get(name, ""), log_prefix.TIER: name}.get(reason.kind, "")
        return Decider(reason.kind, tier, "" if reason.kind == log_prefix.TIER else name, reason.rule)

    def workload(self, address: str) -> tuple[str, str]:
        """Return (workload, node) of an address: ("", node) for a node's own address, ("", "") for an unknown one.

        The workload is its id if it was attached on this node between runs, or else <namespace>/<name>. Addresses of
        tunnels are unknown, and so are other nodes' workloads without policy. Without a state, the node is "".
        """
        self._read()
        self._asked.add(address)
        if self._here is None:
            state = self._state()
            planned = state.workloads if state else ()
            self._here = {address: f"{one.namespace}/{one.name}" for one in planned for address in one.addresses}
            for own in self._workloads():
                self._here.update((address, own.id) for address in own.addresses)
        if address in self._here:
            state = self._state()
            return self._here[address], state.node if state else ""
        known = self._known.get(self._elsewhere.get(address, ()))
        return (known.name, known.node) if known is not None else ("", self._hosts.get(address, ""))

    def _read(self) -> None:
        """Bring the names and addresses up to date: some milliseconds for a new policy for 10,000 endpoints."""
        version = self._version_here()
        if version != self._seen_here:
            self._seen_here, self._here = version, None
            self._begin()
        state = self._state()
        policy = state.policy if state else None
        if policy is None or state is None:
            self._forget_others()
            self._policy, self._whole, self._tiers, self._hosts = None, {}, {}, {}
            return
        if policy is self._policy and self._others.version == self._version:
            return
        if policy is not self._policy:
            self._read_policy(state, policy)
        changes = self._others.changes_since(self._version)
        self._version = changes.version
        self._follow(self._endpoints.update(policy.endpoints, frozenset(), changes))

    def _follow(self, changes: t.Mapping[OtherKey, t.Optional[Endpoint]]) -> None:
        """Follow changes of workloads on other nodes, and start a new generation if one of them was named."""
        touched: set[str] = set()
        for key in changes:
            known = self._known.pop(key, None)
            for address in known.addresses if known is not None else ():
                touched.add(address)
                if self._elsewhere.get(address) == key:
                    del self._elsewhere[address]
        for key, endpoint in changes.items():
            if endpoint is not None and endpoint.kind == WORKLOAD_ENDPOINT:
                self._known[key] = endpoint
                touched.update(endpoint.addresses)
                self._elsewhere.update((address, key) for address in endpoint.addresses)
        if not touched.isdisjoint(self._asked) or len(self._asked) > _ASKED:
            self._begin()

    def _read_policy(self, state: NodeState, policy: PolicyState) -> None:
        if self._policy is None or self._endpoints.node != state.node:
            self._forget_others()
            self._endpoints = EndpointsElsewhere(state.node)
        self._policy = policy
        self._whole = {}
        owners = (
            (log_prefix.POLICY, policy.policy_set.policies),
            (log_prefix.PROFILE, policy.policy_set.profiles),
            (log_prefix.TIER, policy.policy_set.tiers),
        )
        for kind, owned in owners:
            self._whole.update(((kind, log_prefix.shortened(one.name)), one.name) for one in owned)
        self._tiers = {one.name: one.tier for one in policy.policy_set.policies}
        members = {member.name: (member.address, member.address6) for member in state.nodes}
        self._hosts = {
            address.partition("/")[0]: name
            for name, addresses in {**members, state.node: (state.address, state.address6)}.items()
            for address in addresses
            if address
        }

    def _forget_others(self) -> None:
        self._endpoints, self._version, self._known, self._elsewhere = EndpointsElsewhere(""), -1, {}, {}
