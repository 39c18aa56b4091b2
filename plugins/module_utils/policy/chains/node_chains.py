# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data that the compilation of all tables of one node shares: its endpoints, and the chains of its policies."""

from __future__ import annotations

import typing as t

from ...base.result_cache import ResultCache
from ..model import EGRESS, HOST_ENDPOINT, INGRESS, Policy, PolicyProfile
from ..node_policy import LocalEndpoint, NodePolicy
from ..sets import ip_sets
from ..sets.ip_sets import PolicyIpSet
from . import workload_groups
from .endpoint_chains import EndpointChains
from .policy_chains import PolicyChain, RuleWriter, marking_chains
from .rules import names
from .rules.marks import Marks
from .rules.rule import Chains, IptablesRule
from .settings import ChainSettings
from .tables import HookRule, Table, reachable, targets
from .workload_groups import Group

DIRECTIONS = (INGRESS, EGRESS)


class NodeChains:
    """The endpoints and policies of one node during a compilation for IP version `family`.

    `hosts` are the node's host endpoints, `groups` maps an ID to a group of workloads. `memory` caches chains and their
    targets. Methods raise KeyError and ValueError as `Compiler.compile` does.
    """

    def __init__(
        self,
        node: NodePolicy,
        hosts: t.Sequence[LocalEndpoint],
        groups: t.Mapping[str, Group],
        settings: ChainSettings,
        marks: Marks,
        family: int,
        memory: ResultCache,
    ) -> None:
        self.node = node
        self.settings = settings
        self.marks = marks
        self.family = family
        self.hosts = hosts
        self.groups = groups
        self.dispatch = workload_groups.tree(groups)
        self.workload_interfaces = tuple(f"{prefix}+" for prefix in settings.interface_prefixes)
        self._marking = marking_chains(marks)
        self._memory = memory
        self._sets: dict[str, PolicyIpSet] = {}
        # Chains of endpoints depend on `_staged` and `_profiles` in addition to the endpoint's own lists.
        self._staged = frozenset(name for name, policy in node.policies.items() if policy.staged)
        self._profiles = frozenset(node.profiles)
        self._owners: dict[str, tuple[t.Union[Policy, PolicyProfile], str]] = {}
        for direction in DIRECTIONS:
            for policy in node.policies.values():
                self._owners[names.policy_chain(policy.name, direction)] = (policy, direction)
            for profile in node.profiles.values():
                self._owners[names.profile_chain(profile.name, direction)] = (profile, direction)

    def writer(self, table: str) -> EndpointChains:
        """Return a writer of chains for a table: "raw", "mangle" or "filter"."""
        return EndpointChains(RuleWriter(self.settings, self.marks, self.family, table), self.node)

    def table(self, write: EndpointChains, hooks: t.Sequence[HookRule], chains: Chains) -> Table:
        """Return the table with the chains to which `hooks` lead: those of `chains`, policies, profiles and marks."""

        def other(name: str) -> tuple[IptablesRule, ...]:
            return self._marking[name] if name in self._marking else self._of_owner(write.writer, name)

        def targets_of(name: str, rules: tuple[IptablesRule, ...]) -> tuple[str, ...]:
            key = ("targets", write.writer.table, name)
            return self._memory.recall(key, rules, lambda: targets(rules))

        return Table(write.writer.table, reachable(hooks, chains, other, targets_of), tuple(hooks))

    def workload_chain(self, write: EndpointChains, group: Group, direction: str) -> tuple[IptablesRule, ...]:
        """Return the chain of a group of workloads in one direction, from the cache if possible.

        The group's ID is a digest of its tiers and profiles, so the cache need not compare these.
        """

        def made() -> tuple[IptablesRule, ...]:
            return tuple(write.workload(group.tiers, group.profiles, direction))

        return self._memory.recall(("workloads", group.id, direction), (self._staged, self._profiles), made)

    def sets(self) -> tuple[PolicyIpSet, ...]:
        """Return the sets for lists of CIDRs in rules, as far as `table` has used those rules."""
        return tuple(self._sets.values())

    def _of_owner(self, writer: RuleWriter, name: str) -> tuple[IptablesRule, ...]:
        owner, direction = self._owners[name]

        def made() -> PolicyChain:
            if isinstance(owner, Policy):
                return writer.policy(owner, direction)
            return writer.profile(owner, direction)

        chain = self._memory.recall(("policy", writer.drop, name), owner, made)
        self._sets.update((one.name, one) for one in chain.sets)
        return chain.rules


def member_sets(
    node: NodePolicy, groups: t.Mapping[str, Group], family: int, memory: ResultCache
) -> t.Iterator[PolicyIpSet]:
    """Yield the sets of selectors, named ports, and groups of workloads in IP version `family`; empty ones, too.

    If the dispatch of groups is a tree, the sets of its prefixes of IDs are included.
    """

    def recall(name: str, make: t.Callable[[str, int, t.Any], PolicyIpSet], members: t.Any) -> PolicyIpSet:
        return memory.recall(name, members, lambda: make(name, family, members))

    for selector, members in node.selector_members.items():
        yield recall(ip_sets.selector_set(selector, family), ip_sets.addresses, members)
    for key, pairs in node.named_port_members.items():
        yield recall(ip_sets.named_port_set(key, family), ip_sets.addresses_and_ports, (key.protocol, pairs))
    for name, of_group in workload_groups.members(groups, workload_groups.tree(groups)):
        yield recall(ip_sets.workloads_set(name, family), ip_sets.addresses_and_interfaces, of_group)


def sorted_out(endpoints: t.Iterable[LocalEndpoint]) -> tuple[list[LocalEndpoint], list[LocalEndpoint]]:
    """Return (host endpoints, workloads), each in the given order, only the first of each for one interface."""
    hosts: dict[str, LocalEndpoint] = {}
    workloads: dict[str, LocalEndpoint] = {}
    for endpoint in endpoints:
        of_kind = hosts if endpoint.endpoint.kind == HOST_ENDPOINT else workloads
        of_kind.setdefault(endpoint.interface, endpoint)
    return list(hosts.values()), list(workloads.values())
