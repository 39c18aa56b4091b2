# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate's way to its member: connections that are kept for the next request, and a regular look at the member."""

from __future__ import annotations

import contextlib
import sys
import typing as t

from .. import gateway
from ..gateway import EtcdError
from ..transport import SET_CLOCKS, MemberAddress, MemberConnection, TlsFiles, TransportError, within
from .replays import RevisionSizes
from .requests import STATUS

#: Seconds until the member answers.
ANSWER_SECONDS = 15.0
#: The most connections that are kept for the next request.
_KEPT = 8


class GatedMember:
    """The member at `address`, and the gate's connections to it. `tls` names the files of their TLS, None without."""

    def __init__(self, address: MemberAddress, tls: t.Optional[TlsFiles]) -> None:
        self.address = address
        self.history = RevisionSizes()
        self._tls = tls
        self._kept: list[MemberConnection] = []
        self._problem = self._said = ""

    async def connection(self) -> MemberConnection:
        """Return a connection, which may have been used before. Raise TransportError."""
        while self._kept:
            found = self._kept.pop()
            if found.usable:
                return found
            found.close()
        return await within(ANSWER_SECONDS, MemberConnection.to(self.address, self._tls))

    def keep(self, connection: MemberConnection) -> None:
        """Keep a connection for the next request, or close it."""
        if connection.keeps and len(self._kept) < _KEPT:
            self._kept.append(connection)
        else:
            connection.close()

    async def newest(self) -> int:
        """Return the newest revision of the member. Raise EtcdError or TransportError."""
        return await self._status(await self.connection())

    async def observe(self) -> None:
        """Ask for the member's status on a new connection, which shows whether both certificates are still accepted.

        If one is not, no other request is served on an older connection. A problem that lasts is said once.
        """
        problem = ""
        try:
            await self._status(await within(ANSWER_SECONDS, MemberConnection.to(self.address, self._tls)))
        except (TransportError, EtcdError) as error:
            problem = str(error)
            while self._kept:
                self._kept.pop().close()
        if problem == self._problem != self._said:
            self._said = problem
            say(self._news(problem))
        self._problem = problem

    def _news(self, problem: str) -> str:
        if not problem:
            return f"The gate can ask its member {self.address} again."
        remedy = "look at calico-etcd.service"
        if SET_CLOCKS in problem:
            remedy = "let both take the time by NTP"
        elif "certificate" in problem:
            remedy = "run playbooks/etcd.yml, which renews certificates"
        return f"The gate cannot ask its member {self.address}: {problem}. Agents go to other members; {remedy}."

    async def _status(self, connection: MemberConnection) -> int:
        try:
            status, header = await within(ANSWER_SECONDS, connection.ask(self.address, STATUS, b"{}", {}))
            answer = await within(ANSWER_SECONDS, connection.body(header))
            if status != 200:
                raise gateway.error_of(status, answer)
            found = gateway.status_of(gateway.decode(answer))
        except BaseException:
            connection.close()
            raise
        self.keep(connection)
        self.history.note(found.header.revision, found.size_in_use)
        return found.header.revision


def say(problem: str) -> None:
    """Write a line to the journal, unless it is empty."""
    if problem:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{problem}\n")
            sys.stderr.flush()
