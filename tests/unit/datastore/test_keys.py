# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of live policy: which there are, who may read them, and what no key of them is."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey

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
    published = keys.inventory_key(key)
    assert published == f"/host-routing/v1/inventory/{KEYS[key]}" and published not in keys.WATCHED
    assert keys.parse_inventory_key(published) == key
    assert keys.parse_document_key(published) is None and keys.parse_inventory_key(text) is None


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
    with pytest.raises(keys.InvalidKey):
        keys.inventory_key(key)


@pytest.mark.parametrize(
    "rest",
    ["", "tiers", "tiers/", "tiers/a/b", "networkpolicies/a", "ippools/a", "Tiers/a", "tiers/../a", "networksets//a"],
)
def test_other_keys_are_no_documents(rest: str) -> None:
    assert keys.parse_document_key(f"{keys.DOCUMENTS}{rest}") is None
    assert keys.parse_document_key(f"{keys.ENDPOINTS}{rest}") is None
    assert keys.parse_inventory_key(f"{keys.INVENTORY}{rest}") is None


def test_a_node_says_what_it_has_of_live_documents_beside_its_heartbeat() -> None:
    key = keys.policy_heartbeat_key("node1")
    assert keys.parse_policy_heartbeat_key(key) == "node1"
    assert keys.parse_heartbeat_key(key) is None
    assert keys.most_bytes(key) == 4096
    assert any(key in owned for owned in keys.of_node("node1"))
    assert keys.parse_policy_heartbeat_key(f"{keys.HEARTBEATS}node1/agent") is None


def test_a_node_answers_below_a_prefix_of_its_own() -> None:
    key = keys.answer_key("node1", "20261130-155432-ada")
    assert key == "/host-routing/v1/answers/node1/20261130-155432-ada"
    assert keys.parse_answer_key(key) == ("node1", "20261130-155432-ada")
    assert keys.most_bytes(key) == 32 << 10
    assert key not in keys.WATCHED
    assert [one for one in keys.of_node("node1") if key in one] == [keys.under(keys.answers_of("node1"))]
    assert not any(key in one for one in keys.of_node("node10"))


def test_an_operator_has_a_prefix_of_its_own_in_the_history() -> None:
    key = keys.history_key("ada", "1f")
    assert key == "/host-routing/v1/history/ada/1f"
    assert keys.parse_history_key(key) == ("ada", "1f")
    assert key in keys.under(keys.history_of("ada")) and key not in keys.under(keys.history_of("ad"))
    assert key not in keys.WATCHED and not any(key in one for one in keys.of_node("ada"))


@pytest.mark.parametrize("rest", ["", "a", "a/", "/a", "a/b/c", "a/..", "../a", "a/@b", "a/b\n", f"a/{'x' * 254}"])
def test_other_keys_are_no_answers_and_no_history(rest: str) -> None:
    assert keys.parse_answer_key(f"{keys.ANSWERS}{rest}") is None
    assert keys.parse_history_key(f"{keys.HISTORY}{rest}") is None
    assert keys.most_bytes(f"{keys.ANSWERS}{rest}") is None


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\x00", "x" * 254])
def test_no_answer_and_no_change_has_a_name_that_makes_another_key(name: str) -> None:
    for make in (
        lambda: keys.answer_key(name, "1"),
        lambda: keys.answer_key("node1", name),
        lambda: keys.history_key(name, "1"),
        lambda: keys.history_key("ada", name),
    ):
        with pytest.raises(keys.InvalidKey):
            make()


def test_agents_watch_the_open_change_with_documents_and_nothing_of_runs() -> None:
    """Ranges are compared by bytes, so what agents watch is what lies between blocks and the end of workloads."""
    prefixes = [
        *(keys.ANSWERS, keys.BLOCKS, keys.CHANGES, keys.DOCUMENTS, keys.ENDPOINTS, keys.HEARTBEATS, keys.HISTORY),
        *(keys.INVENTORY, keys.NODES, keys.POOLS, keys.SETTINGS),
    ]
    assert prefixes == sorted(prefixes, key=str.encode)
    watched = [one for one in prefixes if f"{one}x" in keys.WATCHED]
    assert watched == [keys.BLOCKS, keys.CHANGES, keys.DOCUMENTS, keys.ENDPOINTS]
    assert keys.OPEN_CHANGE == "/host-routing/v1/changes/open" and keys.OPEN_CHANGE in keys.WATCHED
    assert keys.FLEET_SETTINGS == "/host-routing/v1/settings/fleet" and keys.FLEET_SETTINGS not in keys.WATCHED
    assert all(keys.most_bytes(one) is None for one in (keys.OPEN_CHANGE, keys.FLEET_SETTINGS))
    assert all(one in keys.EVERYTHING for one in prefixes)
