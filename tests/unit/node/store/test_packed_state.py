# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a state on its way through the agent's socket."""

from __future__ import annotations

import base64
import zlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import packed_state
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import STATE


def test_a_packed_state_is_unpacked_as_it_was() -> None:
    assert packed_state.unpack(packed_state.pack(STATE)) == STATE == packed_state.unpack(STATE.to_dict())


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    "value",
    [
        *("", "x", "é", "eA==", packed(b""), packed(b"[1]"), packed(b"{}"), packed(b"[" * 100_000), packed(b"\xff")),
        packed_state.pack(STATE)[:-8], packed(b" " * (packed_json.LIMIT + 1)), {}, [], None, 1, {"node": 1},
    ],
    ids=range(16),
)  # fmt: skip
def test_a_value_that_is_no_packed_state_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        packed_state.unpack(value)


@settings(max_examples=50, deadline=None)
@given(st.text() | st.binary().map(packed))
def test_any_text_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        packed_state.unpack(value)
