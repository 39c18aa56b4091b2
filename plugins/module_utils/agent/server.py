# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's socket: who may ask what, and what becomes of an answer that does not come.

    server = Server("/run/calico/agent.sock", {"status": Method(status)}, cni=dispatch)
    await server.start()

One process listens at a path. What an earlier one left there is replaced, in one step and with its access rights set,
once nobody answers at it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import grp
import logging
import os
import socket
import stat
import typing as t

from . import cni_framing, protocol
from .cni_framing import CniRefusal
from .connection import Connection
from .peer import Peer
from .protocol import AgentError

_log = logging.getLogger("calico.api")

_PATH_LIMIT = 103  # unix(7): 107, less the suffix under which it is made
_BACKLOG = 1024  # the kernel's net.core.somaxconn may be lower

Handler = t.Callable[[dict[str, t.Any], Peer], t.Any]
CniHandler = t.Callable[[dict[str, str], bytes], t.Awaitable[tuple[int, bytes]]]


class Method(t.NamedTuple):
    """`handler` is `async def (params, peer) -> dict`; of one that streams, an async generator of dicts.

    It raises AgentError to refuse. At the deadline, and when the agent stops, it is cancelled: it then takes back what
    it did or sees to it that it is completed later. Whether the client is still there does not matter to it, except
    that a stream is cancelled when its client goes or shuts down its side of the connection.
    """

    handler: Handler
    changes: bool = False
    stream: bool = False
    reserved: tuple[str, ...] = ()  # parameters that only root may give, of a method that others may use


class Limits(t.NamedTuple):
    """Bytes, seconds, numbers."""

    line: int = protocol.LINE_LIMIT
    deadline: float = protocol.DEADLINE
    idle: float = protocol.IDLE
    connections: int = 512
    others: int = 256  # of these, what others than root may have, so that root always gets one
    refused: int = 64  # connections beyond that are told why; more than these are closed
    waiting: int = 16 << 20  # bytes of requests that are not complete, of all connections


_LIMITS = Limits()


class SocketInUse(Exception):
    """The socket cannot be ours."""


class Server:
    """`methods` may be filled until start(). `root` is the uid that may do everything; members of `group` may read.

    `observed(method, outcome, seconds)` is called for every answer; `outcome` is "ok" or the code of the error.
    """

    def __init__(
        self,
        path: str,
        methods: t.Mapping[str, Method],
        cni: t.Optional[CniHandler] = None,
        *,
        group: str = protocol.GROUP,
        root: int = 0,
        limits: Limits = _LIMITS,
        observed: t.Optional[t.Callable[[str, str, float], None]] = None,
    ) -> None:
        self.path = path
        self.root = root
        self.limits = limits
        self._methods = methods
        self._cni = cni
        self._group = group
        self._observed = observed
        self._readers: t.Optional[int] = None
        self._listening: t.Optional[asyncio.AbstractServer] = None
        self._inode = 0
        self._connections: set[Connection] = set()
        self._refused: set[Connection] = set()
        self._waiting = 0
        self._stopped = False

    async def start(self) -> None:
        """Raises SocketInUse, or OSError for a folder that cannot be written."""
        with contextlib.suppress(KeyError):
            self._readers = grp.getgrnam(self._group).gr_gid
        listener = self._bind()
        self._inode = os.stat(self.path).st_ino
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_unix_server(lambda: Connection(self), sock=listener, backlog=_BACKLOG)

    async def stop(self, grace: float = 5.0) -> None:
        """Nobody new is listened to; what is being answered has `grace` seconds, then it is cancelled."""
        self._stopped = True
        if self._listening is not None:
            with contextlib.suppress(OSError):
                if os.stat(self.path).st_ino == self._inode:  # and not that of who came after us
                    os.unlink(self.path)
            self._listening.close()
            self._listening = None
        for connection in [*self._connections, *self._refused]:
            connection.stop()
        tasks = {connection.task for connection in self._connections if connection.task is not None}
        if tasks:
            dummy, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    # --- what connections ask

    def admit(self, connection: Connection) -> t.Optional[AgentError]:
        """Why this connection is answered with nothing but a refusal, if it is."""
        limit, whose = self.limits.connections, ""
        held = len(self._connections)
        if connection.peer.uid != self.root:
            others = sum(other.peer.uid != self.root for other in self._connections)
            if others >= self.limits.others:
                limit, whose, held = self.limits.others, " of others than root", others
        if held < limit:
            self._connections.add(connection)
            return None
        self._refused.add(connection)
        if len(self._refused) > self.limits.refused:
            connection.abort()
        return AgentError(
            protocol.TRY_AGAIN,
            f"the agent has {limit} connections{whose}, which is as many as it takes. Try again; "
            f"`ss -xp src {self.path}` shows who holds them.",
        )

    def gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._refused.discard(connection)

    def admit_bytes(self, count: int) -> bool:
        if self._waiting + count > self.limits.waiting:
            return False
        self._waiting += count
        return True

    def drop_bytes(self, count: int) -> None:
        self._waiting -= count

    def method(self, name: str, peer: Peer, params: t.Container[str] = ()) -> Method:
        """Raises AgentError for one that does not exist, or that this peer may not use."""
        method = self._methods.get(name)
        if peer.uid != self.root and self._readers not in peer.groups:
            raise AgentError(
                protocol.FORBIDDEN,
                f"uid {peer.uid} may not use the agent. Become root, or a member of group `{self._group}`, "
                "which may read.",
            )
        if method is None:
            raise AgentError(
                protocol.UNKNOWN_METHOD,
                f"the agent has no method {name[:60]!r}. It has: {', '.join(sorted(self._methods))}.",
            )
        if method.changes and peer.uid != self.root:
            raise AgentError(
                protocol.FORBIDDEN, f"{name} changes the node, and uid {peer.uid} may only read. Run it as root."
            )
        for reserved in method.reserved:
            if reserved in params and peer.uid != self.root:
                raise AgentError(
                    protocol.FORBIDDEN, f"{name} takes {reserved} from root alone, and not from uid {peer.uid}."
                )
        return method

    async def call(self, request: protocol.Request, peer: Peer) -> dict[str, t.Any]:
        """The result of a method, or AgentError and nothing else."""
        deadline = _Deadline(self.limits.deadline)
        try:
            with deadline:
                return t.cast("dict[str, t.Any]", await self._methods[request.method].handler(request.params, peer))
        except AgentError:
            raise
        except asyncio.CancelledError:
            if not deadline.passed:
                raise self.stopping() from None
            raise AgentError(
                protocol.TIMEOUT,
                f"{request.method} was not done within {self.limits.deadline:g} s and was given up. Ask again; "
                "`journalctl -u calico-agent` says what kept it.",
            ) from None
        except Exception:  # noqa: BLE001  whatever it is, the client is told and the agent lives
            _log.exception("method %s failed", request.method)
            raise self.internal(request.method) from None

    async def call_cni(self, environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
        """Status and output of the plugin, or CniRefusal and nothing else."""
        if self._cni is None:
            raise CniRefusal(cni_framing.TRY_AGAIN, "the agent is not ready to attach workloads", "Try again.")
        deadline = _Deadline(self.limits.deadline)
        try:
            with deadline:
                return await self._cni(environment, stdin)
        except CniRefusal:
            raise
        except asyncio.CancelledError:
            if not deadline.passed:
                raise CniRefusal(cni_framing.TRY_AGAIN, self.stopping().message) from None
            raise CniRefusal(
                cni_framing.TRY_AGAIN,
                f"the agent was not done within {self.limits.deadline:g} s and gave up",
                "Try again. `journalctl -u calico-agent` says what kept it.",
            ) from None
        except Exception:  # noqa: BLE001
            _log.exception("a CNI request failed")
            raise CniRefusal(cni_framing.INTERNAL, self.internal("CNI").message) from None

    def stopping(self) -> AgentError:
        return AgentError(protocol.UNAVAILABLE, "the agent is being stopped. Try again when it has started.")

    def internal(self, name: str) -> AgentError:
        return AgentError(
            protocol.INTERNAL,
            f"{name} failed for a reason that the agent did not expect. `journalctl -u calico-agent` has the details; "
            "please report them.",
        )

    def observe(self, method: str, outcome: str, seconds: float) -> None:
        if self._observed is not None:
            self._observed(method, outcome, seconds)

    # --- the socket

    def _bind(self) -> socket.socket:
        self._make_way()
        fresh = f"{self.path}.new"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            # Nobody can connect before it listens, and it has its access rights before it has its name.
            listener.bind(fresh)
            os.chmod(fresh, 0o660)
            if self._readers is not None and os.geteuid() == 0:
                os.chown(fresh, 0, self._readers)
            listener.listen(_BACKLOG)
            os.rename(fresh, self.path)
        except OSError as error:
            listener.close()
            if "too long" in str(error):
                raise SocketInUse(
                    f"{self.path} is longer than the {_PATH_LIMIT} bytes that the path of a socket may have here. "
                    "Choose a shorter one."
                ) from error
            raise
        return listener

    def _make_way(self) -> None:
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            raise SocketInUse(
                f"{self.path} is not a socket, so the agent does not replace it. Move it away, then start the agent."
            )
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self.path)
            except OSError as error:
                if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                    return  # left by an agent that is gone; the rename replaces it
                if error.errno != errno.EAGAIN:  # its backlog is full: somebody is there
                    raise
        raise SocketInUse(
            f"another agent answers at {self.path}. Only one may run on a node: stop it with "
            "`systemctl stop calico-agent`, or end the process that `ss -xlp` shows."
        )


class _Deadline:
    """Cancels the task that is inside, once; what it was busy with sees that at its next await."""

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._seconds = seconds

    def __enter__(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            self._seconds, self._pass, t.cast("asyncio.Task[t.Any]", asyncio.current_task())
        )

    def __exit__(self, *dummy: object) -> None:
        self._timer.cancel()

    def _pass(self, task: asyncio.Task[t.Any]) -> None:
        self.passed = True
        task.cancel()
