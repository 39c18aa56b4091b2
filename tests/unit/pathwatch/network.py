# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated network between watches, whose ways lose what a test wants."""

from __future__ import annotations

import dataclasses
import ipaddress
import random
from collections.abc import Callable, Sequence

from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch import payload
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.paths import DOWN, packed
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.watch import PathWatch, Probe
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.probe_paths import ProbePath

#: Whether a packet from one address to another is lost at a time.
Loss = Callable[[str, str, float], bool]


def nothing_lost(source: str, address: str, now: float) -> bool:
    return False


def address_of(node: int, pool: int) -> str:
    return str(ipaddress.ip_address((10 << 24) + (pool << 16) + node))


def paths_of(node: int, nodes: int, pools: int = 1) -> list[ProbePath]:
    """Return the paths from one node of a fleet to the others."""
    return [
        ProbePath(f"pool{pool}", f"node{other}", address_of(node, pool), address_of(other, pool), 1480)
        for pool in range(pools)
        for other in range(nodes)
        if other != node
    ]


@dataclasses.dataclass
class Fate:
    """A probe that was sent, and whether its answer came within its second."""

    sent_at: float
    answered: bool


class Network:
    """A simulated network of nodes that watch each other. `starts` has the second in which each agent begins."""

    def __init__(
        self, nodes: int, pools: int = 1, loss: Loss = nothing_lost, delay: float = 0.001, starts: Sequence[float] = ()
    ) -> None:
        self.watches = [PathWatch(random.Random(node).randbytes(8)) for node in range(nodes)]
        for node, watch in enumerate(self.watches):
            watch.update(paths_of(node, nodes, pools))
        self.loss = loss
        self.delay = delay
        self.starts = list(starts) or [0.0] * nodes
        self.now = 1000.0
        #: {(source, address): probes in the order of sending}
        self.fates: dict[tuple[str, str], list[Fate]] = {}
        self.sent: list[list[Probe]] = [[] for dummy in range(nodes)]

    def pass_second(self, jitter: float = 0.0) -> None:
        """Let each node that has started tick once, and deliver what is sent."""
        self.now += 1.0 + jitter
        for node, watch in enumerate(self.watches):
            if self.now - 1000.0 < self.starts[node]:
                continue
            self.sent[node] = watch.tick(self.now)
            for probe in self.sent[node]:
                self._deliver(watch, probe)

    def _deliver(self, watch: PathWatch, probe: Probe) -> None:
        address = str(ipaddress.ip_address(probe.address))
        content = payload.decode(payload.encode(probe.payload))
        assert content is not None
        answered = not self.loss(probe.source, address, self.now)
        if answered:
            for other, receiver in enumerate(self.watches):
                mine = self.now - 1000.0 >= self.starts[other]
                if mine and address in receiver.table.sources:
                    receiver.requested(packed(probe.source), content, self.now)
            answered = not self.loss(address, probe.source, self.now)
        if answered:
            watch.answered(probe.address, content, self.now, self.now + self.delay)
        self.fates.setdefault((probe.source, address), []).append(Fate(self.now, answered))

    def down(self, node: int) -> set[str]:
        """Return the addresses whose paths are down, as the watch of a node has it."""
        table = self.watches[node].table
        return {
            str(ipaddress.ip_address(address))
            for path, address in enumerate(table.addresses)
            if table.state[path] == DOWN
        }

    def really_down(self, node: int) -> set[str]:
        """Return the same by the rule, from all probes that were sent: a naive oracle."""
        sources = set(self.watches[node].table.sources)
        return {
            address for (source, address), fates in self.fates.items() if source in sources and is_down(fates, self.now)
        }


def is_down(fates: Sequence[Fate], now: float) -> bool:
    """Return whether a path is down at `now`, by all its probes in order."""
    down, lost, good = False, list[Fate](), 0
    for number, fate in enumerate(fates):
        if fate.answered:
            good, lost = good + 1, []
            down = down and good < 2
            continue
        # The loss is known at the next tick, before which its node sends nothing on the path.
        known = fates[number + 1].sent_at if number + 1 < len(fates) else now
        if known - fate.sent_at < 0.9:
            break
        good = 0
        lost.append(fate)
        judged = fate.sent_at + 1.0
        down = down or (len(lost) >= 5 and judged - lost[0].sent_at >= 5.0)
    return down
