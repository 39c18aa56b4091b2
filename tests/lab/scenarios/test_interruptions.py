# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller that dies within a phase: every node goes on forwarding, and the next run completes the change."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator

from tests.lab.fleet import POOL, SPARING, mesh_of_streams, no_way_around, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams
from tests.lab.shell import wait_until
from tests.long_form import LONG

from .conftest import FIRST_MODE, ROOT, Fleet
from .killed_controller import ANNOUNCING, kill_run, output_until, run_to_kill
from .test_switching import check_encapsulation, check_routes

#: Tasks of the switch, in order.
TASKS = (
    "Prepare the receive paths of both modes",
    "Change the MTU of the links",
    "Probe every path of the new routes",
    "Flip the routes",
    "Check the routes in the kernel, then soak",
    "Retire the old mode",
)
#: The tasks within which a run is killed, one run for each.
FATAL = TASKS if LONG else TASKS[3::2]

#: A rule that drops packets to workloads from rack 1 to rack 2. It names both interfaces, since it would otherwise
#: match what the router's bridges pass within a rack.
BETWEEN_RACKS = ("-i", "br1", "-o", "br2", "-d", "10.244.0.0/16", "-j", "DROP")


#: The soak's output when no packet between four nodes was lost.
NOTHING_LOST = r"soak +0 lost of [0-9,]+ probes over 12 paths since before the flip · longest gap 0\.0 ms\n"


@contextlib.contextmanager
def switch_until(fleet: Fleet, task: str, mode: str, soak: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a switch of the pool's mode; yield its process and its output so far as soon as `task` begins.

    `soak` is in seconds. Kill what is left of the run at the end. Raise AssertionError if the run ends before `task`.
    There is no time limit.
    """
    variables = ("pool=default-ipv4-ippool", f"mode={mode}", f"calico_node_soak_seconds={soak}")
    command = fleet.command("switch_pool_mode.yml", *(word for each in variables for word in ("-e", each)))
    with run_to_kill(command, ROOT, {**fleet.environment, **ANNOUNCING}) as process:
        yield process, output_until(process, task)


def watches(lab: BaseLab) -> list[int]:
    """Return the number of processes called calico-watch on each node; raise CommandFailed if one is off."""
    command = ["sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null | grep -c calico-watch || true"]
    return [int(lab.exec(node.name, command).stdout) for node in lab.nodes]


def kill_during(fleet: Fleet, task: str, mode: str) -> None:
    """Start the switch, and kill all processes of its run 0.4 seconds after `task` has begun.

    Raise AssertionError if the run ends by itself before.
    """
    with switch_until(fleet, task, mode, soak=30) as (process, _printed):
        time.sleep(0.4)  # until some of the hosts run the task
        kill_run(process)


def test_a_controller_killed_in_every_phase_leaves_the_fleet_forwarding(lab: BaseLab, fleet: Fleet) -> None:
    """Runs are killed, each in the next task of FATAL, and one more run completes the change; no packet is lost."""
    found = workloads(lab)
    no_way_around(lab)
    with Streams(lab, mesh_of_streams(lab, found, SPARING)) as streams:
        for task in FATAL:
            kill_during(fleet, task, "direct")
            time.sleep(1)
            assert streams.status()["failures"] == 0, task
            if task == "Flip the routes":
                assert watches(lab) == [1] * len(lab.nodes), "the watch of a node outlives the controller"
        run = fleet.switch("direct")
        report = streams.stop()
    run.check()
    assert not any(watches(lab))
    assert report.lost_by_us == 0 and report.resets == 0 and report.corrupt == 0, report.summary()
    check_routes(lab, "direct")
    check_encapsulation(lab, "direct")


def test_a_killed_flip_is_returned_from_by_the_next_site_run(lab: BaseLab, fleet: Fleet) -> None:
    """After a flip that was killed, site.yml changes the pool back to the inventory's mode without a lost packet."""
    fleet.site().check()
    found = workloads(lab)
    no_way_around(lab)
    with Streams(lab, mesh_of_streams(lab, found, SPARING)) as streams:
        kill_during(fleet, "Flip the routes", "direct")
        time.sleep(1)
        run = fleet.site()
        report = streams.stop()
    run.check()
    assert re.search(NOTHING_LOST, run.output), run.output[-4000:]
    assert not any(watches(lab))
    assert report.lost_by_us == 0 and report.resets == 0 and report.corrupt == 0, report.summary()
    check_routes(lab, FIRST_MODE)
    check_encapsulation(lab, FIRST_MODE)


def test_a_mode_that_cannot_be_proven_is_not_flipped_to(lab: BaseLab, fleet: Fleet) -> None:
    """A run to a mode that would cut workloads off fails, all nodes run as before, and no packet is lost.

    The router drops packets to workloads from rack 1 to rack 2, so direct routing would not reach them.
    """
    found = workloads(lab)
    lab.router_exec(["iptables", "-I", "FORWARD", *BETWEEN_RACKS])
    try:
        no_way_around(lab)
        with Streams(lab, mesh_of_streams(lab, found, SPARING)) as streams:
            run = fleet.switch("direct")
            report = streams.stop()
    finally:
        lab.router_exec(["iptables", "-D", "FORWARD", *BETWEEN_RACKS])
    assert run.code != 0
    assert "The change of mode did not go through." in run.output
    for path in ("node1 -> node3", "node1 -> node4", "node2 -> node3", "node2 -> node4"):
        assert f"  pool {POOL}: {path}: no answer" in run.output, run.output[-4000:]
    assert "4 of 4 nodes run as before." in run.output, run.output[-4000:]
    assert report.lost_by_us == 0 and report.resets == 0, report.summary()
    check_routes(lab, FIRST_MODE)
    fleet.site().unchanged()


def test_packets_lost_by_the_flip_are_counted_and_the_change_undone(lab: BaseLab, fleet: Fleet) -> None:
    """Packets that the flip itself loses are counted, and the change is undone.

    For half a second nothing passes from rack 1 to rack 2, in either mode; before and after, everything passes.
    """
    fleet.site().check()
    everything = ("-i", "br1", "-o", "br2", "-j", "DROP")
    with switch_until(fleet, "Flip the routes", "direct", soak=10) as (process, printed):
        # On a busy machine the hosts begin to watch the paths a while after the task has begun.
        wait_until("all hosts watch their paths", lambda: all(watches(lab)), 60)
        lab.router_exec(["iptables", "-I", "FORWARD", *everything])
        try:
            time.sleep(0.5)
        finally:
            lab.router_exec(["iptables", "-D", "FORWARD", *everything])
        printed += process.communicate(timeout=600)[0]
    assert process.returncode != 0, printed[-4000:]
    found = re.search(r"soak +([0-9]+) lost of [0-9,]+ probes over 12 paths since before the flip · (.*)\n", printed)
    assert found, printed[-4000:]
    longest = re.fullmatch(r"longest gap ([0-9.]+) ms \(node[0-9] -> node[0-9]\)", found[2])
    assert longest and 300 <= float(longest[1]) < 5000, found[0]
    # Packets from rack 1 to rack 2 were dropped, so probes from rack 2 got no reply either. Both directions count them.
    for path in ("node1 -> node3", "node2 -> node4", "node3 -> node1", "node4 -> node2"):
        assert re.search(rf"  pool {POOL}: {path}: [0-9]+ of [0-9,]+ lost, longest gap [0-9.]+ ms", printed), printed[
            -4000:
        ]
    assert not re.search(r"  (pool [^ ]+: )?node1 -> node2: ", printed), printed[-4000:]
    assert "4 of 4 nodes run as before." in printed, printed[-4000:]
    assert not any(watches(lab))
    check_routes(lab, FIRST_MODE)
