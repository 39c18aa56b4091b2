# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz tests of the agent's real methods: each request gets a result or a refusal, and the node stays in sync."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import tempfile
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.packed_state import pack
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError, Request
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import BLOCK, STATE, Node
from tests.unit.agent.virtual_time import run

ROOT = Peer(1, 0, 0)
WORKLOAD = {
    "id": "default/web",
    "name": "web",
    "namespace": "default",
    "netns": "web",
    "netns_owned": False,
    "peer_interface": "eth0",
    "address": None,
    "pools": ["default-pool"],
    "labels": {"app": "web"},
    "mac": "02:00:00:00:00:01",
    "mtu": 1400,
}
ASKED: list[tuple[str, dict[str, t.Any]]] = [
    ("workload.add", WORKLOAD),
    ("workload.delete", {"id": "default/web"}),
    ("workload.label", {"id": "default/web", "labels": {"app": "shop", "tier": None}}),
    ("workload.get", {"id": "default/web"}),
    ("workload.list", {"selector": "app == 'web'"}),
    ("workload.check", {"id": "default/web"}),
    ("node.plan", {"state": STATE.to_dict()}),
    ("node.apply", {"state": STATE.to_dict(), "removals": True}),
    ("node.apply", {"state": pack(STATE)}),
    ("resync", {}),
    ("status", {}),
    ("ipam.show", {}),
    ("ipam.check", {}),
    ("ipam.release", {"address": "10.244.1.0"}),
    ("version", {}),
]
ODD: st.SearchStrategy[t.Any] = st.sampled_from(
    [
        *("", " ", "/", ".", "..", "../../etc/passwd", "a/b", "a" * 400, "a\0b", "a\nb", "é", "-", "*", "web", "other"),
        *("10.244.1.0", "10.244.1.7", "10.244.9.9", "10.10.1.11", "10.244.1.0/32", "fe80::1", "0.0.0.0", "127.0.0.1"),
        *(BLOCK, "all()", "app == ", "has(", "!" * 200, "(" * 2000, "lo", "eth0", "ff:ff:ff:ff:ff:ff", "default/other"),
        *(-1, 0, 1, 67, 68, 65536, 10**18, True, False, 1.5, None, [], [1], [None], {}, {"a": 1}, {"": ""}, {"a": []}),
    ]
)


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, dict[str, t.Any]]:
    """Draw (method, parameters): a valid pair of ASKED with up to two values at any depth replaced or removed.

    One value may be added at the top level.
    """
    method, valid = draw(st.sampled_from(ASKED) | st.just(ASKED[0]))
    params = json.loads(json.dumps(valid))
    for dummy in range(draw(st.integers(0, 2))):
        inside = params
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(inside[key], (dict, list)) and inside[key] and draw(st.booleans()):
                inside = inside[key]
                continue
            if draw(st.integers(0, 3)):
                inside[key] = copy.deepcopy(draw(ODD))
            else:
                del inside[key]
            break
    if draw(st.integers(0, 9)) == 0:
        params[draw(st.sampled_from(["netn", "", "self", "params"]))] = draw(ODD)
    return method, params


@settings(max_examples=int(os.environ.get("HOST_ROUTING_API_FUZZ", "15")), deadline=None)
@given(st.lists(asked(), min_size=1, max_size=6))
def test_any_requests_end_in_a_documented_error_and_a_consistent_node(
    requests: list[tuple[str, dict[str, t.Any]]],
) -> None:
    async def scenario(folder: pathlib.Path) -> None:
        node = Node(folder)
        agent = await node.start()
        node.kernel.netns_add("web", "")
        server = Calls(Methods(agent).table)
        for method, params in requests:
            request = protocol.parse(protocol.request(1, method, params))
            assert request == Request(1, method, params)
            server.method(method, ROOT)
            try:
                protocol.result(1, await server.call(request, ROOT))
            except AgentError as error:
                assert error.code in protocol.CODES and error.code != protocol.INTERNAL, (method, params)
                assert error.message.endswith(".") and "Traceback" not in error.message, (method, params)
        await node.settle()
        await server.call(Request(1, "node.apply", {"state": STATE.to_dict(), "removals": True}), ROOT)
        await node.settle()
        assert (await server.call(Request(1, "ipam.check", {}), ROOT))["problems"] == 0
        assert node.differences() == []

    with tempfile.TemporaryDirectory() as folder:
        run(scenario(pathlib.Path(folder)))
