#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What 20,000 workloads that came and went leave behind in agent, disk and kernel: the goal is nothing.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. The agent is the real
one: the engine from its bundle, a process in a network namespace that stands for a host. Four other processes call its
API at the same time, each adding a workload of another name and deleting it again; addresses have no cooldown, so all
are used again and again. After each 1,000 pairs the callers pause until the links of all that was deleted are gone, for
the counting.

Counted as no growth:

  things    file descriptors, threads, records, links, routes, addresses in the books: exactly as many as before, when
            100 pairs had opened what is opened once
  journal   at most 260 KiB: at 256 the agent writes it anew
  memory    a slope of less than 8 bytes a pair after the first 3,000: that is less than one entry of a list,
            and the smallest thing that could be left behind of a pair, a name in a table, takes 100. At the end of
            the heap lies up to 0.2 MiB of freed memory that the kernel has back in one sample and not in the next; so
            of three samples the lowest counts: whatever is left behind raises it as well. The slope is the median of
            the slopes between every two of these (Theil and Sen). A run with fewer than two groups of three such
            samples has no slope, and its goal counts as missed: before the first 3,000 memory grows
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
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

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.allocation_journal import COMPACT_ABOVE  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError  # noqa: E402

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine  # noqa: E402
from tests.unit.agent.node_under_test import STATE  # noqa: E402

CALLERS = 4
NAMESPACES = 50  # per caller, used in turn
FIRST = 100  # pairs before anything is counted
SAMPLE = 1000  # pairs between two samples
WARM = 3000  # pairs (an add and a delete) before memory counts: the journal was rewritten once, and all code is loaded
GROUP = 3  # samples per group; the lowest of them counts
SLOPE = 8.0  # bytes per pair: memory must grow by less
JOURNAL_KIB = COMPACT_ABOVE // 1024 + 4  # the journal's greatest size in KiB: one write may go beyond COMPACT_ABOVE


class Counted(t.NamedTuple):
    """One sample after `pairs` pairs.

    `memory` is the bytes of anonymous pages in RAM (RssAnon), `journal` the bytes of the journal's file, `things` is
    {kind: number}.
    """

    pairs: int
    memory: int
    journal: int
    things: dict[str, int]


def call(socket: str, caller: str, namespaces: t.Sequence[str], pairs: range) -> str:
    """Add and delete one workload for each number in `pairs`; return the text of an AgentError, "" if there was none.

    After an AgentError nothing more is called. `socket` is the path of the agent's socket. `namespaces` are paths, used
    in turn.
    """
    try:
        with AgentClient(socket) as client:
            for pair in pairs:
                name = f"{caller}-{pair}"
                client.call("workload.add", name=name, netns=namespaces[pair % len(namespaces)])
                client.call("workload.delete", id=f"default/{name}")
    except AgentError as error:
        return str(error)
    return ""


def count(daemon: Daemon, pairs: int) -> Counted:
    daemon.settled()
    daemon.in_sync()
    time.sleep(0.1)  # until the agent has seen that the connection for `in_sync` is closed
    folder = pathlib.Path(f"/proc/{daemon.pid}")
    return Counted(
        pairs,
        daemon.memory("RssAnon") * 1024,
        (daemon.folder / "lib" / "ipam" / "allocations").stat().st_size,
        {
            "file descriptors": len(list((folder / "fd").iterdir())),
            "threads": len(list((folder / "task").iterdir())),
            "records": len(daemon.records),
            "links": len(daemon.links),
            "routes": len(daemon.routes),
            "addresses": len(daemon.allocated()),
        },
    )


def run(daemon: Daemon, pairs: int, sample: int) -> t.Iterator[Counted]:
    """Start the agent, and add and delete `pairs` workloads; yield a sample before, and one after each `sample` pairs.

    The FIRST pairs come before the first sample and are not counted. `pairs` is rounded up to a multiple of `sample`,
    which must be a multiple of CALLERS. Raise AssertionError if a caller reports an error, if the agent ends at its
    start or does not listen within 30 seconds, or if at a sample it does not delete its links and come into sync within
    30 seconds each. Raise AgentError if it listens and does not answer, or is gone at a sample.
    """
    daemon.start()
    callers = [f"caller{number}" for number in range(CALLERS)]
    namespaces = {caller: [daemon.netns(f"{caller}-{n}") for n in range(NAMESPACES)] for caller in callers}
    with multiprocessing.get_context("forkserver").Pool(CALLERS) as pool:

        def call_all(first: int, pairs: int) -> None:
            share = range(first // CALLERS, (first + pairs) // CALLERS)
            asked = [(daemon.socket, caller, namespaces[caller], share) for caller in callers]
            wrong = list(filter(None, pool.starmap(call, asked, chunksize=1)))
            assert not wrong, wrong

        call_all(0, FIRST)
        yield count(daemon, 0)
        for done in range(0, pairs, sample):
            call_all(FIRST + done, sample)
            yield count(daemon, done + sample)


def slope(samples: t.Sequence[Counted]) -> t.Optional[float]:
    """Return the growth of memory in bytes per pair: the median slope between the lowest samples of all groups.

    A group is GROUP samples in a row, from WARM pairs on; samples at the end that fill no group are left out. Return
    None for fewer than two groups, which show no trend.
    """
    warm = [sample for sample in samples if sample.pairs >= WARM]
    groups = [warm[first : first + GROUP] for first in range(0, len(warm) - GROUP + 1, GROUP)]
    lowest = [min(group, key=lambda sample: sample.memory) for group in groups]
    if len(lowest) < 2:
        return None
    return statistics.median(
        (later.memory - earlier.memory) / (later.pairs - earlier.pairs)
        for number, earlier in enumerate(lowest)
        for later in lowest[number + 1 :]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--sample", type=int, default=SAMPLE, metavar="PAIRS", help="between two samples")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/growth.py makes network namespaces: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        # The namespaces belong to this process and go away with it.
        command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable]
        inside = {**os.environ, "CALICO_BENCH_INSIDE": "1"}
        return subprocess.run([*command, *sys.argv], env=inside, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="calico-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "host").mkdir()
        began = time.monotonic()
        samples = []
        with daemon_under_test(install_engine(folder / "engine"), folder / "host", STATE) as daemon:
            for sample in run(daemon, arguments.pairs, arguments.sample):
                samples.append(sample)
                if not arguments.json:
                    print(
                        f"  {sample.pairs:6} pairs   memory {sample.memory / 1024:7.0f} KiB   journal"
                        f" {sample.journal / 1024:4.0f} KiB   "
                        + ", ".join(f"{number} {what}" for what, number in sample.things.items()),
                        flush=True,
                    )
        seconds = time.monotonic() - began
    rise = slope(samples)
    grown = {
        what: (samples[0].things[what], number)
        for what, number in samples[-1].things.items()
        if number != samples[0].things[what]
    }
    journal = max(sample.journal for sample in samples) / 1024
    goals = {"memory": rise is not None and rise < SLOPE, "things": not grown, "journal": journal <= JOURNAL_KIB}
    if arguments.json:
        print(json.dumps({"slope": rise, "grown": grown, "journal_kib": journal, "seconds": seconds, "goals": goals}))
        return 0 if all(goals.values()) else 1
    verdict = {what: "met" if ok else "MISSED" for what, ok in goals.items()}
    print(f"{samples[-1].pairs} pairs of add and delete by {CALLERS} callers at once, in {seconds:.0f} s")
    shown = "too few samples for a slope" if rise is None else f"{rise:+6.2f} bytes a pair"
    print(f"  memory    {shown} after the first {WARM}   goal below {SLOPE:g}: {verdict['memory']}")
    print(f"  things    {grown or 'as many as before'}   goal as many: {verdict['things']}")
    print(f"  journal   {journal:6.1f} KiB at most   goal {JOURNAL_KIB}: {verdict['journal']}")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
