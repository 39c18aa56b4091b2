# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of ports with real sockets on the loopback, and the process that has a port, by a folder like /proc."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import socket

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets import port_owner
from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets.port_claims import (
    PortClaims,
    PortNotClaimed,
    WantedPort,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets.port_owner import PortOwner

LOOPBACK = "127.0.0.1"
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def wanted(number: int = 0, protocol: str = "tcp", held: tuple[int, ...] = ()) -> WantedPort:
    return WantedPort(protocol, LOOPBACK, number, 80, {4: "192.0.2.5"}, held)


def run(scenario) -> None:
    asyncio.run(scenario())


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_claimed_port_is_taken_until_it_is_released(protocol: str) -> None:
    async def scenario() -> None:
        claims = PortClaims()
        (number,) = claims.claim("web", [wanted(protocol=protocol)])
        assert number > 0 and "web" in claims
        with pytest.raises(PortNotClaimed) as refused:
            claims.claim("other", [wanted(number, protocol)])
        assert refused.value.number == errno.EADDRINUSE and refused.value.owner is not None
        assert refused.value.owner.pid == os.getpid() and "other" not in claims
        claims.release("web")
        assert claims.claim("other", [wanted(number, protocol)]) == [number]
        claims.close()
        assert "other" not in claims

    run(scenario)


def test_all_or_none_are_claimed() -> None:
    async def scenario() -> None:
        claims = PortClaims()
        with socket.create_server((LOOPBACK, 0)) as taken:
            number = taken.getsockname()[1]
            (free,) = claims.claim("probe", [wanted()])
            claims.release("probe")
            with pytest.raises(PortNotClaimed):
                claims.claim("web", [wanted(free), wanted(number)])
            assert claims.claim("other", [wanted(free)]) == [free]
        claims.close()

    run(scenario)


def test_a_port_of_the_engine_itself_is_tried_and_left() -> None:
    """A port that the container engine binds must be free, or the engine's already; the claim does not keep it."""

    async def scenario() -> None:
        claims = PortClaims(lambda id, owner: id == "mine" and owner.pid == os.getpid())
        (number,) = claims.claim("web", [wanted(held=(4,))])
        with socket.create_server((LOOPBACK, number)):
            assert claims.claim("mine", [wanted(number, held=(4,))]) == [number]
            with pytest.raises(PortNotClaimed):
                claims.claim("web", [wanted(number, held=(4,))])
        claims.close()

    run(scenario)


def test_an_address_of_others_is_no_address_of_this_host() -> None:
    async def scenario() -> None:
        claims = PortClaims()
        with pytest.raises(PortNotClaimed) as refused:
            claims.claim("web", [WantedPort("tcp", "192.0.2.77", 8080, 80, {4: "192.0.2.5"})])
        assert (refused.value.number, refused.value.owner) == (errno.EADDRNOTAVAIL, None)

    run(scenario)


def line(port: int, inode: int, state: str = "0A") -> str:
    zeros = "00000000"
    return f"   0: {zeros}:{port:04X} {zeros}:0000 {state} {zeros}:{zeros} 00:{zeros} {zeros} 0 0 {inode} 1\n"


def process(proc: pathlib.Path, pid: str, name: str, inodes: list[int], command: bytes = b"") -> None:
    (proc / pid / "fd").mkdir(parents=True)
    (proc / pid / "comm").write_text(f"{name}\n")
    (proc / pid / "cmdline").write_bytes(command)
    for number, inode in enumerate(inodes):
        (proc / pid / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


def test_the_process_that_has_a_port(tmp_path: pathlib.Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(HEADER + line(80, 7) + line(8080, 8) + line(8080, 9, "01") + "rubbish\n")
    (tmp_path / "net" / "tcp6").write_text(HEADER + line(8081, 10))
    process(tmp_path, "12", "nginx", [3, 8], b"nginx\0-g\0daemon off;\0")
    process(tmp_path, "13", "client", [9])
    process(tmp_path, "self", "x", [8])
    process(tmp_path, "14", "y" * 500, [10], b"\xff\0" * 20_000)
    found = port_owner.find("tcp", 8080, 4, str(tmp_path))
    assert found == PortOwner(12, "nginx", ("nginx", "-g", "daemon off;", ""))
    assert port_owner.find("tcp", 8080, 6, str(tmp_path)) is None
    both = port_owner.find("tcp", 8081, 4, str(tmp_path))
    assert both is not None and both.pid == 14 and len(both.name) == 64 and sum(map(len, both.command)) <= 8192
    assert port_owner.find("udp", 8080, 4, str(tmp_path)) is None
    assert port_owner.find("sctp", 8080, 4, str(tmp_path)) is None
    assert port_owner.find("tcp", 8080, 4, str(tmp_path / "nothing")) is None
