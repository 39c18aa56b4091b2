# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of live documents: which there are, who may read them, and what no key of them is."""

from __future__ import annotations

import pytest

from plugins.module_utils.datastore import keys
from plugins.module_utils.datastore.keys import DocumentKey

KEYS = {
    DocumentKey("GlobalNetworkPolicy", "", "web.allow"): "globalnetworkpolicies/web.allow",
    DocumentKey("NetworkPolicy", "default", "web"): "networkpolicies/default/web",
    DocumentKey("StagedNetworkPolicy", "default", "web"): "stagednetworkpolicies/default/web",
    DocumentKey("Tier", "", "security"): "tiers/security",
    DocumentKey("NetworkSet", "blue", "offices"): "networksets/blue/offices",
}


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_the_key_of_a_document_has_its_kind_and_name(key: DocumentKey) -> None:
    text = keys.document_key(key)
    assert text == f"/host-routing/v1/documents/{KEYS[key]}"
    assert keys.parse_document_key(text) == key
    assert text in keys.WATCHED
    assert text not in keys.under(keys.BLOCKS) and text not in keys.under(keys.ENDPOINTS)


@pytest.mark.parametrize(
    "key",
    [
        DocumentKey("IPPool", "", "a"),
        DocumentKey("Tier", "default", "a"),
        DocumentKey("NetworkPolicy", "", "a"),
        DocumentKey("Tier", "", "a/b"),
        DocumentKey("Tier", "", ".."),
        DocumentKey("NetworkPolicy", "a/b", "c"),
        DocumentKey("Tier", "", "x" * 254),
        DocumentKey("Tier", "", "a\x00"),
    ],
    ids=str,
)
def test_what_cannot_be_live_has_no_key(key: DocumentKey) -> None:
    with pytest.raises(keys.InvalidKey):
        keys.document_key(key)


@pytest.mark.parametrize(
    "rest",
    ["", "tiers", "tiers/", "tiers/a/b", "networkpolicies/a", "ippools/a", "Tiers/a", "tiers/../a", "networksets//a"],
)
def test_other_keys_are_no_documents(rest: str) -> None:
    assert keys.parse_document_key(f"{keys.DOCUMENTS}{rest}") is None
    assert keys.parse_document_key(f"{keys.ENDPOINTS}{rest}") is None


def test_a_node_says_what_it_has_of_live_documents_beside_its_heartbeat() -> None:
    key = keys.policy_heartbeat_key("node1")
    assert keys.parse_policy_heartbeat_key(key) == "node1"
    assert keys.parse_heartbeat_key(key) is None
    assert keys.most_bytes(key) == 4096
    assert any(key in owned for owned in keys.of_node("node1"))
    assert keys.parse_policy_heartbeat_key(f"{keys.HEARTBEATS}node1/agent") is None
