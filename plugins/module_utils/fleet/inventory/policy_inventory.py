# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a fleet's policy from the resources in the inventory's lists and in files."""

from __future__ import annotations

import dataclasses
import typing as t

from ...policy import model
from ...policy.documents import from_resources
from ...policy.model import Endpoint, Failsafe, PolicySet
from ...resources import api as resources
from ...state.errors import FleetError, did_you_mean
from ...state.policy_state import ALLOW_ALL, PolicySettings, allow_all
from .. import variables
from ..host import Host
from . import policy_settings
from .bgp_inventory import FleetBGP
from .node_inventory import FleetNode
from .policy_settings import unknown_profile
from .policy_sources import Document, Source, sources

_SSH_PORT = 22


@dataclasses.dataclass(frozen=True)
class FleetPolicy:
    """The policy of a fleet.

    `host_endpoints` are those of all nodes. `ssh_ports` maps node names to the TCP port of Ansible's connection.
    `audited` are the nodes that only log packets that policy would drop. `places` maps resources ("NetworkPolicy
    default/web") to where they are written, a variable (`calico_policies[0]`) or "in FILE:LINE".
    """

    policy_set: PolicySet
    host_endpoints: tuple[Endpoint, ...]
    settings: PolicySettings
    ssh_ports: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    audited: frozenset[str] = frozenset()
    places: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def settings_of(self, node: str) -> PolicySettings:
        """Return the settings of one node: those of the fleet, its audit mode, and its SSH port as a failsafe port.

        An empty list of inbound failsafe ports stays empty. An unknown node has SSH port 22 and no audit mode.
        """
        ports = self.settings.failsafe_inbound
        ssh = Failsafe("tcp", self.ssh_ports.get(node, _SSH_PORT))
        if ports and not any((one.protocol, one.port) == (ssh.protocol, ssh.port) for one in ports):
            ports = (ssh, *ports)
        return dataclasses.replace(self.settings, failsafe_inbound=ports, audit=node in self.audited)


class Reading(t.NamedTuple):
    """The result of reading policy resources.

    `policy` is None if no policy is in force: calico_policy_enabled is false, or it is unset and there is no policy
    resource. `profiles` are the names of all existing profiles.
    """

    policy: t.Optional[FleetPolicy]
    profiles: frozenset[str]


def read(
    get: t.Callable[[str], t.Any],
    hosts: t.Sequence[Host],
    nodes: t.Mapping[str, FleetNode],
    bgp: FleetBGP,
    documents: t.Sequence[Document] = (),
) -> Reading:
    """Return the policy in the inventory's lists and in `documents`, and the names of the profiles.

    All resources and calico_node_policy_audit are checked, also if no policy is in force. The ports of `bgp` are among
    the default failsafe ports.
    """
    for name in ("calico_policy_files", "calico_resource_files"):
        get(name)  # checks the value of a variable that only the controller uses
    collected = _Collected(nodes)
    for source in sources(get, hosts, documents):
        collected.add(source)
    profiles = frozenset(collected.profiles) | {ALLOW_ALL}
    collected.check(profiles)
    settings = policy_settings.read(get, profiles, bgp)
    policies = collected.model_policies(_staged(get, collected))
    audited = frozenset(host.name for host in hosts if variables.of_host(host, "calico_node_policy_audit"))
    enabled = get("calico_policy_enabled")
    if not (bool(collected.seen) if enabled is None else enabled):
        if settings.live:
            raise FleetError(
                policy_settings.LIVE_POLICY,
                True,
                "needs policy, and the inventory leaves it off.",
                "Set calico_policy_enabled to true, or calico_live_policy to false.",
            )
        return Reading(None, profiles)
    policy_set = model.policy_set(
        collected.tiers.values(), policies, [*collected.profiles.values(), allow_all()], collected.network_sets
    )
    return Reading(
        FleetPolicy(
            policy_set,
            tuple(sorted((endpoint for _source, endpoint in collected.host_endpoints), key=lambda one: one.name)),
            settings,
            {host.name: host.ssh_port or _SSH_PORT for host in hosts},
            audited,
            {
                f"{kind} {ns}/{name}" if ns else f"{kind} {name}": place
                for (kind, ns, name), place in collected.seen.items()
            },
        ),
        profiles,
    )


class _Collected:
    """Policy resources are collected here and converted to the policy model; `model_policies` converts the policies."""

    def __init__(self, nodes: t.Mapping[str, FleetNode]) -> None:
        self.nodes = nodes
        self.seen: dict[tuple[str, str, str], str] = {}
        self.sources: dict[tuple[str, str, str], Source] = {}
        self.policies: dict[str, tuple[Source, t.Union[resources.GlobalNetworkPolicy, resources.NetworkPolicy]]] = {}
        self.tiers: dict[str, model.PolicyTier] = {}
        self.profiles: dict[str, model.PolicyProfile] = {}
        self.network_sets: list[model.PolicyNetworkSet] = []
        self.host_endpoints: list[tuple[Source, Endpoint]] = []

    def add(self, source: Source) -> None:
        """Add the resource of `source`; of a staged deletion only the name is kept, in `seen`.

        Raise FleetError if it is invalid, unsupported or named as another one or as the Profile that allows everything,
        or if its node is not in calico_nodes or has a HostEndpoint for that interface already.
        """
        resource = source.resource()
        self._check_unique(source, resource)
        try:
            resources.check_supported(resource)
            if isinstance(resource, resources.Tier):
                self.tiers[resource.name] = model.PolicyTier(resource.name, resource.order, resource.defaultAction)
            elif isinstance(resource, (resources.GlobalNetworkPolicy, resources.NetworkPolicy)):
                if not from_resources.is_deletion(resource):
                    self.policies[from_resources.policy_name(resource)] = (source, resource)
            elif isinstance(resource, resources.Profile):
                self._profile(source, resource)
            elif isinstance(resource, (resources.GlobalNetworkSet, resources.NetworkSet)):
                self.network_sets.append(from_resources.network_set(resource))
            elif isinstance(resource, resources.HostEndpoint):
                self._host_endpoint(source, resource)
        except resources.ResourceError as error:
            raise source.refused(error) from error

    def _check_unique(self, source: Source, resource: resources.Resource) -> None:
        namespace = getattr(resource, "namespace", "")
        key = (resource.KIND, namespace, resource.name)
        other = self.seen.get(key)
        if other is not None:
            what = f"another {resource.KIND}" + (f" of namespace {namespace}" if namespace else "")
            first = self.sources[key]
            if first.document is not None:
                other = f"in {first.document.file}:{first.document.line('metadata.name') or 1}"
            remedy = "Both are the same: remove one." if first.entry == source.entry else "Rename one."
            raise source.about(
                resource, "metadata.name", resource.name, f"is also the name of {what}, {other}.", remedy
            )
        document = source.document
        self.sources[key] = source
        self.seen[key] = source.label if document is None else f"in {document.file}:{document.line('') or 1}"

    def _profile(self, source: Source, resource: resources.Profile) -> None:
        if resource.name == ALLOW_ALL:
            raise source.about(
                resource,
                "metadata.name",
                resource.name,
                "is the profile that is always there and allows everything.",
                "Give yours another name.",
            )
        self.profiles[resource.name] = from_resources.profile(resource)

    def _host_endpoint(self, source: Source, resource: resources.HostEndpoint) -> None:
        node = self.nodes.get(resource.node)
        if node is None or not node.workload_node:
            raise source.about(
                resource,
                "spec.node",
                resource.node,
                "is not a host of group calico_nodes.",
                did_you_mean(
                    resource.node, [name for name, one in self.nodes.items() if one.workload_node], "Name one of"
                ),
            )
        for _source, other in self.host_endpoints:
            if resource.interfaceName and (other.node, other.interface) == (resource.node, resource.interfaceName):
                raise source.about(
                    resource,
                    "spec.interfaceName",
                    resource.interfaceName,
                    f"is also that of HostEndpoint {other.name} on {other.node}.",
                    "An interface has one HostEndpoint: remove one of them.",
                )
        self.host_endpoints.append((source, from_resources.host_endpoint(resource)))

    def check(self, profiles: t.Collection[str]) -> None:
        """Raise FleetError if a policy's tier or a HostEndpoint's profile does not exist. Call it after all `add`."""
        for source, policy in self.policies.values():
            if policy.tier not in self.tiers and policy.tier != model.DEFAULT_TIER:
                raise source.about(
                    policy,
                    "spec.tier",
                    policy.tier,
                    "does not exist.",
                    did_you_mean(
                        policy.tier, [*self.tiers, model.DEFAULT_TIER], "Define a Tier of that name, or write"
                    ),
                )
        for source, endpoint in self.host_endpoints:
            for index, name in enumerate(endpoint.profiles):
                if name not in profiles:
                    raise source.error(
                        f"HostEndpoint {endpoint.name}",
                        f"spec.profiles[{index}]",
                        name,
                        *unknown_profile(name, profiles),
                    )

    def model_policies(self, staged: t.Collection[str]) -> list[model.Policy]:
        """Return the collected policies in the policy model; those of a staged kind or named in `staged` are staged."""
        found = []
        for name, (source, resource) in self.policies.items():
            try:
                found.append(from_resources.policy(resource, name in staged))
            except resources.ResourceError as error:
                raise source.refused(error) from error
        return found


def _staged(get: t.Callable[[str], t.Any], collected: _Collected) -> frozenset[str]:
    names = get("calico_staged_policies")
    for index, name in enumerate(names):
        if name not in collected.policies:
            raise FleetError(
                f"calico_staged_policies[{index}]",
                name,
                "is not a policy.",
                did_you_mean(name, collected.policies, "Write") if collected.policies else "Remove it.",
            )
    return frozenset(names)
