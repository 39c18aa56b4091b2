#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent costs while nothing changes: its share of one processor, and its resident memory.

Run as root. Each shape of a node has an agent of its own, in network and mount namespaces of its own. Nothing outside
of them is changed. The workloads are attached by the CNI plugin, as bench/cni.py does.

  0, 100, 1,000 workloads  without policy, and without probes of pools
  policy                   110 workloads, of them 100 with labels, and 10,000 elsewhere under 500 policies with 30,000
                           rules; bench/memory.py has goals for the memory of this shape

After a pause for what follows the last ADD, the processor time of the agent and of the programs that it ran is taken
over --seconds. By default that has about one full check, which the agent makes every 90 seconds on average. Other load
on the machine makes processor time larger, by a half or more.

The exit status is 1 if a goal is missed, also with --json, and 2 if there are no figures, because something is missing
here or an ADD failed.
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
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import cni  # noqa: E402
from plugins.module_utils.dataplane.kernel import linux  # noqa: E402

#: {name of a shape: the most percent of one processor}
GOALS = {"0": 0.1, "100": 0.4, "1000": 1.5, "policy": 0.8}
NAMES = {"0": "0 workloads", "100": "100 workloads", "1000": "1,000 workloads", "policy": "110 workloads, policy"}
SETTLE = 10.0  # seconds between the last ADD and the measurement
#: Fields of /proc/PID/stat: the pairs of user and system time of a process, and of its children that have ended.
_TIMES = slice(13, 17)


class Figures(t.TypedDict):
    """`percent` of one processor, resident `memory` and its `peak` until then in MiB."""

    percent: float
    memory: float
    peak: float


def processor_seconds(stat: str) -> float:
    """Return the processor seconds in the text of /proc/PID/stat: of the process and of its children that ended."""
    # The second field, a name in parentheses, may have spaces.
    fields = ["", "", *stat.rpartition(")")[2].split()]
    return sum(map(int, fields[_TIMES])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, field: str) -> float:
    """Return a size of /proc/PID/status, such as VmRSS, in MiB."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


def measured(pid: int, seconds: float) -> Figures:
    """Return the figures of a process over the next `seconds`."""
    stat = pathlib.Path(f"/proc/{pid}/stat")
    start, before = time.monotonic(), processor_seconds(stat.read_text())
    time.sleep(seconds)
    used = processor_seconds(stat.read_text()) - before
    percent = 100 * used / (time.monotonic() - start)
    return {"percent": percent, "memory": memory(pid, "VmRSS"), "peak": memory(pid, "VmHWM")}


def measure(folder: pathlib.Path, shape: str, seconds: float) -> Figures:
    """Measure one shape in this network namespace. Raise ExecutionFailed if an ADD fails, AgentError, AssertionError.

    `folder` gets all files.
    """
    kernel = linux.LinuxKernel(marker_folder=str(folder / "markers"))
    cni.underlay()
    ours = cni.Ours(folder)
    try:
        bench = cni.Bench(kernel, ours)
        bench.existing(10 if shape == "policy" else int(shape))
        if shape == "policy":
            ours.police(0, cni.POLICIES)
            bench.existing(10 + cni.APPS, [f"a{number:03}" for number in range(cni.APPS)])
        time.sleep(SETTLE)
        return measured(ours.pid, seconds)
    finally:
        ours.close()


def report(figures: dict[str, Figures]) -> None:
    print(f"{'':<24}{'processor':>12}{'resident':>12}{'at most':>12}")
    for shape, one in figures.items():
        verdict = f"goal <= {GOALS[shape]:g} %: {'met' if met(shape, one) else 'MISSED'}"
        sizes = f"{one['memory']:>8.0f} MiB{one['peak']:>8.0f} MiB"
        print(f"{NAMES[shape]:<24}{one['percent']:>10.2f} %{sizes}   {verdict}")


def met(shape: str, figures: Figures) -> bool:
    return figures["percent"] <= GOALS[shape]


def one_shape(shape: str, seconds: float) -> int:
    """Measure a shape in these namespaces and print its figures as JSON; return the exit status."""
    os.makedirs(cni.NETNS, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "calico-bench", cni.NETNS], check=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="calico-bench-", dir="/var/tmp"))
    try:
        print(json.dumps(measure(folder, shape, seconds)))
    except cni.ExecutionFailed as error:
        print(f"bench/idle.py: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=90.0, help="of each shape (default: %(default)s)")
    parser.add_argument("--shape", choices=GOALS, action="append", help="may be repeated (default: all)")
    parser.add_argument("--json", action="store_true", help="print figures and goals as JSON")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shapes = arguments.shape or list(GOALS)
    if arguments.inside:
        return one_shape(shapes[0], arguments.seconds)
    if os.geteuid() != 0:
        print("bench/idle.py attaches containers in network namespaces of its own: run it as root.", file=sys.stderr)
        return 2
    if not os.path.exists("/bin/nc.openbsd"):  # The shim would start an interpreter for each of 1,000 ADDs.
        print("bench/idle.py: /bin/nc.openbsd is missing. apt-get install netcat-openbsd", file=sys.stderr)
        return 2
    found: dict[str, Figures] = {}
    for shape in shapes:
        command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, __file__]
        command += ["--inside", "--shape", shape, "--seconds", str(arguments.seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            return 2
        found[shape] = json.loads(done.stdout)
    if arguments.json:
        print(json.dumps({"figures": found, "goals": {shape: met(shape, one) for shape, one in found.items()}}))
    else:
        print(f"the agent while nothing changes, over {arguments.seconds:g} seconds")
        report(found)
    return 0 if all(met(shape, one) for shape, one in found.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
