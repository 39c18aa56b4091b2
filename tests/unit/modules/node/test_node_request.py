# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action adds to a task of the module node arrives as it was, or the module says why not."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes.node_request import NodeRequest
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.unit.modules.harness import Host
from tests.unit.modules.node.test_node import PARAMS

SECRET = "hunter2"
FULL = NodeRequest(
    phases=[{"phase": "prepare", "state": {"node": "node1"}, "bird_config": None}],
    bgp_passwords=SECRET,
    datastore=SECRET,
    change="1st",
    absent_nodes=["node2"],
    targets=[("10.244.7.1", 1450, "node2", "default", "10.244.3.63")],
    secret=SECRET,
    engine_digest="0123456789abcdef",
    engine="/tmp/engine",
    engine_sha256="ab",
)


def test_a_request_arrives_as_it_was() -> None:
    assert NodeRequest.unpack(FULL.pack()) == FULL
    assert NodeRequest().pack() == "" and NodeRequest.unpack("") == NodeRequest.unpack(None) == NodeRequest()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ([], "it is a list, not a table"),
        (
            {"who": "x"},
            "who is not known. There are: phases, bgp_passwords, datastore, change, absent_nodes, targets, "
            "secret, engine_digest, engine, engine_sha256, previous",
        ),
        ({"phases": [{"state": {}}]}, "phases[0].phase is missing"),
        ({"phases": [{}] * 17}, "phases is a list of 17, not a list of at most 16"),
        ({"bgp_passwords": [SECRET]}, "bgp_passwords is no text of at most 67108864 characters"),
        ({"secret": SECRET * 10}, "secret is no text of at most 64 characters"),
        ({"absent_nodes": [1]}, "absent_nodes[0] is 1, not a text of at most 253 characters"),
        (
            {"targets": [["10.244.7.1", 1450]]},
            "targets[0] is not an address, a size, a name, a pool and a source address",
        ),
        ({"targets": [["10.244.7.1", -1, "x", "", ""]]}, "targets[0] is -1, not a whole number from 0 to 65535"),
    ],
)
def test_an_invalid_request_is_refused_and_changes_nothing(host: Host, asked: t.Any, why: str) -> None:
    before = host.snapshot()
    answer = host.run(node, **PARAMS, request=packed_json.pack(asked))
    assert answer["failed"] and answer["msg"] == f"request: {why}. The module's action makes the request."
    assert SECRET not in str(answer) and host.snapshot() == before


def test_a_request_that_is_not_packed_is_refused(host: Host) -> None:
    answer = host.run(node, **PARAMS, request="x" * 7)
    assert answer["failed"] and answer["msg"].startswith("request: it is not packed data: ")
