# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node on the proof of paths: forged packets between two others, and what it says it heard."""

from __future__ import annotations

import random
import socket
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import directions, probed
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import icmp as packets
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_loss

from tests.integration.attacks import hostile_answers as answers
from tests.integration.dataplane.probe_hosts import ENDPOINT, SECRET, Hosts, two_hosts

LIAR = "node3"
ADDRESSES = {"node1": "10.244.1.63", "node2": "10.244.2.63", LIAR: "10.244.3.63"}


@pytest.fixture
def hosts() -> t.Iterator[Hosts]:
    with two_hosts() as made:
        yield made


def _ip(source: str, destination: str, message: bytes) -> bytes:
    head = (
        bytes([0x45, 0]) + (20 + len(message)).to_bytes(2, "big") + bytes([0, 0, 0, 0, 64, socket.IPPROTO_ICMP, 0, 0])
    )
    return head + packets.packed(source) + packets.packed(destination) + message


def test_a_node_proves_no_path_of_two_others(hosts: Hosts) -> None:
    """Answer probes between two other nodes in the name of one of them, with the run's secret, from beside their path.

    Gain: A path that is dead counts as proven.
    Precedent: CWE-290, CWE-345.
    Closed: 0.3.0
    Result: No answer counts, because it lacks the 8 bytes that the probing process alone put into its packet.
    """
    own, other = ENDPOINT[4]
    hosts.tables(4, "host2", "-P FORWARD DROP")
    ended = threading.Event()
    chance = random.Random(1)

    def forge() -> int:
        count = 0
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
            while not ended.is_set():
                run, sequence = chance.randbytes(8), count % 9
                tag = packets.Signature(SECRET, run).tag(packets.packed(own), packets.packed(other), sequence)
                payload = packets.ProbePayload(run, 0, sequence, time.monotonic(), tag)
                request = packets.request(packets.ICMP, payload, 120)
                reply = bytes([packets.ICMP.reply, 0, 0, 0]) + request[4:]
                reply = reply[:2] + packets.checksum(reply).to_bytes(2, "big") + reply[4:]
                sock.sendto(_ip(other, own, reply), (own, 0))
                count += 1
                time.sleep(0.001)
        return count

    sent: list[int] = []
    thread = threading.Thread(target=lambda: sent.append(hosts.there("router", forge)))
    thread.start()
    found = hosts.probe(4, attempts=3)
    ended.set()
    thread.join(60)
    assert sent[0] > 500, "the attack did not take place"
    assert (found.received, found.reason) == (0, "no answer")


def honest() -> dict[str, t.Any]:
    """Return the answers of three nodes, whose paths between node1 and node2 are silent in one direction."""
    found = {}
    for number, name in enumerate(ADDRESSES):
        answer = answers.probes()
        entry = answer["targets"][0]
        answer["targets"] = [
            {**entry, "name": other, "address": ADDRESSES[other], "source": ADDRESSES[name], "heard": 9}
            for other in ADDRESSES
            if other != name
        ]
        answer["window"] = directions.window({"began": 0.1, "ended": 4.9, "total": 5.0}, number, number + 5.5)
        found[name] = answer
    silent = found["node1"]["targets"][0]
    silent.update(received=0, lost=silent["sent"], reason="no answer")
    return found


def test_a_node_says_nothing_about_the_paths_of_two_others() -> None:
    """Claim what was heard, by whom and when, and why probes were lost, in an answer changed at random places.

    Gain: A failed path between two other nodes counts as proven, or gets another reason or direction.
    Precedent: CWE-20, CWE-345.
    Closed: 0.3.0
    Result: All that is said of the paths between the others is the same. An answer of other types is refused, and a
    reason is one of a closed list.
    """
    chance = random.Random(7)
    expected = [path for path in probed.probed(honest()) if LIAR not in (path.host, path.other)]
    assert [str(path.loss.direction) for path in expected if path.loss is not None] == [path_loss.BACK]
    refused = 0
    for dummy in range(300):
        said = honest()
        try:
            said[LIAR] = results.PROBES(answers.tampered(said[LIAR], chance))
        except Unreadable:
            refused += 1
            continue
        found = probed.probed(said)
        assert [path for path in found if path.host in ("node1", "node2") and path.other != LIAR] == expected
        assert all(path.loss is None or path.loss.reason in path_loss.REASONS for path in found)
    assert 0 < refused < 300
