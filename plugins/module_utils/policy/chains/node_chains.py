# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data that the compilation of all tables of one node shares: its endpoints, and the chains of its policies."""

from __future__ import annotations

import itertools
import typing as t

from ...base.result_cache import ResultCache
from ..model import EGRESS, HOST_ENDPOINT, INGRESS, Policy, PolicyProfile
from ..node_policy import LocalEndpoint, NodePolicy
from ..sets import ip_sets
from ..sets.ip_sets import PolicyIpSet
from . import workload_groups
from .endpoint_chains import EndpointChains
from .policy_chains import RuleWriter, marking_chains
from .rules import names
from .rules.marks import Marks
from .rules.rule import Chains, IptablesRule
from .settings import ChainSettings
from .tables import Chain, HookRule, Table, chain_of, reachable
from .workload_groups import Group

DIRECTIONS = (INGRESS, EGRESS)

_Rules = tuple[IptablesRule, ...]
_Context = tuple[frozenset[str], frozenset[str]]


class _Owner(t.NamedTuple):
    """The policy or profile whose rules of one direction are a chain; `title` says that to people."""

    rules_of: t.Union[Policy, PolicyProfile]
    direction: str
    title: str


class ChainCache:
    """The chains that a compiler made last."""

    def __init__(self) -> None:
        self.policies = ResultCache[str, Policy, list[tuple[str, _Owner]]]()
        self.profiles = ResultCache[str, PolicyProfile, list[tuple[str, _Owner]]]()
        #: {direction: {ID of a group: the rules of its chain}}
        self.groups = {direction: ResultCache[str, _Context, _Rules]() for direction in DIRECTIONS}
        #: {table: its chains that are neither of policies nor of profiles}
        self.tables: dict[str, ResultCache[str, _Rules, Chain]] = {}
        #: {action for denied packets: {chain of a policy or profile: (its owner, the chain)}}
        self.owned: dict[str, dict[str, tuple[_Owner, Chain]]] = {}

    def copy(self) -> ChainCache:
        made = ChainCache()
        made.policies, made.profiles = self.policies.copy(), self.profiles.copy()
        made.groups = {direction: groups.copy() for direction, groups in self.groups.items()}
        made.tables = {name: table.copy() for name, table in self.tables.items()}
        made.owned = {drop: dict(chains) for drop, chains in self.owned.items()}
        return made

    def owners(self, node: NodePolicy) -> dict[str, _Owner]:
        """Return {chain: its owner} for both directions of all policies and profiles of a node.

        The chains of others are forgotten.
        """

        def of_policy(name: str, policy: Policy) -> list[tuple[str, _Owner]]:
            return _owned_chains(policy, f"{policy.kind} {name}", lambda way: names.policy_chain(name, way))

        def of_profile(name: str, profile: PolicyProfile) -> list[tuple[str, _Owner]]:
            return _owned_chains(profile, f"Profile {name}", lambda way: names.profile_chain(name, way))

        policies, profiles = self.policies.map(node.policies, of_policy), self.profiles.map(node.profiles, of_profile)
        found = dict(itertools.chain.from_iterable((*policies.values(), *profiles.values())))
        for drop, chains in self.owned.items():
            if len(chains) > len(found):
                self.owned[drop] = {name: chain for name, chain in chains.items() if name in found}
        return found


class NodeChains:
    """The endpoints and policies of one node during a compilation for IP version `family`.

    `hosts` are the node's host endpoints, `groups` maps an ID to a group of workloads. `cache` has the chains of the
    last compilation, and gets those of this one. Methods raise KeyError and ValueError as `Compiler.compile` does.
    """

    def __init__(
        self,
        node: NodePolicy,
        hosts: t.Sequence[LocalEndpoint],
        groups: t.Mapping[str, Group],
        settings: ChainSettings,
        marks: Marks,
        family: int,
        cache: ChainCache,
    ) -> None:
        self.node = node
        self.settings = settings
        self.marks = marks
        self.family = family
        self.hosts = hosts
        self.groups = groups
        self.dispatch = workload_groups.tree(groups)
        self.workload_interfaces = tuple(f"{prefix}+" for prefix in settings.interface_prefixes)
        self._cache = cache
        self._sets: dict[str, PolicyIpSet] = {}
        self._owners = cache.owners(node)

    def writer(self, table: str) -> EndpointChains:
        """Return a writer of chains for a table: "raw", "mangle" or "filter"."""
        return EndpointChains(RuleWriter(self.settings, self.marks, self.family, table), self.node)

    def table(self, write: EndpointChains, hooks: t.Sequence[HookRule], chains: Chains) -> Table:
        """Return the table with the chains to which `hooks` lead: those of `chains`, policies, profiles and marks."""
        name, owners = write.writer.table, self._owners
        cache = self._cache.tables.setdefault(name, ResultCache())
        own = cache.map({**marking_chains(self.marks), **chains}, lambda _name, rules: chain_of(rules))
        owned = self._cache.owned.setdefault(write.writer.drop, {})

        def chain(name: str) -> Chain:
            if name in own:
                return own[name]
            owner, known = owners[name], owned.get(name)
            if known is None or known[0] is not owner:
                known = owned[name] = owner, _owned(write.writer, owner)
            return known[1]

        found = reachable(hooks, chain)
        self._sets.update((one.name, one) for made in found.values() if made.sets for one in made.sets)
        return Table(
            name,
            {name: made.rules for name, made in found.items()},
            tuple(hooks),
            {name: owners[name].title for name in found if name in owners},
        )

    def workload_chains(self, write: EndpointChains, direction: str) -> dict[str, tuple[IptablesRule, ...]]:
        """Return {ID of a group of workloads: the rules of its chain in one direction}.

        The ID is a digest of the group's tiers and profiles; the chain also depends on which policies are staged and
        which profiles exist.
        """
        context: _Context = (
            frozenset(name for name, policy in self.node.policies.items() if policy.staged),
            frozenset(self.node.profiles),
        )

        def made(group: str, _context: _Context) -> tuple[IptablesRule, ...]:
            return tuple(write.workload(self.groups[group].tiers, self.groups[group].profiles, direction))

        return self._cache.groups[direction].map(dict.fromkeys(self.groups, context), made)

    def sets(self) -> tuple[PolicyIpSet, ...]:
        """Return the sets for lists of CIDRs in rules, as far as `table` has used those rules."""
        return tuple(self._sets.values())


def _owned_chains(
    rules_of: t.Union[Policy, PolicyProfile], title: str, chain: t.Callable[[str], str]
) -> list[tuple[str, _Owner]]:
    """Return (chain, its owner) for both directions; `chain` returns the name of that of a direction."""
    return [(chain(way), _Owner(rules_of, way, f"{title}, {way.lower()}")) for way in DIRECTIONS]


def _owned(writer: RuleWriter, owner: _Owner) -> Chain:
    if isinstance(owner.rules_of, Policy):
        return writer.policy(owner.rules_of, owner.direction)
    return writer.profile(owner.rules_of, owner.direction)


def member_sets(
    node: NodePolicy, groups: t.Mapping[str, Group], family: int, cache: ResultCache[str, t.Any, PolicyIpSet]
) -> dict[str, PolicyIpSet]:
    """Return {name: set} of selectors, named ports, and groups of workloads in IP version `family`; empty ones, too.

    If the dispatch of groups is a tree, the sets of its prefixes of IDs are included.
    """
    make: dict[str, t.Callable[[str, int, t.Any], PolicyIpSet]] = {}
    members: dict[str, t.Any] = {}
    for selector, addresses in node.selector_members.items():
        name = ip_sets.selector_set(selector, family)
        make[name], members[name] = ip_sets.addresses, addresses
    for key, pairs in node.named_port_members.items():
        name = ip_sets.named_port_set(key, family)
        make[name], members[name] = ip_sets.addresses_and_ports, (key.protocol, pairs)
    for group, of_group in workload_groups.members(groups, workload_groups.tree(groups)):
        name = ip_sets.workloads_set(group, family)
        make[name], members[name] = ip_sets.addresses_and_interfaces, of_group
    return cache.map(members, lambda name, found: make[name](name, family, found))


def sorted_out(endpoints: t.Iterable[LocalEndpoint]) -> tuple[list[LocalEndpoint], list[LocalEndpoint]]:
    """Return (host endpoints, workloads), each in the given order, only the first of each for one interface."""
    hosts: dict[str, LocalEndpoint] = {}
    workloads: dict[str, LocalEndpoint] = {}
    for endpoint in endpoints:
        of_kind = hosts if endpoint.endpoint.kind == HOST_ENDPOINT else workloads
        of_kind.setdefault(endpoint.interface, endpoint)
    return list(hosts.values()), list(workloads.values())
