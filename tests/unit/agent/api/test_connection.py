# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the time limits of one connection, on a virtual clock."""

from __future__ import annotations

import asyncio
import os
import socket
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.bounds import ApiLimits, Bounds
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.connection import ApiConnection
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.fair_share import FairShare

from tests.unit.agent.virtual_time import run

ME = os.getuid()


class Unread(asyncio.Transport):
    """A transport whose client reads nothing until `read` is called; `aborted` is when the connection was closed."""

    def __init__(self, connection: ApiConnection, own: socket.socket) -> None:
        super().__init__({"socket": own})
        self.connection = connection
        self.written = b""
        self.aborted: t.Optional[float] = None

    def read(self) -> None:
        self.connection.resume_writing()

    def write(self, data: t.Any) -> None:
        self.written += data
        self.connection.pause_writing()

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.aborted is not None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted = asyncio.get_running_loop().time()
        self.connection.connection_lost(None)


@pytest.mark.parametrize("seconds", [None, 0.0, 1.9])
def test_a_client_that_was_turned_away_is_closed_in_time_whenever_it_reads(seconds: t.Optional[float]) -> None:
    """A connection is closed two seconds after its refusal, if the client reads it `seconds` later or never (None)."""

    async def scenario() -> None:
        limits = ApiLimits(line=10, idle=30.0)
        calls = Calls({}, None, group="", root=ME, deadline=1.0)
        connection = ApiConnection(calls, Bounds(limits, ME, "agent.sock"), FairShare())
        own, other = socket.socketpair()
        with own, other:
            transport = Unread(connection, own)
            connection.connection_made(transport)
            connection.get_buffer(-1)[:11] = b"x" * 11
            connection.buffer_updated(11)
            assert b"the request is longer than 10 bytes" in transport.written
            if seconds is not None:
                await asyncio.sleep(seconds)
                transport.read()
            await asyncio.sleep(40)
            assert transport.aborted == pytest.approx(2.0)

    run(scenario())
