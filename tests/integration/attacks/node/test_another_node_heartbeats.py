# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node writes what it likes below its own prefix for heartbeats; the controller and calicoctl read it."""

from __future__ import annotations

import dataclasses
import json

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import exchange
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import HeartbeatStatus
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.virtual_time import run

NOW = 1_795_770_000.0
HONEST = Heartbeat("node2", NOW - 4, "0.2.0", "7f3a91", "converge", True, 0, "", 0, 1, 1, (), 2, 77, 7, True, 0.1)
CLEAR = "\x1b[2J\x1b[1;1Hnode1  4s  0.2.0\n! node2: is down\r\u202e"


def shown(*values: tuple[str, bytes]) -> list[str]:
    """Return the lines of status.yml for node1 and node2 with these more keys, as a terminal gets them."""
    etcd = FakeEtcd()
    for node in ("node1", "node2"):
        etcd.put(keys.blocks_key(node), b"{}")
    etcd.put(keys.heartbeat_key("node2"), heartbeats.encode(HONEST))
    for key, value in values:
        etcd.put(key, value)
    client = EtcdClient(etcd.members, Credentials("root", "x") if etcd.users else None)
    found, refused = heartbeats.decode_all(run(exchange.heartbeats(client)))
    lines = HeartbeatStatus(("node1", "node2"), ("node1", "node2"), found, refused, NOW).lines()
    return [terminal_text.line(line) for line in lines]


def of_node2(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if line.startswith(("node2", "! node2"))]


ALONE = of_node2(shown())


def test_a_hostile_heartbeat() -> None:
    """Write heartbeats with control characters, line breaks, 1 MB, deep nesting and wrong types.

    Gain: Forged lines in the operator's terminal, or no status of any node.
    Precedent: CWE-150 (escape sequences), CWE-117, CWE-20, CWE-770.
    Closed: 0.3.0
    Result: One line says that the node's heartbeat is left out, and why. The rows of other nodes are the same.
    """
    whole = json.loads(heartbeats.encode(HONEST))
    for value in (
        CLEAR.encode("utf-8", "surrogatepass"),
        b"x" * (1 << 20),
        b"[" * 8_000,
        b"\xff\xfe\x00",
        *(json.dumps({**whole, name: CLEAR}).encode() for name in (*whole, "paths") if name != "first_problem"),
        *(json.dumps({**whole, name: [[]]}).encode() for name in (*whole, "paths")),
    ):
        lines = shown((keys.heartbeat_key("node1"), value))
        assert lines[-4].startswith("node1   not read !") and lines[-2].startswith(
            "! node1: its heartbeat is left out: "
        )
        assert of_node2(lines) == ALONE and all(line.isprintable() for line in lines)
        assert len(lines) == 5 and max(map(len, lines)) < 400


def test_it_blames_others() -> None:
    """Report many sessions that are down, all with another node, or none that is up.

    Gain: A good node is shown as one that is down, or sessions of others that are down are not shown.
    Precedent: CWE-345 (insufficient verification of data authenticity).
    Closed: 0.3.0
    Result: The lines about the other node are the same. A session that it lost with a third node is still its own.
    """
    lost = dataclasses.replace(HONEST, sessions_total=3, sessions_established=2, sessions_down=("node3",))
    blaming = dataclasses.replace(
        HONEST, node="node1", sessions_total=40, sessions_established=0, sessions_down=("node2",) * 20 + ("node3",) * 12
    )
    for honest in (HONEST, lost):
        own = (keys.heartbeat_key("node2"), heartbeats.encode(honest))
        alone = of_node2(shown(own))
        assert of_node2(shown(own, (keys.heartbeat_key("node1"), heartbeats.encode(blaming)))) == alone
        assert len(alone) == (2 if honest is lost else 1)


def test_a_hostile_text_of_a_problem() -> None:
    """Report a problem whose text clears the terminal and continues with lines about other nodes.

    Gain: Forged reports about other nodes on the operator's screen.
    Precedent: CWE-150, CWE-117, CVE-2021-42574 (text that changes its own direction).
    Closed: 0.3.0
    Result: The text is one line behind the node's own name, of at most 200 characters, with control characters shown.
    """
    hostile = dataclasses.replace(HONEST, node="node1", problems=1, first_problem=CLEAR)
    lines = shown((keys.heartbeat_key("node1"), heartbeats.encode(hostile)))
    assert of_node2(lines) == ALONE and len(lines) == 5
    assert lines[3] == ("! node1: \\x1b[2J\\x1b[1;1Hnode1  4s  0.2.0\\n! node2: is down\\r\\u202e.")


def test_keys_below_its_prefix_that_are_no_heartbeats() -> None:
    """Write many keys below its own prefix, some of them with the name of another node.

    Gain: A heartbeat that counts as another node's.
    Precedent: CWE-290 (spoofing), CWE-22.
    Closed: 0.3.0
    Result: Only one key of each node is its heartbeat. All others are skipped, whatever their names are.
    """
    prefix = keys.heartbeats_of("node1")
    lie = heartbeats.encode(dataclasses.replace(HONEST, in_sync=False, problems=9))
    names = ("../node2/agent", "agent/", "agent/../../node2/agent", "\x1b[2J", "node2", "agent\x00", "")
    lines = shown(*((f"{prefix}{name}", lie) for name in names))
    assert of_node2(lines) == ALONE and lines[1].startswith("node1   never !")


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300) | st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists).map(
    lambda value: json.dumps({**json.loads(heartbeats.encode(HONEST)), "first_problem": value, "plan": value}).encode()
))  # fmt: skip
def test_heartbeats_at_random(value: bytes) -> None:
    """Write heartbeats of random bytes, and heartbeats with random values in their fields.

    Gain: An error that ends the status for all.
    Precedent: CWE-20, CWE-755.
    Closed: 0.3.0
    Result: The status of the other nodes is the same, and each line can be printed.
    """
    lines = shown((keys.heartbeat_key("node1"), value))
    assert of_node2(lines) == ALONE and all(line.isprintable() for line in lines)
