# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of the agent's API: its sockets, who may connect, and the end of connections.

    server = Server("/run/calico/agent.sock", {"status": Method(status)}, shims={"CNI": dispatch})
    await server.start()

One process listens at a path, and at a second socket beside it for root alone (protocol.root_socket), whose backlog
other users cannot fill. A socket that an earlier process left is replaced if no process answers at it. The replacement
is one step, and the new socket has its access rights before.

Callers other than root share a bounded part of the loop (fair_share.py). Their connections are accepted, and their
requests parsed, in turns. A request of root that is under way delays each turn by up to 0.1 seconds.
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

from ...wire import protocol
from ...wire.peer import Peer
from ..concurrency.fair_share import FairShare
from .bounds import ApiLimits, Bounds
from .calls import Calls, Method, Shims
from .connection import ApiConnection

_log = logging.getLogger("calico.api")

_FRESH = ".new"  # suffix of a socket's path until the socket is ready
_PATH_LIMIT = 107 - len(protocol.ROOT_SUFFIX) - len(_FRESH)  # bytes of `path`: a socket's path has 107 at most, unix(7)
_BACKLOG = 1024  # the most connections that wait to be accepted; the kernel lowers it to net.core.somaxconn
_NO_MORE_FILES = 1.0  # seconds until the next attempt after a connection could not be accepted
_AT_ONCE = 16  # the most connections that are accepted in a turn, besides the first one
_ACCEPTING = "accepting"  # the key of the turns in which connections are accepted, in place of a uid
_LIMITS = ApiLimits()


class SocketInUse(Exception):
    """The error that a socket of the agent cannot be made at its path."""


class Server:
    """The agent's API at the socket `path`, and for root alone at a second socket beside it.

    `methods` is a mapping from name to Method and may be filled until start(). `root` is the uid that may do
    everything; members of the group `group` may read. `observed(method, outcome, seconds)` is called for each answer of
    a method, but not for requests of shims and requests that are refused before their method is called. `outcome` is
    "ok" or the code of the error. `share` is the part of the loop for callers other than root.
    """

    def __init__(
        self,
        path: str,
        methods: t.Mapping[str, Method],
        shims: t.Optional[Shims] = None,
        *,
        group: str = protocol.GROUP,
        root: int = 0,
        limits: ApiLimits = _LIMITS,
        observed: t.Callable[[str, str, float], None] = lambda method, outcome, seconds: None,
        share: t.Optional[FairShare] = None,
    ) -> None:
        self.path = path
        self.share = share if share is not None else FairShare()
        self.bounds: Bounds[ApiConnection] = Bounds(limits, root, path)
        self.calls = Calls(methods, shims, group=group, root=root, deadline=limits.deadline, observed=observed)
        self._group = group
        self._listening: t.Optional[asyncio.AbstractServer] = None  # the server of root's socket
        self._accepting: t.Optional[asyncio.Task[None]] = None  # accepts connections at the socket `path`
        self._inodes: dict[str, int] = {}

    async def start(self) -> None:
        """Make both sockets and begin to accept connections. Without the group, only root may call methods.

        Raise SocketInUse, and leave no socket, if another agent answers there, the path is too long, something else
        than a socket is there, or a socket cannot be made.
        """
        with contextlib.suppress(KeyError):
            self.calls.readers = grp.getgrnam(self._group).gr_gid
        roots = protocol.root_socket(self.path)
        for path in (self.path, roots):
            self._make_way(path)
        loop = asyncio.get_running_loop()
        own = self._bind(roots, 0o600, None)
        self._listening = await loop.create_unix_server(self._connection, sock=own, backlog=_BACKLOG)
        try:
            everybody = self._bind(self.path, 0o660, self.calls.readers)
        except SocketInUse:
            await self.stop(0)
            raise
        self._accepting = loop.create_task(self._accept(everybody))

    def _connection(self) -> ApiConnection:
        return ApiConnection(self.calls, self.bounds, self.share)

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections to the common socket until cancelled, a few in each turn; then close the socket."""
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
                    continue  # No more connections wait, or the last one failed.
                except BaseException:
                    connection.close()
                    raise
        finally:
            listener.close()

    async def _welcome(self, connection: socket.socket) -> None:
        """Serve a connection, or send the reason and close it if there are too many; Bounds.admit limits root's."""
        connection.setblocking(False)
        try:
            peer = Peer.from_socket(connection)
            refusal = None if self.bounds.is_root(peer) else self.bounds.too_many(peer)
            serve = refusal is None and not _gone(connection)
            if refusal is not None:
                connection.send(protocol.failure(None, refusal))
        except OSError:  # the client has disconnected, or does not read its refusal
            serve = False
        if not serve:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(self._connection, connection)

    async def stop(self, grace: float = 5.0) -> None:
        """Stop listening, remove the sockets, and end the connections after the answers under way.

        Streams are cancelled at once, other answers after `grace` seconds; wait for their ends. A socket file that
        another process has put in place since is not removed.
        """
        if self._listening is not None:
            for path, inode in self._inodes.items():
                with contextlib.suppress(OSError):
                    if os.stat(path).st_ino == inode:  # else it is the socket of another agent that came later
                        os.unlink(path)
            self._listening.close()
            self._listening = None
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        for connection in [*self.bounds.connections, *self.bounds.refused]:
            connection.stop()
        tasks = {connection.task for connection in self.bounds.connections if connection.task is not None}
        if tasks:
            dummy, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    # --- the socket

    def _bind(self, path: str, mode: int, group: t.Optional[int]) -> socket.socket:
        fresh = path + _FRESH
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            # Clients find the socket once it is renamed to `path`. It has its access rights and listens before.
            listener.bind(fresh)
            os.chmod(fresh, mode)
            if group is not None and os.geteuid() == 0:
                os.chown(fresh, 0, group)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            os.rename(fresh, path)
            self._inodes[path] = os.stat(path).st_ino
        except OSError as error:
            listener.close()
            if "too long" in str(error):
                raise SocketInUse(
                    f"{self.path} is longer than the {_PATH_LIMIT} bytes that the path of a socket may have here. "
                    "Choose a shorter one."
                ) from error
            raise _not_made(path, error) from error
        return listener

    def _make_way(self, path: str) -> None:
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _not_made(path, error) from error
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
                    return  # No process listens: an agent that ended left the socket, and the new one replaces it.
                if error.errno != errno.EAGAIN:  # EAGAIN: a process listens, and its backlog is full.
                    raise _not_made(path, error) from error
        raise SocketInUse(
            f"another agent answers at {path}. Only one may run on a node: stop it with "
            "`systemctl stop calico-agent`, or end the process that `ss -xlp` shows."
        )


def _not_made(path: str, error: OSError) -> SocketInUse:
    return SocketInUse(
        f"the agent cannot make its socket {path}: {error.strerror or error}. Run it as root, and correct the folder"
        " or the file system, then start the agent."
    )


def _gone(connection: socket.socket) -> bool:
    """Return whether the client has ended a non-blocking connection without sending. Raise OSError if it was reset."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
