# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitor: it receives the kernel's notifications of changes, and marks the kinds for the reconciler.

It has one netlink socket, whose receive buffer holds a storm while the loop is busy. A filter in the kernel
(netlink_filter.py) drops notifications of our own changes and of BIRD's. When the buffer overflows nevertheless
(ENOBUFS), the losses are unknown, so everything is marked. The same happens when the socket is lost and opened again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import typing as t

from ...dataplane.drivers import tunnel
from ...dataplane.kernel import rtnetlink as rt
from ...sockets import packet_filter
from ...state.node_state import NodeState
from ..concurrency import timer_alignment
from ..reconcile.event_filter import EventFilter, Link, device
from . import netlink_filter

#: Groups of linux/rtnetlink.h: link, neighbour, then address, route and rule of IPv4 and of IPv6, IPv4 netconf.
GROUPS = (1, 3, 5, 7, 8, 9, 11, 19, 24)

_BUFFER = 8 * 1024 * 1024
_READ = 64 * 1024
_AT_ONCE = 256  # the most datagrams that one callback reads, in about a millisecond
# Seconds until an emptied socket is read again: an added workload causes some twenty datagrams, few of them with news.
_GATHER = 0.02
_REOPEN = 1.0  # seconds until a lost socket is opened again


class Marked(t.Protocol):
    """The part of the stages that the monitor uses."""

    @property
    def state(self) -> t.Optional[NodeState]:
        """The desired state at the last look of a pass, None before the first one."""

    @property
    def devices(self) -> t.Collection[str]:
        """The names of the devices that the desired routes lead through, as the last pass read them; empty before."""

    def mark(self, kind: t.Optional[str] = None) -> None: ...


def open_socket(buffer: int = _BUFFER) -> socket.socket:
    """Return a non-blocking rtnetlink socket in the calling thread's network namespace, with no groups joined.

    `buffer` is the receive buffer in bytes; without CAP_NET_ADMIN the kernel may limit it. Raise OSError.
    """
    return rt.bound_socket(socket.NETLINK_ROUTE, buffer, socket.SOCK_NONBLOCK)


class Monitor:
    """The monitor; `run` must be a task of the event loop for as long as the agent lives.

    `ports` returns the netlink ports through which this process writes the kernel. `wanted` returns whether a host end
    belongs to a workload now. `opener` opens the socket that listens and `asker` one for queries, both in the right
    network namespace. `on_lost` is called each time notifications were lost, `on_addresses` when an address of an
    interface may have changed. A lost socket is opened again after `reopen` seconds.
    """

    def __init__(
        self,
        stages: Marked,
        *,
        ports: t.Callable[[], t.Iterable[int]] = tuple,
        wanted: t.Callable[[str], bool] = lambda interface: True,
        opener: t.Callable[[], socket.socket] = open_socket,
        asker: t.Callable[[], socket.socket] = rt.open_socket,
        on_lost: t.Callable[[], None] = lambda: None,
        on_addresses: t.Callable[[], None] = lambda: None,
        reopen: float = _REOPEN,
    ) -> None:
        self._stages = stages
        self._reopen = reopen
        self._ports = ports
        self._opener = opener
        self._on_lost = on_lost
        self._on_addresses = on_addresses
        self._asker = asker
        self._channel = rt.Channel(asker)
        self._event_filter = EventFilter(lambda: stages.state, lambda: stages.devices, wanted)
        self._filtered: t.Optional[tuple[frozenset[int], frozenset[int]]] = None
        self._tunnels: t.Optional[frozenset[int]] = None  # indexes of the tunnel devices; None: to be read
        self._alarm: t.Optional[asyncio.TimerHandle] = None
        self._pause: t.Optional[asyncio.TimerHandle] = None  # the last timer after which the socket is read again
        self._learning: t.Optional[asyncio.Future[None]] = None
        self._broken: t.Optional[OSError] = None
        self._awake = asyncio.Event()
        self.datagrams = 0  # the number of datagrams received, those that the kernel's filter dropped not included
        self.lost = 0  # the number of times that notifications were lost

    async def run(self) -> None:
        """Receive notifications and mark kinds until cancelled. No error is raised: the socket is opened again."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    netlink = self._opener()
                except OSError:
                    await asyncio.sleep(self._reopen)
                    continue
                try:
                    await self._listen(loop, netlink)
                except OSError:
                    self._lose()
                    await asyncio.sleep(self._reopen)
                finally:
                    if self._pause is not None:
                        self._pause.cancel()
                    loop.remove_reader(netlink)
                    netlink.close()
        finally:
            for pending in (self._alarm, self._learning):
                if pending is not None:
                    pending.cancel()
            self._channel.close()

    async def _listen(self, loop: asyncio.AbstractEventLoop, netlink: socket.socket) -> None:
        """Join all groups, mark all kinds, and read the socket until it fails; raise the OSError."""
        self._broken, self._filtered, self._tunnels = None, None, None
        self._filter(netlink)
        for group in GROUPS:
            rt.join(netlink, group)
        loop.add_reader(netlink, self._read, loop, netlink)
        # All kinds are marked, because changes before the socket joined its groups were not announced.
        self._stages.mark()
        self._tunnels = None
        await self._learn()
        while self._broken is None:
            self._awake.clear()
            alarm = loop.call_at(timer_alignment.after(loop.time()), self._awake.set)
            try:
                await self._awake.wait()
            finally:
                alarm.cancel()
            self._filter(netlink)
        raise self._broken

    def _read(self, loop: asyncio.AbstractEventLoop, netlink: socket.socket) -> None:
        now = loop.time()
        feed, receive = self._event_filter.feed, netlink.recv
        try:
            for count in range(_AT_ONCE):  # noqa: B007
                feed(receive(_READ), now)
            count = _AT_ONCE
        except BlockingIOError:
            loop.remove_reader(netlink)
            self._pause = loop.call_later(_GATHER, loop.add_reader, netlink, self._read, loop, netlink)
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                self._lose()
                self._learning = asyncio.ensure_future(self._learn())
            else:
                self._broken = error
                loop.remove_reader(netlink)
                self._awake.set()
        self.datagrams += count
        self._tell(loop)

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        kinds, again = self._event_filter.due(loop.time())
        for kind in kinds:
            self._stages.mark(kind)
        if "tunnel" in kinds:
            self._tunnels = None
        if self._event_filter.addresses_changed:
            self._event_filter.addresses_changed = False
            self._on_addresses()
        if again is not None:
            self._alarm = loop.call_at(again, self._tell, loop)

    def _lose(self) -> None:
        self.lost += 1
        self._tunnels = None
        self._event_filter.forget()
        self._on_lost()
        self._on_addresses()
        self._stages.mark()

    async def _learn(self) -> None:
        """Read how all devices are now, in another thread, and give that to the event filter. Ignore failures."""

        def devices() -> list[tuple[int, Link]]:
            body = rt.IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + rt.attribute(29, b"\x08\0\0\0")
            channel = rt.Channel(self._asker)
            try:
                return channel.dump_decoded(rt.RTM_GETLINK, body, "list links", device)
            finally:
                channel.close()

        with contextlib.suppress(OSError):
            self._event_filter.expect(await asyncio.get_running_loop().run_in_executor(None, devices))

    def _filter(self, netlink: socket.socket) -> None:
        """Update the kernel's filter to our present ports and tunnel devices. It blocks the event loop.

        The devices are read only if they may have changed, because the kernel delays that query while it adds or
        deletes any device. It announces a tunnel device that comes up, even if this process set it up. If the devices
        cannot be read, the filter stays as it is.
        """
        if self._tunnels is None:
            try:
                links = [rt.get_link(self._channel, name) for name in tunnel.NAMES]
            except OSError:
                return
            self._tunnels = frozenset(link.index for link in links if link is not None)
        wanted = frozenset(self._ports()), self._tunnels
        if wanted != self._filtered:
            packet_filter.attach(netlink, netlink_filter.program(*wanted))
            self._filtered = wanted
