# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's attempts to reach an address must take neither a refusal nor silence for an answer."""

from __future__ import annotations

import socket
import sys
import threading
import typing as t

import pytest

from tests.lab.measure import reach, traffic
from tests.lab.topology import LabError

sys.modules["lab_traffic"] = traffic  # its name on a lab host
from tests.lab.measure import reach_here  # noqa: E402


def attempt(protocol: str, port: int, expected: bool) -> dict[str, t.Any]:
    return {"netns": None, "address": "127.0.0.1", "protocol": protocol, "port": port, "expected": expected}


def bound(kind: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, kind)
    made.bind(("127.0.0.1", 0))
    return made


def answering(server: socket.socket) -> None:
    data, sender = server.recvfrom(2048)
    server.sendto(data, sender)


@pytest.mark.parametrize("expected", [False, True])
def test_an_answer_a_refusal_and_silence_are_three_results(expected: bool) -> None:
    with bound(socket.SOCK_DGRAM) as echo, bound(socket.SOCK_DGRAM) as mute, bound(socket.SOCK_STREAM) as accepting:
        accepting.listen()
        with bound(socket.SOCK_DGRAM) as one, bound(socket.SOCK_STREAM) as other:
            closed = {"udp": one.getsockname()[1], "tcp": other.getsockname()[1]}
        thread = threading.Thread(target=answering, args=(echo,))
        thread.start()
        asked = [
            attempt("udp", echo.getsockname()[1], expected),
            attempt("tcp", accepting.getsockname()[1], expected),
            attempt("udp", closed["udp"], expected),
            attempt("tcp", closed["tcp"], expected),
            attempt("udp", mute.getsockname()[1], False),
        ]
        assert reach_here.try_all(asked) == ["answer", "answer", "refused", "refused", "nothing"]
        thread.join()


def test_a_refused_attempt_shows_nothing_about_policy() -> None:
    one, other = (
        reach.Attempt(reach.Place("node1", "web", "10.244.0.1"), reach.Place("node2", None, "10.10.1.12"), "udp", port)
        for port in (80, 81)
    )
    assert reach._answered([(one, "answer"), (other, "nothing")]) == {one}
    with pytest.raises(LabError) as caught:
        reach._answered([(one, "answer"), (other, "refused")])
    assert str(caught.value) == (
        "1 of 2 attempts were refused, because no server has the port there, such as node1/web > node2/host"
        " 10.10.1.12:81/udp. Serve the ports of all targets with `serving`."
    )
