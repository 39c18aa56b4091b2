#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports: many workloads on one node, each with many ports.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. Workloads are added
by the agent's API, as the plugins of podman and Docker and `calicoctl workload add --publish` do.

All is measured twice: with ports that keep their numbers, and with a range that is shifted, as 10000-10031:8000-8031.

  fill       500 workloads with 32 TCP ports each, one after the other: the first and the last ADD of ten
  ADD        one more workload with as many ports, in turn with one without ports; DEL the same
  restore    the bare `iptables-restore` of as many rules in a chain of its own beside these: the least that such an ADD
             can take for its rules
  remove     all workloads, by 8 threads, until the agent is in sync

The exit status is 1 if a goal is missed, also with --json, and 2 if there are no figures, because something is missing
here.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import cni  # noqa: E402
from plugins.module_utils.dataplane.kernel import linux  # noqa: E402
from plugins.module_utils.wire.client import AgentClient  # noqa: E402

WORKLOADS, PORTS, FIRST_PORT = 500, 32, 10000
#: The most: an ADD with ports as a multiple of one without, and seconds in which all workloads are removed.
GOALS = {"ADD with ports : without": 2.0, "remove": 10.0}
KINDS = {"kept": "ports that keep their numbers", "shifted": "ports of a shifted range"}
TURNS = 21
SETTLE = 5.0  # seconds for what the agent does after its answers
OPEN_FILES = 65536  # as in calico-agent.service


class Workloads:
    """The workloads of the agent that listens at `socket`, and the time that each call takes."""

    def __init__(
        self,
        kernel: linux.LinuxKernel,
        socket: str,
        kind: str,
        namespaces: t.Optional[dict[str, cni.Container]] = None,
    ) -> None:
        self._kernel = kernel
        self._kind = kind
        self._client = AgentClient(socket, 60.0)
        self._lock = threading.Lock()  # a client asks one question at a time
        self.namespaces = {} if namespaces is None else namespaces

    def add(self, number: int, ports: int) -> float:
        """Add a workload with this many ports, which no other `number` has; return the seconds of the call."""
        (container,) = cni.containers(self._kernel, 1)
        self.namespaces[f"w{number}"] = container
        first = FIRST_PORT + number * PORTS
        inside = first if self._kind == "kept" else 8000
        wanted = [{"host_port": first + index, "port": inside + index} for index in range(ports)]
        begin = time.monotonic()
        self._client.call("workload.add", name=f"w{number}", netns=container[1], ports=wanted)
        return time.monotonic() - begin

    def delete(self, number: int) -> float:
        """Delete a workload; return the seconds of the call."""
        begin = time.monotonic()
        with self._lock:
            self._client.call("workload.delete", id=f"default/w{number}")
        seconds = time.monotonic() - begin
        cni.remove(self._kernel, [self.namespaces.pop(f"w{number}")])
        return seconds

    def in_sync(self) -> None:
        while not self._client.call("status")["in_sync"]:
            time.sleep(0.1)


def restore(kind: str) -> float:
    """Return the median of the seconds that the bare write of a workload's rules takes here."""
    found = []
    for turn in range(5):
        chain = f"bench-{turn}"
        target = "-j DNAT --to-destination 10.244.9.9"
        lines = [f"-A {chain} -p tcp -m tcp --dport {9000 + one} {target}:{8000 + one}" for one in range(PORTS)]
        if kind == "kept":
            lines = [f"-A {chain} -p tcp -m tcp --dport 9000:{8999 + PORTS} {target}"]
        text = "\n".join(["*nat", f":{chain} - [0:0]", *lines, "COMMIT", ""])
        begin = time.monotonic()
        subprocess.run(["iptables-restore", "--noflush"], input=text, text=True, check=True)
        found.append(time.monotonic() - begin)
        subprocess.run(["iptables-restore", "--noflush"], input=f"*nat\n-F {chain}\n-X {chain}\nCOMMIT\n", text=True,
                       check=True)  # fmt: skip
    return statistics.median(found)


def measure(folder: pathlib.Path, count: int, kind: str) -> dict[str, float]:
    """Return seconds of each measurement, and the ratios of GOALS, in this network namespace."""
    kernel = linux.LinuxKernel(marker_folder=str(folder / "markers"))
    cni.underlay()
    ours = cni.Ours(folder)
    try:
        workloads = Workloads(kernel, f"{folder}/run/agent.sock", kind)
        alone = statistics.median(workloads.add(number, PORTS) for number in range(10))
        begin = time.monotonic()
        fill = [workloads.add(number, PORTS) for number in range(10, count)]
        seconds = time.monotonic() - begin
        time.sleep(SETTLE)
        workloads.in_sync()
        times: dict[str, list[float]] = {"with": [], "without": [], "DEL with": [], "DEL without": []}
        for _turn in range(TURNS):
            for which, ports in (("with", PORTS), ("without", 0)):
                times[which].append(workloads.add(count, ports))
                time.sleep(0.1)
                times[f"DEL {which}"].append(workloads.delete(count))
                time.sleep(0.2)
        bare = restore(kind)
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(cni.PARALLEL) as threads:
            others = [
                Workloads(kernel, f"{folder}/run/agent.sock", kind, workloads.namespaces) for _ in range(cni.PARALLEL)
            ]
            list(threads.map(lambda number: others[number % cni.PARALLEL].delete(number), range(count)))
        workloads.in_sync()
        removed = time.monotonic() - begin
        return {
            "ADD with ports, first of them": alone,
            "ADD with ports, last of them": statistics.median(fill[-10:]),
            "fill": seconds,
            "ADD with ports": statistics.median(times["with"]),
            "ADD without ports": statistics.median(times["without"]),
            "DEL with ports": statistics.median(times["DEL with"]),
            "DEL without ports": statistics.median(times["DEL without"]),
            "ADD with ports : without": statistics.median(
                one / other for one, other in zip(times["with"], times["without"])
            ),
            "restore": bare,
            "remove": removed,
        }
    finally:
        ours.close()


def report(figures: t.Mapping[str, float]) -> None:
    for name, figure in figures.items():
        goal = GOALS.get(name)
        verdict = "" if goal is None else f"   goal <= {goal:g}: {'met' if figure <= goal else 'MISSED'}"
        shown = (
            f"{figure:>10.2f}   "
            if " : " in name
            else f"{figure:>10.2f} s "
            if figure >= 1
            else f"{figure * 1000:>10.1f} ms"
        )
        print(f"{name:<32}{shown}{verdict}")


def inside(count: int, kind: str) -> int:
    os.makedirs(cni.NETNS, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "calico-bench", cni.NETNS], check=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, OPEN_FILES), most))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="calico-bench-", dir="/var/tmp"))
    try:
        print(json.dumps(measure(folder, count, kind)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=int, default=WORKLOADS, help="with ports (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print figures and goals as JSON")
    parser.add_argument("--kind", choices=KINDS, help="measure only ports of this kind")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return inside(arguments.workloads, arguments.kind)
    if os.geteuid() != 0:
        print("bench/ports.py attaches workloads in network namespaces of its own: run it as root.", file=sys.stderr)
        return 2
    command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, __file__, "--inside"]
    command += ["--workloads", str(arguments.workloads), "--kind"]
    figures: dict[str, dict[str, float]] = {}
    for kind in [arguments.kind] if arguments.kind else KINDS:
        done = subprocess.run([*command, kind], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            return 2
        figures[kind] = json.loads(done.stdout)
    met = {kind: {name: found[name] <= goal for name, goal in GOALS.items()} for kind, found in figures.items()}
    if arguments.json:
        print(json.dumps({"figures": figures, "goals": met}))
    else:
        for kind, found in figures.items():
            print(f"{arguments.workloads} workloads with {PORTS} published ports each: {KINDS[kind]}")
            report(found)
    return 0 if all(all(goals.values()) for goals in met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
