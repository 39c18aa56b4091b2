# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile JSON for every reader: wrong types, huge numbers, deep nesting, keys twice, fields that no reader knows.

`tests/unit/node/store/test_hostile_documents.py` does the same to the stored files of a node.
"""

from __future__ import annotations

import base64
import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, gateway, heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import settings as datastore_settings
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.cluster import (
    messages as cluster_messages,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import requests
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import auth
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.write import datastore_files
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker import messages
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker.refusal import RefusedRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import settings, shim_framing

KEY = EndpointKey("node2", "cali1")
WORKLOAD = Endpoint(
    "WorkloadEndpoint", "default/web", "node2", "cali1", ("10.0.0.1",), (("app", "web"),), ("open",), (), "default"
)
ANSWER = json.loads(
    '{"header": {"cluster_id": "1", "member_id": "2", "revision": "3", "raft_term": "4"}, "count": "1",'
    ' "kvs": [{"key": "YQ==", "value": "YQ==", "mod_revision": "3"}]}'
)
PUT = {"request_put": {"key": "YQ==", "value": "YQ=="}}


def packed(read: t.Callable[[str], t.Any]) -> t.Callable[[bytes], t.Any]:
    return lambda data: read(base64.b64encode(data).decode())


#: The readers of bytes: a document that each reads, the error that it may raise, and whether it names all fields.
READERS: dict[str, tuple[t.Callable[[bytes], t.Any], t.Any, type[Exception], bool]] = {
    "passwords": (packed(passwords.unpack), {"a:b": "x"}, ValueError, False),
    "files of the datastore": (packed(datastore_files.unpack), {"ca": "x"}, ValueError, False),
    "heartbeat": (
        lambda data: heartbeats.decode("node1", data),
        json.loads(heartbeats.encode(heartbeats.Heartbeat("node1", 1.0, "1.0"))),
        documents.RefusedDocument,
        False,
    ),
    "blocks": (documents.decode_blocks, {"blocks": ["10.0.0.0/26"]}, documents.RefusedDocument, False),
    "endpoint": (
        lambda data: documents.decode_endpoint(KEY, data, None),
        json.loads(documents.encode_endpoint(documents.PublishedEndpoint(WORKLOAD))),
        documents.RefusedDocument,
        False,
    ),
    "page of etcd": (lambda data: gateway.page_of(gateway.decode(data)), ANSWER, gateway.EtcdError, False),
    "members of etcd": (
        lambda data: cluster_messages.members_of(gateway.decode(data)),
        {"members": [{"ID": "1", "name": "a", "peerURLs": ["https://10.0.0.1:2380"], "isLearner": True}]},
        gateway.EtcdError,
        False,
    ),
    "part of a snapshot": (
        lambda data: cluster_messages.snapshot_part_of(gateway.decode(data)),
        {"result": {"blob": "YQ=="}},
        gateway.EtcdError,
        False,
    ),
    "permissions in etcd": (
        lambda data: auth.permissions_of(gateway.decode(data)),
        {"perm": [{"permType": "READ", "key": "YQ==", "range_end": "Yg=="}]},
        gateway.EtcdError,
        False,
    ),
    "watch of etcd": (gateway.watch_answer_of, {"result": ANSWER}, gateway.EtcdError, False),
    "range": (
        lambda data: requests.passed(requests.RANGE, data),
        {"key": "YQ==", "range_end": "Yg==", "limit": "1"},
        requests.RequestNotPassed,
        True,
    ),
    "transaction": (
        lambda data: requests.passed(requests.TRANSACTION, data),
        {"compare": [{"target": "MOD", "key": "YQ=="}], "success": [PUT]},
        requests.RequestNotPassed,
        True,
    ),
    "watch": (
        lambda data: requests.passed(requests.WATCH, data),
        {"create_request": {"key": "YQ==", "start_revision": "1"}},
        requests.RequestNotPassed,
        True,
    ),
    "body of dockerd": (lambda data: messages.PoolRequest.from_body(messages.decode(data)), {}, RefusedRequest, False),
    "version of CNI": (shim_framing._version, {"cniVersion": "1.0.0"}, AssertionError, False),
}
VALUES: list[t.Any] = [
    None, True, -1, 0, 2**63, 2**64, 10**4000, 1e308, 0.5, "", "x", "x" * 100_000, "\x1b[31m\n", "\ud800", [], [[]],
    {}, {"": None}, {"x" * 100_000: 1}, [None] * 200_000,
]  # fmt: skip
TEXTS = [
    b"", b"{", b"\xff", b"\xef\xbb\xbf{}", b'{"a": NaN}', b'{"a": -Infinity}', b"1e999", b"9" * 100_000,
    b"[" * 200_000, b'{"a":' * 200_000, b'"\\ud800"', '{"a": 1}'.encode("utf-16"), b"1", b"null", b"[]",
]  # fmt: skip


def outcome(
    read: t.Callable[[bytes], t.Any], data: bytes, error: t.Union[type[Exception], tuple[type[Exception], ...]]
) -> str:
    """Return "" if the reader reads the data, or else the text of its error, which must be `error`."""
    try:
        read(data)
    except error as refusal:
        assert len(str(refusal)) < 1_000 and str(refusal).isprintable()
        return str(refusal)
    return ""


@pytest.mark.parametrize("name", READERS)
def test_no_bytes_break_a_reader(name: str) -> None:
    """Whatever bytes a reader gets, it raises its own error, with a short text without control characters."""
    read, good, error, dummy = READERS[name]
    assert outcome(read, json.dumps(good).encode(), error) == ""
    for data in TEXTS:
        outcome(read, data, error)


@pytest.mark.parametrize("name", READERS)
def test_no_value_breaks_a_reader(name: str) -> None:
    """A wrong value at any place of a document is refused or read, and a field that is left over is named."""
    read, good, error, all_known = READERS[name]
    places: list[tuple[t.Any, ...]] = [()]
    for place in places:
        found = good
        for step in place:
            found = found[step]
        inner = found if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
        places += [(*place, step) for step in inner]
        for value in VALUES:
            outcome(read, json.dumps(replaced(good, place, value)).encode(), error)
        if isinstance(found, dict):
            said = outcome(read, json.dumps(replaced(good, place, {**found, "left_over": 1})).encode(), error)
            assert "left_over is not known" in said or not all_known, said


def replaced(document: t.Any, place: tuple[t.Any, ...], value: t.Any) -> t.Any:
    """Return a copy of a document with another value at a place, the steps to which are keys and indices."""
    if not place:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[place[0]] = replaced(document[place[0]], place[1:], value)
    return copy


@pytest.mark.parametrize("load", [settings.load, datastore_settings.load])
def test_no_file_of_settings_breaks_the_agent(tmp_path: pathlib.Path, load: t.Callable[[str], t.Any]) -> None:
    path = tmp_path / "settings.json"

    def read(data: bytes) -> t.Any:
        path.write_bytes(data)
        return load(str(path))

    known = [*settings._READERS, "endpoints", "ca", "user", "password", "progress_seconds", "left_over"]
    refused = (settings.SettingsError, datastore_settings.DatastoreSettingsError)
    for data in (*TEXTS, *(json.dumps({name: value}).encode() for name in known for value in VALUES)):
        said = outcome(read, data, refused)
        assert "xxxx" not in said or b'"password"' not in data


def test_a_key_twice_is_refused_where_a_wrong_one_does_harm() -> None:
    for text in ('{"key": "YQ==", "key": "Yg=="}', '{"key": "YQ==", "limit": "1", "limit": "2"}'):
        with pytest.raises(requests.RequestNotPassed, match="the request is not JSON"):
            requests.passed(requests.RANGE, text.encode())
    with pytest.raises(typed_json.NotJson, match="an object has the key a twice"):
        typed_json.parse_table('{"a": 1, "a": 1}')
