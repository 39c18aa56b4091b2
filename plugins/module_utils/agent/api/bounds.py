# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What clients may cost the agent: connections, incomplete requests, unread answers, streams; by uid and in all."""

from __future__ import annotations

import typing as t

from . import protocol
from .peer import Peer
from .protocol import AgentError


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


class BoundedConnection(t.Protocol):
    """A connection as far as its bounds depend on it."""

    peer: Peer
    streaming: bool

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not read."""

    def abort(self) -> None:
        """Close at once."""


_C = t.TypeVar("_C", bound=BoundedConnection)


class Bounds(t.Generic[_C]):
    """The connections of one server, held to `limits`. `root` is the uid whose share is its own.

    `path` is the socket's. `waiting` are bytes of incomplete requests, {whether they are root's: count}.
    """

    def __init__(self, limits: Limits, root: int, path: str) -> None:
        self.limits = limits
        self.root = root
        self.connections: set[_C] = set()
        self.refused: set[_C] = set()
        self.waiting = {True: 0, False: 0}
        self._path = path

    def is_root(self, peer: Peer) -> bool:
        """Return whether `peer` is root."""
        return peer.uid == self.root

    def line_limit(self, peer: Peer) -> int:
        """Return how many bytes a request of `peer` may have."""
        return self.limits.line if self.is_root(peer) else self.limits.line_others

    def admit(self, connection: _C) -> t.Optional[AgentError]:
        """Count a connection in. Returns the only answer that it gets if there are too many, else None."""
        refusal = self.too_many(connection.peer)
        if refusal is None:
            self.connections.add(connection)
            return None
        self.refused.add(connection)
        if len(self.refused) > self.limits.refused:
            connection.abort()
        return refusal

    def too_many(self, peer: Peer) -> t.Optional[AgentError]:
        """Return the refusal of one more connection of `peer`, None if it may have one."""
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
        """Count a connection out."""
        self.connections.discard(connection)
        self.refused.discard(connection)

    def admit_bytes(self, peer: Peer, count: int) -> bool:
        """Count bytes of an incomplete request in, if there is room; return whether there is."""
        root = self.is_root(peer)
        if self.waiting[root] + count > (self.limits.waiting if root else self.limits.waiting_others):
            return False
        self.waiting[root] += count
        return True

    def drop_bytes(self, peer: Peer, count: int) -> None:
        """Count bytes of a request out, which is complete or given up."""
        self.waiting[self.is_root(peer)] -= count

    def check_unread(self, peer: Peer) -> None:
        """Raise AgentError if `peer`, or all but root, have as many bytes of answers unread as are kept for them."""
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
        """Raise AgentError if `peer`, or all but root, watch as many streams as they may."""
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
