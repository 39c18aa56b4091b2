# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of podman and Docker that forge packets with the capabilities that these engines give, and receivers."""

from __future__ import annotations

import ipaddress
import itertools
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.integration.attacks import forged_packets as forged
from tests.lab.handle import BaseLab, Program
from tests.lab.topology import NODES, OUTSIDE_ADDRESS, OUTSIDE_NET_IPV6

#: The MAC address of the host's end of each container's interface.
HOST_MAC = "ee:ee:ee:ee:ee:ee"
PORT = 4747
#: Sends the frames that stdin has, one a line in hex, by eth0.
SEND = """
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("eth0", 0))
for line in sys.stdin:
    link.send(bytes.fromhex(line))
"""
#: Writes the labels of packets that arrive to the file argv[2]: at the port PORT (argv[1] is "host"), or all by eth0.
RECEIVE = """
import re, socket, sys
# A container has the socket as well: otherwise errors would quote what it gets.
link = answering = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
answering.bind(("::", PORT))
if sys.argv[1] != "host":
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind(("eth0", 3))
with open(sys.argv[2], "w", buffering=1) as seen:
    print("ready", file=sys.stderr, flush=True)
    while True:
        data, sender = link.recvfrom(4096)
        if link is answering or sender[2] != socket.PACKET_OUTGOING:
            for label in re.findall(rb"<([a-z0-9/.:-]+)>", data):
                print(label.decode(), file=seen)
""".replace("PORT", str(PORT))
#: The folders of the host by which a container has its Python.
PYTHON = "-v /usr:/usr:ro -v /usr/lib:/lib:ro -v /usr/lib64:/lib64:ro"


@dataclass(frozen=True)
class Engine:
    """A way to start a container that may forge packets: words for sh, with {name} and {team}."""

    name: str
    nodes: tuple[str, ...]
    start: str
    inside: str
    pid: str


_PODMAN = "podman run -d --name {{name}} --network {} --cap-add {} {} --rootfs /srv/box /bin/sleep 100000"
_DOCKER = "docker run -d --name {{name}} --network name=both,driver-opt=team={{team}} {} {} box /bin/sleep 100000"


def _podman(node: str, network: str, more: str) -> Engine:
    """Return podman of a host; without NET_RAW, which its default lacks, no container can forge a packet."""
    start = _PODMAN.format(network, more, PYTHON)
    if ":" not in network:
        start = f"id=$({start}) && calicoctl workload label calico.$id.eth0 team={{team}}"
    return Engine(
        f"podman with {more}", (node,), start, "podman exec -i {name}", "podman inspect -f '{{{{.State.Pid}}}}' {name}"
    )


def _docker(more: str) -> Engine:
    return Engine(
        f"Docker {more}".strip(),
        ("node1", "node4"),
        _DOCKER.format(more, PYTHON),
        "docker exec -i {name}",
        "docker inspect -f '{{{{.State.Pid}}}}' {name}",
    )


ENGINES = (
    *(_podman("node1", "calico", more) for more in ("NET_RAW", "NET_RAW,NET_ADMIN")),
    *(_podman("node4", "calico:team={team}", more) for more in ("NET_RAW", "NET_RAW,NET_ADMIN")),
    *(_docker(more) for more in ("", "--cap-add NET_ADMIN")),
)


@dataclass(frozen=True)
class Box:
    """A container; `addresses` are its IPv4 and IPv6 address, `interface` is the host's end, `pid` its process."""

    node: str
    name: str
    engine: Engine
    addresses: tuple[str, ...]
    interface: str
    pid: int

    @property
    def label(self) -> str:
        """A name that no container of another host has."""
        return f"{self.node}-{self.name}"

    def claim(self, lab: BaseLab, others: Sequence[Box]) -> None:
        """Claim the addresses of others of this host by ARP, neighbour discovery and, if it may, on its interface."""
        if "NET_ADMIN" in self.engine.name:
            addresses = [f"{one}/{128 if ':' in one else 32}" for other in others for one in other.addresses]
            commands = " && ".join(f"ip address add {one} dev eth0" for one in addresses)
            lab.exec(self.node, f"{self.engine.inside.format(name=self.name)} /bin/sh -c {shlex.quote(commands)}")
        self.send(lab, list(claims(others)))

    def send(self, lab: BaseLab, frames: Iterable[bytes]) -> None:
        """Send frames from inside the container. Raise CommandFailed if it may not."""
        command = f"{self.engine.inside.format(name=self.name)} /usr/bin/python3 -I -c {shlex.quote(SEND)}"
        lab.exec(self.node, command, input="".join(f"{frame.hex()}\n" for frame in frames))


class Receivers:
    """Programs that write down the labels of packets that arrive in namespaces and at hosts."""

    def __init__(self, lab: BaseLab) -> None:
        self._lab = lab
        self._programs: dict[str, tuple[str, Program]] = {}

    def start(self, node: str, name: str, pid: int = 0) -> None:
        """Start one in the network namespace of a process, or at the host's own sockets for 0."""
        enter = ["nsenter", "-n", "-t", str(pid)] if pid else []
        where = "eth0" if pid else "host"
        words = [*enter, "python3", "-I", "-c", RECEIVE, where, f"/run/seen-{name}"]
        self._programs[name] = (node, self._lab.background(node, words))
        self._programs[name][1].wait_for(b"ready")

    def seen(self) -> dict[str, set[str]]:
        """Return {name: labels} of what has arrived until now."""
        return {
            name: set(self._lab.exec(node, ["cat", f"/run/seen-{name}"]).stdout.split())
            for name, (node, _program) in self._programs.items()
        }

    def stop(self) -> None:
        for _node, program in self._programs.values():
            program.stop()


def labelled(label: str, source: str, target: str) -> bytes:
    """Return a frame to the host with a datagram whose payload is a label."""
    body = forged.udp(source, target, 40000, PORT, f"<{label}>".encode())
    return forged.ethernet(forged.ip(source, target, forged.UDP, body), destination=HOST_MAC)


def priority_tagged(frame: bytes) -> bytes:
    """Return a frame with a tag of VLAN 0, which a host without VLANs takes as one without a tag."""
    return frame[:12] + b"\x81\x00\x00\x00" + frame[12:]


def forged_frames(box: Box, others: Sequence[Box]) -> Iterator[bytes]:
    """Yield datagrams from all addresses that are not the box's, to all containers and hosts, tagged and untagged."""
    hosts = [(one.address, one.address6) for one in (NODES["node1"], NODES["node4"])]
    for version in (0, 1):
        foreign = [
            *(one.addresses[version] for one in others),
            *(pair[version] for pair in hosts),
            *(("169.254.1.1", OUTSIDE_ADDRESS, "127.0.0.1"), (f"{OUTSIDE_NET_IPV6}10", "::1"))[version],
        ]
        targets = [*(one.addresses[version] for one in others), *(pair[version] for pair in hosts)]
        for source, target in itertools.product(foreign, targets):
            if source != target:
                frame = labelled(f"{box.label}/as/{source}/to/{target}", source, target)
                yield from (frame, priority_tagged(frame))


def honest_frames(box: Box, other: Box) -> dict[str, bytes]:
    """Return {label: frame} of datagrams from the box's own addresses to another one."""
    return {
        label: labelled(label, source, target)
        for source, target in zip(box.addresses, other.addresses, strict=True)
        for label in [f"{box.label}/own/{source}/to/{target}"]
    }


def claims(others: Sequence[Box]) -> Iterator[bytes]:
    """Yield ARP and neighbour discovery that claim the addresses of others at the host."""
    mac = bytes.fromhex("0200000000aa")
    for other in others:
        four, six = (ipaddress.ip_address(address).packed for address in other.addresses)
        gateway = ipaddress.ip_address("169.254.1.1").packed
        for operation, target in ((1, gateway), (1, four), (2, four), (2, gateway)):
            arp = b"\0\1\x08\0\6\4" + bytes([0, operation]) + mac + four + b"\xff" * 6 + target
            for destination in (b"\xff" * 6, bytes.fromhex(HOST_MAC.replace(":", ""))):
                yield destination + mac + b"\x08\x06" + arp
        body = b"\x20\0\0\0" + six + b"\2\1" + mac
        for source in (other.addresses[1], "fe80::aa"):
            for to, link in (("ff02::1", "33:33:00:00:00:01"), ("fe80::ecee:eeff:feee:eeee", HOST_MAC)):
                packet = forged.icmpv6(source, to, forged.NEIGHBOR_ADVERTISEMENT, body)
                yield forged.ethernet(packet, destination=link)
        solicited = forged.solicitation(other.addresses[1], "fe80::ecee:eeff:feee:eeee", mac)
        yield forged.ethernet(solicited, destination=HOST_MAC)
