# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The open change and the answers of nodes: read as they were written, and bounded on both sides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import RefusedDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (
    change_answer,
    live_documents,
    open_change,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange

TIER, WEB = DocumentKey("Tier", "", "a"), DocumentKey("NetworkPolicy", "default", "web")
DOCUMENT = live_documents.encode({"kind": "Tier", "metadata": {"name": "a"}})
CHANGE = OpenChange("20261130T160102Z-1f0c", "alice", "trial", 60, 5120, {TIER: DOCUMENT, WEB: None})
ANSWER = ChangeAnswer("node1", CHANGE.id, 1795770000.5, "refused", "ssh would be cut")


def test_the_change_is_read_as_it_was_written() -> None:
    assert open_change.decode(open_change.encode(CHANGE)) == CHANGE
    later = json.dumps({**json.loads(open_change.encode(CHANGE)), "more": 1}).encode()
    assert open_change.decode(later) == CHANGE


PAIR = ["/host-routing/v1/documents/tiers/a", {}]


@pytest.mark.parametrize(
    "change",
    [
        {"id": "a/b"},
        {"id": ""},
        {"user": "\x1b"},
        {"kind": "order"},
        {"seconds": 0},
        {"seconds": 601},
        {"seconds": 1.5},
        {"base": -1},
        {"documents": {}},
        {"documents": [PAIR, PAIR]},
        {"documents": [["/host-routing/v1/blocks/a", {}]]},
        {"documents": [[PAIR[0]]]},
        {"documents": [[PAIR[0], "x"]]},
        {"documents": [[1, {}]]},
        {"documents": [[f"/host-routing/v1/documents/tiers/a{number}", None] for number in range(101)]},
    ],
    ids=lambda change: str(change)[:40],
)
def test_what_no_operator_may_ask_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RefusedDocument):
        open_change.decode(json.dumps({**json.loads(open_change.encode(CHANGE)), **change}).encode())


@pytest.mark.parametrize("value", [b"", b"[]", b"[" * 9999, b"\xff", b"{" + b" " * (513 << 10) + b"}"])
def test_what_is_no_document_is_refused(value: bytes) -> None:
    with pytest.raises(RefusedDocument):
        open_change.decode(value)
    with pytest.raises(RefusedDocument):
        change_answer.decode("node1", "a", value)


def test_a_change_that_is_too_large_is_not_written() -> None:
    many = {DocumentKey("Tier", "", f"t{number}"): None for number in range(101)}
    with pytest.raises(RefusedDocument, match=r"it has 101 documents in .* and 100 in 524288 are the most"):
        open_change.encode(OpenChange("a", "alice", "trial", 60, 1, many))
    large = live_documents.encode({"kind": "Tier", "x": "y" * (200 << 10)})
    documents = {DocumentKey("Tier", "", f"t{number}"): large for number in range(3)}
    with pytest.raises(RefusedDocument, match="it has 3 documents in "):
        open_change.encode(OpenChange("a", "alice", "trial", 60, 1, documents))


def test_an_answer_is_read_as_it_was_written_and_fits() -> None:
    assert change_answer.decode("node1", CHANGE.id, change_answer.encode(ANSWER)) == ANSWER
    long = ChangeAnswer("node1", "a", 1.0, "in_force", "\x00" * 9999)
    assert len(change_answer.encode(long)) < keys.ANSWER_BYTES


@pytest.mark.parametrize("change", [{"state": "fine"}, {"reason": 1}, {"written": -1}, {"reason": "x" * 1001}], ids=str)
def test_what_a_node_may_not_answer_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RefusedDocument):
        change_answer.decode("node1", "a", json.dumps({**json.loads(change_answer.encode(ANSWER)), **change}).encode())
