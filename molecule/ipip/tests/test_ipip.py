# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mesh of three nodes in two subnets; one pool over IPIP always, one across subnets alone.

The router receives no route from the nodes, and forwards packets of the pools only inside IPIP.
"""

from __future__ import annotations

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Fleet, Pool
from tests.lab.suite_converged import *  # noqa: F403

POOLS = (
    Pool("always", "10.244.0.0/17", "ipip", nat_outgoing=True),
    Pool("crosssubnet", "10.244.128.0/17", "ipip-crosssubnet"),
)
WORKLOADS = {
    "web-1": ("node1", "always"),
    "web-2": ("node2", "always"),
    "web-3": ("node3", "always"),
    "db-1": ("node1", "crosssubnet"),
    "db-2": ("node2", "crosssubnet"),
    "db-3": ("node3", "crosssubnet"),
}

_PORT = 9753
#: A program that prints the text of each UDP datagram to _PORT until it is stopped.
_LISTENER = f"""
import socket, sys
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
made.bind(("", {_PORT}))
print("listening", file=sys.stderr, flush=True)
while True:
    print(made.recv(100).decode(), flush=True)
"""
#: A program that sends five packets in IPIP. Its arguments are outer destination, inner source, inner destination and
#: text. The kernel makes the outer header.
_SENDER = f"""
import socket, struct, sys
outer, source, destination, text = sys.argv[1:]
udp = struct.pack("!HHHH", 9000, {_PORT}, 8 + len(text), 0) + text.encode()
header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0)
header += socket.inet_aton(source) + socket.inet_aton(destination)
total = sum(struct.unpack("!10H", header))
while total >> 16:
    total = (total & 0xFFFF) + (total >> 16)
header = header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]
made = socket.socket(socket.AF_INET, socket.SOCK_RAW, 4)
for _ in range(5):
    try:
        made.sendto(header + udp, (outer, 0))
    except OSError:  # the host may refuse it at once
        pass
"""


@pytest.mark.parametrize("attacker", ["a host outside of the fleet", "a workload"])
def test_ipip_is_unpacked_from_fleet_nodes_alone(fleet: Fleet, lab: BaseLab, attacker: str) -> None:
    """A packet in IPIP reaches a workload if a node of the fleet sends it, and not if `attacker` does."""
    found = {one["name"]: (node, one) for node in fleet.nodes.values() for one in node.workloads}
    (here, target), (there, sender) = found["web-1"], found["web-2"]
    outer = here.node.address
    listener = lab.background(here.name, ["python3", "-u", "-c", _LISTENER], netns=target["netns"])
    try:
        listener.wait_for(b"listening")

        def send(where: str, text: str, netns: str | None = None) -> None:
            words = ["python3", "-c", _SENDER, outer, sender["address"], target["address"], text]
            lab.exec(where, words, netns=netns, check=False)

        if attacker == "a workload":
            send(there.name, "forged", sender["netns"])
        else:
            send("outside", "forged")
        send(there.name, "by-the-fleet")
        listener.join(3 * lab.patience)
    finally:
        received = listener.stop().decode().split()
    assert "by-the-fleet" in received, "what a node of the fleet sends arrives"
    assert "forged" not in received
