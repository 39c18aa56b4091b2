# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control socket's protocol: whole answers from pieces of any size, and an error in words otherwise."""

from __future__ import annotations

import pathlib
import socket

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, status
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.client import BirdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import CommandRefused, NotAnswering
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

STATUS = (
    b"1000-BIRD 2.0.12\n1011-Router ID is 10.10.1.12\n Hostname is vm\n"
    b" Last reconfiguration on 2026-11-21 07:10:53.505\n0013 Daemon is up and running\n"
)
TEXT = (
    "BIRD 2.0.12",
    "Router ID is 10.10.1.12",
    "Hostname is vm",
    "Last reconfiguration on 2026-11-21 07:10:53.505",
    "Daemon is up and running",
)


def test_an_answer_has_a_code_and_lines(bird) -> None:
    bird.answers["show status"] = [[STATUS]]
    with BirdClient(bird.path) as client:
        assert client.version == "2.0.12"
        assert client.ask("show status") == (13, TEXT)
        assert client.ask("show status").text == "\n".join(TEXT)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(st.sets(st.integers(1, len(STATUS) - 1)))
def test_pieces_make_no_difference(bird, cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(STATUS)]
    bird.answers["show status"] = [[STATUS[start:end] for start, end in zip(edges, edges[1:])]]
    with BirdClient(bird.path) as client:
        assert client.ask("show status") == (13, TEXT)


def test_an_unsolicited_message_is_left_out_of_the_answer(bird) -> None:
    bird.answers["x"] = [[b"+a message for whoever listens\n0000 \n"]]
    with BirdClient(bird.path) as client:
        assert client.ask("x") == (0, ())


def test_a_refusal_names_command_and_answer(bird) -> None:
    bird.answers["nonsense"] = [[b"9001 syntax error, unexpected CF_SYM_UNDEFINED\n"]]
    with BirdClient(bird.path) as client, pytest.raises(CommandRefused) as caught:
        client.ask("nonsense")
    assert str(caught.value) == (
        "BIRD refused a command. `birdc nonsense` was answered with 9001: syntax error, unexpected CF_SYM_UNDEFINED. "
        "Try the command by hand on the node."
    )


def not_answering(path: str, timeout: float = 0.3) -> str:
    with pytest.raises(NotAnswering) as caught, BirdClient(path, timeout) as client:
        client.ask("show status")
    return str(caught.value)


def sentence(path: str, reason: str) -> str:
    return (
        f"BIRD does not answer. Its control socket is {path}: {reason}. "
        "See `systemctl status calico-bird.service` and its journal."
    )


def test_a_missing_socket_is_an_error(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "bird.ctl")
    assert not_answering(path) == sentence(path, "No such file or directory")


def test_a_socket_left_behind(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "bird.ctl")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.close()
    assert not_answering(path) == sentence(path, "Connection refused")


def test_half_an_answer(bird) -> None:
    bird.answers["show status"] = [[STATUS[:40]]]
    assert not_answering(bird.path) == sentence(bird.path, "no whole answer within 0.3 s")
    bird.answers["show status"] = [[STATUS[:40], b"hang up"]]
    assert not_answering(bird.path) == sentence(bird.path, "the connection was closed in the middle of an answer")


def test_a_late_answer_is_not_taken_for_the_next_one(bird) -> None:
    bird.answers["show status"] = [[STATUS[:40]]]
    bird.answers["show symbols"] = [[STATUS[40:]]]  # what is still missing of the first answer
    with BirdClient(bird.path, 0.3) as client:
        with pytest.raises(NotAnswering, match="no whole answer within"):
            client.ask("show status")
        with pytest.raises(NotAnswering, match="the connection is closed"):
            client.ask("show symbols")


def test_somebody_else_at_the_socket(bird) -> None:
    bird.greeting = b"220 mail.example.org ESMTP\n"
    assert not_answering(bird.path) == sentence(
        bird.path, "it answers with '220 mail.example.org ESMTP', which is not BIRD's protocol"
    )
    bird.greeting = b"0001 hello\n"
    assert not_answering(bird.path) == sentence(bird.path, "it greets with 'hello'")


@pytest.mark.parametrize(
    ("said", "known"), [("2.17", "2.17"), ("v3.4.0", "3.4.0"), ("v2.0.12-5-gab12", "2.0.12-5-gab12")]
)
def test_a_greeting_has_a_version(bird, said: str, known: str) -> None:
    bird.greeting = f"0001 BIRD {said} ready.\n".encode()
    with BirdClient(bird.path) as client:
        assert client.version == known


@pytest.mark.parametrize("word", ["vNEXT", "3", "v2.x"])
def test_a_greeting_with_a_word_for_a_version_is_no_answer(bird, word: str) -> None:
    """A reload, which depends on the version, fails before BIRD is asked anything."""
    bird.greeting = f"0001 BIRD {word} ready.\n".encode()
    expected = sentence(bird.path, f"it greets with 'BIRD {word} ready.'")
    assert not_answering(bird.path) == expected
    with pytest.raises(NotAnswering) as caught:
        configuration.reload(bird.path)
    assert str(caught.value) == expected
    assert bird.asked == []


def test_a_status_is_put_together_from_two_answers(bird) -> None:
    bird.answers["show status"] = [[STATUS]]
    bird.answers["show protocols all"] = [
        [
            b"2002-Name       Proto      Table      State  Since         Info\n"
            b"1002-kernel4    Kernel     master4    up     2026-11-21 07:10:35  \n"
            b"1006-  Channel ipv4\n     State:          UP\n \n"
            b"1002-Mesh_10_10_1_11 BGP        ---        up     2026-11-21 07:10:36  Established   \n"
            b"1006-  Description:    node1\n   BGP state:          Established\n     Neighbor address: 10.10.1.11\n \n"
            b"0000 \n"
        ]
    ]
    seen = status.observe(bird.path)
    assert (seen.version, seen.router_id, seen.reconfiguring, seen.shutting_down) == (
        "2.0.12",
        "10.10.1.12",
        False,
        False,
    )
    assert [(session.name, session.address, session.established) for session in seen.sessions] == [
        ("Mesh_10_10_1_11", "10.10.1.11", True)
    ]
