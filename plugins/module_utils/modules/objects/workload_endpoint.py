# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module workload_endpoint attaches a network namespace to the host, or detaches it."""

from __future__ import annotations

import typing as t

from ...base import naming
from ...dataplane.drivers import route, sysctl, workload
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning.plan import Part
from ...state.attachment import (
    OF_PROBES,
    endpoint_routes,
    endpoint_sysctls,
    reserved_for_probes,
)
from ...state.node_state import VethEndpoint
from .. import standalone_module
from ..module_call import ModuleCall
from .address_option import kernel_text


def endpoint_of(params: t.Mapping[str, t.Any]) -> VethEndpoint:
    interface = params["interface"] or naming.interface_name(params["namespace"], params["name"])
    netns = params["netns"] or params["name"]
    reserved = reserved_for_probes(params["namespace"], params["name"], netns, interface)
    if reserved:
        value = {"netns": netns, "interface": interface}.get(reserved, f"{params['namespace']}/{params['name']}")
        raise ValueError(f"{reserved}: {value} {OF_PROBES} Choose another one.")
    return VethEndpoint(
        name=params["name"],
        interface=naming.check_device_name(interface, "interface"),
        address=_address(params, "address", 4, "172.19.1.2"),
        address6=_address(params, "address_ipv6", 6, "fd00:19::2"),
        mtu=params["mtu"],
        pool="",
        namespace=params["namespace"],
        netns=netns,
        peer_interface=naming.check_device_name(params["peer_interface"], "peer_interface"),
    )


def _address(params: t.Mapping[str, t.Any], option: str, family: int, example: str) -> str:
    """Return the option's address as the kernel writes it, "" without one. `family` is its IP version, 4 or 6."""
    if not params[option]:
        return ""
    try:
        return kernel_text(params[option], family)
    except ValueError:
        text = f"{option}: {params[option]} is not an IPv{family} address. Write it as {example}."
        raise ValueError(text) from None


def steps(params: t.Mapping[str, t.Any], kernel: Kernel) -> list[Part]:
    endpoint = endpoint_of(params)
    found = workload.observe(kernel, [endpoint])
    if params["state"] == "absent":
        name = workload.identity(endpoint)
        gone = {key: have for key, have in workload.observe(kernel, []).items() if key == name}
        links = {have.link.name for have in gone.values() if have.link is not None}
        routes = {key: have for key, have in route.observe(kernel, []).items() if have.device in links}
        return [Part(workload, workload.diff([], gone)), Part(route, route.diff([], routes))]
    pairs = workload.diff([endpoint], {endpoint.interface: found[endpoint.interface]})
    made = [Part(workload, pairs)]
    anew = workload.recreated(pairs)
    settings = endpoint_sysctls(endpoint)
    if not params["routed"]:  # rp_filter protects the host, so it is set in either case
        settings = tuple(setting for setting in settings if setting.key.endswith("/rp_filter"))
    have = dict.fromkeys((setting.key for setting in settings), None) if anew else sysctl.observe(kernel, settings)
    # The drivers `workload` and `sysctl` share a stage. A new host end is set up at its end, after these settings.
    made.append(Part(sysctl, sysctl.diff(settings, have)))
    if params["routed"]:
        wanted = list(endpoint_routes(endpoint))
        routes = {key: value for key, value in route.observe(kernel, wanted).items() if value.device not in anew}
        made.append(Part(route, [c for c in route.diff(wanted, routes) if c.action != "-"]))
    return made


def run(module: ModuleCall) -> t.NoReturn:
    """Attach a network namespace to the host, or detach it, and answer as the module workload_endpoint."""
    try:
        interface = endpoint_of(module.params).interface
    except ValueError as error:
        module.fail_json(msg=str(error))
    standalone_module.run_change(module, steps, interface=interface)
