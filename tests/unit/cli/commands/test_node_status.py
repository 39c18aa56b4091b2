# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl node status`: Calico's table for any BIRD, and an exit status that shows whether all sessions are up."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.status import Session
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.node import node_status
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import (
    PathStatus,
    PoolCounts,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import VethEndpoint

from tests.unit.cli.conftest import STATE, Node
from tests.unit.state.derived.test_path_status import STATUS as PATHS

SAMPLES = pathlib.Path(__file__).parents[2] / "bird" / "samples"
TODAY = datetime.date(2026, 11, 21)

UP = """\
Calico process is running.

IPv4 BGP status
+--------------+-------------------+-------+------------+-------------+
| PEER ADDRESS |     PEER TYPE     | STATE |   SINCE    |    INFO     |
+--------------+-------------------+-------+------------+-------------+
| 10.10.1.1    | global            | up    | 2026-01-02 | Established |
| 10.10.1.12   | node-to-node mesh | up    | 2026-01-02 | Established |
| 10.10.2.13   | node-to-node mesh | up    | 2026-01-02 | Established |
+--------------+-------------------+-------+------------+-------------+

IPv6 BGP status
No IPv6 peers found.
"""
SOME = """\
Calico process is not running.

IPv4 BGP status
+--------------+-------------------+-------+------------+-----------------------------------+
| PEER ADDRESS |     PEER TYPE     | STATE |   SINCE    |               INFO                |
+--------------+-------------------+-------+------------+-----------------------------------+
| 10.10.1.1    | global            | start | 2026-01-02 | Active Socket: Connection refused |
| 10.10.1.12   | node-to-node mesh | up    | 2026-01-02 | Established                       |
| 10.10.2.13   | node-to-node mesh | none  |            | not in BIRD's configuration       |
+--------------+-------------------+-------+------------+-----------------------------------+

IPv6 BGP status
No IPv6 peers found.
"""


def wire(text: str) -> bytes:
    """Return the bytes that BIRD sends for an answer of these lines. Raise ValueError if there are none."""
    first, *rest = text.splitlines()
    return "".join([f"1002-{first}\n", *(f" {line}\n" for line in rest), "0000 \n"]).encode()


def protocols(**states: str) -> bytes:
    """Return the bytes of BIRD's answer to `show protocols all`.

    `states` maps the name of a session, such as Mesh_10_10_1_12, to "BGP state" or to "BGP state/last error".
    """
    lines = ["Name       Proto      Table      State  Since         Info"]
    for name, words in states.items():
        state, dummy, error = words.partition("/")
        up = "up   " if state == "Established" else "start"
        lines.append(f"{name} BGP        ---        {up}  2026-01-02 07:13:29  {state}")
        lines += [f"  BGP state:          {state}", f"    Neighbor address: {name.partition('_')[2].replace('_', '.')}"]
        lines += [f"    Last error:       {error}"] if error else []
    return wire("\n".join(lines))


def test_node_status_exits_with_0_if_all_sessions_are_up(node: Node) -> None:
    node.store()
    node.agent()
    node.bird(protocols(Mesh_10_10_2_13="Established", Mesh_10_10_1_12="Established", Global_10_10_1_1="Established"))
    assert node.run("node", "status") == (0, UP, "")


WHY = (
    "\n! 10.10.1.1: nobody listens at 10.10.1.1 port 179. See that BGP runs there, on this port, and that no firewall "
    "rejects it.\n"
)


def test_node_status_exits_with_1_if_a_session_is_down(node: Node) -> None:
    node.store()
    node.bird(protocols(Mesh_10_10_1_12="Established", Global_10_10_1_1="Active/Socket: Connection refused"))
    assert node.run("node", "status") == (1, SOME + WHY, "")


def test_node_status_prints_json(node: Node) -> None:
    node.store()
    node.bird(protocols(Mesh_10_10_1_12="Established", Mesh_10_10_2_13="Established"))
    status, out, dummy = node.run("node", "status", "-o", "json")
    found = json.loads(out)
    assert (status, found["allUp"], found["agent"]) == (1, False, {"running": False})
    assert found["bgp"] == {
        "enabled": True, "running": True, "version": "2.0.12", "routerID": "10.10.1.11", "error": None,
    }  # fmt: skip
    assert [(peer["address"], peer["node"], peer["state"], peer["bgpState"]) for peer in found["peers"]] == [
        ("10.10.1.1", "", "none", ""),
        ("10.10.1.12", "node2", "up", "Established"),
        ("10.10.2.13", "node3", "up", "Established"),
    ]


@pytest.mark.parametrize("sample", ["2.0.12", "2.17.5", "3.4.0"])
def test_every_release_of_bird(node: Node, sample: str) -> None:
    """Answers of BIRD 2.0.12, 2.17.5 and 3.4.0 are shown. In them node1 was killed, and BIRD keeps its routes."""
    peers = (BirdPeer("Mesh_10_10_1_11", "10.10.1.11", 64512, "mesh"), STATE.bird.peers[2])
    node.store(dataclasses.replace(STATE, bird=dataclasses.replace(STATE.bird, peers=peers)))
    text = (SAMPLES / f"{sample}.txt").read_text()
    node.bird(wire(text[text.index("Name ") :]))
    status, out, dummy = node.run("node", "status")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("|")]
    assert status == 1
    assert [(row[0], row[1], row[2], row[4]) for row in rows[1:]] == [
        (
            "10.10.1.11",
            "node-to-node mesh",
            "start",
            "Passive Socket: Connection closed (routes kept by graceful restart)",
        ),
        ("10.10.2.13", "node-to-node mesh", "up", "Established"),
    ]


def test_no_bird(node: Node) -> None:
    node.store()
    node.agent()
    assert node.run("node", "status") == (
        1,
        "Calico process is running.\n\nIPv4 BGP status\nThe BGP backend process (BIRD) is not running.\n",
        "BIRD does not answer. Its control socket is NODE/bird.ctl: No such file or directory. "
        "See `systemctl status calico-bird.service` and its journal.\n",
    )


def test_no_bgp_in_this_fleet(node: Node) -> None:
    node.store(dataclasses.replace(STATE, bird=None))
    node.agent()
    expected = "Calico process is running.\n\nNone of the BGP backend processes (BIRD or GoBGP) are running.\n"
    assert node.run("node", "status") == (0, expected, "")


def test_a_node_alone_has_no_peers(node: Node) -> None:
    node.store(dataclasses.replace(STATE, bird=dataclasses.replace(STATE.bird, peers=())))
    node.bird(protocols())
    assert node.run("node", "status")[:2] == (
        0,
        "Calico process is not running.\n\nIPv4 BGP status\nNo IPv4 peers found.\n\n"
        "IPv6 BGP status\nNo IPv6 peers found.\n",
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-21 07:13:29", "07:13:29"),
        ("2026-11-20 07:13:29.123", "2026-11-20"),
        ("07:13:29.123", "07:13:29"),
        ("2026-11-20", "2026-11-20"),
        ("", ""),
        ("soon", "soon"),
    ],
)
def test_the_since_column_has_the_time_of_today_or_the_date(text: str, shown: str) -> None:
    assert node_status.since(text, TODAY) == shown


def test_a_protocol_that_is_not_ours() -> None:
    assert node_status.kind_of(Session("uplink", "up", "")) == "other"


ENDPOINT = VethEndpoint("probe", "caliprobe", "10.244.12.127", 1500, "default-ipv4-ippool")
PROBED = dataclasses.replace(STATE, probe_endpoint=ENDPOINT)
ALL_UP = {"Mesh_10_10_2_13": "Established", "Mesh_10_10_1_12": "Established", "Global_10_10_1_1": "Established"}


def test_paths_that_are_all_up(node: Node) -> None:
    """The paths that the agent watches follow the sessions."""
    node.store(PROBED)
    node.agent().answers["status"] = {"paths": PathStatus(True, "", (PoolCounts("web", 3, 3, 0, 0, 0, 5),)).to_dict()}
    node.bird(protocols(**ALL_UP))
    section = "\nPaths to other nodes\n3 of 3 up; each is tried within 5 s\n"
    assert node.run("node", "status") == (0, UP + section, "")


def test_a_path_that_is_down_makes_the_exit_status_1(node: Node) -> None:
    """With all sessions up, a path that is down is named with pool, pair, direction, reason and time."""
    node.store(PROBED)
    status = dataclasses.replace(PATHS, nodes=(), count_nodes=0)
    node.agent().answers["status"] = {"paths": status.to_dict()}
    node.bird(protocols(**ALL_UP))
    code, out, dummy = node.run("node", "status")
    assert (code, out.removeprefix(UP)) == (
        1,
        """
Paths to other nodes
3 of 6 up, 1 down, 1 to nodes that are down, 1 not tried yet; each is tried within 30 s
  web: 1 of 3 up, each within 5 s
  db: 2 of 3 up, each within 30 s
! node1 -> node2 in pool web: no answer, since 2026-11-29T20:00:00Z (10.244.1.7 -> 10.244.2.7, 1500 bytes)
! node1: eth0 has MTU 1400, but the fleet uses 1500: packets in VXLAN tunnels over IPv4 are fragmented: slower, not \
down. Raise its MTU, or set calico_underlay_mtu: 1400 and run playbooks/site.yml.
""",
    )
    code, out, dummy = node.run("node", "status", "-o", "json")
    assert (code, json.loads(out)["allUp"], json.loads(out)["paths"]) == (
        1,
        True,
        json.loads(json.dumps(status.to_dict())),
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "not watched: the agent does not run"),
        ({}, "not asked: the agent is of an earlier release"),
        (
            {"paths": {"watched": 3}},
            "not asked: the agent's answer cannot be used: watched is 3, not true or false",
        ),
        ({"paths": PathStatus(False, "no namespace").to_dict()}, "not watched: no namespace"),
    ],
)
def test_paths_that_are_not_watched(node: Node, answer: dict[str, object] | None, words: str) -> None:
    """Without an agent, or with one of an earlier release, the section says so, and is no problem."""
    node.store(PROBED)
    if answer is not None:
        node.agent().answers["status"] = answer
    node.bird(protocols(**ALL_UP))
    code, out, dummy = node.run("node", "status")
    assert (code, out.partition("Paths to other nodes\n")[2]) == (0, f"{words}\n")
