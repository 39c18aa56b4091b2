# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to FRR must fail loudly: an empty answer would satisfy each assertion that something is not there."""

from __future__ import annotations

import pathlib
import socket

import pytest

from tests.integration.bird.interop.other_makes import Frr, answer_of_vty
from tests.integration.bird.network import Network

pytestmark = pytest.mark.root


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b'{"paths": []}\n\0\0\0\0', '{"paths": []}\n'),
        (b"\0\0\0\0", ""),
        (b"% No such thing\n\0\0\0\1", "show: status 1: % No such thing\n"),
        (b"\0\0\0\2", "show: status 2: "),
        (b'{"pat', "show: the daemon closed the connection after b'{\"pat'"),
    ],
)
def test_an_answer_is_text_with_the_status_of_success(answer: bytes, found: str) -> None:
    here, daemon = socket.socketpair()
    with here, daemon:
        daemon.sendall(answer)
        daemon.shutdown(socket.SHUT_WR)
        try:
            said = answer_of_vty(here, "show")
        except AssertionError as error:
            said = str(error)
    assert said == found


def test_a_command_unknown_to_frr_is_an_error(network: Network, tmp_path: pathlib.Path) -> None:
    frr = Frr(network.router, tmp_path / "frr")
    try:
        frr.start("router bgp 65001\n bgp router-id 10.10.1.1\n")
        assert frr.route("10.244.0.0/26") == []
        with pytest.raises(AssertionError) as caught:
            frr.ask("bgpd", "show bgp ipv4 nonsense")
        assert "show bgp ipv4 nonsense json: status " in str(caught.value)
    finally:
        frr.stop()
