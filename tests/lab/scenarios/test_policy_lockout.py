# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock-out drill: changes that cut Ansible off all nodes, and nodes that revert them by themselves."""

from __future__ import annotations

import functools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bird_sessions import changed_sessions, established_since
from tests.lab.fleet import SPARING, mesh_of_streams, no_way_around, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool
from tests.lab.measure.reachability import Reachability, reachable
from tests.lab.measure.streams import Streams

from .conftest import ROOT, Fleet, new_lab
from .inventory import pool, workload, write
from .killed_controller import kill_run, run_to_kill

NODES = ("node1", "node2", "node3", "node4")
POOL = Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan")
#: CONFIRM: seconds after which a node reverts an unconfirmed change. CUT_OFF: the most seconds that a node may be cut
#: off.
CONFIRM = 20
CUT_OFF = 60
HOST_ENDPOINTS: list[dict[str, object]] = [
    {"kind": "HostEndpoint", "name": f"{node}-all", "node": node, "interfaceName": "*", "labels": {"role": "node"}}
    for node in NODES
]
ALLOW = [{"action": "Allow"}]


def hosts_policy(*ingress: dict[str, object]) -> list[dict[str, object]]:
    return [
        *HOST_ENDPOINTS,
        {
            "kind": "GlobalNetworkPolicy",
            "name": "hosts",
            "selector": "role == 'node'",
            "ingress": [*ingress, *ALLOW],
            "egress": ALLOW,
        },
    ]


NO_SSH = hosts_policy({"action": "Deny", "protocol": "TCP", "destination": {"ports": [22]}})
NO_TELNET = hosts_policy({"action": "Deny", "protocol": "TCP", "destination": {"ports": [23]}})


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab("scenarios-lockout") as lab:
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab) -> Fleet:
    return Fleet(lab)


class Inventory:
    """An inventory that tests rewrite; `good` are the policies that the fleet has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.good = hosts_policy()
        self.path = self.write()

    def write(self, policies: list[dict[str, object]] | None = None, pools: list[Pool] | None = None) -> str:
        found = pools or [POOL]
        return write(
            self.folder,
            [pool(entry, **({"natOutgoing": True} if entry is POOL else {})) for entry in found],
            [
                *(workload(f"web-{node}", node, labels={"app": "web"}) for node in NODES),
                *(workload(f"new-{entry.name}", "node1", pool=entry.name) for entry in found if entry is not POOL),
            ],
            policies=policies or self.good,
            failsafe_inbound_host_ports=[],
        )


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory, fleet: Fleet) -> Inventory:
    made = Inventory(tmp_path_factory.mktemp("lockout"))
    fleet.site(inventory=made.path).check()
    return made


Found = dict[str, dict[str, Any]]


def what_there_is(lab: BaseLab) -> Found:
    """Return {node: its configuration}: rules, routes, sessions with their times, state and generations.

    Rules are those of iptables for IPv4, without counters. Raise CommandFailed if a node does not run, lacks its state
    or generations, or its BIRD does not answer.
    """
    found: Found = {}
    for node in NODES:
        saved = lab.exec(node, "iptables-save | grep -v '^#' | sed 's/\\[[0-9:]*\\]//'").stdout
        state = json.loads(lab.exec(node, ["cat", "/var/lib/calico/state.json"]).stdout)
        sessions = lab.exec(node, ["birdc", "-s", "/run/calico/bird.ctl", "show", "protocols"]).stdout
        found[node] = {
            "rules": saved,
            "routes": sorted(lab.exec(node, ["ip", "route"]).stdout.splitlines()),
            "sessions": established_since(sessions),
            "state": (state["state"], state["bird_config"], state["complete"]),
            "generations": lab.exec(node, ["ls", "/var/lib/calico/generations"]).stdout,
        }
    return found


def differences(before: Found, after: Found) -> list[str]:
    """Return a text for each thing that differs on a node of `before`.

    A session differs if it was interrupted, is up or is down only now.
    """
    found = []
    for node, things in before.items():
        for what, old in things.items():
            new = after[node][what]
            equal = not changed_sessions(old, new) if what == "sessions" else new == old
            if not equal:
                found.append(f"{node}: {what}: {old} is now {new}")
    return found


def back(lab: BaseLab, seconds: float = CUT_OFF) -> None:
    """Wait until no node that runs has an unconfirmed change; assert that this takes at most `seconds`."""
    deadline = time.monotonic() + seconds
    command = ["test", "-e", "/var/lib/calico/unconfirmed.json"]
    while any(lab.exec(node, command, check=False).returncode == 0 for node in NODES):
        assert time.monotonic() < deadline, "some node has not gone back"
        time.sleep(1)


def test_a_policy_that_denies_ssh_on_all_nodes_is_tried_on_one_after_approval(
    lab: BaseLab, fleet: Fleet, inventory: Inventory
) -> None:
    """Without approval the run changes nothing. With it one node goes first, alone, and goes back; the run ends."""
    before = what_there_is(lab)
    inventory.write(NO_SSH)
    planned = fleet.site("--check", "--diff", inventory=inventory.path).check()
    assert planned.output.count("    a new connection would be cut by hosts#1 (ingress, HostEndpoint node") >= 4
    refused = fleet.site(inventory=inventory.path)
    words = " ".join(refused.output.split())
    found = re.search(
        r"plan (\w{12}) needs approval: it would deny new SSH connections to 4 hosts \(node1, node2, node3, node4\): "
        r"hosts#1 \(ingress, HostEndpoint node1-all\) denies ssh from \S+ to \S+ port 22\. Look at it with --check "
        r"--diff\. If it is what you want, run it with -e approve=\1: then node1 goes first, alone, and the others "
        r"follow when a new connection has reached it\. Nothing was changed\.",
        words,
    )
    assert refused.code != 0 and found, refused.output[-6000:]
    assert found[0] in " ".join(planned.output.split())
    assert all(entry["changed"] == 0 for entry in refused.recap().values()), refused.recap()
    assert differences(before, what_there_is(lab)) == []
    options = ("-e", f"calico_node_confirm_timeout={CONFIRM}", "-e", f"approve={found[1]}")
    with Reachability(lab, NODES) as seen:
        run = fleet.site(*options, inventory=inventory.path)
        back(lab)
        time.sleep(5)  # until Reachability has tried each node once more
    assert run.code != 0
    words = " ".join(run.output.split())
    assert (
        f"node1 could not be reached by a new connection within {CONFIRM} s of the change, and went back by itself"
        " to what it had before. The plan said: a new connection like ssh from "
    ) in words, run.output[-6000:]
    assert "would be cut by hosts#1 (ingress, HostEndpoint node1-all)" in words
    assert "node1 went first, because the plan denies SSH to hosts. No other host was changed." in words
    assert {node: entry["changed"] for node, entry in run.recap().items()} == dict.fromkeys(NODES, 0) | {"node1": 1}
    for node in NODES:
        assert until(functools.partial(lambda node: reachable(lab, node), node))
        log = lab.exec(node, ["journalctl", "-t", "calico-node", "-o", "cat"]).stdout
        if node == "node1":
            assert CONFIRM / 2 < seen.silent[node] <= CUT_OFF, seen.silent
            assert "went back by itself at " in log and "would be cut by hosts#1 (ingress, HostEndpoint" in log
        else:
            assert seen.silent[node] < CONFIRM / 2, seen.silent
            assert "went back by itself" not in log
    assert differences(before, what_there_is(lab)) == []


def test_the_next_plan_says_so_and_the_mended_inventory_works(lab: BaseLab, fleet: Fleet, inventory: Inventory) -> None:
    status = fleet.play("status.yml", inventory=inventory.path)
    assert f"it was not confirmed within {CONFIRM} s" in status.output, status.output[-3000:]
    inventory.good = NO_TELNET
    inventory.write()
    run = fleet.site(inventory=inventory.path).check()
    assert "confirm  4/4 nodes answered a new connection" in run.output, run.output[-3000:]
    again = fleet.site(inventory=inventory.path).unchanged()
    assert "answered a new connection" not in again.output


def test_nodes_go_back_whose_controller_dies_and_which_are_restarted(
    lab: BaseLab, fleet: Fleet, inventory: Inventory
) -> None:
    """Nodes revert a change after their controller dies, although they or their agents restart meanwhile.

    The change is made without a plan of the fleet, which would be refused, so all nodes have it at once. The controller
    is killed two seconds later. One node loses its power before its time is over. The agent of a second one is killed,
    that of a third one restarted. All accept SSH again, and a run with the earlier inventory finds or restores their
    earlier rules, routes and state.
    """
    before = what_there_is(lab)
    inventory.write(NO_SSH)
    module = ["-m", "baremetal.host_routing.node", "-a", f"confirm_timeout={CONFIRM + 10}"]
    command = ["ansible", "-i", inventory.path, ",".join(NODES), *module]
    waits = ["test", "-e", "/var/lib/calico/unconfirmed.json"]
    with run_to_kill(command, ROOT, fleet.environment) as killed:
        # The run prints less than a pipe holds before it is killed, so that it never waits for a reader.
        assert until(lambda: not any(lab.exec(node, waits, check=False).returncode for node in NODES))
        time.sleep(2)
        kill_run(killed)
    lab.exec("node2", ["systemctl", "kill", "-s", "KILL", "calico-agent"])
    lab.exec("node3", ["systemctl", "restart", "calico-agent"])
    lab.power_cut("node1")
    began = time.monotonic()
    lab.start("node1")
    assert time.monotonic() - began < CUT_OFF
    log = lab.exec("node1", ["cat", "/var/lib/calico/went-back.json"]).stdout
    assert json.loads(log)["reason"] == "the host was restarted before it was confirmed"
    back(lab)
    assert until(lambda: all(reachable(lab, node) for node in NODES))
    inventory.write()
    fleet.site(inventory=inventory.path).check()
    after = what_there_is(lab)
    for node in NODES:
        for what in ("rules", "routes", "state"):
            assert after[node][what] == before[node][what], (node, what)


def test_a_node_that_reverts_a_switch_alone_loses_no_packet(lab: BaseLab, fleet: Fleet, inventory: Inventory) -> None:
    """A node that alone goes back from a switch loses no packet.

    It flips with the others, cannot be reached by a new connection, and returns to the phase before while the others
    stay flipped.
    """
    # The rule is in the table raw, where policy accepts nothing: in other tables, policy's chains always come first.
    closed = ["PREROUTING", "-i", "mgmt0", "-p", "tcp", "--dport", "22", "--syn", "-j", "DROP"]
    found = workloads(lab)
    no_way_around(lab)
    seen: list[str] = []

    def close() -> None:
        """Close node1's SSH port from when it flips until it has gone back; `seen` has the steps that came about.

        Give up if it does not flip within 120 seconds, or does not go back within CUT_OFF seconds.
        """
        if until(lambda: phase(lab, "node1") == ("flip", True)):
            lab.exec("node1", ["iptables", "-t", "raw", "-I", *closed])
            seen.append("closed")
            if until(lambda: phase(lab, "node1") == ("links", False), CUT_OFF):
                seen.append("went back")
            lab.exec("node1", ["iptables", "-t", "raw", "-D", *closed])

    closer = threading.Thread(target=close)
    with Streams(lab, mesh_of_streams(lab, found, SPARING)) as streams:
        closer.start()
        run = fleet.switch(
            "vxlan-crosssubnet", "-e", f"calico_node_confirm_timeout={CONFIRM}", inventory=inventory.path
        )
        closer.join()
        report = streams.stop()
    no_way_around(lab, "del")
    assert seen == ["closed", "went back"], run.output[-4000:]
    assert report.lost_by_us == 0 and report.resets == 0, report.summary()
    assert run.code != 0
    words = " ".join(run.output.split())
    assert f"node1 could not be reached by a new connection within {CONFIRM} s of the change" in words
    assert "The change of mode did not go through." in words and "4 of 4 nodes run as before." in words
    fleet.site(inventory=inventory.path).unchanged()


def test_the_detached_process_outlives_a_killed_session(lab: BaseLab, fleet: Fleet, inventory: Inventory) -> None:
    """The detached process outlives its session, even when logind kills all processes in the session's scope.

    That is what KillUserProcesses=yes does.
    """
    start = (
        "import sys; sys.path[0] = '/usr/local/lib/calico/current'; from host_routing.node.host import"
        " detached_process; detached_process.start(['sleep', '4711'])"
    )
    session = "session-4711.scope"
    script = f"""
        systemd-run --quiet --scope --slice=user.slice --unit={session} sh -c "sleep 4712 & python3 -c \\"{start}\\""
        systemctl is-active {session} && systemctl stop {session}
        sleep 1
        pgrep -ax sleep | grep 471; pkill -f 'bin/sleep 471[1]'
    """
    lines = lab.exec("node1", script).stdout.splitlines()
    assert lines[0] == "active" and len(lines) == 2 and lines[1].endswith("sleep 4711"), lines


def phase(lab: BaseLab, node: str) -> tuple[str, bool]:
    """Return the phase of a node's stored state, and whether it is unconfirmed; raise ValueError without a state."""
    script = "cat /var/lib/calico/state.json; test -e /var/lib/calico/unconfirmed.json"
    done = lab.exec(node, script, check=False)
    return json.loads(done.stdout)["state"]["phase"], done.returncode == 0


def until(condition: Callable[[], bool], seconds: float = 120) -> bool:
    """Wait at most `seconds` for the condition; return whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_route_to_where_ansible_is(lab: BaseLab, fleet: Fleet, inventory: Inventory) -> None:
    """Nodes revert a pool over the management network, which routes replies to Ansible to a workload's block."""
    before = what_there_is(lab)
    inventory.write(pools=[POOL, Pool("over-management", "192.168.200.0/24", "vxlan")])
    with Reachability(lab, NODES) as seen:
        run = fleet.site("-e", f"calico_node_confirm_timeout={CONFIRM}", inventory=inventory.path)
        back(lab)
        time.sleep(5)
    assert run.code != 0
    assert CONFIRM / 2 < max(seen.silent.values()) <= CUT_OFF, seen.silent
    assert until(lambda: all(reachable(lab, node) for node in NODES))
    words = " ".join(run.output.split())
    cut_off = [
        node
        for node in NODES
        if f"{node} could not be reached by a new connection within {CONFIRM} s of the change" in words
    ]
    assert cut_off, run.output
    # Only the block's node is cut off at once. On a busy machine, another one may be asked before BGP brings it the
    # route: it is reached, and keeps the change.
    confirmed = [node for node in NODES if node not in cut_off]
    assert all(what_there_is(lab)[node]["generations"] != before[node]["generations"] for node in confirmed)
    held = {node: before[node] for node in cut_off}
    # BIRD removes the routes that it learned during the change a moment later.
    assert until(lambda: not differences(held, what_there_is(lab)), 30), differences(held, what_there_is(lab))
