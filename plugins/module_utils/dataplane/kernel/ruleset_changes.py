# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chains of iptables-nft that were written since a generation, from the kernel's notifications of nftables.

After each transaction the kernel sends what it has changed, then a message with the new generation. Messages for which
the socket has no room are lost, which the kernel says (ENOBUFS); what was written is unknown then. Layouts:
linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import typing as t

from ...base.iptables_encoding import TABLES
from . import rtnetlink as rt
from .port import ChangedChain

_NETLINK_NETFILTER = 12
_GROUP = 7  # NFNLGRP_NFTABLES
_SUBSYSTEM = 10  # NFNL_SUBSYS_NFTABLES
_NEWTABLE, _DELTABLE, _NEWCHAIN, _DELCHAIN, _NEWRULE, _DELRULE, _NEWGEN = 0, 2, 3, 5, 6, 8, 15
_TABLE, _RULE_CHAIN, _CHAIN_NAME, _GEN_ID = 1, 2, 3, 1  # NFTA_CHAIN_TABLE and NFTA_RULE_TABLE are equal
_IP_VERSIONS: t.Mapping[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 6}
_BUFFER = 1 << 20  # bytes: about 1,000 notifications
_READ = 64 << 10  # bytes, more than the kernel puts into one datagram
_MOST = 1000  # chains that are remembered; when more have changed, all of them count as changed
_HEADER = struct.Struct("=IHHII")
_BODY = 20  # offset in bytes of a message's attributes, behind the headers of netlink and nfgenmsg


class RulesetChanges:
    """What transactions have changed in the tables of iptables, for one consumer at a time.

    The first call of `between` starts to listen. `opener` returns a non-blocking netlink socket, as `open_socket` does.
    `generation` returns the ruleset's present one, None without nf_tables.
    """

    def __init__(self, opener: t.Callable[[], socket.socket], generation: t.Callable[[], t.Optional[int]]) -> None:
        self._opener = opener
        self._generation = generation
        self._socket: t.Optional[socket.socket] = None
        self._complete_after = 0  # all later generations are in `_written`, up to `_last`
        self._last = 0
        self._written: dict[int, set[ChangedChain]] = {}
        self._pending: set[ChangedChain] = set()  # of a transaction whose generation is still to come

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def between(self, since: int, until: int) -> t.Optional[frozenset[ChangedChain]]:
        """Return the chains that transactions after the generation `since`, up to `until`, have written.

        Return None if that is not known: in the first call, if notifications were lost or are still to come, and if the
        kernel refuses. What was written up to `since` is forgotten.
        """
        try:
            if self._socket is None:
                self._start()
                return None
            self._read(self._socket)
        except OSError:  # ENOBUFS, mostly: what is still in the socket may lack parts of transactions.
            self.close()
            with contextlib.suppress(OSError):
                self._start()
            return None
        self._written = {number: chains for number, chains in self._written.items() if number > since}
        if since < self._complete_after or until > self._last:
            return None
        return frozenset().union(*(chains for number, chains in self._written.items() if number <= until))

    def _start(self) -> None:
        self._socket = self._opener()
        self._written, self._pending = {}, set()
        # A transaction may have sent some of its notifications before this socket listened, but not a later one.
        self._complete_after = self._last = self._generation() or 0

    def _read(self, netlink: socket.socket) -> None:
        """Take in all notifications that have arrived. Raise OSError, with ENOBUFS if some were lost."""
        while True:
            try:
                data = netlink.recv(_READ)
            except BlockingIOError:
                return
            offset = 0
            while offset + _BODY <= len(data):
                length, kind, flags, _sequence, _port = _HEADER.unpack_from(data, offset)
                if length < _BODY:
                    break
                if kind >> 8 == _SUBSYSTEM:
                    self._take(kind & 0xFF, flags, data[offset : offset + length])
                offset += (length + 3) & ~3

    def _take(self, kind: int, flags: int, message: bytes) -> None:
        if kind == _NEWGEN:
            number = rt.attributes(message, _BODY).get(_GEN_ID, b"")
            self._last = int.from_bytes(number, "big")
            if self._pending:
                self._written[self._last], self._pending = self._pending, set()
            if sum(map(len, self._written.values())) > _MOST:
                self._written, self._complete_after = {}, self._last
            return
        version = _IP_VERSIONS.get(message[16])
        if version is None or kind not in (_NEWTABLE, _DELTABLE, _NEWCHAIN, _DELCHAIN, _NEWRULE, _DELRULE):
            return
        found = rt.attributes(message, _BODY)
        whole = ChangedChain(version, _text(found.get(_TABLE, b"")), "")
        if whole.table not in TABLES or whole in self._pending:
            return
        chain = b""
        if kind in (_NEWRULE, _DELRULE):
            chain = found.get(_RULE_CHAIN, b"")
        elif kind == _DELCHAIN or (kind == _NEWCHAIN and flags & (rt.NLM_F_CREATE | rt.NLM_F_EXCL)):
            chain = found.get(_CHAIN_NAME, b"")
        # Any other message about a chain may be a new name of it, which also changes the text of rules that lead to it.
        self._pending.add(whole._replace(chain=_text(chain)))
        if len(self._pending) > _MOST:
            self._pending = {one._replace(chain="") for one in self._pending}


def open_socket() -> socket.socket:
    """Return a socket of this thread's network namespace for `RulesetChanges`. Raise OSError if there can be none."""
    netlink = rt.bound_socket(_NETLINK_NETFILTER, _BUFFER, socket.SOCK_NONBLOCK)
    try:
        rt.join(netlink, _GROUP)
    except OSError:
        netlink.close()
        raise
    return netlink


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace")
