# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network of podman: what it may ask for, and the command create.

A network need not come from `podman network create`: the role writes its file. setup therefore checks it again.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.typed_json import anything, flag, items, maybe, maybe_table
from ..attachment import NETWORK_RULE, is_network_name
from ..json_input import shown
from . import options
from .fields import ENTRIES_LIMIT, TEXT, TEXT_MAP, TEXTS, Document, NetavarkError, read
from .options import Options

#: IP versions of a network with `ipv6_enabled`. Without it, the pools decide.
_BOTH = (4, 6)
_NO_IPAM = "none"
NETWORK = maybe_table(
    {
        "name": TEXT,
        "subnets": maybe(items(anything, ENTRIES_LIMIT), []),
        "ipam_options": maybe_table({"driver": TEXT}),
        "internal": anything,
        "routes": anything,
        "network_interface": anything,
        "options": TEXT_MAP,
        "network_dns_servers": TEXTS,
        "ipv6_enabled": maybe(flag, False),
    }
)


@dataclasses.dataclass(frozen=True)
class PodmanNetwork:
    """A network of podman with the driver calico; `families` are the IP versions that it asks for, () for none."""

    name: str
    families: tuple[int, ...]
    options: Options


def check_name(name: str, where: str = "network.") -> None:
    """Raise NetavarkError unless a network's name is 1 to 64 letters, digits, "_", "." and "-"."""
    if not is_network_name(name):
        raise NetavarkError(f"{where}name {shown(name)} is not the name of a network", NETWORK_RULE)


def checked(fields: Document, where: str = "network.") -> PodmanNetwork:
    """Return the network in `fields`, which NETWORK has read. Errors have `where` in front of a field's name.

    Raise NetavarkError if it asks for something that the agent does not do.
    """
    name = fields["name"]
    check_name(name, where)
    if fields["subnets"]:
        raise NetavarkError(
            f"the network {name} has a subnet, a gateway or an address range of its own",
            "The agent gives addresses of the node's blocks: create the network without --subnet, --gateway and "
            "--ip-range. Choose pools with -o pool=NAME, or one container's address with podman run --ip.",
        )
    ipam = fields["ipam_options"]["driver"]
    if ipam not in ("", _NO_IPAM):
        raise NetavarkError(
            f"the network {name} has the IPAM driver {shown(ipam)}",
            "The agent gives the addresses: use --ipam-driver none, or leave it out.",
        )
    for field, option, remedy in _REFUSED:
        if fields[field]:
            raise NetavarkError(f"the network {name} has {option}, which is not done here", remedy)
    given = options.read(fields["options"], f"{where}options", others_are_labels=False)
    servers = options.servers(f"{where}network_dns_servers", fields["network_dns_servers"])
    return PodmanNetwork(
        name,
        _BOTH if fields["ipv6_enabled"] else (),
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


def create(document: Document) -> dict[str, t.Any]:
    """Return the network as podman is to store it. Raise NetavarkError if it cannot be.

    No names are served by aardvark-dns and no addresses given by podman. Name servers become the option `dns`, because
    podman refuses them in a network without aardvark-dns.
    """
    fields = read(NETWORK, document)
    network = checked(fields, "")
    stored = {**document, "dns_enabled": False, "ipam_options": {"driver": _NO_IPAM}, "options": {**fields["options"]}}
    if stored.pop("network_dns_servers", None):
        stored["options"][options.DNS] = ",".join(network.options.dns)
    return stored
