# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The listener to the NFLOG group of the policy in force, which feeds the policy log. Without policy it opens nothing.

Records arrive in datagrams of up to a hundred. After up to `_AT_ONCE` datagrams the loop does other work for `_GATHER`
seconds, which allows 20,000 records a second. If rules drop more than that, records that exceed the socket's buffer are
lost and counted, and the node keeps its processors for other work.
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
from ..concurrency import timer_alignment
from .policy_log import PolicyLog

_log = logging.getLogger("calico.policy")

_AT_ONCE = 10  # the most datagrams that one callback reads, in about 3 ms
_GATHER = 0.05  # the least seconds between two callbacks that read the socket
_RETRY = 10.0  # the most seconds until the next attempt to listen to an NFLOG group


class LogListener:
    """A listener whose `run` has to be a task of the event loop for as long as the agent lives.

    `group` returns the number of the wanted NFLOG group, 0 for none. `opener` opens the socket in the right network
    namespace. `on_problem` gets the reason in words each time that it cannot listen, and None when it listens or need
    not.
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
        """Listen to the wanted group until cancelled; never return.

        A new reason why it cannot listen is logged. It retries within 10 seconds, and follows a change of the group
        within two.
        """
        loop = asyncio.get_running_loop()
        problem: t.Optional[str] = None
        while True:
            group = self._group()
            if group:
                reason = await self._listen(loop, group)
                if reason != problem and reason is not None:
                    _log.warning("%s", reason)
                problem = reason
            else:
                problem = None
            self._on_problem(problem)
            await _until(timer_alignment.after(loop.time(), _RETRY if problem else timer_alignment.PERIOD))

    async def _listen(self, loop: asyncio.AbstractEventLoop, group: int) -> t.Optional[str]:
        """Listen to a group until it is not wanted, and return None, or in words the reason why listening failed."""
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
            in_use = error.errno in (errno.EPERM, errno.EBUSY, errno.EEXIST)
            return _words(group, "another program listens to it" if in_use else str(error))
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
                if error.errno != errno.ENOBUFS:  # ENOBUFS: records were lost; the next record's number shows how many.
                    raise


def _words(group: int, reason: str) -> str:
    return (
        f"What policy drops cannot be seen: NFLOG group {group}: {reason}. Policy is enforced all the same. "
        "Choose another calico_policy_log_group, or 0 for no log."
    )


def _device(netlink: socket.socket, index: int) -> str:
    """Return the name of an interface, or its number as text if it has none or that cannot be read."""
    return rt.device_name(netlink.fileno(), index) or str(index)


async def _until(when: float) -> None:
    await asyncio.sleep(max(0.0, when - asyncio.get_running_loop().time()))
