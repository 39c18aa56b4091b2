#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent killed and started again beside 1,000 workloads and 10,000 BIRD routes, against `ip -batch`; its memory.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. The agent is the real
one: the engine from its bundle, a process in a network namespace that stands for a host. In each round, in turn:

  restart     kill -9; from the exec of the new process until it answers, and until `status` says in_sync: everything
              was read and compared, and nothing had to be changed; the insides of namespaces are not among it, they
              follow by turns
  imports     the floor of an answer: a process of the same interpreter that only imports the agent's modules
  ip -batch   the same from nothing on another host: one `ip -batch` for 1,000 veth pairs, one in each of the workloads'
              namespaces, one for host ends and their routes, one for 10,000 routes; sysctls written from here

and once, at the end: the most memory that the agent ever had (VmHWM), after a start and after `resync` (a look at
everything, the insides of all namespaces), and how long the agent made anybody wait meanwhile: `status` is asked every
5 ms, and the longest that an answer took is how long the event loop was blocked at most, that answer itself included.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import ipaddress
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
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (  # noqa: E402
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (  # noqa: E402
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import (  # noqa: E402
    AgentClient,
    NotRunning,
)

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine  # noqa: E402
from tests.unit.dataplane.suites.drivers import underlay  # noqa: E402

#: The greatest values: `ratio` is the agent's time as a multiple of that of ip -batch, memory is in MiB.
GOALS = {
    "answered_seconds": 0.3,
    "in_sync_seconds": 1.2,
    "ratio": 4.0,
    "memory_started_mib": 60.0,
    "memory_after_start_mib": 42.0,
    "memory_resynced_mib": 60.0,
}
BIRD = 12  # the protocol number of BIRD's routes
MTU = 1450
ASKED_EVERY = 0.005  # seconds
FOLDER = "/run/netns"
OTHER_HOST = "by-iproute2"
CLONE_NEWNET = 0x40000000


def state(workloads: int) -> NodeState:
    """Return the state of a node with room for `workloads`, at most 65,536, in blocks of 64."""
    blocks = [f"10.244.{64 * n >> 8}.{64 * n & 255}/26" for n in range(-(-workloads // 64))]
    return NodeState(
        node="node1",
        address="10.10.1.11/24",
        pools=(Pool("default-pool", "10.244.0.0/16", 26, "None", workload_mtu=MTU),),
        ipam=NodeIpam(1, tuple(Block(block, "default-pool") for block in blocks)),
        routes=tuple(Route(block, "blackhole") for block in blocks),
        sysctls=(Sysctl("net/ipv4/ip_forward", "1"),),
    )


def destinations(count: int) -> list[str]:
    first = int(ipaddress.ip_address("10.128.0.0"))
    return [f"{ipaddress.ip_address(first + n)}/32" for n in range(count)]


def names(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


# ---- the agent's restart and resync


def prepare(daemon: Daemon, workloads: int, routes: int) -> None:
    daemon.settings(cooldown=0.0)
    daemon.desire(state(workloads))
    through = RouteAttributes(device="eth0", gateway="10.10.1.1", protocol=BIRD)
    failures = daemon.kernel.route_batch([RouteOperation("add", to, through) for to in destinations(routes)])
    assert not failures, failures[0]
    for name in names(workloads):
        daemon.kernel.netns_add(name, "")
    daemon.start()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(daemon.add, names(workloads)))
    daemon.in_sync()


class Watched(t.NamedTuple):
    """The seconds until the agent `answered` first and until it was done, and the `longest` that an answer took."""

    answered: float
    seconds: float
    longest: float


def watch(daemon: Daemon, began: float, done: t.Callable[[dict[str, t.Any]], bool]) -> Watched:
    """Ask for the status until `done` is true of it; return the time since `began`, and that of the longest answer.

    `began` is a value of time.perf_counter(). Raise AssertionError if this takes more than 120 seconds, if the agent
    ends, or if it reports problems when `done` is true; raise AgentError if one answer takes more than 30 seconds.
    """
    longest = answered = 0.0
    with AgentClient(daemon.socket) as client:
        while True:
            asked = time.perf_counter()
            try:
                status = client.call("status")
            except NotRunning:
                assert daemon.process is not None and daemon.process.poll() is None, daemon.log.read_text()
                status = {}
            else:
                longest = max(longest, time.perf_counter() - asked)
                answered = answered or time.perf_counter() - began
            if status and done(status):
                assert not status["problems"], status["problems"]
                return Watched(answered, time.perf_counter() - began, longest)
            assert asked - began < 120, f"not in sync: {status}"
            time.sleep(ASKED_EVERY)


def restart(daemon: Daemon) -> Watched:
    daemon.kill()
    began = time.perf_counter()
    daemon.start(wait=False)
    return watch(daemon, began, lambda status: bool(status["in_sync"]))


def imports(engine: pathlib.Path) -> float:
    """Return the seconds of a process that imports the modules of the agent and ends."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-I", str(engine), "agent", "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def resync(daemon: Daemon) -> Watched:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        began = time.perf_counter()
        asked = pool.submit(daemon.call, "resync")
        watched = watch(daemon, began, lambda status: asked.done())
        assert asked.result()["changes"] == [], asked.result()["changes"][:5]
    return watched


# ---- the same work by ip -batch


class ByIproute2:
    """The work of `ip -batch` on another host, itself a network namespace, with a namespace for each workload."""

    def __init__(self, folder: pathlib.Path, workloads: int, routes: int) -> None:
        self._folders = {"netns_folder": FOLDER, "marker_folder": str(folder / "their-markers")}
        hosts = [f"cali{number}" for number in range(workloads)]
        addresses = [to.replace("10.128", "10.244") for to in destinations(workloads)]
        self._names = names(workloads)
        self._pairs = "".join(
            f"link add {host} address ee:ee:ee:ee:ee:ee mtu {MTU} type veth peer name eth0 mtu {MTU} netns {name}\n"
            for host, name in zip(hosts, self._names)
        )
        self._insides = [
            f"link set lo up\nlink set eth0 up\naddress add {address} dev eth0\n"
            "route add 169.254.1.1 dev eth0 scope link\nroute add default via 169.254.1.1 dev eth0\n"
            for address in addresses
        ]
        self._sysctls = [
            (f"/proc/sys/net/ipv4/{key.format(host)}", value)
            for host in hosts
            for key, value in (("conf/{}/forwarding", "1"), ("conf/{}/proxy_arp", "1"), ("neigh/{}/proxy_delay", "0"))
        ]
        self._ups = "".join(
            f"link set {host} up\nroute add {address} dev {host} proto 179 scope link\n"
            for host, address in zip(hosts, addresses)
        )
        self._routes = "".join(f"route add {to} via 10.10.1.1 dev eth0 proto bird\n" for to in destinations(routes))

    def make(self) -> dict[str, float]:
        """Set everything up from nothing and remove all namespaces of FOLDER; return {part: seconds} of the setting up.

        Raise CalledProcessError if `ip` fails, OSError if a sysctl cannot be written, KernelError if a namespace cannot
        be made, and AssertionError if the host then has a wrong number of links.
        """
        maker = LinuxKernel(**self._folders)
        maker.netns_add(OTHER_HOST, "")
        for name in self._names:
            maker.netns_add(name, "")
        host = LinuxKernel(OTHER_HOST, **self._folders)
        underlay(host)
        try:
            # A thread can change its namespaces without an effect on others, and its child processes start there. `ip
            # -n` would copy all mounts each time.
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                seconds = pool.submit(self._timed).result()
            assert len(host.links()) == len(self._names) + 3  # lo, eth0 and its other end
            return seconds
        finally:
            host.close()
            for name in maker.netns_list():
                maker.netns_delete(name)
            maker.close()

    def _timed(self) -> dict[str, float]:
        seconds = {}
        for part, work in (
            ("pairs", lambda: batch(OTHER_HOST, self._pairs)),
            ("insides", lambda: [batch(name, text) for name, text in zip(self._names, self._insides)]),
            ("sysctls", self._write_sysctls),
            ("host ends", lambda: batch(OTHER_HOST, self._ups)),
            ("routes", lambda: batch(OTHER_HOST, self._routes)),
        ):
            began = time.perf_counter()
            work()
            seconds[part] = time.perf_counter() - began
        return seconds

    def _write_sysctls(self) -> None:
        enter(OTHER_HOST)
        for path, value in self._sysctls:
            handle = os.open(path, os.O_WRONLY)
            os.write(handle, value.encode())
            os.close(handle)


def enter(netns: str) -> None:
    """Move the calling thread to a network namespace; raise OSError if that fails."""
    handle = os.open(f"{FOLDER}/{netns}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {netns}")
    finally:
        os.close(handle)


def batch(netns: str, text: str) -> None:
    enter(netns)
    subprocess.run(["ip", "-batch", "-"], input=text, text=True, check=True)


# ---- the agent and ip -batch in turn


def measure(folder: pathlib.Path, workloads: int, routes: int, rounds: int) -> dict[str, t.Any]:
    theirs = ByIproute2(folder, workloads, routes)
    engine = install_engine(folder / "engine")
    with daemon_under_test(engine, folder / "host", None) as daemon:
        prepare(daemon, workloads, routes)
        restarts, makings, importings = [], [], []
        for _round in range(rounds):
            makings.append(theirs.make())
            restarts.append(restart(daemon))
            importings.append(imports(engine))
        time.sleep(2)
        after_start = daemon.memory("VmRSS") / 1024
        started = daemon.memory() / 1024
        again = resync(daemon)
        resynced = daemon.memory() / 1024
        assert len(daemon.kernel.routes(protocol=BIRD)) == routes
        return {
            "answered_seconds": statistics.median(watched.answered for watched in restarts),
            "in_sync_seconds": statistics.median(watched.seconds for watched in restarts),
            "imports_seconds": statistics.median(importings),
            "restart_seconds": [round(watched.seconds, 3) for watched in restarts],
            "ip_batch_seconds": [round(sum(parts.values()), 3) for parts in makings],
            "ip_batch_parts": {part: round(seconds, 3) for part, seconds in makings[-1].items()},
            "ratio": statistics.median(
                watched.seconds / sum(parts.values()) for watched, parts in zip(restarts, makings)
            ),
            "ratio_without_insides": statistics.median(
                watched.seconds / (sum(parts.values()) - parts["insides"]) for watched, parts in zip(restarts, makings)
            ),
            "blocked_at_restart_ms": max(watched.longest for watched in restarts) * 1000,
            "resync_seconds": again.seconds,
            "blocked_at_resync_ms": again.longest * 1000,
            "memory_started_mib": started,
            "memory_after_start_mib": after_start,
            "memory_resynced_mib": resynced,
            "memory_now_mib": daemon.memory("VmRSS") / 1024,
        }


def reached(figures: dict[str, t.Any]) -> dict[str, bool]:
    """Return {figure: whether its goal is met} for the figures in GOALS; the others have no goal."""
    return {figure: figures[figure] <= goal for figure, goal in GOALS.items()}


def report(figures: dict[str, t.Any], workloads: int, routes: int) -> None:
    verdict = {
        figure: f"goal {GOALS[figure]:g}: {'met' if met else 'MISSED'}" for figure, met in reached(figures).items()
    }
    parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in figures["ip_batch_parts"].items())
    print(f"{workloads} workloads, {routes} routes of BIRD, {len(figures['restart_seconds'])} rounds in turn")
    print(f"  kill -9 until it answers{figures['answered_seconds']:6.2f} s   {verdict['answered_seconds']}")
    print(f"  imports alone           {figures['imports_seconds']:6.2f} s")
    print(f"  kill -9 until in sync   {figures['in_sync_seconds']:6.2f} s   {verdict['in_sync_seconds']}")
    print(f"  ip -batch, from nothing {statistics.median(figures['ip_batch_seconds']):6.2f} s   (the last: {parts})")
    print(f"  ratio                   {figures['ratio']:6.2f}     {verdict['ratio']}")
    print(f"  without the insides     {figures['ratio_without_insides']:6.2f}     (a process for each of them)")
    print(f"  event loop blocked      {figures['blocked_at_restart_ms']:6.1f} ms at most during it")
    print(f"  a resync                {figures['resync_seconds']:6.2f} s")
    print(f"  event loop blocked      {figures['blocked_at_resync_ms']:6.1f} ms at most during it")
    for what, figure in (("the start", "memory_started_mib"), ("the resync", "memory_resynced_mib")):
        print(f"  VmHWM after {what:<11} {figures[figure]:6.1f} MiB   {verdict[figure]}")
    print(
        f"  VmRSS after the start   {figures['memory_after_start_mib']:6.1f} MiB   {verdict['memory_after_start_mib']}"
    )
    print(f"  VmRSS after the resync  {figures['memory_now_mib']:6.1f} MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--routes", type=int, default=10000)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/restart.py makes network namespaces: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        # When the process ends, the kernel removes its network and mount namespaces, and the tmpfs on /run/netns.
        script = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec "$0" "$@"'
        command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script, sys.executable]
        inside = {**os.environ, "CALICO_BENCH_INSIDE": "1"}
        return subprocess.run([*command, *sys.argv], env=inside, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="calico-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "host").mkdir()
        figures = measure(folder, arguments.workloads, arguments.routes, arguments.rounds)
    if arguments.json:
        print(json.dumps(figures))
    else:
        report(figures, arguments.workloads, arguments.routes)
    return 0 if all(reached(figures).values()) else 1


if __name__ == "__main__":
    sys.exit(main())
