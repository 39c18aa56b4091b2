# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module route manages routes with the collection's protocol number."""

from __future__ import annotations

import ipaddress
import typing as t

from ...base.addresses import family_of
from ...dataplane import underlay
from ...dataplane.drivers import route
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning.plan import Part
from ...state.node_state import Route
from .. import standalone_module
from ..module_call import ModuleCall
from ..specs.objects import ROUTE_FIELDS
from .address_option import kernel_text


def wanted(params: t.Mapping[str, t.Any]) -> list[Route]:
    """Return the routes to make or remove, gateways in the kernel's spelling.

    They are those of the parameter `routes`, or the one that the other parameters describe if it is None. Raise
    ValueError for an invalid one, or one to make that is unicast and has neither device nor gateway.
    """
    entries = params["routes"]
    if entries is None:
        entries = [{name: params[name] for name in ROUTE_FIELDS}]
    routes = [
        Route(**{**entry, "destination": network("destination", entry["destination"]), "gateway": _gateway(entry)})
        for entry in entries
    ]
    for entry in routes if params["state"] == "present" else ():
        if entry.type == "unicast" and not entry.device and not entry.gateway:
            raise ValueError(
                f"destination {entry.destination} has neither device nor gateway, so it leads nowhere. "
                "Name one of them, or set type: blackhole."
            )
    return routes


def network(field: str, text: str) -> str:
    """Return the CIDR `text` as the kernel writes it. Raise ValueError, which names `field`, if it has host bits."""
    try:
        return str(ipaddress.IPv6Network(text) if family_of(text) == 6 else ipaddress.IPv4Network(text))
    except ValueError as error:
        version, example = ("IPv6", "fd00:10:244::40/122") if family_of(text) == 6 else ("IPv4", "10.244.3.0/26")
        raise ValueError(f"{field} {text} is not an {version} network: {error}. Write it as {example}.") from None


def _gateway(entry: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Return the gateway as the kernel writes it, or None without one."""
    text, version = entry["gateway"], family_of(entry["destination"])
    if text is None:
        return None
    try:
        return kernel_text(text, version)
    except ValueError:
        raise ValueError(
            f"gateway {text} is not an IPv{version} address, as destination {entry['destination']} needs one. "
            f"Write it as {'fd00:10:10:1::12' if version == 6 else '10.10.1.12'}."
        ) from None


def steps(params: t.Mapping[str, t.Any], kernel: Kernel) -> list[Part]:
    desired = wanted(params)
    if params["state"] == "absent":
        named = {(entry.table, entry.destination) for entry in desired}
        observed = {key: have for key, have in route.observe(kernel, []).items() if key[:2] in named}
        return [Part(route, route.diff([], observed))]
    desired = underlay.with_devices(kernel, desired)
    changes = route.diff(desired, route.observe(kernel, desired))
    return [Part(route, [change for change in changes if params["purge"] or change.action != "-"])]


def run(module: ModuleCall) -> t.NoReturn:
    """Manage routes with the collection's protocol number, and answer as the module route."""
    if module.params["purge"] and (module.params["routes"] is None or module.params["state"] == "absent"):
        module.fail_json(msg="purge needs routes and state: present. It removes whatever is not in that list.")
    standalone_module.run_change(module, steps)
