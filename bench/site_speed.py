# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The speed of a run of site.yml with nothing to do, with 100 workloads on a host.

It is compared with a loop of builtin tasks for the same state, on the same lab host over the same SSH, in turn; the
ratios of medians are printed.

    bench/site_speed.py [--workloads 100] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.site.playbook_times import CONFIG, play, reporting, tasks  # noqa: E402
from tests.lab import Lab  # noqa: E402


def task_seconds(folder: Path, name: str) -> float:
    """Return the seconds that the one task with this name took, by the reports of the junit callback in `folder`.

    `name` is the name without a role. The reports are removed. Exit if there is no such task or several; one that runs
    on two hosts counts twice.
    """
    found = [seconds for task, seconds in tasks(folder) if task == name]
    if len(found) != 1:
        sys.exit(f"{len(found)} tasks of the report are called {name!r}, one was expected")
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lab = Lab("bench")
    lab.down()
    lab.up(["node1"])
    try:
        measure(lab, options.workloads, options.rounds)
    finally:
        lab.down()


def measure(lab: Lab, count: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder) / "inventory"
        (inventory / "group_vars" / "all").mkdir(parents=True)
        source = ROOT / "inventories" / "lab" / "group_vars" / "all" / "connection.yml"
        (inventory / "group_vars" / "all" / "connection.yml").write_text(source.read_text())
        hosts = {"calico_nodes": {"hosts": {"node1": {"calico_node_address": "10.10.1.11/24"}}}}
        (inventory / "hosts.yml").write_text(json.dumps(hosts))
        variables = {
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always", "blockSize": 24}],
            "calico_workloads": [{"name": f"w{number}", "node": "node1"} for number in range(count)],
        }
        (inventory / "group_vars" / "all" / "calico.yml").write_text(json.dumps(variables))
        reports = Path(folder) / "reports"
        environment = {**os.environ, "HOST_ROUTING_LAB": lab.name, "ANSIBLE_CONFIG": str(CONFIG)}
        timed = {**environment, **reporting(reports)}
        play("playbooks/site.yml", inventory, environment)
        state = json.loads(lab.exec("node1", ["cat", "/var/lib/calico/state.json"]).stdout)["state"]
        given = Path(folder) / "state.json"
        given.write_text(json.dumps({"bench_state": state}))
        site, node, loop = [], [], []
        for _ in range(rounds):
            site.append(play("playbooks/site.yml", inventory, timed))
            node.append(task_seconds(reports, "Apply the node's state"))
            loop.append(play("bench/site/loop.yml", inventory, environment, "-e", f"@{given}"))
    both = statistics.median(loop)
    missed = False
    print(f"{count} workloads on one host, nothing to do, {rounds} rounds in turn, medians")
    print(f"  builtin tasks in a loop        {both:8.1f} s")
    for name, figures, goal in (("site.yml", site, 25), ("the node module's call alone", node, 60)):
        taken = statistics.median(figures)
        ratio = both / taken
        verdict = "met" if ratio >= goal else "MISSED"
        missed = missed or ratio < goal
        print(f"  {name:<30} {taken:8.1f} s   {ratio:6.1f} times faster   goal {goal}: {verdict}")
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
