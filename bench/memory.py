#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's resident memory under policy, while the policy changes, and after all of it was taken away.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. The agent is the real
one, as in bench/cni.py. Figures are in MiB:

  policy         VmRSS with 110 workloads, 500 policies with 30,000 rules, and 10,000 endpoints elsewhere
  policy, peak   the most until then, while one policy more came, and while all policies were taken away
  after policy   VmRSS without any policy, with 1,000 workloads

The exit status is 1 if a goal is missed, also with --json, and 2 if the benchmark cannot run here.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import cni, idle  # noqa: E402

GOALS = {"policy": 90.0, "policy, peak": 100.0, "after policy": 60.0}
_REST = 12  # seconds after which nothing of a change is under way


def measure(folder: pathlib.Path, many: int) -> dict[str, float]:
    kernel = cni.linux.LinuxKernel(marker_folder=str(folder / "markers"))
    cni.underlay()
    ours = cni.Ours(folder)
    made: list[cni.Container] = []

    def workloads(count: int, apps: list[str]) -> None:
        more = cni.containers(kernel, count - len(made))
        ours.add(more, cni.PARALLEL, apps)
        made.extend(more)

    try:
        workloads(10, [])
        ours.police(60, cni.POLICIES)
        workloads(10 + cni.APPS, [f"a{number:03}" for number in range(cni.APPS)])
        time.sleep(_REST)
        figures = {"policy": idle.memory(ours.pid, "VmRSS")}
        ours.police(61, cni.POLICIES)
        ours.unpolice()
        figures["policy, peak"] = idle.memory(ours.pid, "VmHWM")
        workloads(many, [])
        time.sleep(_REST)
        figures["after policy"] = idle.memory(ours.pid, "VmRSS")
        return figures
    finally:
        ours.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--many", type=int, default=1000, help="workloads without policy (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print figures and goals as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/memory.py attaches containers in network namespaces of its own: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, "CALICO_BENCH_INSIDE": "1"}, check=False).returncode
    os.makedirs(cni.NETNS, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "calico-bench", cni.NETNS], check=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="calico-bench-", dir="/var/tmp"))
    try:
        figures = measure(folder, arguments.many)
    except cni.ExecutionFailed as error:
        print(f"bench/memory.py: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    met = {name: figures[name] <= goal for name, goal in GOALS.items()}
    if arguments.json:
        print(json.dumps({**figures, "goals": met}))
    else:
        for name, goal in GOALS.items():
            print(f"{name:<14}{figures[name]:>8.1f} MiB   goal <= {goal:g}: {'met' if met[name] else 'MISSED'}")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
