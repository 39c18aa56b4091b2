#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CNI ADD beside hostile members of the group `calico`, compared with an ADD beside as many busy processes.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. The agent is
set up as on nodes, with 200 workloads that stay, and the shim is executed as a container runtime does. Each way of
tests/integration/attacks/hostile_reader.py, and all of them together, runs with several processes, each of a user of
its own, and with as many processes that only loop. Both sets are stopped in turn (SIGSTOP), so that each pair of ADDs
is measured on the same machine at nearly the same time. The figure is the median beside readers as a multiple of the
median beside the others; the exit status is 1 if it is above 2 for some way. The longest ADD and the agent's peak
memory are printed, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cni
from cni import ROOT, Ours, containers, remove

from plugins.module_utils.dataplane.kernel import linux

ATTACK = ROOT / "tests" / "integration" / "attacks" / "hostile_reader.py"
UNIT = ROOT / "roles" / "calico_node" / "files" / "systemd" / "calico-agent.service"
GROUP = 64000  # number of the group that reads through the API
GOAL = 2.0
LET = 0.05  # seconds between the moment the processes go on and an ADD
BUSY = "print('ready', flush=True)\nwhile True: pass"


class Processes:
    """Processes that run only inside the context `going`, and are stopped otherwise.

    Each has to print the line "ready" first. The constructor raises AssertionError if one does not, and `going` if one
    has ended. `close` kills them.
    """

    def __init__(self, commands: t.Sequence[t.Sequence[str]]) -> None:
        self._processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
        for process in self._processes:
            assert process.stdout and process.stdout.readline() == b"ready\n"
        self._tell(signal.SIGSTOP)

    @contextlib.contextmanager
    def going(self) -> t.Iterator[None]:
        self._tell(signal.SIGCONT)
        time.sleep(LET)
        try:
            yield
        finally:
            self._tell(signal.SIGSTOP)

    def _tell(self, number: int) -> None:
        for process in self._processes:
            assert process.poll() is None, process.args
            process.send_signal(number)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def readers(number: int, socket: str, ways: t.Sequence[str]) -> list[list[str]]:
    source = ATTACK.read_text()
    return [
        ["setpriv", f"--reuid={GROUP + 1 + uid}", "--regid=65534", f"--groups={GROUP}",
         sys.executable, "-I", "-c", source, socket, *ways]
        for uid in range(number)
    ]  # fmt: skip


def measure(folder: pathlib.Path, count: int, number: int, ways: t.Sequence[str]) -> dict[str, t.Any]:
    """Return {way: {"readers", "busy": seconds of each ADD beside such processes, "memory": the agent's peak in KiB}}.

    A way is a kind of attack; the last one is "all of them". The peak is the one since the agent's start, all ways
    before included. `count` is the number of ADDs beside each side, `number` that of processes of each side. Raise
    CalledProcessError if the network cannot be set up, AssertionError if the agent does not start or one of the
    processes does not start or ends, and cni.ExecutionFailed if an ADD or DEL fails.
    """
    kernel = linux.LinuxKernel(marker_folder=str(folder / "markers"))
    underlay = (
        "link add eth0 type veth peer name wire0\nlink set lo up\nlink set wire0 up\nlink set eth0 up\n"
        "address add 10.10.1.11/24 dev eth0\nroute add default via 10.10.1.1\n"
    )
    subprocess.run(["ip", "-batch", "-"], input=underlay, text=True, check=True)
    ours = Ours(folder, group=GROUP)
    figures: dict[str, t.Any] = {}
    try:
        stay = containers(kernel, 200)
        ours.add(stay, cni.PARALLEL)
        for way in [*ways, "all of them"]:
            attack = readers(number, str(folder / "run" / "agent.sock"), ways if way == "all of them" else [way])
            sides = {
                "readers": Processes(attack),
                "busy": Processes([[sys.executable, "-I", "-c", BUSY]] * number),
            }
            times: dict[str, t.Any] = {name: [] for name in sides}
            try:
                for _ in range(count):
                    for name, side in sides.items():
                        made = containers(kernel, 1)
                        with side.going():
                            times[name] += ours.add(made)["times"]
                        ours.delete(made)
                        remove(kernel, made)
            finally:
                for side in sides.values():
                    side.close()
            figures[way] = {**times, "memory": ours.memory()}
    finally:
        ours.close()
    return figures


def met(found: dict[str, t.Any]) -> bool:
    """Return whether the median beside the readers is at most GOAL times that beside busy processes."""
    return statistics.median(found["readers"]) <= GOAL * statistics.median(found["busy"])


def report(figures: dict[str, t.Any]) -> bool:
    """Print a line for each way; return whether all goals are met."""
    print(f"{'':<18}{'readers':>12}{'busy':>12}{'ratio':>8}{'longest':>13}{'memory':>10}")
    for way, found in figures.items():
        beside, alone = (statistics.median(found[side]) for side in ("readers", "busy"))
        print(
            f"{way:<18}{beside * 1e3:>9.1f} ms{alone * 1e3:>9.1f} ms{beside / alone:>8.2f}"
            f"{max(found['readers']) * 1e3:>10.0f} ms{found['memory'] / 1024:>6.0f} MiB   "
            f"goal <= {GOAL:g}: {'met' if met(found) else 'MISSED'}"
        )
    return all(map(met, figures.values()))


def main() -> int:
    sys.path.insert(0, str(ATTACK.parent))
    from hostile_reader import SAID

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50, help="ADDs beside each side (default: %(default)s)")
    parser.add_argument("--readers", type=int, default=4, help="processes on each side (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print goals, and figures in seconds and KiB, as JSON")
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"some of: {', '.join(SAID)}")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/hostile_reader.py attaches containers in namespaces of its own: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        for line in UNIT.read_text().splitlines():
            if line.startswith("Environment="):  # these settings determine the agent's memory
                name, _, value = line.partition("=")[2].partition("=")
                os.environ[name] = value
        command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, "CALICO_BENCH_INSIDE": "1"}, check=False).returncode
    os.makedirs(cni.NETNS, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "calico-bench", cni.NETNS], check=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="calico-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        figures = measure(folder, arguments.count, arguments.readers, arguments.ways or list(SAID))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        goals = {way: met(found) for way, found in figures.items()}
        print(json.dumps({"figures": figures, "goals": goals}))
        return 0 if all(goals.values()) else 1
    print(f"medians of {arguments.count} ADDs beside {arguments.readers} processes, 200 workloads there")
    return 0 if report(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
