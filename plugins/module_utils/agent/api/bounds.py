# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits on what clients may cost the agent: connections, incomplete requests, unread answers and streams.

Root has limits of its own. All other callers have limits for each uid and for all of them together.
"""

from __future__ import annotations

import typing as t

from ...wire import protocol
from ...wire.peer import Peer
from ...wire.protocol import AgentError


class ApiLimits(t.NamedTuple):
    """The limits of the API. "Others" are all callers except root, which has a share of its own."""

    line: int = protocol.LINE_LIMIT  # the most bytes of one request of root
    line_others: int = protocol.READER_LINE_LIMIT  # the most bytes of one request of another caller
    deadline: float = protocol.DEADLINE  # the most seconds that a request is worked on, unless it is a stream
    idle: float = protocol.IDLE  # the most seconds until a client's next request is complete, or its answers are read
    connections: int = 512  # the most connections of root
    others: int = 128  # the most connections of all callers except root together
    each: int = 32  # the most connections of one uid except root
    refused: int = 64  # refused connections that stay open to receive the reason; any more are closed at once
    waiting: int = 16 << 20  # the most bytes read of requests that have not begun, on all connections of root
    waiting_others: int = 4 << 20  # the same for all connections of callers except root
    unread: int = 16 << 20  # bytes of answers unread by callers except root; above it, their requests are refused
    unread_each: int = 4 << 20  # bytes of answers unread by one uid except root; above it, its requests are refused
    streams: int = 16  # the most streams that all callers except root watch together
    streams_each: int = 4  # the most streams that one uid except root watches


class BoundedConnection(t.Protocol):
    """The part of a connection that its limits depend on."""

    peer: Peer
    streaming: bool

    @property
    def unread(self) -> int:
        """The number of bytes of answers that wait in the agent because the client does not read them."""

    def abort(self) -> None:
        """Close the connection at once, and discard what was not sent."""


_C = t.TypeVar("_C", bound=BoundedConnection)


class Bounds(t.Generic[_C]):
    """The connections of one server, held to `limits`. Checks of answers and streams never refuse root.

    `root` is the uid that counts as root. `path` is the path of the server's socket, for messages. `waiting` is a
    mapping from whether requests are root's (True or False) to the number of bytes read of those that have not begun.
    `connections` are the admitted connections; `refused` are connections that only receive a refusal.
    """

    def __init__(self, limits: ApiLimits, root: int, path: str) -> None:
        self.limits = limits
        self.root = root
        self.connections: set[_C] = set()
        self.refused: set[_C] = set()
        self.waiting = {True: 0, False: 0}
        self._path = path

    def is_root(self, peer: Peer) -> bool:
        """Return whether the uid of `peer` is the one that counts as root."""
        return peer.uid == self.root

    def line_limit(self, peer: Peer) -> int:
        """Return the maximum size of one request of `peer` in bytes, its newline included."""
        return self.limits.line if self.is_root(peer) else self.limits.line_others

    def admit(self, connection: _C) -> t.Optional[AgentError]:
        """Register a connection. Return None, or the refusal (AgentError) if there are too many connections.

        The connection is aborted as well if more than `limits.refused` connections are refused at the moment.
        """
        refusal = self.too_many(connection.peer)
        if refusal is None:
            self.connections.add(connection)
            return None
        self.refused.add(connection)
        if len(self.refused) > self.limits.refused:
            connection.abort()
        return refusal

    def too_many(self, peer: Peer) -> t.Optional[AgentError]:
        """Return None if `peer` may have one more connection, or else its refusal, an AgentError (try_again)."""
        uids = [connection.peer.uid for connection in self.connections]
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
                    f"`ss -xp src {self._path}` shows who holds them.",
                )
        return None

    def gone(self, connection: _C) -> None:
        """Remove a connection that ended, whether it was admitted or refused."""
        self.connections.discard(connection)
        self.refused.discard(connection)

    def admit_bytes(self, peer: Peer, count: int) -> bool:
        """Count `count` bytes read of `peer`'s requests and return True; count none and return False without room."""
        root = self.is_root(peer)
        if self.waiting[root] + count > (self.limits.waiting if root else self.limits.waiting_others):
            return False
        self.waiting[root] += count
        return True

    def drop_bytes(self, peer: Peer, count: int) -> None:
        """Subtract `count` bytes that `admit_bytes` counted, because the request was taken or discarded."""
        self.waiting[self.is_root(peer)] -= count

    def check_unread(self, peer: Peer) -> None:
        """Raise AgentError (try_again) if `peer`'s uid, or all uids but root, leave too many bytes unread."""
        if self.is_root(peer):
            return
        own = others = 0
        for connection in self.connections:
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
        """Raise AgentError (try_again) if `peer`'s uid, or all uids but root, watch as many streams as they may."""
        if self.is_root(peer):
            return
        watching = [other.peer.uid for other in self.connections if other.streaming and other.peer.uid != self.root]
        for number, limit, whose in (
            (watching.count(peer.uid), self.limits.streams_each, f"uid {peer.uid} watches"),
            (len(watching), self.limits.streams, "others than root watch"),
        ):
            if number >= limit:
                raise AgentError(
                    protocol.TRY_AGAIN,
                    f"{whose} {limit} streams of the agent, which is as many as it gives. End one, then try again.",
                )
