# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the keys that a run writes: the inventory wins, and what nodes wrote stays."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import InvalidKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import content
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.content import Published

FLEET = Published(
    nodes={"node1": {"address": "10.10.1.11/24", "labels": {"rack": "a"}}},
    pools={"default": {"cidr": "10.244.0.0/16", "natOutgoing": True}},
    blocks={"node1": ["10.244.3.0/26", "10.244.1.0/26"]},
)
VALUES = {
    "/host-routing/v1/blocks/node1": b'{"blocks":["10.244.1.0/26","10.244.3.0/26"]}',
    "/host-routing/v1/nodes/node1": b'{"address":"10.10.1.11/24","labels":{"rack":"a"}}',
    "/host-routing/v1/pools/default": b'{"cidr":"10.244.0.0/16","natOutgoing":true}',
}


def lines(found: dict[str, bytes], wanted: dict[str, bytes] = VALUES) -> list[str]:
    return [change.line() for change in content.plan(wanted, found)]


def test_the_values_of_a_fleet() -> None:
    assert FLEET.values() == VALUES
    assert documents.decode_blocks(VALUES[keys.blocks_key("node1")]).cidrs == ("10.244.1.0/26", "10.244.3.0/26")
    with pytest.raises(InvalidKey):
        Published({"../pools/x": {}}, {}, {}).values()


def test_a_new_fleet_is_published_as_a_whole() -> None:
    changes = content.plan(VALUES, {})
    assert [change.line() for change in changes] == [
        "+ blocks   node1  blocks=10.244.1.0/26,10.244.3.0/26",
        '+ node     node1  address=10.10.1.11/24 labels={"rack":"a"}',
        "+ pool     default  cidr=10.244.0.0/16 natOutgoing=true",
    ]
    assert list(content.operations(changes)) == [Put(key, VALUES[key]) for key in sorted(VALUES)]


def test_an_unchanged_fleet_needs_no_change() -> None:
    assert lines(VALUES) == []


def test_only_what_differs_of_a_document_is_shown() -> None:
    before = {**VALUES, keys.node_key("node1"): b'{"address":"10.10.1.11/24","labels":{},"rack":7}'}
    assert lines(before) == ['~ node     node1  labels={} rack=7  ->  labels={"rack":"a"}']
    other_form = {**VALUES, keys.pool_key("default"): b'{"natOutgoing": true, "cidr": "10.244.0.0/16"}'}
    assert lines(other_form) == ["~ pool     default  another form  ->  of the same"]
    fewer = {**VALUES, keys.node_key("node1"): b'{"address":"10.10.1.11/24"}'}
    assert lines(fewer) == ['~ node     node1  nothing  ->  labels={"rack":"a"}']


def test_keys_absent_from_the_inventory_are_removed() -> None:
    found = {**VALUES, keys.node_key("node9"): b"{}", keys.pool_key("old"): b'{"cidr":"10.0.0.0/8"}'}
    changes = content.plan(VALUES, found)
    assert [change.line() for change in changes] == ["- node     node9", "- pool     old  cidr=10.0.0.0/8"]
    assert list(content.operations(changes)) == [Delete(keys.node_key("node9")), Delete(keys.pool_key("old"))]


def test_rubbish_in_a_key_is_written_over_and_does_not_reach_the_terminal() -> None:
    rubbish = b'\x1b[31m{"a'
    found = {**VALUES, keys.node_key("node1"): rubbish, "/host-routing/v1/nodes/\x1b[2J\nnode2": b"x" * (1 << 20)}
    assert lines(found) == [
        "- node     \\x1b[2J\\nnode2  1048576 bytes that are no document",
        '~ node     node1  8 bytes that are no document  ->  address=10.10.1.11/24 labels={"rack":"a"}',
    ]
    hostile = {keys.node_key("node2"): json.dumps({"a\x1b[1m\n": "\x1b]0;x\x07" * 200}).encode()}
    (line,) = lines(hostile, {})
    assert len(line) < 1_000 and line.isprintable() and line.endswith("...")


def test_keys_that_a_node_wrote_are_removed_only_with_the_node() -> None:
    own = {keys.endpoints_of("node1"): 2, keys.heartbeats_of("node1"): 1}
    others = {keys.endpoints_of("node10"): 1, keys.heartbeats_of("node10"): 1}
    changes = content.removal("node1", {**others, **own})
    assert [change.line() for change in changes] == [
        "- endpoint endpoints/node1/*  2 keys",
        "- heartbeat heartbeats/node1/*  1 key",
    ]
    assert content.removal("node2", {**others, **own}) == ()
    assert content.left_behind(["node10"], {**others, **own}) == {"node1": 3}
    assert content.left_behind(["node1", "node10"], {**own, keys.ENDPOINTS: 1}) == {"": 1}
