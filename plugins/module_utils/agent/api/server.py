# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's socket: who may ask what, and what becomes of an answer that does not come.

    server = Server("/run/calico/agent.sock", {"status": Method(status)}, cni=dispatch)
    await server.start()

One process listens at a path, and beside it at a socket that is root's alone (protocol.root_socket): connections of
others cannot fill its backlog. What an earlier one left there is replaced, in one step and with its access rights set,
once nobody answers at it any more.

Who is not root shares a bounded part of the loop (fair_share.py): connections are accepted, requests read, understood
and answered in turns, and only while no request of root's is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import grp
import logging
import os
import socket
import stat
import typing as t

from . import cni_framing, protocol
from .cni_framing import CniRefusal
from .connection import Connection
from .fair_share import Coalesced, FairShare
from .peer import Peer
from .protocol import AgentError

_log = logging.getLogger("calico.api")

_FRESH = ".new"  # under which a socket is made
_PATH_LIMIT = 107 - len(protocol.ROOT_SUFFIX) - len(_FRESH)  # unix(7)
_BACKLOG = 1024  # the kernel's net.core.somaxconn may be lower
_NO_MORE_FILES = 1.0  # seconds until a connection is accepted again after that failed
_AT_ONCE = 16  # connections in a turn
_ACCEPTING = "accepting"  # who has the turns in which connections are accepted

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
    slow: bool = False  # waits for a thread: readers who ask the same have one answer, one at a time


class Limits(t.NamedTuple):
    """Bytes, seconds, numbers. "Others" are all callers but root, whose share is its own."""

    line: int = protocol.LINE_LIMIT
    line_others: int = protocol.READER_LINE_LIMIT
    deadline: float = protocol.DEADLINE
    idle: float = protocol.IDLE
    connections: int = 512  # of root
    others: int = 128
    each: int = 32  # of one other uid
    refused: int = 64  # connections of root beyond that hear why as they ask; more than these are closed
    waiting: int = 16 << 20  # bytes of requests that are not complete, of all connections of root
    waiting_others: int = 4 << 20
    unread: int = 16 << 20  # bytes of answers that others have not read; above it they get none
    unread_each: int = 4 << 20
    streams: int = 16  # of others
    streams_each: int = 4


_LIMITS = Limits()


class SocketInUse(Exception):
    """The socket cannot be ours."""


class Server:
    """`methods` may be filled until start(). `root` is the uid that may do everything; members of `group` may read.

    `observed(method, outcome, seconds)` is called for every answer; `outcome` is "ok" or the code of the error. `share`
    is what callers other than root have of the loop.
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
        share: t.Optional[FairShare] = None,
    ) -> None:
        self.path = path
        self.share = share if share is not None else FairShare()
        self._threads = FairShare(share=0.05, patience=1.0, pause=10.0)
        self._coalesced = Coalesced(self._threads)
        self.root = root
        self.limits = limits
        self._methods = methods
        self._cni = cni
        self._group = group
        self._observed = observed
        self._readers: t.Optional[int] = None
        self._listening: t.Optional[asyncio.AbstractServer] = None  # to root
        self._accepting: t.Optional[asyncio.Task[None]] = None  # whoever comes by the socket for all
        self._inodes: dict[str, int] = {}
        self._connections: set[Connection] = set()
        self._refused: set[Connection] = set()
        self._waiting = {True: 0, False: 0}  # by whether it is root's
        self._stopped = False

    async def start(self) -> None:
        """Raises SocketInUse, or OSError for a folder that cannot be written."""
        with contextlib.suppress(KeyError):
            self._readers = grp.getgrnam(self._group).gr_gid
        roots = protocol.root_socket(self.path)
        for path in (self.path, roots):
            self._make_way(path)
        loop = asyncio.get_running_loop()
        own = self._bind(roots, 0o600, None)
        self._listening = await loop.create_unix_server(lambda: Connection(self), sock=own, backlog=_BACKLOG)
        everybody = self._bind(self.path, 0o660, self._readers)
        self._accepting = loop.create_task(self._accept(everybody))

    async def _accept(self, listener: socket.socket) -> None:
        """A few connections in each turn: what others connect faster than that waits in the kernel."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, dummy = await loop.sock_accept(listener)
                except OSError as error:
                    _log.error("No connection can be accepted at %s: %s.", self.path, error.strerror)
                    await asyncio.sleep(_NO_MORE_FILES)
                    continue
                try:
                    async with self.share.turn(_ACCEPTING):
                        for dummy in range(_AT_ONCE):
                            await self._welcome(connection)
                            connection, dummy = listener.accept()
                        await self._welcome(connection)
                except OSError:
                    continue  # no more of them wait
                except BaseException:
                    connection.close()
                    raise
        finally:
            listener.close()

    async def _welcome(self, connection: socket.socket) -> None:
        """Serve a connection, or tell it why not: nothing more is spent on who has too many."""
        connection.setblocking(False)
        try:
            peer = Peer.of(connection)
            refusal = None if self.is_root(peer) else self._too_many(peer)
            serve = refusal is None and not _gone(connection)
            if refusal is not None:
                connection.send(protocol.failure(None, refusal))
        except OSError:  # gone meanwhile
            serve = False
        if not serve:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(functools.partial(Connection, self), connection)

    async def stop(self, grace: float = 5.0) -> None:
        """Nobody new is listened to; what is being answered has `grace` seconds, then it is cancelled."""
        self._stopped = True
        if self._listening is not None:
            for path, inode in self._inodes.items():
                with contextlib.suppress(OSError):
                    if os.stat(path).st_ino == inode:  # and not that of who came after us
                        os.unlink(path)
            self._listening.close()
            self._listening = None
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
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

    def is_root(self, peer: Peer) -> bool:
        return peer.uid == self.root

    def line_limit(self, peer: Peer) -> int:
        return self.limits.line if self.is_root(peer) else self.limits.line_others

    def admit(self, connection: Connection) -> t.Optional[AgentError]:
        """Why this connection is answered with nothing but a refusal, if it is."""
        refusal = self._too_many(connection.peer)
        if refusal is None:
            self._connections.add(connection)
            return None
        self._refused.add(connection)
        if len(self._refused) > self.limits.refused:
            connection.abort()
        return refusal

    def _too_many(self, peer: Peer) -> t.Optional[AgentError]:
        uids = [connection.peer.uid for connection in self._connections]
        roots = uids.count(self.root)
        bounds = [(roots, self.limits.connections, " of root")]
        if not self.is_root(peer):
            bounds = [
                (uids.count(peer.uid), self.limits.each, f" of uid {peer.uid}"),
                (len(uids) - roots, self.limits.others, " of others than root"),
            ]
        for held, limit, whose in bounds:
            if held >= limit:
                return AgentError(
                    protocol.TRY_AGAIN,
                    f"the agent has {limit} connections{whose}, which is as many as it takes. Try again; "
                    f"`ss -xp src {self.path}` shows who holds them.",
                )
        return None

    def gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._refused.discard(connection)

    def admit_bytes(self, peer: Peer, count: int) -> bool:
        root = self.is_root(peer)
        if self._waiting[root] + count > (self.limits.waiting if root else self.limits.waiting_others):
            return False
        self._waiting[root] += count
        return True

    def drop_bytes(self, peer: Peer, count: int) -> None:
        self._waiting[self.is_root(peer)] -= count

    def begin_urgent(self) -> None:
        """A request of root's is under way: others wait for it."""
        self.share.begin_urgent()
        self._threads.begin_urgent()

    def end_urgent(self) -> None:
        self.share.end_urgent()
        self._threads.end_urgent()

    def check_unread(self, peer: Peer) -> None:
        """Raises AgentError where others than root have as many answers unread as are kept for them."""
        if self.is_root(peer):
            return
        own = others = 0
        for connection in self._connections:
            if connection.peer.uid != self.root:
                count = connection.unread
                others += count
                own += count if connection.peer.uid == peer.uid else 0
        if own > self.limits.unread_each or others > self.limits.unread:
            whose = f"uid {peer.uid} has" if own > self.limits.unread_each else "others than root have"
            raise AgentError(
                protocol.TRY_AGAIN,
                f"{whose} answers of the agent unread, as many as it keeps. Read them, then try again.",
            )

    def check_streams(self, peer: Peer) -> None:
        """Raises AgentError where others than root watch as many streams as they may."""
        if self.is_root(peer):
            return
        watching = [other.peer.uid for other in self._connections if other.streaming and other.peer.uid != self.root]
        for number, limit, whose in (
            (watching.count(peer.uid), self.limits.streams_each, f"uid {peer.uid} watches"),
            (len(watching), self.limits.streams, "others than root watch"),
        ):
            if number >= limit:
                raise AgentError(
                    protocol.TRY_AGAIN,
                    f"{whose} {limit} streams of the agent, which is as many as it gives. End one, then try again.",
                )

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
        method = self._methods[request.method]
        try:
            with deadline:
                if method.slow and not self.is_root(peer):
                    work = functools.partial(method.handler, request.params, peer)
                    found = await self._coalesced(peer.uid, request.method, request.params, work)
                else:
                    found = await method.handler(request.params, peer)
                return t.cast("dict[str, t.Any]", found)
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

    def _bind(self, path: str, mode: int, group: t.Optional[int]) -> socket.socket:
        fresh = path + _FRESH
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            # Nobody can connect before it listens, and it has its access rights before it has its name.
            listener.bind(fresh)
            os.chmod(fresh, mode)
            if group is not None and os.geteuid() == 0:
                os.chown(fresh, 0, group)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            os.rename(fresh, path)
        except OSError as error:
            listener.close()
            if "too long" in str(error):
                raise SocketInUse(
                    f"{self.path} is longer than the {_PATH_LIMIT} bytes that the path of a socket may have here. "
                    "Choose a shorter one."
                ) from error
            raise
        self._inodes[path] = os.stat(path).st_ino
        return listener

    def _make_way(self, path: str) -> None:
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            raise SocketInUse(
                f"{path} is not a socket, so the agent does not replace it. Move it away, then start the agent."
            )
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
            probe.setblocking(False)
            try:
                probe.connect(path)
            except OSError as error:
                if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                    return  # left by an agent that is gone; the rename replaces it
                if error.errno != errno.EAGAIN:  # its backlog is full: somebody is there
                    raise
        raise SocketInUse(
            f"another agent answers at {path}. Only one may run on a node: stop it with "
            "`systemctl stop calico-agent`, or end the process that `ss -xlp` shows."
        )


def _gone(connection: socket.socket) -> bool:
    """Whether the client ended the connection without having said anything."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False


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
