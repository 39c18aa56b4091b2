# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the requests that the shim sends, and of refusals that a container runtime understands."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import shim_framing
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.plugin_errors import CniError
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.shim_framing import (
    CNI,
    NETAVARK,
)
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = st.from_regex(r"[A-Z][A-Z0-9_]*", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"))


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"CNI_COMMAND=ADD\nCNI_ARGS=A=1;B=2\n\n{}", ({"CNI_COMMAND": "ADD", "CNI_ARGS": "A=1;B=2"}, b"{}")),
        (b"CNI_NETNS=\n\n\n\n{}\n\n", ({"CNI_NETNS": ""}, b"\n\n{}\n\n")),
        (b"\n{}", ({}, b"{}")),
        (b"CNI_COMMAND=VERSION\n\n", ({"CNI_COMMAND": "VERSION"}, b"")),
        ("CNI_IFNAME=ünï\n\n\xff".encode(), ({"CNI_IFNAME": "ünï"}, "\xff".encode())),
    ],
)
def test_environment_and_stdin(data: bytes, read) -> None:
    assert shim_framing.parse(data) == read


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, VALUES), st.binary())
def test_a_shims_request_is_read_back_as_sent(environment: dict[str, str], stdin: bytes) -> None:
    sent = "".join(f"{name}={value}\n" for name, value in environment.items()).encode() + b"\n" + stdin
    assert shim_framing.parse(sent) == (environment, stdin)


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (b"", 6, "the request has no end of its environment"),
        (b"CNI_COMMAND=ADD\n", 6, "the request has no end of its environment"),
        (b"CNI_COMMAND=ADD\n{}", 6, "the request has no end of its environment"),
        (b"CNI_NETNS=\xff\n\n{}", 4, "a variable is not UTF-8: b'CNI_NETNS=\\xff'"),
        (b"CNI_NETNS\n\n{}", 4, "a line of the environment is not NAME=value: 'CNI_NETNS'"),
        (b"path=/\n\n{}", 4, "a line of the environment is not NAME=value: 'path=/'"),
        (b"CNI_NETNS=/a\0b\n\n{}", 4, "a line of the environment is not NAME=value: 'CNI_NETNS=/a\\x00b'"),
    ],
)
def test_a_malformed_shim_request_is_refused_with_its_code(data: bytes, code: int, message: str) -> None:
    with pytest.raises(CniError) as caught:
        shim_framing.parse(data)
    assert (caught.value.code, caught.value.what) == (code, message)
    assert caught.value.remedy.endswith(".")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        shim_framing.parse(data)
    except CniError as error:
        assert json.loads(CNI.refusal(error, data)[2:])["msg"] == error.what


@pytest.mark.parametrize(
    ("stdin", "version"),
    [
        (b'{"cniVersion":"0.4.0"}', "0.4.0"),
        (b'{"cniVersion":"x"}', "1.1.0"),
        (b'{"cniVersion":4}', "1.1.0"),
        (b"[]", "1.1.0"),
        (b"\xff", "1.1.0"),
        (b"[" * 100_000, "1.1.0"),
    ],
)
def test_a_refusal_is_in_the_version_of_the_configuration(stdin: bytes, version: str) -> None:
    refused = CNI.refusal(CniError(11, "not now", "Try again."), stdin)
    assert refused[:2] == b"1\n"
    assert json.loads(refused[2:]) == {"cniVersion": version, "code": 11, "msg": "not now", "details": "Try again."}


def test_the_status_is_a_line_of_its_own() -> None:
    assert shim_framing.answer(0, b"{}") == b"0\n{}"
    assert shim_framing.answer(1, b"{}") == b"1\n{}"
    assert shim_framing.answer(7, b"") == b"1\n"


@pytest.mark.parametrize(
    ("begin", "ended", "found"),
    [
        (b"CNI 1\n", False, CNI),
        (b"NETAVARK 2", False, NETAVARK),
        (b"NETAVARK", False, False),
        (b"C", False, False),
        (b"", False, False),
        (b"NETAVARK", True, None),
        (b"", True, None),
        (b"{", False, None),
        (b"NETA{", False, None),
    ],
)
def test_the_first_bytes_decide(begin: bytes, ended: bool, found: object) -> None:
    assert shim_framing.find(begin, ended) is found


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (CniError(11, "not now", "Try again."), "not now. Try again."),
        (CniError(11, "not now."), "not now."),
    ],
)
def test_a_refusal_of_netavark_is_one_text(refused: CniError, text: str) -> None:
    assert NETAVARK.refusal(refused, b"x") == b"1\n" + json.dumps({"error": text}).encode() + b"\n"
