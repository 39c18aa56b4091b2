# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes say of their live policy: written and read without loss, and bounded on both sides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import RefusedDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (
    PolicyHeartbeat,
    decode,
    encode,
)

SAID = PolicyHeartbeat("node1", 1795770000.5, "0.1.0", 7, 5120, "policy a is in tier b", 1, (("k", "it is not JSON."),))


def test_it_is_read_as_it_was_written() -> None:
    assert decode("node1", encode(SAID)) == SAID
    assert decode("node1", encode(PolicyHeartbeat("node1", 1.0, "0.1.0"))) == PolicyHeartbeat("node1", 1.0, "0.1.0")
    later = json.dumps({**json.loads(encode(SAID)), "more": [1]}).encode()
    assert decode("node1", later) == SAID


def test_what_is_written_fits_whatever_the_documents_are() -> None:
    long = PolicyHeartbeat(
        "node1", 1.0, "0.1.0", 7, 1, "x" * 9999, 50, tuple(("k" * 999, '"' * 999) for _number in range(50))
    )
    written = encode(long)
    assert len(written) <= keys.POLICY_HEARTBEAT_BYTES
    found = decode("node1", written)
    assert found.count_refused == 50 and 1 <= len(found.refused) <= 4 and len(found.held_back) == 300


@pytest.mark.parametrize(
    "change",
    [
        {"revision": -1},
        {"revision": "5"},
        {"revision": 1 << 64},
        {"written": float("inf")},
        {"release": "\x1b[2J"},
        {"held_back": "x" * 301},
        {"refused": [["a"]]},
        {"refused": [["a", "b"]] * 5},
        {"refused": [[1, 2]]},
        {"refused": "a"},
        {"count_refused": True},
    ],
    ids=str,
)
def test_what_a_node_may_not_say_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RefusedDocument, match=r"its field|JSON"):
        decode("node1", json.dumps({**json.loads(encode(SAID)), **change}).encode())


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b"[" * 5000, b"{" + b" " * 5000 + b"}"])
def test_what_is_no_document_is_refused(value: bytes) -> None:
    with pytest.raises(RefusedDocument):
        decode("node1", value)
