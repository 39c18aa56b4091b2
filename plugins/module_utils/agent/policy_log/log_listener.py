# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Listens to the NFLOG group of the policy in force and feeds the policy log. Without policy nothing is open.

Records come in datagrams of up to a hundred. After `_AT_ONCE` of them the loop does other things for `_GATHER`, which
is 20,000 records a second: when rules drop more than that, what the socket has no room for is lost and counted, and
the node has its processors for other things.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import typing as t

from ...dataplane.kernel import nflog
from ...dataplane.kernel import rtnetlink as rt
from ...dataplane.kernel.port import KernelError
from ..reconcile import timer_alignment
from .policy_log import PolicyLog

_log = logging.getLogger("calico.policy")

_AT_ONCE = 10  # datagrams that one callback reads: 3 ms
_GATHER = 0.05  # seconds between two callbacks
_RETRY = 10.0  # seconds until a group that cannot be had is tried again


class LogListener:
    """`run` is to be a task of the event loop for as long as the agent lives.

    `group` gives the one wanted, 0 for none. `opener` opens the socket in the network namespace that matters.
    `on_problem` is told in words why there is nothing to hear, and None when there is again.
    """

    def __init__(
        self,
        log: PolicyLog,
        group: t.Callable[[], int],
        *,
        opener: t.Callable[[], socket.socket] = nflog.open_socket,
        on_problem: t.Callable[[t.Optional[str]], None] = lambda problem: None,
    ) -> None:
        self._policy_log = log
        self._group = group
        self._opener = opener
        self._on_problem = on_problem
        self._pause: t.Optional[asyncio.TimerHandle] = None
        self._broken: t.Optional[OSError] = None

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        problem: t.Optional[str] = None
        while True:
            group = self._group()
            if group:
                told = await self._listen(loop, group)
                if told != problem and told is not None:
                    _log.warning("%s", told)
                problem = told
            else:
                problem = None
            self._on_problem(problem)
            await _until(timer_alignment.after(loop.time(), _RETRY if problem else timer_alignment.PERIOD))

    async def _listen(self, loop: asyncio.AbstractEventLoop, group: int) -> t.Optional[str]:
        """For as long as the group is wanted. What keeps it from that, in words."""
        try:
            netlink = self._opener()
        except OSError as error:
            return _words(group, error.strerror or str(error))
        try:
            nflog.subscribe(netlink, group)
            self._policy_log.restarted()
            self._broken = None
            loop.add_reader(netlink, self._read, loop, netlink)
            self._policy_log.group = group
            self._on_problem(None)
            while self._group() == group and self._broken is None:
                await _until(timer_alignment.after(loop.time()))
            return _words(group, self._broken.strerror or str(self._broken)) if self._broken else None
        except KernelError as error:
            taken = error.errno in (errno.EPERM, errno.EBUSY, errno.EEXIST)
            return _words(group, "another program listens to it" if taken else str(error))
        finally:
            self._policy_log.group = 0
            if self._pause is not None:
                self._pause.cancel()
            loop.remove_reader(netlink)
            netlink.close()

    def _read(self, loop: asyncio.AbstractEventLoop, netlink: socket.socket) -> None:
        try:
            self._policy_log.take(self._records(netlink), lambda index: _device(netlink, index))
        except OSError as error:
            self._broken = error
            loop.remove_reader(netlink)
            return
        loop.remove_reader(netlink)
        self._pause = loop.call_later(_GATHER, loop.add_reader, netlink, self._read, loop, netlink)

    def _records(self, netlink: socket.socket) -> t.Iterator[nflog.Record]:
        for dummy in range(_AT_ONCE):
            try:
                yield from nflog.records(netlink.recv(nflog.READ))
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # how many were lost, their numbers tell
                    raise


def _words(group: int, reason: str) -> str:
    return (
        f"What policy drops cannot be seen: NFLOG group {group}: {reason}. Policy is enforced all the same. "
        "Choose another calico_policy_log_group, or 0 for no log."
    )


def _device(netlink: socket.socket, index: int) -> str:
    """Its name; its number where it is gone."""
    return rt.device_name(netlink.fileno(), index) or str(index)


async def _until(when: float) -> None:
    await asyncio.sleep(max(0.0, when - asyncio.get_running_loop().time()))
