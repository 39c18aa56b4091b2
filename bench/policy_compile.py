#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiling a node's policy from nothing: how it grows with the endpoints of other nodes.

The world is that of bench/policy.py: 500 policies with 30,000 rules and 1,000 workloads here, and 1,000, 3,000 or
10,000 elsewhere, which the rules select by label. Measured is the way from Endpoint and Policy values to the texts of
chains and the members of sets, in a running process without any previous result. Nothing is programmed. Each number of
endpoints has its turn in each round, and the goal is on the medians. A second pass, after a complete one, is reported
beside it.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from bench.policy import APPS, HERE, LOCAL, Node, endpoint, policies  # noqa: E402

SIZES = (1000, 3000, 10000)
GROWTH = 12.0  # the greatest ratio of the time with 10,000 endpoints elsewhere to that with 1,000


def compile_once(remote: int) -> tuple[float, float]:
    """Return the seconds of compiling everything beside `remote` endpoints elsewhere, and of a pass without a change.

    The latter include counting the members of all sets. Raise AssertionError if these are not more than `remote`.
    """
    known = policies()
    endpoints = [endpoint(n, f"a{n % APPS:03}", HERE) for n in range(LOCAL)]
    endpoints += [endpoint(LOCAL + n, f"a{n % APPS:03}", f"node{2 + n % 40}") for n in range(remote)]
    node = Node(None)  # type: ignore[arg-type]  # nothing is programmed
    gc.collect()
    began = time.perf_counter()
    node.index.update_policy_set(known)
    for one in endpoints:
        node.index.update_endpoint(one)
    node.render()
    done = time.perf_counter()
    _tables, sets = node.desired
    assert sum(len(found.members) for found in sets) > remote
    node.render()
    return done - began, time.perf_counter() - done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    compile_once(SIZES[0])  # not counted: the first call includes work that Python does only once
    times: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
    for _round in range(arguments.rounds):
        for size in SIZES:
            times[size].append(compile_once(size))
    medians = {size: [statistics.median(column) for column in zip(*found)] for size, found in times.items()}
    growth = medians[SIZES[-1]][0] / medians[SIZES[0]][0]
    met = growth <= GROWTH
    if arguments.json:
        print(json.dumps({"seconds": medians, "growth": growth, "goal": GROWTH, "met": met}))
        return 0 if met else 1
    for size, (first, again) in medians.items():
        print(f"  {size:>6} endpoints elsewhere   {first * 1000:8.1f} ms, again {again * 1000:.1f} ms")
    verdict = "met" if met else "MISSED"
    print(f"  {SIZES[-1]} take {growth:.2f} times as long as {SIZES[0]}   goal {GROWTH:g}: {verdict}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
