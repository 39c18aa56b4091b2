#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""10,000 /32 routes: the route driver compared with `ip -batch`, and a pass that finds nothing to change.

Run as root; it makes a network namespace of its own and touches nothing outside of it. Each round does, one after the
other and from an empty table: `ip -batch`; the driver in this process; the driver once more, when there is nothing to
change; and the two driver runs again as processes of their own. What is timed:

  ip -batch     start of `ip -batch FILE` until it has ended (one fork, the file is written before)
  apply         route.observe + route.diff + route.apply of 10,000 Route values in a running process: dump of the table,
                comparison, all writes acknowledged by the kernel
  no change     the same call when all routes are there: dump, comparison, nothing written
  ... process   the same two as `python3 -I` from its start to its end, imports and the making of the values included

Ratios are medians of the ratio within each round, so that a busy machine affects both sides.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOALS = {"apply": 0.6, "no change": 0.4}
DEVICE = "calibench"


def _modules() -> tuple[t.Any, t.Any, t.Any]:
    sys.path.insert(0, str(ROOT))
    from plugins.module_utils.dataplane.drivers import route
    from plugins.module_utils.dataplane.kernel import linux
    from plugins.module_utils.state import node_state

    return linux, route, node_state


def _destinations(count: int) -> list[str]:
    return [f"10.{128 + (n >> 16)}.{(n >> 8) & 255}.{n & 255}/32" for n in range(count)]


def _routes(node_state: t.Any, count: int) -> list[t.Any]:
    return [node_state.Route(destination, device=DEVICE) for destination in _destinations(count)]


def _converge(kernel: t.Any, route: t.Any, desired: t.Sequence[t.Any]) -> int:
    changes = route.diff(desired, route.observe(kernel, desired))
    if changes:
        route.apply(kernel, changes)
    return len(changes)


def _present() -> int:
    shown = subprocess.run(["ip", "route", "show", "dev", DEVICE], capture_output=True, text=True, check=True)
    return len(shown.stdout.splitlines())


def _child(count: int) -> None:
    """Bring this namespace to `count` routes by the driver, and print the number of changes that this took."""
    linux, route, node_state = _modules()
    print(_converge(linux.LinuxKernel(), route, _routes(node_state, count)))


def _flush() -> None:
    subprocess.run(["ip", "link", "set", DEVICE, "down"], check=True)
    subprocess.run(["ip", "link", "set", DEVICE, "up"], check=True)
    assert _present() == 0


def _measure(count: int, rounds: int) -> dict[str, list[float]]:
    linux, route, node_state = _modules()
    subprocess.run(["ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "calipeer"], check=True)
    subprocess.run(["ip", "link", "set", "calipeer", "up"], check=True)
    subprocess.run(["ip", "link", "set", DEVICE, "up"], check=True)
    desired = _routes(node_state, count)
    kernel = linux.LinuxKernel()
    times: dict[str, list[float]] = {
        name: [] for name in ("ip -batch", "apply", "no change", "apply process", "no change process")
    }

    def timed(name: str, work: t.Callable[[], t.Any]) -> t.Any:
        gc.collect()
        start = time.perf_counter()
        result = work()
        times[name].append(time.perf_counter() - start)
        return result

    child = [sys.executable, "-I", str(pathlib.Path(__file__).resolve()), "--count", str(count), "--child"]

    def process() -> int:
        return int(subprocess.run(child, capture_output=True, text=True, check=True).stdout)

    with tempfile.NamedTemporaryFile("w", suffix=".batch") as batch:
        for destination in _destinations(count):
            batch.write(f"route add {destination} dev {DEVICE} proto 179 scope link\n")
        batch.flush()
        for _round in range(rounds):
            _flush()
            timed("ip -batch", lambda: subprocess.run(["ip", "-batch", batch.name], check=True))
            assert _present() == count
            _flush()
            assert timed("apply", lambda: _converge(kernel, route, desired)) == count
            assert _present() == count
            assert timed("no change", lambda: _converge(kernel, route, desired)) == 0
            _flush()
            assert timed("apply process", process) == count
            assert _present() == count
            assert timed("no change process", process) == 0
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child(arguments.count)
        return 0
    if os.geteuid() != 0:
        print("bench/routes.py writes routes in a network namespace of its own: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        # The namespace belongs to this process and goes away with it.
        command = ["unshare", "--net", sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, "CALICO_BENCH_INSIDE": "1"}, check=False).returncode
    times = _measure(arguments.count, arguments.rounds)
    figures: dict[str, dict[str, float]] = {}
    for name, measured in times.items():
        ratios = [own / batch for own, batch in zip(measured, times["ip -batch"])]
        figures[name] = {"median_ms": statistics.median(measured) * 1000, "ratio": statistics.median(ratios)}
    met = all(figures[name]["ratio"] <= goal for name, goal in GOALS.items())
    if arguments.json:
        print(json.dumps({"count": arguments.count, "rounds": arguments.rounds, "figures": figures, "met": met}))
        return 0 if met else 1
    print(f"{arguments.count} /32 routes, {arguments.rounds} interleaved rounds, medians")
    for name, figure in figures.items():
        goal = (
            f"goal {GOALS[name]:.1f}: {'met' if figure['ratio'] <= GOALS[name] else 'MISSED'}" if name in GOALS else ""
        )
        print(f"  {name:<18} {figure['median_ms']:8.1f} ms   {figure['ratio']:5.2f} of ip -batch   {goal}".rstrip())
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
