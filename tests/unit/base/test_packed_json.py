# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of packed JSON: what was packed comes back, and what is no packed data or too large is refused."""

from __future__ import annotations

import base64
import typing as t
import zlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 1)).decode()


@given(data=JSON)
def test_packed_data_unpacks_equal(data: t.Any) -> None:
    assert packed_json.unpack(packed_json.pack(data)) == data


def test_64_mib_are_the_most() -> None:
    largest = b'"' + b"x" * (64 * 1024 * 1024 - 2) + b'"'
    assert len(packed_json.unpack(packed(largest))) == len(largest) - 2
    with pytest.raises(ValueError) as refused:
        packed_json.unpack(packed(largest + b" "))
    assert str(refused.value) == "it is not packed data: it is cut short, or larger than 64 MiB"


@pytest.mark.parametrize(
    "text",
    [
        "%",
        "x",
        base64.b64encode(b"no compressed data").decode(),
        base64.b64encode(zlib.compress(b"[1, 2, 3, 4]")[:-5]).decode(),
        packed(b"[1"),
        packed(b"[" * 100_000),
    ],
)
def test_text_that_is_no_packed_data_is_refused(text: str) -> None:
    for unpack in (packed_json.unpack, packed_json.unpack_shared):
        with pytest.raises(ValueError, match=r"^it is not packed data: "):
            unpack(text)
