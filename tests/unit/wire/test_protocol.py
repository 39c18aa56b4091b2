# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that any bytes are read as a request or refused with a message."""

from __future__ import annotations

import json
import pickle

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError, BadRequest
from hypothesis import given, settings
from hypothesis import strategies as st

FORM = 'A request is {"version": 1, "id": N, "method": "...", "params": {}} on one line.'

TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)  # fmt: skip


def test_version_id_and_params_are_optional() -> None:
    assert protocol.parse(b'{"method":"status"}') == (None, "status", {})


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**18) | TEXT, st.dictionaries(st.text("abc"), JSON))
def test_the_server_reads_the_request_that_the_client_wrote(id, params) -> None:
    line = protocol.request(id, "x.y", params)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert protocol.parse(line) == (id, "x.y", params)


@pytest.mark.parametrize(
    ("line", "id", "message"),
    [
        (b"", None, "the request is not JSON: Expecting value at column 1."),
        (b"hello", None, "the request is not JSON: Expecting value at column 1."),
        (b'{"method":"x"', None, "the request is not JSON: Expecting ',' delimiter at column 14."),
        (b'{"method":"\xff"}', None, "the request is not UTF-8 at byte 11."),
        (b'{"method":"\\ud800"}', None, "the request holds half of a surrogate pair, which is not a character."),
        (b'{"params":{"a":NaN}}', None, "the request is not JSON: NaN is not a number."),
        (b'{"params":{"a":-Infinity}}', None, "the request is not JSON: -Infinity is not a number."),
        (b'{"params":{"a":1e999}}', None, "the request is not JSON: 1e999 is too large a number."),
        (b'{"id":' + b"9" * 5000 + b"}", None, f"the request is not JSON: {'9' * 57}... is too large a number."),
        (b"[" * 100_000, None, "the request is nested too deeply."),
        (b'{"a":' * 100_000, None, "the request is nested too deeply."),
        (b"[]", None, "the request is a list, not an object."),
        (b"null", None, "the request is null, not an object."),
        (b'"' + b"a" * 100 + b'"', None, f'the request is "{"a" * 56}..., not an object.'),
        (b'{"id":true}', None, "id must be a number without a fraction or a text, not true."),
        (b'{"id":1.5}', None, "id must be a number without a fraction or a text, not 1.5."),
        (b'{"id":[]}', None, "id must be a number without a fraction or a text, not a list."),
        (b'{"id":7,"jsonrpc":"2.0"}', 7, 'a request has no field "jsonrpc".'),
        (b'{"id":7}', 7, "method must be the name of a method, not null."),
        (b'{"id":"a","method":["x"]}', "a", "method must be the name of a method, not a list."),
        (b'{"id":7,"method":"x","params":[]}', 7, "params must be an object, not a list."),
        (b'{"id":7,"method":"x","params":null}', 7, "params must be an object, not null."),
    ],
)  # fmt: skip
def test_a_malformed_request_is_refused_with_the_reason(line: bytes, id, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        protocol.parse(line)
    assert caught.value.message == f"{message} {FORM}"
    assert (caught.value.code, caught.value.id) == ("invalid_params", id)


@pytest.mark.parametrize("version", ["2", "0", "true", '"1"', "null", "{}"])
def test_an_unsupported_version_is_refused_and_named(version: str) -> None:
    with pytest.raises(BadRequest) as caught:
        protocol.parse(b'{"version":%s,"id":7,"method":"x"}' % version.encode())
    shown = "an object" if version == "{}" else version
    assert caught.value.message == (
        f"version {shown} is not spoken by this agent, which speaks 1. "
        "Use the client of the same release; the role installs both."
    )


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_request_or_a_refusal(line: bytes) -> None:
    try:
        request = protocol.parse(line)
    except BadRequest as error:
        assert json.loads(protocol.failure(error.id, error))["error"]["message"] == error.message
    else:
        assert isinstance(request.method, str) and isinstance(request.params, dict)


def test_an_error_can_always_be_told() -> None:
    error = AgentError("kernel", "no", {"object": object()})
    assert json.loads(protocol.failure(3, error)) == {
        "id": 3,
        "error": {"code": "kernel", "message": "no", "data": {}},
    }
    assert json.loads(protocol.failure(3, AgentError("kernel", "no", {"errno": 5})))["error"]["data"] == {"errno": 5}


def test_an_answer_is_json_or_none_at_all() -> None:
    with pytest.raises(ValueError):
        protocol.result(1, {"value": float("inf")})
    assert protocol.event(1, {"a": "\n"}) == b'{"id":1,"event":{"a":"\\n"}}\n'


def test_a_refusal_goes_from_process_to_process():
    there = pickle.loads(pickle.dumps(AgentError("no_address", "All blocks are full.", {"pool": "a"})))
    assert (there.code, str(there), there.data) == ("no_address", "All blocks are full.", {"pool": "a"})
