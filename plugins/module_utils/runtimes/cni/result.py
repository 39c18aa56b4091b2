# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of the CNI specification (section 5, "ADD Success"), each in the form of its own version.

A result is the previous plugin's result with ours added. Nothing of it is lost but its version, and its
references to interfaces by index stay right.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ...base.addresses import GATEWAY, GATEWAY6, family_of
from ...dataplane.drivers.workload import wanted_routes
from ...dataplane.kernel.port import METRIC_IPV6
from ...state.attachment import AttachedWorkload
from ...state.node_state import VethEndpoint
from ...wire.plugin_errors import INVALID_CONFIGURATION, CniError
from ..json_input import is_deeper, shown
from . import versions
from .configuration import Document

_DEPTH = 50  # the most levels of nesting in a prevResult; a result of the specification has five
_LISTS = ("interfaces", "ips", "routes")


def added(workload: AttachedWorkload, version: str, previous: t.Optional[Document], dns: Document) -> dict[str, t.Any]:
    """Return the CNI result of ADD, a JSON object: `previous` with the workload's interfaces, addresses and routes.

    None counts as an empty `previous`. `cniVersion` becomes `version`; `dns` is added if `previous` has none or an
    empty one. Before version 0.3.0 no interfaces are added, and addresses and routes are in `ip4` and `ip6`. Raise
    CniError if `previous` is malformed or, before 0.3.0, has an address of the same IP version already.
    """
    if not versions.with_interfaces(version):
        return _before_interfaces(workload, version, previous, dns)
    result: dict[str, t.Any] = {**checked(previous or {}), "cniVersion": version}
    first = len(result["interfaces"])
    result["interfaces"] = [*result["interfaces"], *_interfaces(workload, version)]
    result["ips"] = [*result["ips"], *_addresses(workload, version, first + 1)]
    result["routes"] = [*result["routes"], *_routes(workload, version)]
    result["dns"] = result.get("dns") or dict(dns)
    return result


def checked(previous: Document) -> dict[str, t.Any]:
    """Return a copy of a `prevResult` in which `interfaces`, `ips` and `routes` are lists of objects, maybe empty.

    Raise CniError if one is no such list, an address refers to an interface that does not exist, or the object has more
    than 50 levels.
    """
    if is_deeper(previous, _DEPTH):
        raise CniError(
            INVALID_CONFIGURATION,
            f"prevResult has more than {_DEPTH} levels",
            "It is the result of the plugin before this one in the chain, see section 5 of the CNI specification.",
        )
    result = dict(previous)
    for field in _LISTS:
        entries = result.get(field)
        if entries is None:
            entries = []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise CniError(
                INVALID_CONFIGURATION,
                f"prevResult.{field} is not a list of objects",
                "It is the result of the plugin before this one in the chain, see section 5 of the CNI specification.",
            )
        result[field] = entries
    for index, entry in enumerate(result["ips"]):
        interface = entry.get("interface")
        if interface is not None and (
            not isinstance(interface, int)
            or isinstance(interface, bool)
            or not 0 <= interface < len(result["interfaces"])
        ):
            raise CniError(
                INVALID_CONFIGURATION,
                f"prevResult.ips[{index}].interface {shown(interface)} is not an interface of prevResult",
                f"It has {len(result['interfaces'])}, counted from 0.",
            )
    return result


def interface_index(result: Document, ifname: str, sandbox: str) -> t.Optional[int]:
    """Return the first position of `ifname` in namespace `sandbox` in the interfaces of a `checked` result, or None."""
    for index, entry in enumerate(result["interfaces"]):
        if entry.get("name") == ifname and entry.get("sandbox") == sandbox:
            return index
    return None


def has_host_end(result: Document, interface: str) -> bool:
    """Return whether a checked result has the interface `interface` on the host, which is without a sandbox."""
    return any(entry.get("name") == interface and not entry.get("sandbox") for entry in result["interfaces"])


def addresses_at(result: Document, index: int) -> set[str]:
    """Return the addresses of the interface with this index in a checked result, without prefix lengths.

    An entry of `ips` without an address gives "".
    """
    return {
        str(entry.get("address", "")).partition("/")[0] for entry in result["ips"] if entry.get("interface") == index
    }


def _interfaces(workload: AttachedWorkload, version: str) -> list[dict[str, t.Any]]:
    host: dict[str, t.Any] = {"name": workload.interface}
    inside: dict[str, t.Any] = {"name": workload.peer_interface}
    if workload.mac:
        inside["mac"] = workload.mac
    if workload.mtu and versions.with_mtu(version):
        host["mtu"] = inside["mtu"] = workload.mtu
    return [host, {**inside, "sandbox": workload.netns}]


def _addresses(workload: AttachedWorkload, version: str, interface: int) -> list[dict[str, t.Any]]:
    """Return the entries of `ips` for the workload; `interface` is the index of its inner interface.

    Each has `address`, with /32 or /128, and `interface`; before version 1.0.0 also `version`, "4" or "6". Like
    Calico's, they have no gateway: the workload's gateway is no address of its subnet.
    """
    entries: list[dict[str, t.Any]] = []
    for text in workload.addresses:
        address = ipaddress.ip_address(text)
        entry: dict[str, t.Any] = {"address": f"{address}/{address.max_prefixlen}", "interface": interface}
        if versions.with_family(version):
            entry = {"version": str(address.version), **entry}
        entries.append(entry)
    return entries


def _routes(workload: AttachedWorkload, version: str) -> list[dict[str, t.Any]]:
    """Return the entries of `routes`: the routes in the container, which dataplane/drivers/workload.py writes.

    Each has `dst`, and `gw` if it has a gateway. From version 1.1.0 on it also has `scope` if that is not 0, and
    `priority` if the metric is not the kernel's default (0, and 1024 for IPv6).
    """
    interface = VethEndpoint(
        workload.name,
        workload.interface,
        next((text for text in workload.addresses if family_of(text) == 4), ""),
        0,
        "",
        peer_interface=workload.peer_interface,
        netns_owned=False,
        address6=next((text for text in workload.addresses if family_of(text) == 6), ""),
    )
    routes = []
    for destination, through in wanted_routes(interface).items():
        route: dict[str, t.Any] = {"dst": destination}
        if through.gateway:
            route["gw"] = through.gateway
        if versions.with_mtu(version):
            if through.scope:
                route["scope"] = through.scope
            if through.metric not in (0, METRIC_IPV6):
                route["priority"] = through.metric
        routes.append(route)
    return routes


def _before_interfaces(
    workload: AttachedWorkload, version: str, previous: t.Optional[Document], dns: Document
) -> dict[str, t.Any]:
    """Return the result of ADD in version 0.1.0 or 0.2.0 of CNI, which allows one address for each IP version.

    It is `previous`, otherwise unchecked, with `ip4` and `ip6`: objects of `ip`, the address with /32 or /128, and
    `routes`, the default route.
    """
    result: dict[str, t.Any] = {**(previous or {}), "cniVersion": version}
    for text in workload.addresses:
        address = ipaddress.ip_address(text)
        field = f"ip{address.version}"
        if field in result:
            raise CniError(
                INVALID_CONFIGURATION,
                f"cniVersion {version} has room for one IPv{address.version} address, and prevResult has one already",
                "Use 0.3.1 or a later version in the network configuration.",
            )
        result[field] = {"ip": f"{address}/{address.max_prefixlen}"}
        default, gateway = ("0.0.0.0/0", GATEWAY) if address.version == 4 else ("::/0", GATEWAY6)
        result[field]["routes"] = [{"dst": default, "gw": gateway}]
    result["dns"] = result.get("dns") or dict(dns)
    return result
