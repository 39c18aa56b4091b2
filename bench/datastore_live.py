#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy that follows workloads of another node through etcd, and what ADD costs with and without it.

Run as root. Two agents, each a process of its own on a host of its own, and three members of Debian's etcd with TLS and
users, all in network namespaces of this machine.

  follow     from the answer of ADD on one node until its address is in the set of the other node's kernel; and from the
             answer of DELETE until it is out of it. The set is read every few milliseconds, which is part of the time
  paused     the same with a second between two changes, and from the start of ADD as well
  write      one transaction of an etcd client, in the same run: what of it is etcd's own
  ADD        ADD and DELETE of one workload, on a node with a datastore and on one without, in turn: with members that
             answer (they and the other node take processor time of the same machine), with slow ones (stopped for
             200 ms of every 220), with all of them ended, and with all of them stopped, so that they accept connections
             and say nothing
  burst      10,000 workloads elsewhere are known, and 5,000 of them change at once: from the last write until all are
             in the set of the node's kernel, or out of it; ADD and DELETE on that node meanwhile, as multiples of
             before, on the node without a datastore as well: what etcd's members and clients take of the processors is
             in both; and the longest time that the agent kept a caller waiting, before and meanwhile
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import pathlib
import statistics
import sys
import tempfile
import threading
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient  # noqa: E402

from tests.etcd_cluster import EtcdCluster, programs  # noqa: E402
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine  # noqa: E402
from tests.integration.agent.test_datastore import (  # noqa: E402
    elsewhere,
    elsewhere_blocks,
    state_of,
    webs,
    written,
)
from tests.integration.host_under_test import HOST  # noqa: E402

#: The greatest values: milliseconds, and ADD with a datastore in that state as a multiple of ADD without one.
GOALS = {
    "follow_median_ms": 150.0,
    "follow_p99_ms": 500.0,
    "add_slow": 1.1,
    "add_ended": 1.1,
    "add_stopped": 1.1,
    "paused_came_median_ms": 17.0,
    "paused_came_p99_ms": 23.0,
    "burst_seconds": 0.5,
    "burst_add_to_alone": 1.5,
}
PAUSE = 1.0  # seconds between two changes of the rows `paused`
PARTS = ("follow", "add", "burst")


class Watcher(threading.Thread):
    """Notes when an address came into the set of `app == 'web'`, and when it went."""

    def __init__(self, node: Daemon) -> None:
        super().__init__(daemon=True)
        self.came: dict[str, float] = {}
        self.went: dict[str, float] = {}
        self.ended = False
        self._node = node

    def run(self) -> None:
        known: set[str] = set()
        while not self.ended:
            found, now = webs(self._node), time.perf_counter()
            self.came.update((address, now) for address in found - known)
            self.went.update((address, now) for address in known - found)
            known = found

    def until(self, times: dict[str, float], address: str) -> float:
        end = time.perf_counter() + 30
        while address not in times:
            if time.perf_counter() > end:
                raise TimeoutError(address)
            time.sleep(0.001)
        return times.pop(address)


def follow(one: Daemon, two: Daemon, count: int, pause: float = 0.0) -> dict[str, t.Any]:
    """Return the times of `count` workloads that follow each other, after a pause of so many seconds for each."""
    watcher = Watcher(two)
    watcher.start()
    came, went, whole = [], [], []
    for number in range(count):
        name = f"{'p' if pause else 'f'}{number}"
        one.netns(name)
        time.sleep(pause)
        began = time.perf_counter()
        address = one.add(name, labels={"app": "web"})["addresses"][0]
        answered = time.perf_counter()
        came.append(watcher.until(watcher.came, address) - answered)
        whole.append(came[-1] + answered - began)
        time.sleep(pause)
        one.delete(name)
        answered = time.perf_counter()
        went.append(watcher.until(watcher.went, address) - answered)
        one.settled()
        one.kernel.netns_delete(name)
    watcher.ended = True
    watcher.join()
    both = sorted(came + went)
    if pause:
        return {
            "paused_came_median_ms": 1e3 * statistics.median(came),
            "paused_came_p99_ms": 1e3 * sorted(came)[int(len(came) * 0.99)],
            "paused_from_start_ms": 1e3 * statistics.median(whole),
        }
    return {
        "follow_median_ms": 1e3 * statistics.median(both),
        "follow_p99_ms": 1e3 * both[int(len(both) * 0.99)],
        "came_median_ms": 1e3 * statistics.median(came),
        "went_median_ms": 1e3 * statistics.median(went),
    }


async def write(cluster: EtcdCluster, count: int) -> float:
    operator = cluster.operator()
    times = []
    for number in range(count):
        began = time.perf_counter()
        await operator.write([Put(keys.pool_key("bench"), b"%d" % number)])
        times.append(time.perf_counter() - began)
    await operator.close()
    return 1e3 * statistics.median(times)


async def grant(cluster: EtcdCluster) -> None:
    operator = cluster.operator()
    for number in (1, 2):
        await cluster.add_node(f"node{number}")
        await operator.write(
            [Put(keys.blocks_key(f"node{number}"), documents.encode_blocks([f"10.244.{number}.0/24"]))]
        )
    await operator.close()


class Slowness(threading.Thread):
    """Stops all members for 200 ms, again and again with pauses of 20 ms, until `end`."""

    def __init__(self, cluster: EtcdCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.02):
            for number in self._cluster.numbers:
                self._cluster.stop(number)
            time.sleep(0.2)
            for number in self._cluster.numbers:
                self._cluster.cont(number)

    def end(self) -> None:
        self._ended.set()
        self.join()


class Asker(threading.Thread):
    """Asks the agent for its version all the time, and keeps the seconds of the slowest answer."""

    def __init__(self, node: Daemon) -> None:
        super().__init__(daemon=True)
        self.slowest = 0.0
        self.ended = False
        self._node = node

    def run(self) -> None:
        with AgentClient(self._node.socket, 30.0) as client:
            while not self.ended:
                began = time.perf_counter()
                client.call("version")
                self.slowest = max(self.slowest, time.perf_counter() - began)
                time.sleep(0.002)


class Filling(threading.Thread):
    """Waits until the set of `app == 'web'` has `count` members; `done` is when, None before."""

    def __init__(self, node: Daemon, count: int) -> None:
        super().__init__(daemon=True)
        self.done: t.Optional[float] = None
        self._node = node
        self._count = count

    def run(self) -> None:
        while self.done is None:
            found = self._node.kernel.ipset_headers()
            if [one.elements for name, one in found.items() if name.startswith("cali40s")] == [self._count]:
                self.done = time.perf_counter()
            time.sleep(0.005)


def burst(cluster: EtcdCluster, node: Daemon, alone: Daemon, rounds: int) -> dict[str, float]:
    """Return how a node copes with 5,000 changes at once beside 10,000 workloads elsewhere, `rounds` times.

    `alone` has no datastore.
    """

    def run(operations: t.Sequence[t.Any]) -> None:
        with cluster.inside():
            asyncio.run(written(cluster, operations))

    run([*elsewhere_blocks(), *elsewhere(0, 10_000)])
    node.until(lambda: node.call("status")["datastore"]["workloads"] >= 10_000, "all are known")
    time.sleep(2)
    quiet, busy = Asker(node), Asker(node)
    quiet.start()
    before = [added(node, f"q{number}") for number in range(40)]
    quiet.ended = True
    quiet.join()
    before_alone = [added(alone, f"q{number}") for number in range(40)]
    busy.start()
    forking = multiprocessing.get_context("fork")
    seconds: list[float] = []
    meanwhile, meanwhile_alone = list[Times](), list[Times]()
    for number in range(rounds):
        count = 0 if number % 2 else 5_000
        # A process of its own, so that it does not keep this one's threads from measuring.
        writer = forking.Process(target=run, args=(elsewhere(0, 5_000, "web" if count else "other"),))
        filling = Filling(node, count)
        filling.start()
        writer.start()
        written_at = 0.0
        while filling.done is None:
            meanwhile.append(added(node, f"b{len(meanwhile)}"))
            meanwhile_alone.append(added(alone, f"b{len(meanwhile)}"))
            if not written_at and not writer.is_alive():
                written_at = time.perf_counter()
        writer.join()
        seconds.append(max(0.0, filling.done - (written_at or filling.done)))
        time.sleep(1)
    busy.ended = True
    busy.join()
    add, delete = _slower(meanwhile, before)
    add_alone, delete_alone = _slower(meanwhile_alone, before_alone)
    return {
        "burst_seconds": statistics.median(seconds),
        "burst_add": add,
        "burst_add_alone": add_alone,
        "burst_add_to_alone": add / add_alone,
        "burst_delete": delete,
        "burst_delete_alone": delete_alone,
        "burst_adds": float(len(meanwhile)),
        "add_quiet_ms": 1e3 * statistics.median(one.add for one in before),
        "slowest_ms_quiet": 1e3 * quiet.slowest,
        "slowest_ms_burst": 1e3 * busy.slowest,
    }


class Times(t.NamedTuple):
    """The seconds of ADD and of DELETE."""

    add: float
    delete: float


def _slower(meanwhile: t.Sequence[Times], before: t.Sequence[Times]) -> Times:
    """Return the medians of `meanwhile` as multiples of those of `before`."""
    return Times(
        statistics.median(one.add for one in meanwhile) / statistics.median(one.add for one in before),
        statistics.median(one.delete for one in meanwhile) / statistics.median(one.delete for one in before),
    )


def added(node: Daemon, name: str) -> Times:
    """Return the times of ADD and DELETE of a workload in a namespace that is there."""
    node.netns(name)
    began = time.perf_counter()
    node.add(name)
    between = time.perf_counter()
    node.delete(name)
    times = Times(between - began, time.perf_counter() - between)
    node.settled()
    node.kernel.netns_delete(name)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="trixie", choices=["bookworm", "trixie"])
    parser.add_argument("--count", type=int, default=200, help="workloads that are followed (default: %(default)s)")
    parser.add_argument("--paused", type=int, default=60, help="workloads that come seldom (default: %(default)s)")
    parser.add_argument("--bursts", type=int, default=10, help="bursts of 5,000 changes (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=200, help="times of ADD in each state (default: %(default)s)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is measured (default: all)")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calico-bench-")))
        engine = install_engine(folder / "engine")
        cluster = stack.enter_context(EtcdCluster(programs(options.release), folder / "etcd"))
        with cluster.inside():
            cluster.begin()
            asyncio.run(grant(cluster))
        nodes = []
        for number in (1, 2, 3):
            (folder / f"node{number}").mkdir()
            node = stack.enter_context(daemon_under_test(engine, folder / f"node{number}", state_of(number)))
            if number < 3:  # the third one has no datastore
                cluster.join(str(folder / f"node{number}" / "netns" / HOST), 100 + number, "etcd0")
                node.follow(cluster.settings(f"node{number}"))
            node.start()
            nodes.append(node)
        one, two, alone = nodes
        two.add("db", labels={"app": "db"})
        for node in (one, two):
            node.until(lambda n=node: n.call("status")["datastore"]["synced"], "the datastore is followed")
        found: dict[str, float] = {}
        if "follow" in options.parts:
            found.update(follow(one, two, options.count))
            found.update(follow(one, two, options.paused, PAUSE))
            with cluster.inside():
                found["write_ms"] = asyncio.run(write(cluster, options.count))
        if "add" in options.parts:
            found.update(compared(cluster, one, alone, options.rounds))
            two.until(lambda: two.call("status")["datastore"]["synced"], "the datastore is followed")
        if "burst" in options.parts:
            found.update(burst(cluster, two, alone, options.bursts))
    if options.output == "json":
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            goal = GOALS.get(name)
            verdict = "" if goal is None else f"   goal {goal:g}: {'met' if value <= goal else 'MISSED'}"
            print(f"{name:<20} {value:8.2f}{verdict}")
    return 1 if any(found.get(name, 0.0) > goal for name, goal in GOALS.items()) else 0


def compared(cluster: EtcdCluster, one: Daemon, alone: Daemon, rounds: int) -> dict[str, float]:
    """Return ADD and DELETE with a datastore in each state, as a multiple of those without one; both in turn."""
    slow = Slowness(cluster)
    states: dict[str, tuple[t.Callable[[], t.Any], t.Callable[[], t.Any]]] = {
        "add_followed": (lambda: None, lambda: None),
        "add_slow": (slow.start, slow.end),
        "add_ended": (cluster.kill, cluster.start),
        "add_stopped": (
            lambda: [cluster.stop(number) for number in cluster.numbers],
            lambda: [cluster.cont(number) for number in cluster.numbers],
        ),
    }
    found = {}
    for name, (begin, end) in states.items():
        begin()
        time.sleep(1)
        with_it, without = [], []
        for number in range(rounds):
            pair = [(alone, without), (one, with_it)]
            for node, times in pair if number % 2 else reversed(pair):
                times.append(sum(added(node, f"w{number}")))
        end()
        found[name] = statistics.median(with_it) / statistics.median(without)
        found[f"{name[4:]}_without_ms"] = 1e3 * statistics.median(without)
    return found


if __name__ == "__main__":
    sys.exit(main())
