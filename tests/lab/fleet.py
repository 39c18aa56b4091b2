# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of a converged lab, and traffic between all its nodes, for tests and the demo."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection
from dataclasses import dataclass

from .handle import BaseLab
from .measure.streams import Stream, Transfer

POOL = "default-ipv4-ippool"
#: Packets per second of a stream in tests with many Ansible runs, since runs and streams share two processors.
SPARING = 200


@dataclass(frozen=True)
class Workload:
    """A network namespace ``name`` on ``node``; others reach it at ``address``, through the host's ``interface``."""

    name: str
    node: str
    address: str
    interface: str


def workloads(lab: BaseLab, names: Collection[str] | None = None) -> list[Workload]:
    """Return the inventory's workloads, node by node, as the nodes have stored them; the address is the IPv4 one.

    `names` are the hosts that are nodes, None for all hosts. The address is "" for a workload with IPv6 alone. Raise
    CommandFailed if a node is off or has no stored state.
    """
    found = []
    for node in lab.nodes:
        if names is not None and node.name not in names:
            continue
        state = json.loads(lab.exec(node.name, ["cat", "/var/lib/calico/state.json"]).stdout)
        for entry in state["state"]["workloads"]:
            found.append(Workload(entry["name"], node.name, entry["address"], entry["interface"]))
    return found


def mesh_of_streams(lab: BaseLab, found: list[Workload], pps: float = 500) -> list[Stream | Transfer]:
    """Return UDP and TCP streams between the lab's nodes with workloads in `found`, in the lab's order of nodes.

    Only the first workload of each node is used. UDP with small or full-size packets runs both ways between all pairs
    of nodes, and from each host to the workload of the next node. TCP runs from the workload and from the host of each
    of the first two nodes to the next node: in the usual lab within a subnet and between two. `pps` is the packets per
    second of each UDP stream.

    In the emulated machine a stream of 500 packets per second takes a quarter of a processor. There a UDP stream runs
    from the first node to the third, and at a fifth of the rate one back and one from the second node's host to the
    first. One TCP transfer runs from the first to the third. Raise IndexError there for fewer than three nodes.
    """
    first: dict[str, Workload] = {}
    for workload in found:
        first.setdefault(workload.node, workload)
    names = [node.name for node in lab.nodes if node.name in first]
    if lab.machine != "native":
        return _one_of_each_kind(first[names[0]], first[names[1]], first[names[2]], pps)
    streams: list[Stream | Transfer] = []
    for index, source in enumerate(names):
        for offset in range(1, len(names)):
            size = 64 if (index + offset) % 2 else "full"
            streams.append(_stream(first[source], first[names[(index + offset) % len(names)]], size, pps))
        target = first[names[(index + 1) % len(names)]]
        streams.append(_stream(first[source], target, "full" if index % 2 else 64, pps, host=True))
        if index < 2:
            streams.append(Transfer(source, first[source].name, target.node, target.name, target.address))
            streams.append(Transfer(source, None, target.node, target.name, target.address))
    return streams


def _one_of_each_kind(one: Workload, neighbour: Workload, far: Workload, pps: float) -> list[Stream | Transfer]:
    return [
        _stream(one, far, "full", pps),
        _stream(far, one, 64, pps / 5),
        _stream(neighbour, one, 64, pps / 5, host=True),
        Transfer(one.node, one.name, far.node, far.name, far.address, rate=20_000),
    ]


def _stream(source: Workload, target: Workload, size: int | str, pps: float, host: bool = False) -> Stream:
    """Return a UDP stream from the workload `source`, or from its host if `host` is true, to the workload `target`.

    `size` and `pps` are as in Stream.
    """
    return Stream(source.node, None if host else source.name, target.node, target.name, target.address, size, pps)


def no_way_around(lab: BaseLab, state: str = "replace") -> None:
    """Make every node refuse packets to blocks of 10.244.0.0/16 for which it has no route of its own.

    Otherwise the default route takes such packets to the lab's router, which may know their block, and a route that is
    missing for a moment is not seen. `state` is a verb of `ip route`: "del" removes the refusal, and raises
    CommandFailed where there is none. So does every verb if a node is off.
    """
    for node in lab.nodes:
        lab.exec(node.name, ["ip", "route", state, "unreachable", "10.244.0.0/16", "proto", "static"])


def ping(lab: BaseLab, where: str, address: str, netns: str | None = None, size: int = 56) -> bool:
    """Return whether `address` answers at least one of two pings, each within 2 seconds.

    They come from the host `where`, or from its namespace `netns`. The first one may be lost while a neighbour's
    address is resolved. `size` is the payload in bytes.
    """
    command = ["ping", "-q", "-c", "2", "-i", "0.2", "-W", "2", "-s", str(size), address]
    return lab.exec(where, command, netns=netns, check=False).returncode == 0


def kernel_has_ipip() -> bool:
    """Return whether this kernel can create IPIP devices.

    It is tried in a network namespace that ends with the attempt. Without root the result is False.
    """
    command = ["unshare", "--net", "ip", "link", "add", "probe0", "type", "ipip", "remote", "192.0.2.1"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
