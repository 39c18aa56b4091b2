# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks of nodes, members and the controller that are an hour off, and certificates that are not valid by them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import pathlib
import ssl
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    HttpTransport,
    MemberAddress,
    TlsFiles,
    TransportError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import HeartbeatStatus
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import certificates

from tests.etcd_certificates import DAY, Authority
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine

HOUR = 3600.0
NOW = 1_795_770_000.0


def test_the_clock_of_a_node_is_set(tmp_path: pathlib.Path) -> None:
    """Set a node's clock an hour ahead and an hour behind, while its agent runs and while it starts.

    Gain: None. Routes or policy that go, or an address that is assigned again before its time.
    Precedent: CWE-367 (class); clocks that NTP sets after a boot.
    Closed: 0.3.0
    Result: Nothing is removed, the node stays in sync, and workloads come and go. A released address rests as long
    as by a clock that is right.
    """
    engine = install_engine(tmp_path / "engine")
    with daemon_under_test(engine, tmp_path / "host") as daemon:
        daemon.settings(cooldown=600.0)
        daemon.clock(0.0)
        daemon.start()
        daemon.add("web", labels={"app": "web"})
        daemon.in_sync()
        before = kept(daemon)
        released: set[str] = set()
        for number, (ahead, restarts) in enumerate(((HOUR, False), (-HOUR, False), (HOUR, True), (-HOUR, True))):
            daemon.clock(ahead)
            if restarts:
                assert daemon.stop() == 0
                daemon.start()
                since = datetime.datetime.strptime(daemon.call("status")["since"], "%Y-%m-%dT%H:%M:%SZ")
                off = since.replace(tzinfo=datetime.timezone.utc) - datetime.datetime.now(datetime.timezone.utc)
                assert abs(off.total_seconds() - ahead) < HOUR / 2
            (address,) = daemon.add(f"other{number}")["addresses"]
            assert address not in released
            released.add(address)
            assert daemon.delete(f"other{number}")
            daemon.settled()
            daemon.in_sync()
            assert kept(daemon) == before, ahead
            assert daemon.call("status")["problems"] == []


def kept(daemon: Daemon) -> tuple[object, ...]:
    """Return what a node has in its kernel and on its disk for its workloads."""
    rules = daemon.kernel.run(["iptables-save"]).output.splitlines()
    chains = sorted(line for line in rules if line.startswith(("-A", ":cali")) and " [" not in line)
    return daemon.routes, daemon.links, daemon.records, chains


def heartbeats(**ahead: float) -> list[str]:
    """Return the lines about problems, by the heartbeats of nodes whose clocks are so many seconds ahead."""
    good = Heartbeat("", 0.0, "0.2.0", "7f3a91", "converge", True, 0, "", 0, 2, 2, (), 2, 77, 7, True, 0.1)
    found = {
        node: dataclasses.replace(good, node=node, written=NOW - age + seconds)
        for age, (node, seconds) in enumerate(ahead.items())
    }
    lines = HeartbeatStatus(tuple(found), tuple(found), found, {}, NOW).lines()
    return [line for line in lines if line.startswith("!")]


def test_heartbeats_of_another_hour() -> None:
    """Write heartbeats by a node's clock that is an hour off, and read them by a controller's clock that is.

    Gain: None. A node that seems dead or well and is not.
    Precedent: none known.
    Closed: 0.3.0
    Result: The status names the clock, of the node or of the controller. No run goes by a heartbeat's age.
    """
    assert heartbeats(node1=0, node2=HOUR) == [
        "! node2: its clock is 59m ahead of the one here. Let both take the time by NTP.",
    ]
    assert heartbeats(node1=0, node2=-HOUR) == [
        "! node2: its last heartbeat is 1h old. The agent or the host is down, does not reach the datastore, or has a "
        "clock that is behind; what follows is from then.",
    ]
    for ahead, words in ((HOUR, "1h behind"), (-HOUR, "1h ahead")):
        assert heartbeats(node1=ahead, node2=ahead, node3=ahead)[-1] == (
            f"! the clock here is probably {words}: all heartbeats differ by that. Let it take the time by NTP."
        )
    assert not any("the clock here" in line for line in heartbeats(node1=-HOUR, node2=-200))
    assert not any("the clock here" in line for line in heartbeats(node1=-HOUR))


@contextlib.asynccontextmanager
async def member(files: tuple[str, str]) -> t.AsyncIterator[MemberAddress]:
    """Yield the address of a member with this certificate, which answers every call."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield MemberAddress(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()


async def refused(client: HttpTransport) -> str:
    with pytest.raises(TransportError) as refusal:
        await client.call("/", b"", {}, 60)
    return str(refusal.value)


def test_certificates_that_are_not_valid_yet_or_any_more(tmp_path: pathlib.Path) -> None:
    """Show a member's certificate of the next hour, and one of an authority whose own certificate has ended.

    Gain: None. Nodes that hear nothing of each other, for a reason that nothing names.
    Precedent: CWE-298 (improper validation of certificate expiration).
    Closed: 0.3.0
    Result: The node says why. For one of the future it names the clocks. It takes new files without a restart.
    """
    authority = Authority(tmp_path)
    here = ["127.0.0.1"]

    async def scenario() -> None:
        files = TlsFiles(str(authority.file))
        async with member(authority.issue("future", here, begins=datetime.timedelta(hours=1))) as address:
            assert await refused(HttpTransport(address, files)) == (
                "its certificate is refused: certificate is not yet valid (set the clocks of this host and of the "
                "controller)"
            )
        async with member(authority.issue("valid", here)) as address:
            client = HttpTransport(address, files)
            assert (await client.call("/", b"", {}, 60))[0] == 200
            authority.renew(-DAY)
            assert await refused(client) == "its certificate is refused: certificate has expired"
            authority.renew()
            assert (await client.call("/", b"", {}, 60))[0] == 200

    asyncio.run(scenario())


def test_certificates_of_a_controller_that_is_ahead(tmp_path: pathlib.Path) -> None:
    """Make certificates by a controller's clock that is two hours ahead of those of nodes and members.

    Gain: None. A cluster that no node can use until its clock has come so far.
    Precedent: none known.
    Closed: 0.3.0
    Result: Certificates are valid from a day before they are made, so nodes use them at once.
    """
    ahead = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)
    authority = certificates.made_authority("members", 30, ahead)
    issued = certificates.made_member(authority, "host1", ["127.0.0.1"], 30, ahead)
    for name, content in (
        ("ca", authority.certificate_pem),
        ("member", issued.certificate_pem),
        ("key", issued.key_pem),
    ):
        (tmp_path / name).write_bytes(content)

    async def scenario() -> None:
        async with member((str(tmp_path / "member"), str(tmp_path / "key"))) as address:
            client = HttpTransport(address, TlsFiles(str(tmp_path / "ca")))
            assert (await client.call("/", b"", {}, 60))[0] == 200

    asyncio.run(scenario())
