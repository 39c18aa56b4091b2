#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What 1,000 agents that watch an etcd cluster of three members cost it, and when the last of them knows of a change.

Run as root. It makes a network namespace of its own with three members of Debian 13's etcd on its loopback, with TLS
and users. Watchers are made of the agents' own transport and parser, each with a connection of its own, in a few
processes. A writer makes 5 changes a second. The same run measures no watchers and a tenth of them first, for the
ratios:

  last         from the call of the writer until the last watcher has parsed the change: median and p99 of all changes
  put          the writer's call itself: what one change costs without anybody who watches
  processor    of the three members, for each delivery (a change at a watcher), without what the changes cost them
               when nobody watches; the client's is that of all watchers
  memory       of the members, for each watcher

Goals: the last watcher has a change within 0.5 s at p99. Ten times the watchers take at most 15 times as long for the
last one, in the median, and cost each delivery at most 1.5 times the processor. The exit status is 1 if one is missed.
The times want a machine with little else to do, and a folder for temporary files that is not on a slow disk.

    bench/datastore.py [--watchers 1000] [--changes 5] [--seconds 20] [--release trixie] [--gate] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import (  # noqa: E402
    places,
    quotas,
    tokens,
    turns,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.server import Gate  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import (  # noqa: E402
    DatastoreSettings,
    address_of,
)

from tests.etcd_cluster import RELEASES, EtcdCluster, Member, programs  # noqa: E402
from tests.integration.datastore.gates import server_tls  # noqa: E402
from tests.integration.datastore.reader import blocks, put  # noqa: E402

GATE_PORT = 2381
UNBOUNDED = 1_000_000
LAST_SECONDS = 0.5
LAST_RATIO = 15.0
DELIVERY_RATIO = 1.5
CONNECTING = 20  # watchers of a process that connect at the same time
_TICKS = os.sysconf("SC_CLK_TCK")


class Measured(t.NamedTuple):
    """One measurement, in seconds, and bytes for `memory`."""

    watchers: int
    changes: int
    median: float
    p99: float
    put: float
    delivery: float
    client: float
    memory: float
    members: list[float]

    def to_dict(self) -> dict[str, t.Any]:
        """Return it JSON-ready."""
        return self._asdict()


class Arrivals(t.NamedTuple):
    """What a process of watchers saw: by change, how many have it, and when the last one had. `cpu` is in seconds."""

    seen: dict[int, tuple[int, float]]
    cpu: float


def watch(share: list[DatastoreSettings], revision: int, ready: t.Any, stop: t.Any, answers: t.Any) -> None:
    """Watch with a client for each of the settings until `stop` is set, and put Arrivals into `answers`."""
    seen: dict[int, tuple[int, float]] = {}

    async def one(settings: DatastoreSettings, connecting: asyncio.Semaphore, begun: list[int]) -> None:
        client = settings.client()
        async with connecting:
            await client.call("/v3/kv/range", gateway.range_request(keys.WATCHED, limit=1))
            watching = client.member.watch(keys.WATCHED, revision)
            lines = await watching.__aenter__()
            assert gateway.watch_answer_of(await lines.next(30)).created
        begun.append(1)
        while True:
            for change in gateway.watch_answer_of(await lines.next(3600)).changes:
                now = time.monotonic()
                number = change.mod_revision
                count, last = seen.get(number, (0, 0.0))
                seen[number] = count + 1, max(last, now)

    async def run() -> None:
        connecting, begun = asyncio.Semaphore(CONNECTING), list[int]()
        tasks = [asyncio.ensure_future(one(settings, connecting, begun)) for settings in share]
        while len(begun) < len(share):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.1)
        ready.release()
        began = time.process_time()
        while not stop.is_set():
            await asyncio.sleep(0.2)
        answers.put(Arrivals(seen, time.process_time() - began))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def cpu(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    fields = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGESIZE")


async def write(cluster: EtcdCluster, changes: int, pause: float) -> tuple[dict[int, float], list[float]]:
    """Make so many changes; return when each began, by its revision, and how long each call took."""
    client = cluster.operator()
    await client.status()
    began: dict[int, float] = {}
    took = []
    for number in range(changes):
        now = time.monotonic()
        body = gateway.transaction_request([put(number % 60, "node2", f"app{number}")])
        answer = await client.call("/v3/kv/txn", body)
        took.append(time.monotonic() - now)
        began[gateway.header_of(answer).revision] = now
        await asyncio.sleep(max(0.0, now + pause - time.monotonic()))
    await client.close()
    return began, took


def alone(cluster: EtcdCluster, rate: float, seconds: float) -> float:
    """Return the processor time of all members for changes without a watcher, in seconds for each change."""
    asyncio.run(write(cluster, 5, 0.2))  # warm
    spent = sum(cpu(member.pid) for member in cluster.members)
    asyncio.run(write(cluster, int(rate * seconds), 1 / rate))
    return (sum(cpu(member.pid) for member in cluster.members) - spent) / int(rate * seconds)


def keep_gate(cluster: EtcdCluster, member: Member) -> None:
    """Serve agents before a member, at the port GATE_PORT of its address. Never return.

    All watchers are one user at one address, so nothing of these is bounded.
    """
    for module, names in (
        (places, ("FLEET_ADDRESS", "_FLEET_RATE")),
        (quotas, ("_WATCHES", "_BEGINNING")),
        (tokens, ("_TOKENS",)),
        (turns, ("_RATE", "_BURST", "_WAITING", "_WAITING_SECONDS")),
    ):
        for name in names:
            setattr(module, name, (UNBOUNDED, UNBOUNDED) if name == "_FLEET_RATE" else UNBOUNDED)
    places._POOLS = dict.fromkeys(places._POOLS, UNBOUNDED)

    async def run() -> None:
        context, tls = server_tls(cluster, member)
        gate = Gate(address_of(member.url), tls, str(cluster.fleet_file))
        listener = await gate.listen(member.host, GATE_PORT, context)
        await asyncio.sleep(86_400)
        listener.close()

    asyncio.run(run())


def measure(
    cluster: EtcdCluster, urls: t.Sequence[str], watchers: int, base: float, rate: float, seconds: float, processes: int
) -> Measured:
    """Measure with so many watchers, where a change alone costs the members `base` seconds of a processor.

    Raise AssertionError if one of the watchers does not get every change.
    """
    context = multiprocessing.get_context("forkserver")
    ready, stop, answers = context.Semaphore(0), context.Event(), context.Queue()
    settings = [cluster.settings("node1", [urls[number % len(urls)]]) for number in range(watchers)]
    pids = [member.pid for member in cluster.members]
    before = sum(map(memory, pids))
    revision = asyncio.run(newest(cluster)) + 1
    shares = [settings[number::processes] for number in range(processes)]
    workers = [context.Process(target=watch, args=(share, revision, ready, stop, answers)) for share in shares]
    for worker in workers:
        worker.start()
    for dummy in workers:
        assert ready.acquire(timeout=300), "the watchers do not begin"
    asyncio.run(write(cluster, 5, 0.2))  # warm
    time.sleep(1)
    used, spent = sum(map(memory, pids)), list(map(cpu, pids))
    began, took = asyncio.run(write(cluster, int(rate * seconds), 1 / rate))
    time.sleep(2)
    members = [after - first for first, after in zip(spent, map(cpu, pids))]
    stop.set()
    arrivals = [answers.get(timeout=60) for worker in workers]
    for worker in workers:
        worker.join(60)
    last = []
    for revision, when in began.items():
        found = [arrival.seen.get(revision, (0, 0.0)) for arrival in arrivals]
        assert sum(count for count, dummy in found) == watchers, "a change is missing"
        last.append(max(time_ for dummy, time_ in found) - when)
    deliveries = watchers * len(began)
    return Measured(
        watchers,
        len(began),
        statistics.median(last),
        statistics.quantiles(last, n=100)[98],
        statistics.median(took),
        max(0.0, sum(members) - base * len(began)) / deliveries,
        sum(arrival.cpu for arrival in arrivals) / deliveries,
        (used - before) / watchers,
        [one / (seconds + 2) for one in members],
    )


async def newest(cluster: EtcdCluster) -> int:
    """Return the store's newest revision."""
    client = cluster.operator()
    try:
        return (await client.status()).header.revision
    finally:
        await client.close()


async def fill(cluster: EtcdCluster) -> None:
    """Write the blocks of three nodes, and make the watchers' user."""
    client = cluster.operator()
    await client.write(blocks())
    await cluster.add_node("node1")
    await client.close()


def show(one: Measured) -> None:
    """Print a measurement."""
    print(
        f"{one.watchers:>5} watchers, {one.changes} changes:"
        f"  last {one.median * 1000:.0f} ms in the median, {one.p99 * 1000:.0f} ms at p99;  put {one.put * 1000:.1f} ms"
    )
    busy = ", ".join(f"{share:.0%}" for share in one.members)
    print(
        f"      members: {one.delivery * 1e6:.0f} us for each delivery ({busy} of a processor),"
        f" {one.memory / 1024:.0f} KiB for each watcher;  client {one.client * 1e6:.0f} us for each delivery"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--changes", type=float, default=5, help="a second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--release", choices=sorted(RELEASES), default="trixie")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--gate", action="store_true", help="with a gate before each member")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/datastore.py makes a network namespace: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        # The namespace belongs to this process and goes away with it.
        inside = {**os.environ, "CALICO_BENCH_INSIDE": "1"}
        return subprocess.run(["unshare", "--net", sys.executable, *sys.argv], env=inside, check=False).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="calico-bench-") as name:
        folder = programs(options.release)
        with EtcdCluster(folder, pathlib.Path(name), apart=False) as cluster:
            cluster.begin()
            asyncio.run(fill(cluster))
            base = alone(cluster, options.changes, options.seconds)
            urls, guards = list(cluster.urls), []
            if options.gate:
                context = multiprocessing.get_context("fork")
                guards = [context.Process(target=keep_gate, args=(cluster, member)) for member in cluster.members]
                for guard in guards:
                    guard.start()
                urls = [f"https://{member.host}:{GATE_PORT}" for member in cluster.members]
                time.sleep(1)
            pids = [guard.pid for guard in guards if guard.pid is not None]
            spent = sum(map(cpu, pids))
            few, many = (
                measure(cluster, urls, watchers, base, options.changes, options.seconds, options.processes)
                for watchers in (max(1, options.watchers // 10), options.watchers)
            )
            spent = sum(map(cpu, pids)) - spent
            memory_of_gates = sum(map(memory, pids))
            for guard in guards:
                guard.kill()
    if options.gate:
        deliveries = few.watchers * few.changes + many.watchers * many.changes
        per_watcher = memory_of_gates / many.watchers / 1024
        print(f"gates: {spent / deliveries * 1e6:.0f} us for each delivery, connecting included; {per_watcher:.0f} KiB")
    ratio = many.delivery / few.delivery if few.delivery else 0.0
    slower = many.median / few.median
    goals = {"last": many.p99 <= LAST_SECONDS, "growth": slower <= LAST_RATIO, "delivery": ratio <= DELIVERY_RATIO}
    if options.json:
        print(
            json.dumps(
                {
                    "alone": base,
                    "few": few.to_dict(),
                    "many": many.to_dict(),
                    "growth": slower,
                    "delivery_ratio": ratio,
                    "goals": goals,
                }
            )
        )
        return 0 if all(goals.values()) else 1
    print(f"    0 watchers:  members: {base * 1e3:.1f} ms for each change")
    for one in (few, many):
        show(one)
    verdict = {what: "met" if ok else "MISSED" for what, ok in goals.items()}
    puts = many.p99 / many.put
    print(f"  last       {many.p99:6.3f} s at p99, {puts:.1f} puts   goal <= {LAST_SECONDS:g} s: {verdict['last']}")
    print(f"  growth     {slower:6.2f} times as long as a tenth   goal <= {LAST_RATIO:g}: {verdict['growth']}")
    print(f"  delivery   {ratio:6.2f} of the cost with a tenth   goal <= {DELIVERY_RATIO:g}: {verdict['delivery']}")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
