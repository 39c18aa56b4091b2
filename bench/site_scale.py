# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The growth of site.yml's time with the fleet, and the time of calls that only ask, over simulated hosts.

Of site.yml its first run, one with nothing to do, and --check are measured. Run as root; nothing outlives the process.

    bench/site_scale.py [--hosts 50,100,200] [--agent] [--tasks]

A host is a set of namespaces with a BIRD of its own (bench/site/simulated_hosts.py); two of them are reflectors, the
others have a workload each. Modules run as on any host, with the same arguments and by as many forks; what is not there
is SSH, systemd (bench/site/systemctl answers) and, without --agent, the agent.

Two calls that only ask each host once are measured as well: status.yml, and the module node_info as an ad-hoc command.

Hosts and controller share this machine's processors, so the time of a run is what they all use together, in seconds of
a processor (others on the machine do not count there, but slow it down). Each run has a goal of such seconds a host for
every size of fleet: GOALS. From the smallest to the largest fleet the time grows with hosts to the power of at most
1.15. When a goal is missed the exit status is 1. The memory of a run is that of its largest process, which is the
controller's in a large fleet. With one size, as in --hosts 500, growth is not measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.site.playbook_times import environment_of  # noqa: E402
from bench.site.simulated_hosts import SimulatedHosts  # noqa: E402

GOAL = 1.15
REFLECTORS = 2
#: The most seconds of a processor a host, by the names in RUNS and QUESTIONS.
GOALS: t.Mapping[str, float] = {
    "first run": 2.5,
    "nothing to do": 1.2,
    "--check": 0.9,
    "status.yml": 0.4,
    "node_info": 0.4,
}
RUNS: t.Mapping[str, t.Sequence[str]] = {"first run": (), "nothing to do": (), "--check": ("--check",)}
QUESTIONS: t.Mapping[str, t.Sequence[str]] = {
    "status.yml": ("ansible-playbook", "playbooks/status.yml"),
    "node_info": ("ansible", "calico_nodes:calico_rr", "-m", "baremetal.host_routing.node_info"),
}


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a program of Ansible.

    `seconds` is wall-clock time. `processor` is processor time in seconds of Ansible and all that ran on the hosts for
    it. `memory` is the peak of one process in MiB. `changed` counts the tasks of all hosts that changed something.
    `tasks` maps the heading of each task and play to its wall-clock seconds; "start" is the time before the first.
    """

    seconds: float
    processor: float
    memory: float
    changed: int
    tasks: t.Mapping[str, float]


def run(inventory: Path, program: str, *options: str) -> Run:
    """Run a program of Ansible with these options and return its figures; exit if it fails.

    `inventory` is a folder. The file log in it gets stderr.
    """
    environment = environment_of(
        ROOT,
        ANSIBLE_CONNECTION_PLUGINS=str(ROOT / "bench" / "site" / "connection"),
        # Tasks are timed by their headings. With these two settings a heading appears at once, before a host answers.
        PYTHONUNBUFFERED="1",
        ANSIBLE_DISPLAY_SKIPPED_HOSTS="true",
    )
    command = [program, "-i", str(inventory), *options]
    said, tasks, current = [], {}, "start"
    with open(inventory / "log", "w", encoding="utf-8") as log:
        began = since = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        for line in t.cast("t.IO[str]", process.stdout):
            said.append(line)
            task = re.match(r"(?:TASK|PLAY) \[?(?:baremetal\.host_routing\.calico_node : )?([^]*]*)", line)
            if task:
                now = time.monotonic()
                tasks[current] = tasks.get(current, 0.0) + now - since
                current, since = task.group(1).strip(), now
        dummy, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended = time.monotonic()
    tasks[current] = tasks.get(current, 0.0) + ended - since
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{''.join(said)[-6000:]}{(inventory / 'log').read_text()[-3000:]}")
    changed = sum(map(int, re.findall(r"\bchanged=(\d+)", "".join(said))))
    return Run(ended - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, changed, tasks)


def write_inventory(folder: Path, hosts: SimulatedHosts, agent: bool) -> None:
    (folder / "group_vars" / "all").mkdir(parents=True)
    entries = {
        name: {"calico_node_address": hosts.addresses[name], "simulated_host_pid": space.pid}
        for name, space in hosts.spaces.items()
    }
    names = list(entries)
    groups = {"calico_rr": names[:REFLECTORS], "calico_nodes": names[REFLECTORS:]}
    inventory = {group: {"hosts": {name: entries[name] for name in members}} for group, members in groups.items()}
    (folder / "hosts.yml").write_text(json.dumps(inventory))
    variables = {
        "ansible_connection": "namespace",
        "ansible_python_interpreter": sys.executable,  # the interpreter of this clone, which has pyroute2
        "ansible_pipelining": True,
        "calico_node_agent": agent,
        "calico_node_install_packages": False,
        "calico_rr_cluster_id": "244.0.0.1",
        "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always", "natOutgoing": True}],
        "calico_workloads": [{"name": f"web-{name}", "node": name} for name in groups["calico_nodes"]],
    }
    (folder / "group_vars" / "all" / "calico.yml").write_text(json.dumps(variables))


def measure(count: int, agent: bool) -> dict[str, Run]:
    """Return the runs on a new fleet of `count` hosts, by the names in RUNS and QUESTIONS.

    `agent` says whether workload hosts run the agent. Exit if a run fails, or if the second one of site.yml changes
    something. Raise AssertionError or CalledProcessError if the hosts cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix="site-scale-") as name:
        folder = Path(name)
        (folder / "private").mkdir()
        with SimulatedHosts(count, folder / "private") as hosts:
            inventory = folder / "inventory"
            write_inventory(inventory, hosts, agent)
            runs = {
                name: run(inventory, "ansible-playbook", "playbooks/site.yml", *options)
                for name, options in RUNS.items()
            }
            runs.update({name: run(inventory, *command) for name, command in QUESTIONS.items()})
    changed = runs["nothing to do"].changed
    if changed:
        sys.exit(f"{count} hosts: {changed} tasks of the run with nothing to do changed something")
    return runs


def growth(of: t.Mapping[int, float]) -> float:
    """Return the exponent of growth between the smallest and the largest fleet.

    `of` maps the number of hosts to seconds. Raise ZeroDivisionError if it has only one size.
    """
    few, many = min(of), max(of)
    return math.log(of[many] / of[few]) / math.log(many / few)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="50,100,200", help="sizes of fleets; growth needs two")
    parser.add_argument("--agent", action="store_true", help="each workload host runs the agent, too")
    parser.add_argument("--tasks", action="store_true", help="also the seconds of each task")
    options = parser.parse_args()
    sizes = sorted({int(size) for size in options.hosts.split(",")})
    if os.geteuid() != 0 or sizes[0] <= REFLECTORS:
        sys.exit("run it as root, with sizes of more than two hosts, as in --hosts 50,100,200")
    missed = False
    found: dict[int, dict[str, Run]] = {}
    for size in sizes:
        found[size] = measure(size, options.agent)
        for name, one in found[size].items():
            each = one.processor / size
            missed = missed or each > GOALS[name]
            verdict = "met" if each <= GOALS[name] else "MISSED"
            print(
                f"{size:5} hosts  {name:<14} {one.seconds:7.1f} s  {one.processor:7.1f} s of a processor"
                f"  {1000 * each:6.0f} ms a host  goal {1000 * GOALS[name]:5.0f}: {verdict:<6}  {one.memory:5.0f} MiB",
                flush=True,
            )
            for task, seconds in one.tasks.items() if options.tasks else ():
                print(f"{'':20} {seconds:7.1f} s  {task}")
    for name in RUNS if len(sizes) > 1 else ():
        exponent = growth({size: runs[name].processor for size, runs in found.items()})
        clock = growth({size: runs[name].seconds for size, runs in found.items()})
        verdict = "met" if exponent <= GOAL else "MISSED"
        missed = missed or exponent > GOAL
        print(
            f"{name:<14} grows with hosts to the power of {exponent:.2f} (clock: {clock:.2f})  goal {GOAL}: {verdict}"
        )
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
