# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names behind a record of the policy log: policies by their shortened names in prefixes, workloads by address.

They come from what the node knows at the time of the query.
"""

from __future__ import annotations

import typing as t

from ...policy.chains.rules import log_prefix
from ...policy.chains.rules.log_prefix import Reason
from ...policy.model import WORKLOAD_ENDPOINT
from ...state.attachment import AttachedWorkload
from ...state.node_state import NodeState
from ...state.policy_state import PolicyState
from ...state.remote_endpoints import RemoteEndpoints


class Decider(t.NamedTuple):
    """The policy, profile, tier or host rule that decided about a packet.

    `kind` is one of log_prefix's kinds. `tier` is the tier of a policy, or the tier itself; it is "" for other kinds,
    or if unknown. `name` is that of a policy or profile, the reason of a host rule, else "". `rule` counts from 1; 0 is
    no rule.
    """

    kind: str
    tier: str
    name: str
    rule: int


class PolicyNames:
    """The names of policies and workloads that this node knows.

    `state` returns Ansible's state. `workloads` returns the workloads attached on this node since, `remote` those on
    other nodes. `forget` has to be called when any of them changes; `generation` counts these calls.
    """

    def __init__(
        self,
        state: t.Callable[[], t.Optional[NodeState]],
        workloads: t.Callable[[], t.Iterable[AttachedWorkload]],
        remote: t.Callable[[], RemoteEndpoints] = RemoteEndpoints,
    ) -> None:
        self._state = state
        self._workloads = workloads
        self._remote = remote
        self._read_of: t.Optional[tuple[t.Optional[PolicyState], RemoteEndpoints]] = None
        self._whole: dict[tuple[str, str], str] = {}
        self._tiers: dict[str, str] = {}
        self._elsewhere: dict[str, tuple[str, str]] = {}
        self._here: t.Optional[dict[str, str]] = None
        self.generation = 0

    def forget(self) -> None:
        """Forget the addresses of this node's workloads, and start a new generation."""
        self._here = None
        self.generation += 1

    def decider(self, reason: Reason) -> Decider:
        """Return the decider that a reason names. A name that this node does not know stays as it was shortened."""
        self._read()
        name = self._whole.get((reason.kind, reason.name), reason.name)
        tier = {log_prefix.POLICY: self._tiers.get(name, ""), log_prefix.TIER: name}.get(reason.kind, "")
        return Decider(reason.kind, tier, "" if reason.kind == log_prefix.TIER else name, reason.rule)

    def workload(self, address: str) -> tuple[str, str]:
        """Return (workload, node) of an address: ("", node) for a node's own address, ("", "") for an unknown one.

        Addresses of tunnels are unknown here. The workload is its id if it was attached on this node between runs, or
        else <namespace>/<name>. A node without policy knows only the workloads on it. Without a state, the node is "".
        """
        self._read()
        if self._here is None:
            state = self._state()
            planned = state.workloads if state else ()
            self._here = {address: f"{one.namespace}/{one.name}" for one in planned for address in one.addresses}
            for own in self._workloads():
                self._here.update((address, own.id) for address in own.addresses)
        if address in self._here:
            state = self._state()
            return self._here[address], state.node if state else ""
        return self._elsewhere.get(address, ("", ""))

    def _read(self) -> None:
        """Index names and addresses again, if the policy or the remote endpoints are other objects than before.

        For ten thousand endpoints that takes some milliseconds.
        """
        state, remote = self._state(), self._remote()
        policy = state.policy if state else None
        if self._read_of is not None and policy is self._read_of[0] and remote is self._read_of[1]:
            return
        self._read_of = policy, remote
        self._whole, self._tiers, self._elsewhere = {}, {}, {}
        if policy is None or state is None:
            return
        owners = (
            (log_prefix.POLICY, policy.policy_set.policies),
            (log_prefix.PROFILE, policy.policy_set.profiles),
            (log_prefix.TIER, policy.policy_set.tiers),
        )
        for kind, owned in owners:
            self._whole.update(((kind, log_prefix.shortened(one.name)), one.name) for one in owned)
        self._tiers = {one.name: one.tier for one in policy.policy_set.policies}
        members = {member.name: (member.address, member.address6) for member in state.nodes}
        for name, addresses in {**members, state.node: (state.address, state.address6)}.items():
            self._elsewhere.update((address.partition("/")[0], ("", name)) for address in addresses if address)
        for one in (*remote.endpoints, *policy.endpoints):
            if one.kind == WORKLOAD_ENDPOINT and one.node != state.node:
                self._elsewhere.update((address, (one.name, one.node)) for address in one.addresses)
