# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate's way to its member: what it says of one that cannot be asked, and connections that end with it."""

from __future__ import annotations

import asyncio

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.member import GatedMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import MemberAddress


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            await reader.readexactly(int(head.split("Content-Length: ")[1].split("\r\n")[0]))
            body = b'{"header":{"revision":"7"},"version":"3.5.16","dbSizeInUse":"4096"}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    except asyncio.IncompleteReadError:
        writer.close()


def test_a_member_that_cannot_be_asked_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A failed look closes the kept connections. The journal gets one line, and only after a second failed look."""

    async def scenario() -> None:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0)
        there = MemberAddress(*server.sockets[0].getsockname()[:2])
        member = GatedMember(there, None)
        for dummy in range(3):
            await member.observe()
        kept = await member.connection()
        member.keep(kept)
        assert capsys.readouterr().err == "" and member.history.newest == await member.newest() == 7
        member.address = MemberAddress("127.0.0.1", 1)
        await member.observe()
        assert capsys.readouterr().err == "" and not member._kept and not kept.usable
        for dummy in range(3):
            await member.observe()
        assert capsys.readouterr().err == (
            "The gate cannot ask its member 127.0.0.1:1: Connection refused. Agents go to other members; look at "
            "calico-etcd.service.\n"
        )
        member.address = there
        for dummy in range(3):
            await member.observe()
        assert capsys.readouterr().err == f"The gate can ask its member {there} again.\n"
        while member._kept:
            member._kept.pop().close()
        server.close()

    asyncio.run(scenario())


def test_few_connections_are_kept() -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0)
        member = GatedMember(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
        for dummy in range(20):
            await member.observe()
        assert len(member._kept) == 8 and member._kept[-1].usable
        while member._kept:
            member._kept.pop().close()
        server.close()

    asyncio.run(scenario())
