#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare our drivers for podman and Docker with their own bridges, in turns, on a Debian 13 host of the lab.

Run as root. Each value is a ratio of medians.

  netavark          its setup and teardown of one container, by the plugin and by its bridge driver
  docker            network connect and disconnect by dockerd's API, by our driver and by Docker's bridge driver
  docker, a port    the same of a container that publishes one port
  memory            the most that the agent's one process had (VmHWM) with 70 containers, half of them podman's

The exit status is 1 if a goal is missed, and 2 if there are no figures.

    bench/runtimes.py [--count 30] [--containers 70]
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

from bench.site.playbook_times import CONFIG, play  # noqa: E402
from tests.lab import Lab  # noqa: E402
from tests.lab.handle import BaseLab  # noqa: E402
from tests.lab.scenarios.conftest import inventory_of  # noqa: E402
from tests.lab.topology import LabError  # noqa: E402

NODE = "node4"
MEASURE = ROOT / "tests" / "lab" / "measure"
GOALS = {"netavark": 0.4, "docker": 1.0, "docker, a port": 0.7}
MEMORY_MIB = 60
PODMAN = "podman run -d --network calico --rootfs /srv/box /bin/sleep 100000"
DOCKER = "docker run -d --network pods box /bin/sleep 100000"


def prepare(lab: BaseLab) -> None:
    """Start Docker on the host and make it a node; raise LabError or CalledProcessError if that fails."""
    units = "docker.service docker.socket containerd.service"
    lab.exec(NODE, f"systemctl unmask {units} && systemctl start docker && docker import /srv/box.tar box", timeout=90)
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "HOST_ROUTING_LAB": lab.name,
            "HOST_ROUTING_LAB_ENCAPSULATION": "VXLAN",
            "ANSIBLE_CONFIG": str(CONFIG),
        }
        inventory = inventory_of([NODE], Path(folder))
        play("playbooks/site.yml", inventory, environment, "-e", "calico_node_cni_default=true")


def timed(lab: BaseLab, script: str, count: int) -> dict:
    """Run a script of tests/lab/measure on the host and return what it prints; raise CommandFailed."""
    lab.put(NODE, MEASURE / script, f"/root/{script}")
    return json.loads(lab.exec(NODE, ["python3", f"/root/{script}", str(count)], timeout=600).stdout)


def memory(lab: BaseLab, containers: int) -> float:
    """Return the most MiB that the agent had until it has attached so many containers; raise CommandFailed."""
    lab.exec(NODE, "docker network create -d calico --ipam-driver calico pods")
    for command in (PODMAN, DOCKER):
        lab.exec(NODE, f"set -e; for n in $(seq {containers // 2}); do {command}; done", timeout=600)
    attached = json.loads(lab.exec(NODE, ["calicoctl", "workload", "list", "-o", "json"]).stdout)["workloads"]
    assert len(attached) >= containers // 2 * 2, len(attached)
    agent = lab.exec(NODE, ["systemctl", "show", "-P", "MainPID", "calico-agent"]).stdout.strip()
    assert lab.exec(NODE, ["pgrep", "-P", agent], check=False).stdout == "", "the agent has child processes"
    status = lab.exec(NODE, ["cat", f"/proc/{agent}/status"]).stdout
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def report(name: str, ours: float, theirs: float) -> bool:
    """Print one ratio of times in seconds and its goal; return whether the goal is met."""
    met = ours / theirs <= GOALS[name]
    print(
        f"{name:<16}{ours * 1e3:>9.1f} ms{theirs * 1e3:>9.1f} ms{ours / theirs:>8.2f}   "
        f"goal <= {GOALS[name]:g}: {'met' if met else 'MISSED'}"
    )
    return met


def measure(lab: BaseLab, count: int, containers: int) -> bool:
    """Print all figures; return whether all goals are met. Raise LabError if something cannot be measured."""
    print(f"{count} in turns, medians\n{'':<16}{'calico':>12}{'bridge':>12}{'ratio':>8}", flush=True)
    found = timed(lab, "netavark_times.py", count)
    met = [report("netavark", found["calico"] / 1e3, found["bridge"] / 1e3)]
    for name, times in zip(("docker", "docker, a port"), timed(lab, "docker_times.py", count).values(), strict=True):
        if isinstance(times["calico"], str):
            print(f"{name:<16} refused: {times['calico']}")
            met.append(False)
            continue
        met.append(report(name, *(statistics.median(times[driver]) for driver in ("calico", "bridge"))))
    most = memory(lab, containers)
    met.append(most <= MEMORY_MIB)
    print(f"{'memory':<16}{most:>9.1f} MiB with {containers} containers   ", end="")
    print(f"goal <= {MEMORY_MIB} MiB: {'met' if met[-1] else 'MISSED'}")
    return all(met)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=30, help="pairs of each driver (default: %(default)s)")
    parser.add_argument("--containers", type=int, default=70, help="beside which memory is read (default: %(default)s)")
    options = parser.parse_args()
    lab = Lab("bench-runtimes")
    lab.down()
    try:
        lab.up([NODE], docker=True)
        prepare(lab)
        return 0 if measure(lab, options.count, options.containers) else 1
    except LabError as error:
        print(f"bench/runtimes.py: {error}", file=sys.stderr)
        return 2
    finally:
        if not os.environ.get("HOST_ROUTING_LAB_KEEP"):
            lab.down()


if __name__ == "__main__":
    sys.exit(main())
