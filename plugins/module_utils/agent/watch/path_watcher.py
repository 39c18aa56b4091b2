# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch over this node's paths to the other nodes: a probe endpoint's sockets, and what they tell the watch.

It wakes up once a second, together with the agent's other periodic work. It never stops the agent: an error is a
problem, and the next second a new attempt.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import time
import typing as t

from ...dataplane import underlay
from ...dataplane.change import ObserveError
from ...dataplane.kernel.port import Kernel, KernelError
from ...node.probe import path_sockets, reassembly
from ...node.probe.path_sockets import Answer, Complaint, PathSockets, PeerProbe
from ...node.store.clock import utc
from ...pathwatch import payload
from ...pathwatch.findings import findings
from ...pathwatch.watch import PathWatch
from ...state.derived import path_loss, probe_paths
from ...state.derived.path_status import NAMED, NO_ENDPOINT, POOLS, Fragmenting, PathDown, PathStatus
from ...state.fleet_list import bare
from ...state.node_state import PROBE_NETNS, NodeState
from ..concurrency import timer_alignment
from ..concurrency.driver_thread import Worker

_log = logging.getLogger("calico.paths")

#: Why nothing is watched before the first attempt.
_STARTED = "the agent has just started"
#: Seconds between two looks at the MTU of the underlay's device, and at the kernel's counter of reassembled packets.
_LOOK = 60.0
#: Seconds after which an attempt that failed is repeated.
_AGAIN = 5.0
#: Seconds for which dropped packets are reported.
_REPORTED = 60.0


class PathWatcher:
    """The watch of one node. `kernel` is this part's own, and `run` runs work in a thread of its own.

    `opened` makes the sockets, in the probe endpoint's namespace. It is given the ICMP identifier. `counted` returns
    the kernel's counter of reassembled packets. `reassembled` has how many were counted while a VXLAN tunnel over IPv4
    was in use.
    """

    def __init__(
        self,
        kernel: Kernel,
        run: Worker,
        state: t.Callable[[], t.Optional[NodeState]],
        clock: t.Callable[[], float] = time.monotonic,
        opened: t.Callable[[bytes, bytes], PathSockets] = PathSockets,
        counted: t.Callable[[], t.Optional[int]] = reassembly.read,
    ) -> None:
        self.reassembled = 0
        self.watch = PathWatch(path_sockets.session())
        self._kernel = kernel
        self._work = run
        self._state = state
        self._clock = clock
        self._opened = opened
        self._counted = counted
        self._sockets: t.Optional[PathSockets] = None
        self._identity = ""
        self._planned: t.Optional[NodeState] = None
        self._reason = _STARTED
        self._again = 0.0
        self._count_dropped = 0
        self._dropped: t.Optional[float] = None
        self._look = 0.0
        self._fragmenting: t.Optional[Fragmenting] = None
        self._count_again = 0.0
        self._counter: t.Optional[int] = None
        self._lately: t.Optional[int] = None
        self._own: frozenset[str] = frozenset()
        self._absent: frozenset[str] = frozenset()

    def see_sessions(self, down: t.Iterable[str], up: t.Iterable[str]) -> None:
        """Note the nodes at the other ends of BGP sessions: those of sessions that are down, and those that are up."""
        self._absent = frozenset(down) - frozenset(up)

    async def run(self) -> t.NoReturn:
        """Call `tick` each second until cancelled. Never return."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                now = loop.time()
                await asyncio.sleep(timer_alignment.after(now) - now)
                try:
                    await self.tick()
                except Exception as error:  # noqa: BLE001  a fault of the watch stops no other part of the agent
                    self._stop(f"{type(error).__name__}: {error}")
                    _log.debug("The watch over paths failed", exc_info=error)
        finally:
            self._close()

    async def tick(self) -> None:
        """Read what has arrived, and send what is due. Open the sockets, or plan the paths anew, if necessary."""
        now = self._clock()
        state = self._state()
        if state is None or state.probe_endpoint is None:
            self._planned = None
            self._stop(NO_ENDPOINT, again=0.0)
            return
        if state is not self._planned:
            # Deriving the paths of a large fleet takes a while. Ticks go on afterwards: nothing is lost meanwhile.
            plan = await self._work(functools.partial(probe_paths.plan, state))
            self.watch.update(plan.paths)
            self._planned, self._look = state, 0.0
            self._own = frozenset(map(bare, (state.address, state.address6, *state.ipam.tunnels.values())))
        if self._sockets is not None and not self._kernel.netns_is(PROBE_NETNS, self._identity):
            self._close()
        if self._sockets is None:
            if now < self._again:
                return
            if not await self._open():
                return
        if now >= self._look:
            self._look = now + _LOOK
            self._fragmenting = await self._work(functools.partial(_fragmenting, self._kernel, state))
        if now >= self._count_again:
            self._count_again = now + _LOOK
            self._count(self._counted() if _fragments(state) else None)
        self._exchange()

    def _count(self, counter: t.Optional[int]) -> None:
        """Note the kernel's counter of reassembled packets; None: it is unknown, or no tunnel causes fragments."""
        before, self._counter = self._counter, counter
        # The first look has nothing to compare with.
        self._lately = None if counter is None or before is None else max(0, counter - before)
        self.reassembled += self._lately or 0

    def _exchange(self) -> None:
        sockets, watch = self._sockets, self.watch
        if sockets is None:
            return
        arrivals = sockets.receive()
        now = self._clock()
        for arrival in arrivals:
            self._take(arrival, now)
        dropped = sockets.dropped
        if dropped != self._count_dropped:
            self._count_dropped, self._dropped = dropped, now
            watch.forgive()
        for probe in watch.tick(now):
            content = payload.encode(probe.payload._replace(sent_at=self._clock()))
            reason = sockets.send(probe.source, probe.address, probe.payload.number, probe.size, content)
            if reason:
                watch.refused(probe.path, reason)

    def _take(self, arrival: path_sockets.Arrival, now: float) -> None:
        content = payload.decode(arrival.payload)
        if isinstance(arrival, Complaint):
            # A router may quote too little for a payload. What it quotes has to be that of the probe.
            if not arrival.payload or (content is not None and content.session == self.watch.session):
                own = arrival.no_route and (arrival.by in self._own or arrival.by.startswith("fe80:"))
                reason, by = (path_loss.NO_ROUTE, "") if own else (arrival.reason, arrival.by)
                self.watch.error(arrival.address, arrival.number, reason, by)
        elif content is None:
            return
        elif isinstance(arrival, Answer):
            self.watch.answered(arrival.sender, content, now, arrival.arrived)
        elif isinstance(arrival, PeerProbe):
            self.watch.requested(arrival.sender, content, now)

    async def _open(self) -> bool:
        """Open the sockets; return whether they are open. A failure is a problem, and is tried again later."""
        try:
            self._sockets, self._identity = await self._work(self._open_inside)
        except (KernelError, OSError) as error:
            self._stop(f"no probe can be sent from the network namespace {PROBE_NETNS}: {error}")
            return False
        self._reason, self._count_dropped = "", 0
        return True

    def _open_inside(self) -> tuple[PathSockets, str]:
        try:
            inside = self._kernel.inside(PROBE_NETNS)
            return inside.in_namespace(lambda: self._opened(self.watch.session[:2], payload.MAGIC)), inside.identity
        finally:
            # The namespace can end while nothing but the sockets uses it.
            self._kernel.leave(PROBE_NETNS)

    def _stop(self, reason: str, again: float = _AGAIN) -> None:
        # An agent that has just started has watched nothing yet, and may never have anything to watch.
        if reason != self._reason and self._reason != _STARTED:
            _log.info("Paths to other nodes are not watched: %s.", reason)
        self._reason = reason
        self._again = self._clock() + again
        self._close()

    def _close(self) -> None:
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
            # Answers to what is under way will not come here.
            self.watch.forgive()

    def findings(self, most: int = NAMED) -> PathStatus:
        """Return what the watch knows, as `pathwatch.findings`, with at most `most` paths and nodes by name."""
        return findings(self.watch, self._clock(), self._absent, most)

    @property
    def watched(self) -> bool:
        """Whether probes are sent."""
        return not self._reason

    def status(self, most: int = NAMED) -> PathStatus:
        """Return what the watch knows, for people and programs."""
        if not self.watched:
            return PathStatus(False, self._reason[:500])
        found, now = self.findings(most), time.time()
        flooded = self._dropped is not None and self._clock() - self._dropped < _REPORTED
        return dataclasses.replace(
            found,
            reason="packets arrive faster than they are read, so some losses are not counted" if flooded else "",
            pools=found.pools[:POOLS],
            down=tuple(_rounded(path, now) for path in found.down),
            fragmenting=self._fragmenting,
            reassembled=self._lately,
        )


def _rounded(path: PathDown, now: float) -> PathDown:
    """Return the path for people, with the time since which it is down; `now` is in seconds since 1970."""
    heard = None if path.heard is None else round(path.heard, 1)
    return dataclasses.replace(path, since=utc(now - path.seconds), seconds=round(path.seconds, 1), heard=heard)


def _fragmenting(kernel: Kernel, state: NodeState) -> t.Optional[Fragmenting]:
    """Return the MTU of the underlay's device if it is less than the fleet uses. One that cannot be read is none."""
    try:
        device = underlay.device_of(kernel, state)
        link = kernel.link(device)
    except (ObserveError, KernelError):
        return None
    if link is None or device == "lo" or link.mtu >= state.underlay_mtu:
        return None
    return Fragmenting(device, link.mtu, state.underlay_mtu, _fragments(state))


def _fragments(state: NodeState) -> bool:
    """Return whether the node has a VXLAN tunnel over IPv4: the kernel fragments its packets if they are too large."""
    return any(tunnel.kind == "vxlan" and ":" not in tunnel.local for tunnel in state.devices)
