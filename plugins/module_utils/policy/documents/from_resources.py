# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of Calico v3 resources to the values of `model.py`, in which all references are resolved."""

from __future__ import annotations

import typing as t

from ...base import selectors
from ...base.addresses import parse_cidr_or_address
from ...resources.api import (
    DEFAULT_TIER,
    EntityRule,
    GlobalNetworkPolicy,
    GlobalNetworkSet,
    HostEndpoint,
    ICMPFields,
    NetworkPolicy,
    NetworkSet,
    PortRange,
    Profile,
    Resource,
    ResourceError,
    Rule,
    StagedGlobalNetworkPolicy,
    StagedNetworkPolicy,
    Tier,
    WorkloadEndpoint,
    WorkloadEndpointPort,
    check_supported,
)
from ...resources.api import EndpointPort as HostEndpointPort
from .. import model
from ..index.labels import namespaced_labels
from ..index.scoped_selectors import all_of, in_namespace, of_entity, of_namespaces, of_service_accounts

_ORCHESTRATOR_LABEL = "projectcalico.org/orchestrator"

#: The prefix of the names of policies of staged kinds. It follows the namespace, if there is one.
STAGED_PREFIX = "staged:"
_STAGED = (StagedGlobalNetworkPolicy, StagedNetworkPolicy)

AnyPolicy = t.Union[GlobalNetworkPolicy, NetworkPolicy]


def policy_set(resources: t.Iterable[Resource], staged: t.Collection[str] = ()) -> model.PolicySet:
    """Return the PolicySet of the tiers, policies, profiles and network sets in `resources`, by `model.policy_set`.

    Staged deletions are left out. Policies whose name (as of `policy_name`) is in `staged` become staged ones. Raise
    ResourceError if a resource of any kind has a field that this collection does not support, or if a policy's tier
    does not exist. Raise ValueError if two policies have the same name.
    """
    resources = list(resources)
    tiers = {resource.name: resource for resource in resources if isinstance(resource, Tier)}
    policies = []
    for resource in resources:
        check_supported(resource)
        if isinstance(resource, (GlobalNetworkPolicy, NetworkPolicy)):
            if resource.tier not in tiers and resource.tier != DEFAULT_TIER:
                raise ResourceError(
                    resource.KIND,
                    resource.name,
                    "spec.tier",
                    resource.tier,
                    "does not exist.",
                    f"Define the Tier {resource.tier}, or leave it out for the tier {DEFAULT_TIER}.",
                )
            if not is_deletion(resource):
                policies.append(policy(resource, policy_name(resource) in staged))
    return model.policy_set(
        [model.PolicyTier(tier.name, tier.order, tier.defaultAction) for tier in tiers.values()],
        policies,
        [profile(resource) for resource in resources if isinstance(resource, Profile)],
        [network_set(resource) for resource in resources if isinstance(resource, (GlobalNetworkSet, NetworkSet))],
    )


def policy_name(resource: AnyPolicy) -> str:
    """Return a policy's name, unique among all kinds: "web", or "default/web" for one in a namespace.

    Policies of staged kinds are named as in Felix, "staged:web" or "default/staged:web", because one may exist beside
    an enforced policy of its name.
    """
    name = f"{STAGED_PREFIX}{resource.name}" if isinstance(resource, _STAGED) else resource.name
    return f"{resource.namespace}/{name}" if isinstance(resource, NetworkPolicy) else name


def is_deletion(resource: AnyPolicy) -> bool:
    """Return whether a policy is a staged deletion, which has no effect. Felix does not receive those either."""
    return isinstance(resource, _STAGED) and resource.stagedAction == "Delete"


def policy(resource: AnyPolicy, staged: bool = False) -> model.Policy:
    """Return a policy resource of any kind as a value, with namespaces and service accounts folded into its selectors.

    It is staged if its kind is, or with `staged`. Unsupported fields are dropped without an error.
    """
    namespace = resource.namespace if isinstance(resource, NetworkPolicy) else ""
    parts = [selectors.parse(resource.selector).root]
    if isinstance(resource, GlobalNetworkPolicy) and resource.namespaceSelector:
        parts.append(of_namespaces(resource.namespaceSelector))
    if namespace:
        parts.append(in_namespace(namespace))
    if resource.serviceAccountSelector:
        parts.append(of_service_accounts(resource.serviceAccountSelector))
    is_global = isinstance(resource, GlobalNetworkPolicy)
    return model.Policy(
        name=policy_name(resource),
        kind=NetworkPolicy.KIND if namespace else GlobalNetworkPolicy.KIND,
        tier=resource.tier,
        order=resource.order,
        selector=all_of(parts),
        types=resource.types,
        ingress=_rules(resource, "ingress", namespace),
        egress=_rules(resource, "egress", namespace),
        do_not_track=is_global and t.cast(GlobalNetworkPolicy, resource).doNotTrack,
        pre_dnat=is_global and t.cast(GlobalNetworkPolicy, resource).preDNAT,
        apply_on_forward=is_global and t.cast(GlobalNetworkPolicy, resource).applyOnForward,
        performance_hints=resource.performanceHints,
        staged=staged or isinstance(resource, _STAGED),
    )


def profile(resource: Profile) -> model.PolicyProfile:
    """Return a Profile resource as a value. Unsupported fields of its rules are dropped without an error."""
    return model.PolicyProfile(
        name=resource.name,
        labels=tuple(sorted(resource.labelsToApply.items())),
        ingress=_rules(resource, "ingress", ""),
        egress=_rules(resource, "egress", ""),
    )


def network_set(resource: t.Union[GlobalNetworkSet, NetworkSet]) -> model.PolicyNetworkSet:
    """Return a GlobalNetworkSet or NetworkSet resource as a value, with canonical CIDRs, sorted as text and unique.

    A NetworkSet is named "namespace/name" and gets labels for its namespace.
    """
    nets = tuple(sorted({_net(text) for text in resource.nets}))
    if not isinstance(resource, NetworkSet):
        return model.PolicyNetworkSet(resource.name, nets=nets, labels=tuple(sorted(resource.labels.items())))
    return model.PolicyNetworkSet(
        name=f"{resource.namespace}/{resource.name}",
        namespace=resource.namespace,
        nets=nets,
        labels=namespaced_labels(resource.labels, resource.namespace),
    )


def host_endpoint(resource: HostEndpoint) -> model.Endpoint:
    """Return a HostEndpoint resource as a value. Its addresses are expectedIPs in canonical form, each once."""
    return model.Endpoint(
        kind=model.HOST_ENDPOINT,
        name=resource.name,
        node=resource.node,
        interface=resource.interfaceName,
        addresses=_addresses(resource.expectedIPs),
        labels=tuple(sorted(resource.labels.items())),
        profiles=resource.profiles,
        ports=_endpoint_ports(resource.ports),
    )


def workload_endpoint(resource: WorkloadEndpoint) -> model.Endpoint:
    """Return a WorkloadEndpoint resource as a value named "namespace/name", with the addresses of its ipNetworks.

    Labels for its namespace, service account and orchestrator are added; own labels that `namespaced_labels` drops are
    missing. Raise ResourceError if it has a field that this collection does not support.
    """
    check_supported(resource)
    own = dict(resource.labels)
    if resource.orchestrator:
        own[_ORCHESTRATOR_LABEL] = resource.orchestrator
    return model.Endpoint(
        kind=model.WORKLOAD_ENDPOINT,
        name=f"{resource.namespace}/{resource.name}",
        node=resource.node,
        interface=resource.interfaceName,
        addresses=_addresses(resource.ipNetworks),
        labels=namespaced_labels(own, resource.namespace, resource.serviceAccountName),
        profiles=resource.profiles,
        ports=_endpoint_ports(resource.ports),
        namespace=resource.namespace,
    )


# --- rules ------------------------------------------------------------------------------------------------------------


def _rules(resource: t.Union[AnyPolicy, Profile], direction: str, namespace: str) -> tuple[model.PolicyRule, ...]:
    rules: tuple[Rule, ...] = getattr(resource, direction)
    return tuple(_rule(rule, namespace) for rule in rules)


def _rule(rule: Rule, namespace: str) -> model.PolicyRule:
    protocol = _protocol(rule.protocol)
    # Packets of another protocol are no ICMP messages, so notICMP excludes none of them. `check_supported` refuses a
    # notICMP with a type but without a protocol.
    not_icmp = _icmp(rule.notICMP) if protocol in ("icmp", "icmpv6") else None
    return model.PolicyRule(
        action=rule.action,
        ip_version=rule.ipVersion,
        protocol=protocol,
        not_protocol=_protocol(rule.notProtocol),
        icmp=_icmp(rule.icmp),
        not_icmp=not_icmp,
        source=_entity(rule.source, namespace),
        destination=_entity(rule.destination, namespace),
        annotations=tuple(sorted(rule.metadata.annotations.items())) if rule.metadata else (),
    )


def _entity(entity: EntityRule, namespace: str) -> model.Entity:
    return model.Entity(
        nets=_nets(entity.nets),
        not_nets=_nets(entity.notNets),
        selector=of_entity(entity, namespace),
        not_selector=selectors.parse(entity.notSelector).canonical if entity.notSelector else "",
        ports=tuple(_port(port) for port in entity.ports),
        not_ports=tuple(_port(port) for port in entity.notPorts),
    )


def _port(port: t.Union[PortRange, str]) -> model.Port:
    return model.NamedPort(port) if isinstance(port, str) else port


def _protocol(protocol: t.Union[str, int, None]) -> t.Optional[model.Protocol]:
    if isinstance(protocol, str):
        return protocol.lower()
    return protocol if protocol is None else model.PROTOCOL_NAMES.get(protocol, protocol)


def _icmp(fields: t.Optional[ICMPFields]) -> t.Optional[model.Icmp]:
    return model.Icmp(fields.type, fields.code) if fields and fields.type is not None else None


# --- addresses and ports ----------------------------------------------------------------------------------------------


def _nets(texts: t.Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_net(text) for text in texts))


def _net(text: str) -> str:
    return str(parse_cidr_or_address(text))


def _addresses(texts: t.Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_net(text).partition("/")[0] for text in texts))


def _endpoint_ports(
    ports: t.Iterable[t.Union[HostEndpointPort, WorkloadEndpointPort]],
) -> tuple[model.DefinedPort, ...]:
    """Return the ports that have a name. Rules cannot refer to the others."""
    return tuple(model.DefinedPort(port.name, str(_protocol(port.protocol)), port.port) for port in ports if port.name)
