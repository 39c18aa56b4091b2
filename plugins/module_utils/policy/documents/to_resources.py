# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of policy values back to Calico v3 resources. Values that no resource can have raise ResourceError.

Namespaces that were folded into selectors are separated again: the policy's own namespace, which a resource implies,
and namespaceSelectors of rules. Service accounts remain in the selectors as labels.
"""

from __future__ import annotations

import typing as t

from ...base import selectors
from ...resources.api import Resource, parse
from .. import model
from ..index.labels import NAME_LABEL, namespaced_labels
from ..index.scoped_selectors import in_namespace, namespaces_of
from .from_resources import STAGED_PREFIX

Data = dict[str, t.Any]

#: {protocol's name in `model.py`: its name in resources}.
_PROTOCOLS = {"tcp": "TCP", "udp": "UDP", "icmp": "ICMP", "icmpv6": "ICMPv6", "sctp": "SCTP", "udplite": "UDPLite"}
_IP_VERSION_OF = {"icmp": 4, "icmpv6": 6}
#: A namespaceSelector that selects endpoints with and without a namespace, so that only the selector matters. (Calico
#: refuses "all() || global()".)
_ANYWHERE = f"has({NAME_LABEL}) || !has({NAME_LABEL})"


def policy(value: model.Policy) -> Resource:
    """Return a policy as a resource: of a staged kind if it is staged, and without the name's prefix "staged:"."""
    namespace, name = _split(value.name, value.kind == "NetworkPolicy")
    own = _without(value.selector, namespace)
    spec: Data = {
        "tier": value.tier,
        "order": value.order,
        "selector": value.selector if own is None else own or "all()",
        "types": list(value.types),
        "ingress": [_rule(rule, namespace) for rule in value.ingress],
        "egress": [_rule(rule, namespace) for rule in value.egress],
        "performanceHints": list(value.performance_hints),
    }
    if not namespace:
        spec.update(doNotTrack=value.do_not_track, preDNAT=value.pre_dnat, applyOnForward=value.apply_on_forward)
    kind = f"Staged{value.kind}" if value.staged else value.kind
    plain = name[len(STAGED_PREFIX) :] if name.startswith(STAGED_PREFIX) else name
    return _resource(kind, plain, spec, namespace)


def tier(value: model.PolicyTier) -> Resource:
    """Return a tier as a Tier resource; an order of None becomes 1,000,000."""
    return _resource("Tier", value.name, {"order": value.order, "defaultAction": value.default_action})


def profile(value: model.PolicyProfile) -> Resource:
    spec = {
        "labelsToApply": dict(value.labels),
        "ingress": [_rule(rule, "") for rule in value.ingress],
        "egress": [_rule(rule, "") for rule in value.egress],
    }
    return _resource("Profile", value.name, spec)


def network_set(value: model.PolicyNetworkSet) -> Resource:
    """Return a network set as a NetworkSet resource, or as a GlobalNetworkSet if it has no namespace.

    The labels for its namespace are left out, and its profiles, because these resources have none.
    """
    namespace, name = _split(value.name, bool(value.namespace))
    labels = own_labels(value.labels, namespace)
    return _resource(
        "NetworkSet" if namespace else "GlobalNetworkSet", name, {"nets": list(value.nets)}, namespace, labels
    )


def host_endpoint(value: model.Endpoint) -> Resource:
    spec = {
        "node": value.node,
        "interfaceName": value.interface,
        "expectedIPs": list(value.addresses),
        "profiles": list(value.profiles),
        "ports": ports(value.ports),
    }
    return _resource("HostEndpoint", value.name, spec, labels=dict(value.labels))


def own_labels(labels: t.Iterable[tuple[str, str]], namespace: str) -> dict[str, str]:
    """Return `labels` as a mapping without those that an object in `namespace` always has; all of them if it is ""."""
    implied = dict(namespaced_labels({}, namespace)) if namespace else {}
    return {key: value for key, value in labels if implied.get(key) != value}


def ports(values: t.Iterable[model.DefinedPort]) -> list[Data]:
    """Return ports in the form of endpoint resources. An unknown name of a protocol stays, for resources to refuse."""
    return [
        {"name": one.name, "protocol": _PROTOCOLS.get(one.protocol, one.protocol), "port": one.port} for one in values
    ]


def _resource(kind: str, name: str, spec: Data, namespace: str = "", labels: t.Optional[Data] = None) -> Resource:
    metadata: Data = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return parse({"kind": kind, "metadata": metadata, "spec": _given(spec)})


def _given(fields: Data) -> Data:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _split(name: str, namespaced: bool) -> tuple[str, str]:
    if not namespaced:
        return "", name
    namespace, _slash, rest = name.partition("/")
    return namespace, rest


def _rule(rule: model.PolicyRule, namespace: str) -> Data:
    return _given(
        {
            "action": rule.action,
            "ipVersion": rule.ip_version,
            "protocol": _protocol(rule.protocol, rule),
            "notProtocol": _protocol(rule.not_protocol, rule),
            "icmp": _icmp(rule.icmp),
            "notICMP": _icmp(rule.not_icmp),
            "source": _entity(rule.source, namespace),
            "destination": _entity(rule.destination, namespace),
            "metadata": {"annotations": dict(rule.annotations)} if rule.annotations else {},
        }
    )


def _protocol(protocol: t.Optional[model.Protocol], rule: model.PolicyRule) -> t.Union[str, int, None]:
    """Return a named protocol by its name in resources, or its number where the name implies another IP version."""
    if not isinstance(protocol, str):
        return protocol
    if rule.ip_version is not None and _IP_VERSION_OF.get(protocol, rule.ip_version) != rule.ip_version:
        return model.PROTOCOL_NUMBERS[protocol]
    return _PROTOCOLS.get(protocol, protocol)


def _icmp(icmp: t.Optional[model.Icmp]) -> Data:
    return {} if icmp is None else _given({"type": icmp.type, "code": icmp.code})


def _entity(entity: model.Entity, namespace: str) -> Data:
    fields: Data = {
        "nets": list(entity.nets),
        "notNets": list(entity.not_nets),
        "notSelector": entity.not_selector,
        "ports": [port.plain for port in entity.ports],
        "notPorts": [port.plain for port in entity.not_ports],
    }
    fields.update(_scope(entity, namespace))
    return _given(fields)


def _scope(entity: model.Entity, namespace: str) -> Data:
    """Return the `selector` and `namespaceSelector` fields of an entity in a policy of `namespace` ("" for none)."""
    own = _without(entity.selector, namespace) if entity.selector and namespace else None
    if own is not None:
        # A notSelector alone also implies the policy's own namespace, so the selector may be empty.
        return {"selector": own or ("" if entity.not_selector else "all()")}
    if not entity.selector:
        return {"namespaceSelector": _ANYWHERE} if namespace and entity.not_selector else {}
    operands = _operands(entity.selector)
    namespaces = namespaces_of(operands[0]) if operands else ""
    if namespaces:
        return {"namespaceSelector": namespaces, "selector": _all_of(operands[1:])}
    return {"selector": entity.selector, "namespaceSelector": _ANYWHERE if namespace else ""}


def _without(selector: str, namespace: str) -> t.Optional[str]:
    """Return the canonical `selector` without the operand that requires `namespace`, or None if it has no such one."""
    if not namespace:
        return selector
    operands, own = _operands(selector), in_namespace(namespace)
    if own not in operands:
        return None
    place = operands.index(own)
    return _all_of([*operands[:place], *operands[place + 1 :]])


def _operands(selector: str) -> list[selectors.Expression]:
    """Return the operands of the outermost `&&`, the whole selector if it has none, or [] if it is not valid."""
    try:
        root = selectors.parse(selector).root
    except selectors.SelectorError:
        return []
    return list(root.operands) if isinstance(root, selectors.And) else [root]


def _all_of(operands: t.Sequence[selectors.Expression]) -> str:
    if not operands:
        return ""
    return selectors.canonical(operands[0] if len(operands) == 1 else selectors.And(tuple(operands)))
