# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of the BGP topology, and BIRDs and controllers that die: no packet is lost meanwhile.

Streams of packets (see PPS) between workloads of all pairs of nodes, in both subnets, run over each test that
changes something.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool
from tests.lab.topology import NODES

from . import inventory
from .conftest import LAB, ROOT, Fleet, Run, new_lab, nothing_lost
from .killed_controller import ANNOUNCING, kill_run, output_until, run_to_kill

NAME = f"{LAB}-topology"
FOUR = ("node1", "node2", "node3", "node4")
POOL = Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan", nat_outgoing=True)
DIRECT = Pool("racks", "10.245.0.0/16", "direct")
SOAK = "-ecalico_node_soak_seconds=3"
BIRDC = ["birdc", "-s", "/run/calico/bird.ctl"]
NOTHING_LOST = r"soak +0 lost of [0-9,]+ probes over 12 paths since before the flip · longest gap 0\.0 ms"


class Wanted:
    """The inventory, rewritten for each change, and runs of the playbooks with it."""

    def __init__(self, lab: BaseLab, folder: Path) -> None:
        self.lab, self.folder, self.fleet = lab, folder, Fleet(lab)

    def write(self, reflectors: tuple[str, ...] = (), direct: bool = False, **variables: Any) -> str:
        """Write the inventory and return its path. With `direct`, each node has a workload in DIRECT as well."""
        entries = [inventory.workload(f"web-{name[-1]}", name) for name in FOUR]
        pools = [POOL, *([DIRECT] if direct else ())]
        entries += [inventory.workload(f"x-{name[-1]}", name, pool=DIRECT.name) for name in FOUR if direct]
        return inventory.write(
            self.folder, [*map(inventory.pool, pools)], entries, reflectors=reflectors, nodes=FOUR, **variables
        )

    def site(self, *arguments: str, reflectors: tuple[str, ...] = (), **variables: Any) -> Run:
        return self.fleet.site(SOAK, *arguments, inventory=self.write(reflectors, **variables))

    def switch(self, topology: str, *arguments: str, reflectors: tuple[str, ...] = (), **variables: Any) -> Run:
        path = self.write(reflectors, **variables)
        return self.fleet.play("switch_topology.yml", SOAK, "-e", f"topology={topology}", *arguments, inventory=path)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wanted]:
    """A running mesh of four nodes, whose inventory tests rewrite."""
    with new_lab(NAME, FOUR) as lab:
        wanted = Wanted(lab, tmp_path_factory.mktemp("topology"))
        wanted.site().check()
        yield wanted


def sessions(lab: BaseLab, node: str) -> dict[str, str]:
    """Return a node's BGP sessions as {name: the end of its line in birdc, with "Established" or the reason}.

    Raise CommandFailed if its BIRD does not answer.
    """
    lines = lab.exec(node, [*BIRDC, "show", "protocols"]).stdout.splitlines()
    return {line.split()[0]: line.split(maxsplit=6)[-1] for line in lines if " BGP " in line}


def at_rest(lab: BaseLab, kinds: dict[str, int]) -> None:
    """Assert that all sessions are Established, that their numbers match `kinds`, and that there is no backup route.

    `kinds` is {prefix of the name, Mesh or Node: number of sessions of all nodes together}. Raise CommandFailed if a
    BIRD does not answer.
    """
    found: dict[str, int] = {}
    for node in FOUR:
        for name, said in sessions(lab, node).items():
            assert "Established" in said, (node, name, said)
            kind = name.split("_")[0]
            found[kind] = found.get(kind, 0) + 1
        assert "calico_backup" not in lab.exec(node, ["cat", "/etc/calico/bird.cfg"]).stdout
    assert found == kinds


TOUR: dict[str, tuple[dict[str, object], dict[str, int], str]] = {
    "reflectors": ({"reflectors": ("node1", "node3")}, {"Mesh": 2, "Node": 8}, "5 ends"),
    "another-cluster-id": (
        {"reflectors": ("node1", "node3"), "rr_cluster_id": "244.0.0.99"},
        {"Mesh": 2, "Node": 8},
        "4 restarts: cluster id",
    ),
    "another-as-and-another-reflector": (
        {"reflectors": ("node2", "node3"), "rr_cluster_id": "244.0.0.99", "bgp_as_number": 64600},
        {"Mesh": 2, "Node": 8},
        "restarts: AS number, own AS number",
    ),
}


#: `make test` takes the first step alone: the others restart the same sessions for other reasons.
STEPS = [step if step == "reflectors" else pytest.param(step, marks=pytest.mark.soak) for step in TOUR]


@pytest.mark.parametrize("step", STEPS)
def test_the_inventory_changes_the_topology(wanted: Wanted, step: str) -> None:
    wish, kinds, said = TOUR[step]
    with nothing_lost(wanted.lab):
        run = wanted.site(**wish).check()  # type: ignore[arg-type]
    assert re.search(NOTHING_LOST, run.output), run.output[-4000:]
    assert said in run.output
    at_rest(wanted.lab, kinds)


def test_back_to_the_mesh_from_the_command_line(wanted: Wanted) -> None:
    """The command line changes the fleet back to a mesh, although the inventory still has reflectors.

    No packet is lost. In `make soak` the AS number changes as well.
    """
    with nothing_lost(wanted.lab):
        wanted.switch("mesh", reflectors=("node1", "node3")).check()
    at_rest(wanted.lab, {"Mesh": 12})


@pytest.mark.soak  # test_switches.py has the same with two new hosts
def test_new_hosts_become_the_reflectors(wanted: Wanted) -> None:
    """A run that changes the mesh to reflectors on a new host installs and starts that host, and loses no packet."""
    lab = wanted.lab
    with nothing_lost(lab):
        lab.up(["node5"])
        run = wanted.site(reflectors=("node5",)).check()
    assert re.search(NOTHING_LOST, run.output), run.output[-4000:]
    at_rest(lab, {"Node": 4})


def test_a_controller_that_dies_leaves_backups_and_the_next_run_completes(wanted: Wanted) -> None:
    path = wanted.write(("node1", "node3"))
    command = wanted.fleet.command("site.yml", SOAK, inventory=path)
    with nothing_lost(wanted.lab):
        with run_to_kill(command, ROOT, {**wanted.fleet.environment, **ANNOUNCING}) as process:
            output_until(process, "Flip the routes")
            time.sleep(0.4)  # until some of the hosts run the task
            kill_run(process)
        time.sleep(2)
        for node in FOUR:
            assert "calico_backup4" in wanted.lab.exec(node, ["cat", "/etc/calico/bird.cfg"]).stdout
        wanted.site(reflectors=("node1", "node3")).check()
    at_rest(wanted.lab, {"Mesh": 2, "Node": 8})


def test_sessions_that_do_not_come_are_returned_from(wanted: Wanted) -> None:
    """A change is undone when node1's sessions do not come up, without a lost packet.

    node1 can open no new BGP connection, neither for the mesh nor for its earlier sessions. Backup routes stay until
    the next run finds the sessions up again.
    """
    rules = [
        ["iptables", "-I", chain, "-p", "tcp", "--syn", "--dport", "179", "-j", "DROP"] for chain in ("INPUT", "OUTPUT")
    ]
    for rule in rules:
        wanted.lab.exec("node1", rule)
    with nothing_lost(wanted.lab):
        run = wanted.switch("mesh", "-ecalico_node_convergence_timeout=8", reflectors=("node1", "node3"))
        assert run.code != 0
        for rule in rules:
            wanted.lab.exec("node1", ["iptables", "-D", *rule[2:]])
        wanted.site(reflectors=("node1", "node3")).check()
    assert "The change of sessions did not go through." in run.output
    assert "keeps backup routes: not all is there by BGP again. Run the playbook again." in run.output
    at_rest(wanted.lab, {"Mesh": 2, "Node": 8})


def test_a_run_that_would_take_too_much_away_is_refused(wanted: Wanted) -> None:
    run = wanted.site("-ecalico_node_max_session_resets=0")
    assert run.code != 0
    found = re.search(r"run it with -e approve=([0-9a-f]{12})", run.output)
    assert found, run.output[-3000:]
    assert all(entry["changed"] == 0 for entry in run.recap().values())
    planned = wanted.site("-ecalico_node_max_session_resets=0", "--check").check()
    assert f"-e approve={found.group(1)}" in planned.output


@pytest.mark.soak  # tests/integration/bird/sessions/test_in_place.py has a BIRD that crashes
def test_birds_that_are_killed_and_reconfigured(wanted: Wanted) -> None:
    """No packet is lost when BIRDs are killed, restarted and reconfigured.

    Each node's BIRD gets kill -9 in turn, reflectors included, once the one before has recovered. Then a reflector's is
    restarted, and `birdc configure` runs on all nodes at once.
    """
    lab = wanted.lab
    with nothing_lost(lab):
        for node in FOUR:
            lab.exec(node, ["systemctl", "kill", "--signal=KILL", "calico-bird.service"])
            wait_until_whole(lab)
        lab.exec("node1", ["systemctl", "restart", "calico-bird.service"])  # as an upgrade of BIRD does
        wait_until_whole(lab)
        asked = [lab.popen(node, [*BIRDC, "configure"], stdout=subprocess.PIPE) for node in FOUR]
        assert all(b"Reconfigured" in process.communicate()[0] for process in asked)
        time.sleep(1)
        wait_until_whole(lab)


def wait_until_whole(lab: BaseLab, seconds: float = 90) -> None:
    """Wait until all ten sessions are Established and none waits for a peer that restarts.

    Assert that this takes at most `seconds`.
    """
    end = time.monotonic() + seconds
    while True:
        time.sleep(1)
        said = [lab.exec(node, [*BIRDC, "show", "protocols", "all"], check=False).stdout for node in FOUR]
        up = sum(text.count("BGP state:          Established") for text in said)
        if up == 10 and not any("Neighbor graceful restart active" in text for text in said):
            return
        assert time.monotonic() < end, f"{up} of 10 sessions"


def test_a_direct_pool_that_no_router_knows_is_found(wanted: Wanted) -> None:
    """A run that adds a pool without a tunnel, whose blocks no router learns, is incomplete and names each dead path.

    Within the subnets the pool's paths answer. The pool with a tunnel loses no packet. A path has no direction if the
    node at its other end probed, and so listened, at another time: busy hosts do.
    """
    with nothing_lost(wanted.lab):
        run = wanted.site(reflectors=("node1", "node3"), direct=True)
    dead = {(one, other) for one in FOUR for other in FOUR if NODES[one].rack != NODES[other].rack}
    line = r"^! pool (\S+): (\S+) -> (\S+): no answer(?: \(lost on the way there\))?$"
    named = re.findall(line, run.output, re.MULTILINE)
    assert sorted(named) == [(DIRECT.name, *path) for path in sorted(dead)], run.output[-4000:]
    assert run.code != 0 and "incomplete  4/4 nodes" in run.output and "16/24 paths answer" in run.output
