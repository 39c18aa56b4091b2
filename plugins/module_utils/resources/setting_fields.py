# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of Calico's kinds of settings, each with the variable of an inventory that has its meaning.

Documents become variables by this table, and variables become documents.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.release import API_VERSION
from .durations import parse_duration
from .errors import Refused
from .fields import Document

#: The beginning of the name of a resource that has the settings of one node: node.node1.
OF_NODE = "node."
DEFAULT = "default"


def _same(value: t.Any) -> t.Any:
    return value


@dataclasses.dataclass(frozen=True)
class SettingField:
    """A field of a kind of settings: its path in a document, and the variable.

    With `of_node`, the field is that of a Node or of a resource node.NAME, and the variable that of the node.
    `to_variable` returns the variable's value for the field's, None for one that sets nothing, and raises Refused;
    `to_field` returns the field's value for the variable's.
    """

    kind: str
    path: str
    variable: str
    of_node: bool = False
    to_variable: t.Callable[[t.Any], t.Any] = _same
    to_field: t.Callable[[t.Any], t.Any] = _same


def _seconds(text: str) -> int:
    seconds = parse_duration(text) or 0.0
    if not seconds.is_integer():
        raise Refused(text, "is no whole number of seconds.", "Write for example 120s.")
    return int(seconds)


def _of_seconds(seconds: t.Any) -> str:
    return f"{seconds}s"


def _ports(entries: t.Any) -> t.Any:
    """Return failsafe ports with the names of protocols in upper case, as Calico writes them."""
    return [{**entry, "protocol": str(entry.get("protocol", "tcp")).upper()} for entry in entries]


def _mtu(field: str, overhead: int) -> SettingField:
    """Return the field of a tunnel's MTU: the underlay has `overhead` bytes more. 0 leaves it to the variable."""
    return SettingField(
        "FelixConfiguration",
        f"spec.{field}",
        "calico_underlay_mtu",
        to_variable=lambda mtu: mtu + overhead if mtu else None,
        to_field=lambda mtu: mtu - overhead,
    )


def _felix(field: str, variable: str, **more: t.Any) -> SettingField:
    return SettingField("FelixConfiguration", f"spec.{field}", variable, **more)


def _bgp(field: str, variable: str, **more: t.Any) -> SettingField:
    return SettingField("BGPConfiguration", f"spec.{field}", variable, **more)


def _node(path: str, variable: str) -> SettingField:
    return SettingField("Node", path, variable, of_node=True)


FIELDS: tuple[SettingField, ...] = (
    _bgp("asNumber", "calico_bgp_as_number"),
    _bgp("nodeToNodeMeshEnabled", "calico_bgp_node_to_node_mesh"),
    _bgp("listenPort", "calico_bgp_listen_port"),
    _bgp("logSeverityScreen", "calico_bgp_log_severity"),
    _bgp("bindMode", "calico_bgp_bind_mode"),
    _bgp("communities", "calico_bgp_communities"),
    _bgp("prefixAdvertisements", "calico_bgp_prefix_advertisements"),
    _bgp("nodeMeshPassword", "calico_bgp_mesh_password"),
    _bgp("nodeMeshMaxRestartTime", "calico_bgp_mesh_max_restart_time", to_variable=_seconds, to_field=_of_seconds),
    _bgp("ignoredInterfaces", "calico_bgp_ignored_interfaces"),
    _bgp("listenPort", "calico_node_bgp_listen_port", of_node=True),
    _bgp("prefixAdvertisements", "calico_node_bgp_prefix_advertisements", of_node=True),
    _felix("defaultEndpointToHostAction", "calico_default_endpoint_to_host_action"),
    _felix("iptablesFilterAllowAction", "calico_iptables_filter_allow_action"),
    _felix("iptablesFilterDenyAction", "calico_iptables_filter_deny_action"),
    _felix("failsafeInboundHostPorts", "calico_failsafe_inbound_host_ports", to_field=_ports),
    _felix("failsafeOutboundHostPorts", "calico_failsafe_outbound_host_ports", to_field=_ports),
    _felix("iptablesMarkMask", "calico_iptables_mark_mask"),
    _felix("disableConntrackInvalidCheck", "calico_disable_conntrack_invalid_check"),
    _felix("allowVXLANPacketsFromWorkloads", "calico_allow_vxlan_packets_from_workloads"),
    _felix("allowIPIPPacketsFromWorkloads", "calico_allow_ipip_packets_from_workloads"),
    _felix("natOutgoingExclusions", "calico_nat_outgoing_exclusions"),
    _felix("vxlanVNI", "calico_vxlan_vni"),
    _felix("vxlanPort", "calico_vxlan_port"),
    _mtu("ipipMTU", 20),
    _mtu("vxlanMTU", 50),
    _mtu("vxlanMTUV6", 70),
    _node("metadata.labels", "calico_node_labels"),
    _node("spec.bgp.ipv4Address", "calico_node_address"),
    _node("spec.bgp.ipv6Address", "calico_node_address_ipv6"),
    _node("spec.bgp.asNumber", "calico_node_bgp_as_number"),
    _node("spec.bgp.routeReflectorClusterID", "calico_node_route_reflector_cluster_id"),
)


def fields_of(kind: str, of_node: bool) -> tuple[SettingField, ...]:
    """Return the fields of a kind that have variables, those of nodes or those of the fleet."""
    return tuple(one for one in FIELDS if (one.kind, one.of_node) == (kind, of_node))


def document_of(kind: str, name: str, values: t.Mapping[str, t.Any], of_node: bool = False) -> Document:
    """Return the document of settings that has the values of variables, by name; a None counts as missing."""
    document: Document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": {}}
    for field in fields_of(kind, of_node):
        value = values.get(field.variable)
        if value is not None:
            set_value(document, field.path, field.to_field(value))
    return document


def value_at(document: t.Any, path: str) -> t.Any:
    """Return the value at a path of field names in a document, None if there is none."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, t.Mapping) else None
    return document


def set_value(document: Document, path: str, value: t.Any) -> None:
    """Set the value at a path of field names in a document, with the mappings that lead there."""
    *outer, last = path.split(".")
    for name in outer:
        document = document.setdefault(name, {})
    document[last] = value
