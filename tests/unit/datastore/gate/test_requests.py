# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests that the gate before a member passes, and those that it refuses."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.requests import (
    RequestNotPassed,
    check_writes,
    passed,
    writes,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.datastore.test_gateway import DOCUMENTS

RANGE = "/v3/kv/range"
TXN = "/v3/kv/txn"
WATCH = "/v3/watch"
PUT = {"request_put": {"key": "AA==", "value": "AA=="}}

REQUESTS = [
    (RANGE, gateway.range_request(keys.WATCHED, limit=500, revision=7)),
    (RANGE, gateway.range_request(keys.WATCHED, limit=1, keys_only=True, newest_first=True, local=True)),
    (RANGE, gateway.get_request(keys.blocks_key("node1"))),
    (TXN, gateway.history_request(keys.WATCHED, ["/a", "/b"], 7)),
    (TXN, gateway.transaction_request([gateway.Put("/a", b"1"), gateway.Delete("/b")], [gateway.Unchanged("/a", 3)])),
    (WATCH, gateway.watch_request(keys.WATCHED, 8)),
    ("/v3/auth/authenticate", gateway.to_bytes({"name": "node1", "password": "secret"})),
    ("/v3/maintenance/status", b"{}"),
]


@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_what_agents_ask_is_passed_as_it_is(path: str, body: bytes) -> None:
    assert json.loads(passed(path, body)) == json.loads(body)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v3/maintenance/alarm", {"action": "ACTIVATE", "alarm": "NOSPACE"}, "this call is not passed"),
        ("/v3/auth/disable", {}, "this call is not passed"),
        ("/v3/kv/compaction", {"revision": "9"}, "this call is not passed"),
        ("/v3/lease/revoke", {"ID": "1"}, "this call is not passed"),
        ("/v3/kv/range/", {"key": "AA=="}, "this call is not passed"),
        (TXN, {"success": [{"request_txn": {"success": [PUT]}}]}, "an operation is not one of those that are passed"),
        (TXN, {"success": [{"requestTxn": {"success": [PUT]}}]}, "an operation is not one of those that are passed"),
        (TXN, {"success": [{**PUT, "request_txn": {}}]}, "'request_txn' is not passed"),
        (TXN, {"success": [{**PUT, "requestDeleteRange": {}}]}, "'requestDeleteRange' is not passed"),
        (TXN, {"failure": [PUT]}, "'failure' is not passed"),
        (TXN, {"success": [PUT] * 129}, "success is no list of at most 128"),
        (TXN, {"success": [{"request_put": {"key": "AA==", "value": "", "lease": "1"}}]}, "'lease' is not passed"),
        (TXN, {"success": [{"request_put": {"key": "AA==", "prev_kv": True}}]}, "'prev_kv' is not passed"),
        (RANGE, {"key": "AA==", "range_end": "AA=="}, "a range without an end is not passed"),
        (RANGE, {"range_end": "MA=="}, "the request has no key"),
        (RANGE, {"key": "%%"}, "a key or a value is not base64"),
        (RANGE, {"key": "AA==", "limit": -1}, "a number is none"),
        (RANGE, {"key": "AA==", "sort_target": "VALUE"}, "sort_target is none of KEY, MOD"),
        (RANGE, {"key": "AA==", "keys_only": 1}, "a field is neither true nor false"),
        (RANGE, [], "a part of the request is no object"),
        (WATCH, {"create_request": {"key": "AA==", "range_end": "AA=="}}, "a range without an end is not passed"),
        (WATCH, {"cancel_request": {}}, "a watch begins with create_request"),
        ("/v3/maintenance/status", {"more": 1}, "'more' is not passed"),
        ("/v3/auth/authenticate", {"name": ["root"]}, "a field is no short text"),
    ],
)
def test_what_is_refused(path: str, body: t.Any, words: str) -> None:
    with pytest.raises(RequestNotPassed) as refused:
        passed(path, json.dumps(body).encode())
    assert str(refused.value) == words


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 50_000, b"\xff"])
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(RequestNotPassed, match="the request is not JSON"):
        passed(RANGE, body)


@given(st.sampled_from([path for path, dummy in REQUESTS]), DOCUMENTS)
def test_any_document_is_passed_in_the_gates_own_words_or_refused(path: str, document: object) -> None:
    try:
        body = passed(path, json.dumps(document).encode())
    except RequestNotPassed:
        return
    assert passed(path, body) == body


OWN = [keys.endpoint_key("node1", "cali1"), keys.complete_key("node1"), keys.heartbeat_key("node1")]
FOREIGN = [
    *(keys.endpoint_key("node10", "cali1"), keys.heartbeat_key("node2"), keys.blocks_key("node1")),
    *(keys.node_key("node1"), "/host-routing/v1/endpoints/node1", "/host-routing/v1/endpoints/node10", "", "/a"),
]


def _writing(*operations: gateway.Operation) -> list[gateway.Json]:
    return writes(passed(TXN, gateway.transaction_request(operations)))


def test_a_node_writes_its_own_keys() -> None:
    check_writes(_writing(*(gateway.Put(key, b"1") for key in OWN), *map(gateway.Delete, OWN)), "node1")
    check_writes(writes(passed(TXN, gateway.history_request(keys.WATCHED, FOREIGN[:2], 7))), "node1")


@pytest.mark.parametrize("key", FOREIGN)
@pytest.mark.parametrize("user", ["node1", "root", "", "node1/../node2", "*"])
def test_a_node_writes_no_key_of_others(key: str, user: str) -> None:
    """Not even one that etcd would let it delete."""
    for operation in (gateway.Put(key, b"1"), gateway.Delete(key)):
        with pytest.raises(RequestNotPassed) as refused:
            check_writes(_writing(gateway.Delete(OWN[0]), operation), user)
        assert str(refused.value) == "a write beside the user's own keys is not passed"


@pytest.mark.parametrize("end", ["/host-routing/v1/endpoints/node10/", "/host-routing/v1/endpoints/node2/", "/z"])
def test_a_deletion_ends_where_the_nodes_keys_end(end: str) -> None:
    span = {"key": gateway.encoded(OWN[0]), "range_end": gateway.encoded(end)}
    found = writes(passed(TXN, gateway.to_bytes({"success": [{"request_delete_range": span}]})))
    with pytest.raises(RequestNotPassed):
        check_writes(found, "node1")
    span["range_end"] = gateway.encoded(keys.under(keys.endpoints_of("node1")).end)
    check_writes(writes(passed(TXN, gateway.to_bytes({"success": [{"request_delete_range": span}]}))), "node1")
