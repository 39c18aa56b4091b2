# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, addresses, namespaces and folders of the lab. Nothing here creates or changes any of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STATE_ROOT = Path("/run/host-routing-lab")
CACHE_ROOT = Path(os.environ.get("HOST_ROUTING_LAB_CACHE") or "/var/cache/host-routing-lab")
DEFAULT_NAME = os.environ.get("HOST_ROUTING_LAB") or "lab"

UNDERLAY_MTU = 1500
CONTROL_NET = (
    "192.168.200"  # begins all management addresses; .1 is the control namespace, .254 is outside an emulated machine
)
OUTSIDE_ADDRESS = "192.0.2.10"
OUTSIDE_ROUTER = "192.0.2.1"
RACKS = {1: "10.10.1", 2: "10.10.2"}
# The beginnings of the IPv6 addresses in each subnet. A host's last number is the same as in its IPv4 address.
RACKS_IPV6 = {rack: f"fd00:10:10:{rack}::" for rack in RACKS}
OUTSIDE_NET_IPV6 = "fd00:192:0:2::"
ROUTER_AS = 65000
# The beginnings of the addresses between the top-of-rack switches, in a lab that has switches.
SPINE_NET = "10.10.255"
SPINE_NET_IPV6 = "fd00:10:10:ff::"


@dataclass(frozen=True)
class Node:
    """One host: ``number`` determines its management address and MAC, ``rack`` its subnet, both its MAC there.

    ``address`` is its IPv4 address in the subnet. ``release`` is Debian's name, "bookworm", "trixie" or "forky".
    """

    name: str
    number: int
    rack: int
    address: str
    release: str

    @property
    def gateway(self) -> str:
        return RACKS[self.rack] + ".1"

    @property
    def address6(self) -> str:
        return RACKS_IPV6[self.rack] + self.address.rpartition(".")[2]

    @property
    def gateway6(self) -> str:
        return RACKS_IPV6[self.rack] + "1"

    @property
    def control_address(self) -> str:
        return f"{CONTROL_NET}.{10 + self.number}"

    @property
    def mac(self) -> str:
        return f"02:10:00:00:0{self.rack}:{self.number:02x}"

    @property
    def control_mac(self) -> str:
        return f"02:20:00:00:00:{self.number:02x}"


def _node(number: int, rack: int, last: int, release: str = "") -> Node:
    release = release or ("bookworm" if number % 2 else "trixie")
    return Node(f"node{number}", number, rack, f"{RACKS[rack]}.{last}", release)


# node5 and node6 are spares (a third host of each subnet) for tests that add a host to a running fleet. node7 has
# Debian testing, and no suite starts it: that release changes every day.
NODES = {
    node.name: node
    for node in (
        *(_node(1, 1, 11), _node(2, 1, 12), _node(3, 2, 11), _node(4, 2, 12), _node(5, 1, 13), _node(6, 2, 13)),
        _node(7, 1, 14, "forky"),
    )
}
DEFAULT_HOSTS = ("node1", "node2", "node3", "node4")


@dataclass(frozen=True)
class Tor:
    """A top-of-rack switch, one of two in a rack.

    It speaks BGP (FRR) with the hosts of its rack and the switches of other racks. The two switches of a rack share an
    AS number and have no session with each other.
    """

    name: str
    rack: int
    number: int  # 1 or 2, within the rack

    @property
    def address(self) -> str:
        """The switch's IPv4 address in the rack's subnet, without a prefix length."""
        return f"{RACKS[self.rack]}.{1 + self.number}"

    @property
    def spine_address(self) -> str:
        return f"{SPINE_NET}.{10 * self.rack + self.number}"

    @property
    def address6(self) -> str:
        return f"{RACKS_IPV6[self.rack]}{1 + self.number}"

    @property
    def spine_address6(self) -> str:
        return f"{SPINE_NET_IPV6}{10 * self.rack + self.number}"

    @property
    def as_number(self) -> int:
        return 65100 + self.rack


TORS = {tor.name: tor for tor in (Tor("tor1a", 1, 1), Tor("tor1b", 1, 2), Tor("tor2a", 2, 1), Tor("tor2b", 2, 2))}


class LabError(Exception):
    """An error of the lab; its text tells the user what failed and, where known, what helps."""


@dataclass(frozen=True)
class Places:
    """Folders and namespaces of the lab called ``name``.

    A name has up to 20 of a-z, 0-9 and "-", beginning with a letter; any other raises LabError.
    """

    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", self.name):
            raise LabError(f"Lab name {self.name!r}: up to 20 of a-z, 0-9 and '-', beginning with a letter.")

    @property
    def state(self) -> Path:
        """The folder of keys, ssh_config, process ids and logs."""
        return STATE_ROOT / self.name

    @property
    def work(self) -> Path:
        """The folder of what the hosts write: the upper halves of their overlays."""
        return CACHE_ROOT / "labs" / self.name

    def netns(self, who: str) -> str:
        return f"{self.name}-{who}"

    @property
    def ssh_config(self) -> Path:
        return self.state / "ssh_config"

    @property
    def cgroups(self) -> list[Path]:
        """The lab's folder in each mounted cgroup hierarchy that systemd needs (two on a hybrid machine).

        The folders need not exist.
        """
        top = Path("/sys/fs/cgroup")
        roots = [top] if (top / "cgroup.controllers").exists() else [top / "systemd", top / "unified"]
        return [root / "host-routing-lab" / self.name for root in roots if root.is_dir()]


def pick(names: str | Sequence[str] | None) -> list[Node]:
    """Return the nodes called ``names``, in the lab's order.

    `names` is a list, or one string with commas; None, "" and an empty list mean the usual four. Raise LabError for an
    unknown name.
    """
    wanted = list(DEFAULT_HOSTS) if not names else names.split(",") if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in NODES]
    if unknown:
        raise LabError(f"The lab has no host {unknown[0]!r}; it has {', '.join(NODES)}.")
    return [node for node in NODES.values() if node.name in wanted]
