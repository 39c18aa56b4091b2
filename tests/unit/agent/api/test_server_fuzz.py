# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz tests of the server: any bytes get an answer or a close, never a traceback, and the next client is served."""

from __future__ import annotations

import json
import pathlib
import tempfile
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.bounds import ApiLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.agent.api.live_server import LiveServer

FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

REQUEST = b'{"version":1,"id":7,"method":"echo","params":{"a":[1,2.5,"\\u00e9"],"b":{"c":null}}}\n'
CNI = b'CNI 1\nCNI_COMMAND=ADD\nCNI_ARGS=A=1\n\n{"cniVersion":"1.1.0","name":"n"}'
PIECES = [
    b"\n",
    b"\0",
    b"\xff",
    b"{",
    b"}",
    b"[",
    b'"',
    b"\\u",
    b"\\ud800",
    b"NaN",
    b"1e999",
    b"-",
    b"=",
    b" ",
    b"\r\n",
]
NETAVARK = b'NETAVARK 1\nNETAVARK_COMMAND=setup\nNETAVARK_NETNS=/x\n\n{"container_id":"c"}'
PIECES += [
    b"CNI ",
    b"CNI 1\n",
    b"NETAVARK 1\n",
    b'"method":"fail"',
    b'"method":"refuse"',
    b'"method":"odd"',
    b'"id":[]',
    b"9" * 30,
]


@st.composite
def mutated(draw: st.DrawFn, origin: bytes) -> bytes:
    """Draw the valid request `origin` after one to four edits: 0 to 12 bytes are cut out, doubled or replaced."""
    data = origin
    for dummy in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 12)))
        data = (
            data[:begin]
            + draw(st.sampled_from([b"", data[begin:end] * 2, *PIECES]) | st.binary(max_size=6))
            + data[end:]
        )
    return data


@pytest.fixture(scope="module")
def served() -> t.Iterator[LiveServer]:
    with tempfile.TemporaryDirectory() as folder:
        server = LiveServer(pathlib.Path(folder), limits=ApiLimits(line=2000, deadline=5))
        yield server
        server.close()


def check(served: LiveServer, said: bytes) -> None:
    heard = served.say(said)
    assert b"Traceback" not in heard and b"secret detail" not in heard
    if said.startswith((b"CNI ", b"NETAVARK ")):
        assert heard[:2] in (b"0\n", b"1\n")
        if heard[:1] == b"1":
            keys = {"cniVersion", "code", "msg", "details"} if said.startswith(b"CNI ") else {"error"}
            assert json.loads(heard[2:]).keys() == keys
    else:
        lines = heard.splitlines()
        for line in lines:
            answer = json.loads(line)
            if "error" in answer:
                assert (
                    answer["error"]["code"] in protocol.CODES
                    and answer["error"]["message"].endswith(".")
                    or (answer["error"]["code"] == "not_found")
                )
            else:
                assert answer.keys() == {"id", "result"}
        asked = [line for line in said.split(b"\n") if line.strip()]
        assert len(lines) == len(asked) or json.loads(lines[-1])["error"]["code"] == "too_large"
    with served.client() as client:
        assert client.call("echo", alive=True)["params"] == {"alive": True}


@FEW
@given(st.lists(st.binary(max_size=30) | st.sampled_from([*PIECES, REQUEST]), max_size=6).map(b"".join))
def test_noise(served: LiveServer, said: bytes) -> None:
    check(served, said)


@FEW
@given(mutated(REQUEST * 2))
def test_requests_with_faults(served: LiveServer, said: bytes) -> None:
    check(served, said)


@FEW
@given(mutated(NETAVARK))
def test_netavark_requests_with_faults(served: LiveServer, said: bytes) -> None:
    check(served, said)


@FEW
@given(mutated(CNI))
def test_cni_requests_with_faults(served: LiveServer, said: bytes) -> None:
    check(served, said)


@FEW
@given(st.lists(st.sampled_from([REQUEST, CNI, b"x" * 1500, b"\n"]), max_size=4).map(b"".join), st.integers(0, 3000))
def test_clients_that_go_away(served: LiveServer, said: bytes, count: int) -> None:
    with served.connect() as connection:
        connection.sendall(said[:count])
    check(served, b"")
