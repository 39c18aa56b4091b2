# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node: what it says about the whole fleet, or about blocks that other nodes gave up."""

from __future__ import annotations

import copy
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import addresses
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import node_info
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import pool_modes
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.integration.attacks import hostile_answers as answers
from tests.integration.attacks.node.test_another_node import NODES, inventory, lockfile_nodes
from tests.unit.fleet import fleets
from tests.unit.plugin_utils import controller

#: The role's default limits, but no session between nodes may be reset either (the default sets no limit).
LIMITS = {"session_resets": 0, "external_resets": 0, "hosts_changed": -1, "routes_withdrawn": 10}
LIAR = "node3"
DOWN = {"unreachable": True, "msg": "no route to host"}
PHASES = (
    "node3 says that it is in a change of mode, MTU, sessions or addresses, and the other nodes are not: brought to "
    "the plan without phases."
)
SESSIONS = (
    "stored state of node3 says that this run interrupts its BGP sessions, unlike those of other nodes. That needs all "
    "nodes, and node2 cannot take part. Bring back or remove nodes that are down, and run again. Nothing was changed "
    "on node3."
)

Answers = dict[str, dict[str, t.Any]]


@pytest.fixture(scope="module")
def fleet() -> dict[str, NodeState]:
    """The states of three nodes after a first run, by name."""
    nodes = {name: fleets.LAB[name] for name in NODES}
    return fleets.states(fleets.build(fleets.pool("ipip"), nodes=nodes, workloads=[]))


def lie(honest: Answers, change: t.Callable[[dict[str, t.Any]], t.Any]) -> dict[str, t.Any]:
    """Return a copy of the liar's honest answer, with its stored state changed by `change`."""
    answer = copy.deepcopy(honest[LIAR])
    change(answer["state"])
    return answer


def too_far(what: str) -> str:
    """Return a regular expression for the beginning of the refusal of a node by whose word alone a run goes too far.

    `what` is what the run would do. Group 1 is the plan's approval.
    """
    return rf"plan (\w+) needs approval because of what node3 alone says: it would {what}"


def test_a_node_alone_neither_stops_nor_changes_a_run(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Report a mode, an MTU, a phase, ending sessions or routes that no other node reports.

    Gain: No run for any node, or phases of a change for all of them, as often as the attacker likes.
    Precedent: CWE-345, CWE-400.
    Closed: 0.2.0
    Result: A report of one node affects only that node. The node goes to the plan without phases, or is left out and
    named, also while another node is down.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    peer = fleet[LIAR].bird and answers.node_info(fleet[LIAR])["state"]["bird"]["peers"][0]
    tor = {**peer, "name": "tor", "node": "", "address": "10.10.1.1", "kind": "external"}
    many = [f"10.244.{n}.0/26" for n in range(11)]
    theirs = [block.cidr for block in fleet["node1"].ipam.blocks]
    backup = {"destination": theirs[0], "next_hop": "10.10.1.11"}
    alone: dict[str, tuple[t.Callable[[dict[str, t.Any]], t.Any], str]] = {
        "mode": (lambda state: [pool.update(encapsulation="VXLAN") for pool in state["pools"]], PHASES),
        "phase": (lambda state: state.update(phase="flip"), PHASES),
        "MTU": (lambda state: state.update(underlay_mtu=9000), PHASES),
        "backups": (lambda state: state["bird"].update(backups=[backup]), PHASES),
        "blocks": (lambda state: state["bird"]["blocks"].extend(many), too_far("withdraw 11 routes")),
        "router": (lambda state: state["bird"]["peers"].append(tor), f"{too_far('reset 1 session')}|{SESSIONS}"),
        "BGP": (lambda state: state.update(bird=None), "stored state of node3 says that it runs without BGP,"),
        "peer": (
            lambda state: state["bird"]["peers"].append({**tor, "address": "\x1b[2J"}),
            "stored state of node3 cannot be read: bird.peers address is '.x1b.2J', no single address",
        ),
    }
    runs, names = [], []
    for name, (change, dummy) in alone.items():
        for down in (False, True):
            registered = {host: {"seen": answer} for host, answer in honest.items()}
            registered[LIAR] = {"seen": lie(honest, change)}
            if down:
                registered["node2"] = {"seen": DOWN}
            folder = inventory(tmp_path / f"{name} {down}")
            runs.append(controller.Run("fleet", {"observed": "seen", "limits": LIMITS}, folder, registered))
            names.append(name)
    for name, result in zip(names, controller.run(runs)):
        assert "exception" not in result, result["exception"]
        assert not result.get("failed"), (name, result)
        assert (result["change"], result["hold"], result["modes"]) == (False, False, {"default": "ipip"}), name
        words = alone[name][1]
        assert any(re.match(words, line) for line in result["warnings"]), (name, result["warnings"])
    honest_nodes = lockfile_nodes(tmp_path / "mode False")
    for folder in tmp_path.iterdir():
        assert lockfile_nodes(folder) == honest_nodes, folder


def test_a_node_that_says_that_its_sessions_end_stops_no_run_while_another_is_down(
    tmp_path: pathlib.Path, fleet: dict[str, NodeState]
) -> None:
    """Report changed BGP sessions, so that all nodes would have to take part, while one of them is down.

    Gain: No run for any node while another one is down.
    Precedent: CWE-400.
    Closed: 0.2.0
    Result: The node is left out and named, with the nodes that cannot take part. The others go on.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    lying = lie(honest, lambda state: state["bird"].update(hold_time=33))
    seen = {"node1": {"seen": honest["node1"]}, "node2": {"seen": DOWN}, LIAR: {"seen": lying}}
    (result,) = controller.run([controller.Run("fleet", {"observed": "seen"}, inventory(tmp_path / "a"), seen)])
    assert "exception" not in result, result["exception"]
    assert (result.get("failed"), result["change"], result["hold"]) == (None, False, False), result
    assert SESSIONS in result["warnings"]


NO_MODES: dict[str, tuple[str, bool]] = {
    "no tunnel across subnets": ("", True),
    "tunnel of the other family": ("vxlan-v6.calico", False),
}


@pytest.mark.parametrize(("device", "cross_subnet"), NO_MODES.values(), ids=NO_MODES)
def test_a_mode_that_there_is_not_gets_into_no_lockfile(
    tmp_path: pathlib.Path, fleet: dict[str, NodeState], device: str, cross_subnet: bool
) -> None:
    """Report that BIRD runs a pool in a mode that does not exist, in a run of this node or of all nodes.

    Gain: A lockfile that no run can read, or an error that ends the run for all nodes.
    Precedent: CWE-20, CWE-400.
    Closed: 0.2.0
    Result: The node is left out and named, and the lockfile stays as before.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    way = {"device": device, "cross_subnet": cross_subnet}
    lying = lie(honest, lambda state: [pool.update(way) for pool in state["bird"]["pools"]])
    everyone = {**{name: {"seen": answer} for name, answer in honest.items()}, LIAR: {"seen": lying}}
    limited, whole, observed = (inventory(tmp_path / name) for name in ("limited", "whole", "observed"))
    before = (tmp_path / "whole" / ".calico.lock.yml").read_text()
    results = controller.run(
        [
            controller.Run("fleet", {"observed": "seen"}, limited, {LIAR: {"seen": lying}}),
            controller.Run("fleet", {"observed": "seen"}, whole, everyone),
            controller.Run("fleet", {"observed": "seen", "as_observed": True}, observed, everyone),
        ]
    )
    for result, folder in zip(results, ("limited", "whole", "observed")):
        assert "exception" not in result, result["exception"]
        assert not result.get("failed"), result
        assert (tmp_path / folder / ".calico.lock.yml").read_text() == before
        assert len(result["warnings"]) == 1, result["warnings"]
        assert result["warnings"][0].startswith("stored state of node3 cannot be read: bird.pools "), result["warnings"]


def test_a_tunnel_address_of_the_other_ip_version_gets_into_no_lockfile(
    tmp_path: pathlib.Path, fleet: dict[str, NodeState]
) -> None:
    """Claim an IPv4 address of its own block for its IPv6 tunnel, in a copy that is newer than the lockfile.

    Gain: A lockfile that no run can read, so that every run ends for all nodes.
    Precedent: CWE-20, CWE-400.
    Closed: 0.2.0
    Result: The node is left out and named, and the lockfile stays as before.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    own = addresses.parse_cidr(fleet[LIAR].ipam.blocks[0].cidr)
    assert own is not None
    address = addresses.Address(own.version, own.network + 9).text

    def claim(state: dict[str, t.Any]) -> None:
        state["ipam"]["generation"] += 1
        state["ipam"]["tunnels"]["vxlan6"] = address

    everyone = {**{name: {"seen": answer} for name, answer in honest.items()}, LIAR: {"seen": lie(honest, claim)}}
    limited, whole = (inventory(tmp_path / name) for name in ("limited", "whole"))
    before = (tmp_path / "whole" / ".calico.lock.yml").read_text()
    results = controller.run(
        [
            controller.Run("fleet", {"observed": "seen"}, limited, {LIAR: everyone[LIAR]}),
            controller.Run("fleet", {"observed": "seen"}, whole, everyone),
        ]
    )
    for result, folder in zip(results, ("limited", "whole")):
        assert "exception" not in result, result["exception"]
        assert not result.get("failed"), result
        assert (tmp_path / folder / ".calico.lock.yml").read_text() == before
        assert result["warnings"] == [
            f"stored state of node3 cannot be read: ipam.tunnels vxlan6 is {address}, no IPv6 address. It was written "
            "by another release of this collection: use that release, or remove /var/lib/calico/state.json on the node "
            "if its workloads may be planned anew."
        ]


def test_an_impact_reported_by_one_node_alone_passes_with_approval(
    tmp_path: pathlib.Path, fleet: dict[str, NodeState]
) -> None:
    """Be left out although its report is true and the change wanted: it withdraws more routes than the limit.

    Gain: A node that no run changes any more.
    Precedent: None known.
    Closed: 0.2.0
    Result: The refusal names a hash for `-e approve=HASH`. With it the run changes this node, too, and a check only
    warns.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    lying = lie(honest, lambda state: state["bird"]["blocks"].extend(f"10.244.{n}.0/26" for n in range(11)))
    seen = {**{host: {"seen": answer} for host, answer in honest.items()}, LIAR: {"seen": lying}}
    hosts_file = inventory(tmp_path / "one")
    arguments = {"observed": "seen", "limits": LIMITS}
    refused, checked = controller.run(
        [
            controller.Run("fleet", arguments, hosts_file, seen),
            controller.Run("fleet", arguments, hosts_file, seen, check_mode=True),
        ]
    )
    (words,) = refused["warnings"]
    match = re.match(too_far("withdraw 11 routes"), words)
    assert match is not None
    assert words == (
        f"plan {match.group(1)} needs approval because of what node3 alone says: it would "
        "withdraw 11 routes and calico_node_max_routes_withdrawn is 10 (10.244.0.0/26, 10.244.1.0/26, 10.244.10.0/26 "
        f"and 8 more). Look at it with --check --diff. If it is what you want, run it with -e "
        f"approve={match.group(1)}. Nothing was changed on node3."
    )
    assert (checked["approval"], checked["warnings"]) == (match.group(1), [words])
    (approved,) = controller.run([controller.Run("fleet", {**arguments, "approve": match.group(1)}, hosts_file, seen)])
    assert (approved.get("failed"), approved["warnings"], approved["approval"]) == (None, [], match.group(1))


def test_most_nodes_are_believed(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Report no change while the honest nodes report a real change.

    Gain: Nodes change the mode without the phases that prevent packet loss.
    Precedent: CWE-345.
    Closed: 0.2.0
    Result: If most nodes report a change, all nodes go through its phases, and an exceeded limit stops the whole run.
    """
    nodes = {name: fleets.LAB[name] for name in NODES}
    before = fleets.states(fleets.build(fleets.pool("vxlan"), nodes=nodes, workloads=[], bgp_as_number=64999))
    seen = {name: {"seen": answers.node_info(state)} for name, state in before.items()}
    seen[LIAR] = {"seen": answers.node_info(fleet[LIAR])}
    hosts_file = inventory(tmp_path / "one")
    stopped, allowed = controller.run(
        [
            controller.Run("fleet", {"observed": "seen", "limits": LIMITS}, hosts_file, seen),
            controller.Run("fleet", {"observed": "seen"}, hosts_file, seen),
        ]
    )
    assert stopped["failed"] and "it would reset 3 sessions" in stopped["msg"]
    assert (allowed["change"], allowed["hold"], allowed["warnings"]) == (True, True, [])


def test_a_node_does_not_inherit_from_nodes_without_a_copy(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Claim all blocks of newly installed nodes, with a generation that makes the lockfile look old.

    Gain: The blocks of these nodes, and so their traffic.
    Precedent: CWE-345.
    Closed: 0.2.0
    Result: Without a second witness the lockfile decides: the claims are left out, and the run goes on. If the lockfile
    is lost and an honest node claims its block, the run stops and writes nothing.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    claims = [
        {"cidr": block.cidr, "pool": "default"}
        for name in ("node1", "node2")
        for block in (*fleet[name].ipam.blocks, *fleet[name].ipam.spare_blocks)
    ]

    def greedy(state: dict[str, t.Any]) -> None:
        state["ipam"]["blocks"].extend(claims)
        state["ipam"]["generation"] += 1

    lying = {"seen": lie(honest, greedy)}
    empty = {"seen": {**honest["node1"], "state": None}}
    newer = {"seen": copy.deepcopy(honest["node1"])}
    newer["seen"]["state"]["ipam"]["generation"] += 1
    cases = {
        "alone": {"node1": empty, "node2": empty, LIAR: lying},
        "one honest": {"node1": {"seen": honest["node1"]}, "node2": empty, LIAR: lying},
        "old lockfile": {"node1": newer, "node2": empty, LIAR: lying},
    }
    arguments = {"observed": "seen"}
    runs = [controller.Run("fleet", arguments, inventory(tmp_path / name), seen) for name, seen in cases.items()]
    before = {name: lockfile_nodes(tmp_path / name) for name in cases}
    rebuilt = inventory(tmp_path / "lost lockfile", with_lockfile=False)
    *found, stopped = controller.run([*runs, controller.Run("fleet", arguments, rebuilt, cases["one honest"])])
    for name, result in zip(cases, found):
        assert "exception" not in result, result["exception"]
        assert not result.get("failed"), (name, result)
        assert any(
            line.startswith("node3: block ") and " it belongs to node2 in " in line for line in result["warnings"]
        )
        assert lockfile_nodes(tmp_path / name) == before[name], name
    block = fleet["node1"].ipam.blocks[0].cidr
    assert stopped["failed"] is True
    assert stopped["msg"].startswith(f"block {block} is claimed by node1 (generation 1) and by node3 (generation 2).")
    assert not (tmp_path / "lost lockfile" / ".calico.lock.yml").exists()


def test_a_rebuild_stops_where_a_route_contradicts_a_claim(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Claim the block of a node that has no copy of its part of the plan, while the lockfile is lost.

    Gain: The block, through the plan that is rebuilt from the nodes' answers.
    Precedent: CWE-345.
    Closed: 0.2.0
    Result: A third node has a route to the owner. The run stops, names both nodes and the block, and writes nothing.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    block = fleet["node2"].ipam.blocks[0].cidr
    claim = {"cidr": block, "pool": "default"}
    lying = lie(honest, lambda state: state["ipam"]["blocks"].append(claim))
    seen = {
        "node1": {"seen": honest["node1"]},
        "node2": {"seen": {**honest["node2"], "state": None}},
        LIAR: {"seen": lying},
    }
    hosts_file = inventory(tmp_path / "one", with_lockfile=False)
    (stopped,) = controller.run([controller.Run("fleet", {"observed": "seen"}, hosts_file, seen)])
    assert stopped["msg"] == (
        f"block {block} is claimed by node3 (generation 1), and node1 (generation 1) has a route to node2 for it, "
        "which has no copy. If node3 shall keep it, set calico_rebuild_lockfile: true for one run. Else stop what uses "
        "its addresses on node3, delete /var/lib/calico there, and run again."
    )
    assert not (tmp_path / "one" / ".calico.lock.yml").exists()


def test_a_node_alone_does_not_change_a_rollback(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Keep a generation with another mode and a pool that no other node has, and wait for a rollback to it.

    Gain: Phases of a change for all nodes, and a mode that the lockfile records for the whole fleet.
    Precedent: CWE-345.
    Closed: 0.2.0
    Result: The others roll back as with an honest node, and the lockfile gets the modes on which they agree.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    theirs = {**answers.node_info(fleet[LIAR])["state"]["pools"][0], "name": "theirs", "cidr": "10.99.0.0/16"}

    def kept(state: dict[str, t.Any]) -> None:
        state["pools"].append(theirs)
        state["pools"][0]["encapsulation"] = "VXLAN"

    seen = {name: {"seen": answer, "kept": {"generation": answer}} for name, answer in honest.items()}
    lying = {**seen, LIAR: {"seen": honest[LIAR], "kept": {"generation": lie(honest, kept)}}}
    arguments = {"observed": "seen", "restore": "kept"}
    first, second = controller.run(
        [
            controller.Run("fleet", arguments, inventory(tmp_path / name), registered)
            for name, registered in (("honest", seen), ("lying", lying))
        ]
    )
    assert "exception" not in first and "exception" not in second, (first, second)
    assert (first["change"], first["hold"], first["modes"]) == (False, False, {"default": "ipip"})
    assert (second["change"], second["hold"], second["modes"]) == (False, False, {"default": "ipip"})
    generations = [(name, answer["kept"]["generation"]["state"]) for name, answer in lying.items()]
    states = [node_info.stored_state(name, state) for name, state in generations]
    assert pool_modes.modes_of_most(states) == {"default": "IPIP"}  # the modes that a rollback records
