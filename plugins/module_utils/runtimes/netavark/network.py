# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network of podman: what it may ask for, and the command create.

A network need not come from `podman network create`: the role writes its file. setup therefore checks it again.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..attachment import NETWORK_RULE, is_network_name
from ..json_input import shown
from . import options
from .fields import NetavarkError, SentFields
from .options import Options

#: IP versions of a network with `ipv6_enabled`. Without it, the pools decide.
_BOTH = (4, 6)
_NO_IPAM = "none"


@dataclasses.dataclass(frozen=True)
class PodmanNetwork:
    """A network of podman with the driver calico; `families` are the IP versions that it asks for, () for none."""

    name: str
    families: tuple[int, ...]
    options: Options


def name_of(fields: SentFields) -> str:
    """Return the network's name: 1 to 64 letters, digits, "_", "." and "-". Raise NetavarkError for another one."""
    name = fields.text("name")
    if not is_network_name(name):
        raise NetavarkError(f"{fields.named('name')} {shown(name)} is not the name of a network", NETWORK_RULE)
    return name


def read(fields: SentFields) -> PodmanNetwork:
    """Return the network in `fields`. Raise NetavarkError if it asks for something that the agent does not do."""
    name = name_of(fields)
    if fields.objects("subnets"):
        raise NetavarkError(
            f"the network {name} has a subnet, a gateway or an address range of its own",
            "The agent gives addresses of the node's blocks: create the network without --subnet, --gateway and "
            "--ip-range. Choose pools with -o pool=NAME, or one container's address with podman run --ip.",
        )
    ipam = fields.inner("ipam_options").text("driver")
    if ipam not in ("", _NO_IPAM):
        raise NetavarkError(
            f"the network {name} has the IPAM driver {shown(ipam)}",
            "The agent gives the addresses: use --ipam-driver none, or leave it out.",
        )
    for field, option, remedy in _REFUSED:
        value = fields.document.get(field)
        if value:
            raise NetavarkError(f"the network {name} has {option}, which is not done here", remedy)
    given = options.read(fields, "options", others_are_labels=False)
    servers = options.servers(fields.named("network_dns_servers"), fields.texts("network_dns_servers"))
    return PodmanNetwork(
        name,
        _BOTH if fields.flag("ipv6_enabled") else (),
        dataclasses.replace(given, dns=given.dns or servers),
    )


#: (field, option of podman, remedy) of what no network can have
_REFUSED = (
    ("internal", "--internal", "Leave it out, and deny what leaves the network by policy (docs/how-to/policy.md)."),
    ("routes", "--route", "Leave it out: containers reach everything by one default route."),
    (
        "network_interface",
        "--interface-name",
        "Leave it out: there is no bridge, each container has a link of its own.",
    ),
)


def create(fields: SentFields) -> dict[str, t.Any]:
    """Return the network as podman is to store it. Raise NetavarkError if it cannot be.

    No names are served by aardvark-dns and no addresses given by podman. Name servers become the option `dns`, because
    podman refuses them in a network without aardvark-dns.
    """
    network = read(fields)
    stored = {**fields.document, "dns_enabled": False, "ipam_options": {"driver": _NO_IPAM}}
    stored["options"] = fields.text_map("options")
    if stored.pop("network_dns_servers", None):
        stored["options"][options.DNS] = ",".join(network.options.dns)
    return stored
