# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of a converged lab, and traffic between all of them, for tests and the demo."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from .handle import BaseLab
from .measure.streams import Stream, Transfer

POOL = "default-ipv4-ippool"
#: Packets per second of a stream in tests with many runs, which share two processors with the streams.
SPARING = 200


@dataclass(frozen=True)
class Workload:
    """A network namespace ``name`` on ``node``; others reach it at ``address``."""

    name: str
    node: str
    address: str
    interface: str


def workloads(lab: BaseLab) -> list[Workload]:
    """Return the workloads that the nodes have stored in their state."""
    found = []
    for node in lab.nodes:
        state = json.loads(lab.exec(node.name, ["cat", "/var/lib/calico/state.json"]).stdout)
        for entry in state["state"]["workloads"]:
            found.append(Workload(entry["name"], node.name, entry["address"], entry["interface"]))
    return found


def mesh_of_streams(lab: BaseLab, found: list[Workload], pps: float = 500) -> list[Stream | Transfer]:
    """Return streams that cover all kinds of paths between `found`.

    UDP with small and full-size packets runs both ways between workloads of all pairs of nodes, and from hosts to
    workloads. TCP runs between nodes of one subnet and of two. `pps` is packets per second and stream.

    In the emulated machine a stream of 500 packets per second takes a quarter of a processor. That machine gets one
    stream of each kind: between two subnets in both directions, and from a neighbour's host, the latter at a fifth of
    the rate.
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
    """Return a UDP stream from the workload `source`, or from its host if `host` is true."""
    return Stream(source.node, None if host else source.name, target.node, target.name, target.address, size, pps)


def no_way_around(lab: BaseLab, state: str = "replace") -> None:
    """Make every node drop packets to a block for which it has no route.

    Without this, the default route takes such packets to the lab's router, which knows all blocks, and a route that is
    missing for a moment is not seen. `state` is a verb of `ip route`: "del" undoes it.
    """
    for node in lab.nodes:
        lab.exec(node.name, ["ip", "route", state, "unreachable", "10.244.0.0/16", "proto", "static"])


def ping(lab: BaseLab, where: str, address: str, netns: str | None = None, size: int = 56) -> bool:
    """Return whether `address` answers one of two pings.

    The first ping may wait for a neighbour's address to be resolved. `size` is the payload in bytes.
    """
    command = ["ping", "-q", "-c", "2", "-i", "0.2", "-W", "2", "-s", str(size), address]
    return lab.exec(where, command, netns=netns, check=False).returncode == 0


def kernel_has_ipip() -> bool:
    """Return whether this kernel can create IPIP devices.

    It is tried in a network namespace that goes away afterwards.
    """
    command = ["unshare", "--net", "ip", "link", "add", "probe0", "type", "ipip", "remote", "192.0.2.1"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
