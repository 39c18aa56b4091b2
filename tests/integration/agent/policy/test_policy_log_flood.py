# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a workload that floods the policy log with denied packets, by the kernel's NFLOG to a real agent."""

from __future__ import annotations

import re
import socket
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log import policy_log

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import CLOSED, OPEN, add, inside, policed, web

FLOWS = 50_000
FIRST = 10_000  # the lowest port of the flood
GROWTH = 8 * 1024  # KiB by which the agent's memory may grow in a flood


@pytest.fixture
def flooded(stopped_daemon: Daemon) -> t.Iterator[tuple[Daemon, socket.socket, str]]:
    """An agent with policy, a UDP socket of the workload client, and the address of web."""
    daemon = stopped_daemon
    daemon.desire(policed(web(OPEN)))
    daemon.start()
    add(daemon, "client")
    address = add(daemon, "web")
    daemon.in_sync()
    with inside(daemon, "client", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender:
        # Until the neighbour is resolved, the kernel keeps few of the packets that are sent.
        daemon.until(lambda: _heard(daemon, sender, address), "denied packets are logged")
        yield daemon, sender, address


def _heard(daemon: Daemon, sender: socket.socket, address: str) -> bool:
    sender.sendto(b"", (address, CLOSED))
    return bool(daemon.call("policy.drops")["drops"])


def _counted(daemon: Daemon) -> int:
    """Return the number of packets that the log counts: in entries, without an entry, and lost before they reached it.

    It is correct as long as no entry was dropped for lack of room.
    """
    found = daemon.call("policy.drops")
    return sum(drop["packets"] for drop in found["drops"]) + found["unlisted"] + found["lost"]


def _flood(sender: socket.socket, address: str, ports: int, turns: int) -> int:
    """Send `turns` empty datagrams, to `ports` ports from FIRST on in turn; return `turns`."""
    for number in range(turns):
        sender.sendto(b"", (address, FIRST + number % ports))
    return turns


def _all_are_read(daemon: Daemon, sender: socket.socket, address: str) -> None:
    """Send packets to the port CLOSED + 1 until the log has one among its last five entries.

    The agent has then read the packets that were logged before. Raise AssertionError after 30 seconds.
    """
    daemon.until(lambda: _heard_at(daemon, sender, address, CLOSED + 1), "the flood is over")


def _heard_at(daemon: Daemon, sender: socket.socket, address: str, port: int) -> bool:
    sender.sendto(b"", (address, port))
    return any(drop["destination_port"] == port for drop in daemon.call("policy.drops")["drops"][-5:])


def _denied(daemon: Daemon) -> int:
    """Return the number of IPv4 packets that rules have handed to the log, by the kernel's own counters.

    Raise AssertionError if iptables-save fails.
    """
    done = daemon.kernel.run(["iptables-save", "-c"])
    assert done.code == 0, done.errors
    return sum(int(found) for found in re.findall(r"^\[(\d+):\d+\] .* -j NFLOG", done.output, re.MULTILINE))


def test_a_flood_of_one_kind_is_counted_packet_by_packet(flooded: tuple[Daemon, socket.socket, str]) -> None:
    daemon, sender, address = flooded
    memory = daemon.memory()
    _flood(sender, address, 10, FLOWS)

    def all_are_counted() -> bool:
        _flood(sender, address, 1, 1)  # the record of this packet shows how many records before it were lost
        time.sleep(0.2)
        return _counted(daemon) == _denied(daemon)

    daemon.until(all_are_counted, "every denied packet is counted")
    assert _denied(daemon) > FLOWS // 10
    assert daemon.memory() - memory < GROWTH


def test_a_flood_of_new_flows_fills_neither_memory_nor_log(flooded: tuple[Daemon, socket.socket, str]) -> None:
    daemon, sender, address = flooded
    memory, log = daemon.memory(), daemon.log.stat().st_size
    for dummy in range(3):
        _flood(sender, address, FLOWS, FLOWS)
    _all_are_read(daemon, sender, address)
    found = daemon.call("policy.drops")
    assert len(found["drops"]) <= policy_log.ROOM
    assert found["unlisted"] + found["lost"] > FLOWS
    assert found["unlisted"] > 0
    assert daemon.memory() - memory < GROWTH
    # After the flood the agent still adds a workload, and brings the node in sync.
    add(daemon, "another")
    daemon.in_sync()
    said = daemon.log.read_bytes()[log:].decode()
    assert "Traceback" not in said and len(said.splitlines()) < 20, said
