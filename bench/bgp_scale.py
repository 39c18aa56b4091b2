#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real BIRDs in many network namespaces, with the bird.cfg that a run writes.

It measures how a fleet of them starts, how it learns a new block, the cost of this, and what another node changes. Run
as root; nothing outlives the process.

    bench/bgp_scale.py                                 20 nodes in a mesh, 20 behind two reflectors, beside plain BIRD
    bench/bgp_scale.py --reflectors 200 --mesh 100     the large ones
    bench/bgp_scale.py --bird trixie                   with the BIRD of another release of Debian
    bench/bgp_scale.py --coefficients                  small ones for what bgp/simulation.py says of memory

Each shape runs in turn with our configuration and with the shortest that a person would write for it (`plain`, with the
same timers, one end of each session passive). Measured are, from the first start of all daemons together:

  cold      until every block of the others is in every kernel (heard by a netlink socket in each namespace)
  processor that all of them together took for it, in seconds
  block     from a new block in one kernel until it is in all others, median of 31
  memory    resident, of the median node and of the larger reflector
  dropped   connections that did not fit into a queue (TcpExt ListenDrops), the most of any round
  another   node behind the reflectors: whose bird.cfg is written, and sessions that begin anew

Goals: ours takes at most 1.1 of the time and memory of plain; behind reflectors nothing is dropped, and another node
has nothing written but its own bird.cfg and theirs, and no session begin anew; and what BIRD counts is what the
simulation says. When one is missed the exit status is 1.

The figure for `cold` is the quickest round of each. BIRD before 2.14 may sleep for up to 3 s with routes yet to be sent
(io_loop in sysdep/unix/io.c: work that is done after it looked for events makes events), with either configuration, in
about every other start of 20 nodes: a median would only say which of both met with it. The other ratios are medians of
those of the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird  # noqa: E402

from tests.integration.bird.bird_fleet import (  # noqa: E402
    FREE_BLOCKS,
    BirdFleet,
    birds,
    compiled,
    differing,
    ours,
    simulation,
)
from tests.integration.bird.debian_bird import BUILDS, Build, debian_bird  # noqa: E402

GOAL = 1.1
#: Small fleets that differ much in sessions and routes: (nodes, reflectors, blocks of each node).
SMALL = (
    *((5, 0, 1), (10, 0, 1), (20, 0, 1), (5, 0, 65), (10, 0, 20), (10, 0, 65)),
    *((5, 2, 1), (10, 2, 1), (18, 2, 1), (5, 2, 65), (10, 2, 20), (10, 2, 65)),
)
ROUNDS = 5


def plain(bird: Bird) -> str:
    """Return the text of the shortest bird.cfg with the sessions of `bird` and the routes of our configuration.

    It has no protection against attackers. The benchmark compares our configuration with it.
    """
    lines = [
        f"router id {bird.router_id};",
        "log stderr { error, fatal, bug };",
        "protocol device { scan time 10; }",
        "protocol direct { ipv4; }",
        f"protocol kernel {{ learn; persist; scan time 5; ipv4 {{ import all; "
        f"export {'where source = RTS_BGP' if bird.workload_node else 'none'}; }}; }}",
        "template bgp node {",
        f"  local {bird.address} as {bird.as_number}; multihop; hold time 90; keepalive time 30;",
        "  connect delay time 1; connect retry time 5; error wait time 1, 10; graceful restart on;",
        "  ipv4 { import all; export where source = RTS_BGP || (source = RTS_INHERIT && krt_source = 179); };",
        "}",
    ]
    for peer in bird.peers:
        lines.append(f"protocol bgp {peer.name} from node {{ neighbor {peer.address} as {peer.as_number};")
        lines.append("  passive on;" if peer.passive else "")
        lines.append(f"  rr client; rr cluster id {peer.cluster_id};" if peer.cluster_id else "")
        lines.append("}")
    return "\n".join(line for line in lines if line) + "\n"


@dataclasses.dataclass(frozen=True)
class Figures:
    cold: float  # seconds until all routes are there, from the start of all BIRDs
    processor: float  # seconds of processor time of all BIRDs in the cold start
    block: float  # milliseconds until a new block is known everywhere, the median
    node: int  # KiB, of the median node
    reflector: int  # KiB, of the larger reflector; 0 without reflectors
    dropped: int  # connections that did not fit into a listen queue, of all BIRDs together


def measure(fleet: BirdFleet, written: t.Callable[[Bird], str]) -> Figures:
    cold = fleet.start(written)
    processor = sum(machine.processor() for machine in fleet.machines)
    fleet.settle()
    time.sleep(1)
    reflectors = [machine.resident() for machine in fleet.machines if not machine.bird.workload_node]
    node = int(statistics.median(machine.resident() for machine in fleet.nodes()))
    dropped = sum(machine.dropped() for machine in fleet.machines)
    block = statistics.median(fleet.announce(block) for block in FREE_BLOCKS)
    return Figures(cold, processor, block * 1000, node, max(reflectors, default=0), dropped)


def compare(nodes: int, reflectors: int, rounds: int, build: Build) -> bool:
    with tempfile.TemporaryDirectory(prefix="bench5-") as folder:
        planned = compiled(nodes, reflectors)
        simulated, wanted = simulation(planned), birds(planned)
        first = next(iter(wanted))
        fleet = BirdFleet(wanted, build, pathlib.Path(folder))
        try:
            shape = f"{nodes} nodes behind {reflectors} reflectors" if reflectors else f"mesh of {nodes} nodes"
            print(f"{shape}, {rounds} rounds, BIRD {build.version}", flush=True)
            found: dict[str, list[Figures]] = {"ours": [], "plain": []}
            for number in range(rounds):
                turn = [("ours", ours), ("plain", plain)]
                for name, written in turn if number % 2 else reversed(turn):
                    # The first node announces these blocks while all is up, so its filters have to let them pass.
                    fleet.machines[0].bird = dataclasses.replace(
                        wanted[first], blocks=wanted[first].blocks + FREE_BLOCKS
                    )
                    found[name].append(measure(fleet, written))
                    for block in FREE_BLOCKS:
                        fleet.machines[0].withdraw(block)
                    fleet.stop()
            good = _report(found, bool(reflectors))
            fleet.machines[0].bird = wanted[first]
            fleet.start()
            fleet.settle()
            odd = differing(fleet, simulated)
            for line in odd or ["as simulated"]:
                _row("counts", line, not odd)
            if reflectors:
                rewritten, young = fleet.join(birds(compiled(nodes + 1, reflectors, previous=planned)))
                met = not young and all(name.startswith("rr") for name in rewritten)
                words = f"bird.cfg of {', '.join(rewritten)} written, {len(young)} sessions anew"
                _row("another", words, met)
                good &= met
            return good and not odd
        finally:
            fleet.close()


def _report(found: t.Mapping[str, t.Sequence[Figures]], reflected: bool) -> bool:
    good = True
    for name, unit in (("cold", "s"), ("processor", "s"), ("block", "ms"), ("node", "KiB"), ("reflector", "KiB")):
        pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(found["ours"], found["plain"])]
        if not all(b for dummy, b in pairs):
            continue
        one, other = ((min if name == "cold" else statistics.median)(values) for values in zip(*pairs))
        ratio = one / other if name == "cold" else statistics.median(a / b for a, b in pairs)
        met = ratio <= GOAL
        good &= met
        number = ".0f" if unit == "KiB" else ".2f"
        _row(name, f"{one:10{number}} {unit:<3} plain {other:10{number}}  {ratio:5.2f}", met)
    for name, figures in found.items():
        _row("", f"cold, each round of {name}: {' '.join(f'{one.cold:.2f}' for one in figures)}", None)
    dropped = {name: max(one.dropped for one in figures) for name, figures in found.items()}
    good &= not (reflected and dropped["ours"])
    words = f"{dropped['ours']:10}     plain {dropped['plain']:10}       "
    _row("dropped", words, not dropped["ours"] if reflected else None)
    return good


def _row(name: str, words: str, met: t.Optional[bool]) -> None:
    verdict = {True: "met", False: "MISSED", None: ""}[met]
    print(f"  {name:<10} {words}  {verdict}".rstrip(), flush=True)


def coefficients(build: Build) -> None:
    """Print one line of JSON for each daemon of the fleets in SMALL: its counts, and its memory.

    The keys are shape (an element of SMALL), node, own (the number of its blocks), sessions (as `Machine.counted`
    returns), resident (KiB) and memory (the total that BIRD names, as text). Raise TimeoutError if a fleet does not
    learn all routes within 120 seconds, AssertionError if the sessions of a daemon are not up after 60 seconds more
    for it alone, and CalledProcessError if a daemon does not answer.
    """
    for nodes, reflectors, blocks in SMALL:
        with tempfile.TemporaryDirectory(prefix="bench5-") as folder:
            fleet = BirdFleet(birds(compiled(nodes, reflectors, blocks)), build, pathlib.Path(folder))
            try:
                fleet.start()
                fleet.settle()
                time.sleep(1)
                for machine in fleet.machines:
                    row = {
                        "shape": [nodes, reflectors, blocks],
                        "node": machine.name,
                        "own": len(machine.blocks),
                        "sessions": machine.counted(),
                        "resident": machine.resident(),
                        "memory": machine.birdc("show", "memory").split("Total")[-1].split("\n")[0],
                    }
                    print(json.dumps(row), flush=True)
            finally:
                fleet.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", type=int, default=20, help="nodes in the mesh (0: none)")
    parser.add_argument("--reflectors", type=int, default=20, help="nodes behind two reflectors (0: none)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--bird", choices=BUILDS, default="bookworm", help="Debian's release")
    parser.add_argument("--coefficients", action="store_true")
    arguments = parser.parse_args()
    build = debian_bird(arguments.bird)
    if arguments.coefficients:
        coefficients(build)
        return 0
    shapes = [(arguments.mesh, 0), (arguments.reflectors, 2)]
    results = [compare(nodes, reflectors, arguments.rounds, build) for nodes, reflectors in shapes if nodes]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
