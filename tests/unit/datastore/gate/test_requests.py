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
SPAN = {"key": "AA==", "range_end": "AQ=="}
READ, COUNT = {"request_range": {"key": "AA=="}}, {"request_range": {**SPAN, "count_only": True}}

NOT_AMONG = "is not known. There are: request_range, request_put, request_delete_range"
OF_RANGE = "key, range_end, revision, count_only, limit, keys_only, serializable"
NO_END = "range_end is no end, and a range without one is not passed"

REQUESTS = [
    (RANGE, gateway.range_request(keys.WATCHED, limit=64, revision=7)),
    (RANGE, gateway.range_request(keys.WATCHED, limit=1, keys_only=True, local=True)),
    (RANGE, gateway.get_request(keys.blocks_key("node1"))),
    (TXN, gateway.history_request(keys.WATCHED, ["/a", "/b"], 7)),
    (TXN, gateway.values_request([keys.heartbeat_key("node1"), keys.heartbeat_key("node2")])),
    (TXN, gateway.transaction_request([gateway.Put("/a", b"1"), gateway.Delete("/b")], [gateway.Unchanged("/a", 3)])),
    (WATCH, gateway.watch_request(keys.WATCHED, 8)),
    ("/v3/auth/authenticate", gateway.to_bytes({"name": "node1", "password": "secret"})),
    ("/v3/maintenance/status", b"{}"),
]


@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_requests_of_agents_are_passed_unchanged(path: str, body: bytes) -> None:
    assert json.loads(passed(path, body)) == json.loads(body)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v3/maintenance/alarm", {"action": "ACTIVATE", "alarm": "NOSPACE"}, "this call is not passed"),
        ("/v3/auth/disable", {}, "this call is not passed"),
        ("/v3/kv/compaction", {"revision": "9"}, "this call is not passed"),
        ("/v3/lease/revoke", {"ID": "1"}, "this call is not passed"),
        ("/v3/kv/range/", {"key": "AA=="}, "this call is not passed"),
        (TXN, {"success": [{"request_txn": {"success": [PUT]}}]}, f"success[0].request_txn {NOT_AMONG}"),
        (TXN, {"success": [{"requestTxn": {"success": [PUT]}}]}, f"success[0].requestTxn {NOT_AMONG}"),
        (TXN, {"success": [{**PUT, "request_txn": {}}]}, f"success[0].request_txn {NOT_AMONG}"),
        (TXN, {"success": [{**PUT, "requestDeleteRange": {}}]}, f"success[0].requestDeleteRange {NOT_AMONG}"),
        (TXN, {"failure": [PUT]}, "failure is not known. There are: compare, success"),
        (TXN, {"success": [PUT] * 129}, "success is a list of 129, not a list of at most 128"),
        (
            TXN,
            {"success": [{"request_put": {"key": "AA==", "value": "", "lease": "1"}}]},
            "success[0].request_put.lease is not known. There are: key, value",
        ),
        (
            TXN,
            {"success": [{"request_put": {"key": "AA==", "prev_kv": True}}]},
            "success[0].request_put.prev_kv is not known. There are: key, value",
        ),
        (
            TXN,
            {"success": [{"request_delete_range": SPAN}]},
            "success[0].request_delete_range.range_end is not known. There are: key",
        ),
        (TXN, {"success": [READ, PUT]}, "success is reads and writes, not one of both"),
        (TXN, {"success": [COUNT] * 65}, "success is 65 reads, not at most 64"),
        (
            TXN,
            {"success": [{"request_range": SPAN}]},
            "success[0].request_range is a range that is not counted, and a transaction only counts ranges",
        ),
        (
            TXN,
            {"success": [{"request_range": {**SPAN, "count_only": True, "limit": "1"}}]},
            "success[0].request_range.limit is not known. There are: key, range_end, revision, count_only",
        ),
        (TXN, {"success": [{"request_put": {"value": ""}}]}, "success[0].request_put.key is missing"),
        (RANGE, {"key": "AA==", "range_end": "AA=="}, NO_END),
        (RANGE, {"range_end": "MA=="}, "key is missing"),
        (RANGE, {"key": "%%"}, "key is %%, not base64"),
        (RANGE, {"key": "AA==", "limit": -1}, "limit is -1, not a number of 64 bits"),
        (RANGE, {"key": "AA==", "sort_order": "DESCEND"}, f"sort_order is not known. There are: {OF_RANGE}"),
        (RANGE, {"key": "AA==", "min_mod_revision": "1"}, f"min_mod_revision is not known. There are: {OF_RANGE}"),
        (TXN, {"compare": [{"target": "VALUE"}]}, "compare[0].target is VALUE, not one of MOD, VERSION"),
        (RANGE, {"key": "AA==", "keys_only": 1}, "keys_only is 1, not true or false"),
        (RANGE, [], "it is a list, not a table"),
        (WATCH, {"create_request": {"key": "AA==", "range_end": "AA=="}}, f"create_request.{NO_END}"),
        (WATCH, {"cancel_request": {}}, "create_request is missing"),
        ("/v3/maintenance/status", {"more": 1}, "more is not known"),
        (TXN, {"success": [{}]}, "success[0] is 0 operations, not one"),
        (TXN, {"success": [{**PUT, **READ}]}, "success[0] is 2 operations, not one"),
        (RANGE, {"key": None}, "key is None, not base64"),
        (RANGE, {"key": "AA==", "limit": 1 << 63}, "limit is 9223372036854775808, not a number of 64 bits"),
        (RANGE, {"key": "AA==", "limit": True}, "limit is True, not a number of 64 bits"),
        ("/v3/auth/authenticate", {"password": 4711}, "password is no text of at most 512 characters"),
        ("/v3/auth/authenticate", {"name": ["root"]}, "name is a list, not a text of at most 512 characters"),
    ],
)
def test_requests_that_agents_do_not_make_are_refused(path: str, body: t.Any, words: str) -> None:
    with pytest.raises(RequestNotPassed) as refused:
        passed(path, json.dumps(body).encode())
    assert str(refused.value) == words


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 50_000, b"\xff", b'{"key": "AA==", "key": "AQ=="}', b'{"limit": NaN}']
)
def test_a_request_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(RequestNotPassed, match="the request is not JSON"):
        passed(RANGE, body)


@given(st.sampled_from([path for path, dummy in REQUESTS]), DOCUMENTS)
def test_any_document_is_passed_in_the_gates_own_words_or_refused(path: str, document: object) -> None:
    try:
        body = passed(path, json.dumps(document).encode())
    except RequestNotPassed:
        return
    assert passed(path, body) == body


ENDPOINTS = keys.endpoints_of("node1")
OWN = [
    *(keys.endpoint_key("node1", "cali1"), keys.complete_key("node1"), keys.heartbeat_key("node1")),
    keys.answer_key("node1", "1f"),
]
#: What operators write, and what a run writes for them.
OF_LIVE_POLICY = [
    *(keys.document_key(keys.DocumentKey("Tier", "", "security")), keys.OPEN_CHANGE, keys.FLEET_SETTINGS),
    *(keys.history_key("node1", "1f"), keys.inventory_key(keys.DocumentKey("Tier", "", "security"))),
]
FOREIGN = [
    *(keys.answer_key("node2", "1f"), *OF_LIVE_POLICY),
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


@pytest.mark.parametrize("key", OF_LIVE_POLICY)
def test_no_operator_writes_through_a_gate(key: str) -> None:
    """So a node that has stolen an operator's files changes nothing: it reaches gates alone."""
    for operation in (gateway.Put(key, b"1"), gateway.Delete(key)):
        with pytest.raises(RequestNotPassed, match="a write beside the user's own keys is not passed"):
            check_writes(_writing(operation), "ada")
    with pytest.raises(RequestNotPassed, match="a write beside the user's own keys is not passed"):
        check_writes(_writing(gateway.Put(keys.history_key("ada", "1f"), b"1")), "ada")


@pytest.mark.parametrize("asked", [0, 65, 500, 1 << 40, None])
def test_a_range_ends_after_a_page(asked: t.Optional[int]) -> None:
    """A count has no limit: its answer has no keys."""
    body = {**SPAN, "revision": "7"} if asked is None else {**SPAN, "revision": "7", "limit": asked}
    assert json.loads(passed(RANGE, gateway.to_bytes(body))) == {**SPAN, "revision": "7", "limit": "64"}
    counted = json.loads(passed(RANGE, gateway.to_bytes({**body, "count_only": True})))
    assert counted.get("limit") == (None if asked is None else str(asked))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("/host-routing/v1/endpoints/node1/", "no agent writes the key '/host-routing/v1/endpoints/node1/'"),
        (f"{ENDPOINTS}a b", f"no agent writes the key '{ENDPOINTS}a b'"),
        (f"{ENDPOINTS}..", f"no agent writes the key '{ENDPOINTS}..'"),
        (f"{ENDPOINTS}cali1/more", f"no agent writes the key '{ENDPOINTS}cali1/more'"),
        (f"{ENDPOINTS}{'x' * 16}", f"no agent writes the key '{ENDPOINTS}{'x' * 16}'"),
        (f"{ENDPOINTS}@completed", f"no agent writes the key '{ENDPOINTS}@completed'"),
        (f"{ENDPOINTS}\udcff\x00", f"no agent writes the key '{ENDPOINTS}\\udcff\\x00'"),
        (
            "/host-routing/v1/heartbeats/node1/other",
            "no agent writes the key '/host-routing/v1/heartbeats/node1/other'",
        ),
        (f"{ENDPOINTS}{'x' * 500}", f"no agent writes the key '{ENDPOINTS}{'x' * 46}"),
    ],
)
def test_a_key_that_no_agent_writes(key: str, words: str) -> None:
    """It may be removed: whatever is below the node's prefix is its agent's."""
    with pytest.raises(RequestNotPassed) as refused:
        check_writes(_writing(gateway.Put(key, b"1")), "node1")
    assert str(refused.value) == words
    check_writes(_writing(gateway.Delete(key)), "node1")


@pytest.mark.parametrize(("key", "most"), list(zip(OWN, (64 << 10, 64, 8 << 10, 32 << 10))))
def test_a_value_has_at_most_what_readers_take(key: str, most: int) -> None:
    check_writes(_writing(gateway.Put(key, b"x" * most)), "node1")
    with pytest.raises(RequestNotPassed) as refused:
        check_writes(_writing(gateway.Put(key, b"x" * (most + 1))), "node1")
    assert str(refused.value) == f"the value of '{key}' has {most + 1} bytes, and at most {most} are passed"
