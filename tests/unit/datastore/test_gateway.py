# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of members: captured errors of etcd 3.4 and 3.5, and anything else that a member may send."""

from __future__ import annotations

import asyncio
import base64
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys, transport
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import EtcdError, InvalidAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    HttpTransport,
    MemberAddress,
    TransportError,
)
from hypothesis import given
from hypothesis import strategies as st

CAPTURED = [
    (400, 11, "etcdserver: mvcc: required revision has been compacted", gateway.Compacted),
    (400, 11, "etcdserver: mvcc: required revision is a future revision", gateway.FutureRevision),
    (400, 3, "etcdserver: user name is empty", gateway.Unauthenticated),
    (401, 16, "etcdserver: invalid auth token", gateway.Unauthenticated),
    (403, 7, "etcdserver: permission denied", gateway.PermissionDenied),
    (400, 3, "etcdserver: authentication failed, invalid user ID or password", gateway.WrongPassword),
    (400, 9, "etcdserver: user name already exists", gateway.PreconditionFailed),
    (412, 9, "etcdserver: user name already exists", gateway.PreconditionFailed),
    (429, 8, "etcdserver: mvcc: database space exceeded", gateway.NoSpace),
    (503, 14, "etcdserver: no leader", gateway.Unavailable),
]


@pytest.mark.parametrize(("status", "code", "message", "kind"), CAPTURED)
def test_errors_of_etcd_are_mapped_to_their_classes(
    status: int, code: int, message: str, kind: type[EtcdError]
) -> None:
    for body in ({"code": code, "message": message}, {"error": message, "message": message, "code": code}):
        found = gateway.error_of(status, json.dumps(body).encode())
        assert type(found) is kind and found.message == message


def test_an_error_that_is_no_json() -> None:
    found = gateway.error_of(404, b"Not Found\n")
    assert isinstance(found, InvalidAnswer) and found.message == "HTTP status 404: b'Not Found\\n'"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 2, "message": "auth: permission denied"}},
        {"error": {"grpc_code": 2, "http_code": 500, "message": "auth: permission denied"}},
    ],
)
def test_the_error_of_a_call_that_answers_by_a_stream(body: dict[str, t.Any]) -> None:
    found = gateway.error_of(500, json.dumps(body).encode())
    assert type(found) is EtcdError and found.message == "auth: permission denied"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token", gateway.Unauthenticated),
        ("rpc error: code = PermissionDenied desc = etcdserver: permission denied", gateway.PermissionDenied),
        ("rpc error: code = Unavailable desc = etcdserver: no leader", gateway.Unavailable),
        ("rpc error: code = InvalidArgument desc = etcdserver: user name is empty", gateway.Unauthenticated),
    ],
)
def test_the_end_of_a_watch(reason: str, kind: type[EtcdError]) -> None:
    header = {"cluster_id": "1", "member_id": "2", "revision": "7", "raft_term": "2"}
    body = {"result": {"header": header, "watch_id": "-1", "created": True, "canceled": True, "cancel_reason": reason}}
    assert type(gateway.cancellation_of(gateway.watch_answer_of(json.dumps(body).encode()))) is kind
    body["result"] = {"header": {"cluster_id": "1"}, "canceled": True, "compact_revision": "4"}
    found = gateway.cancellation_of(gateway.watch_answer_of(json.dumps(body).encode()))
    assert isinstance(found, gateway.Compacted) and found.revision == 4


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
FIELDS = st.sampled_from(
    ["header", "kvs", "key", "value", "count", "more", "result", "events", "kv", "type", "mod_revision", "error",
     "revision", "cluster_id", "canceled", "created", "compact_revision", "responses", "response_range", "token"]
)  # fmt: skip
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=8)
)


@given(DOCUMENTS)
def test_any_answer_of_a_member_is_read_or_refused(document: object) -> None:
    data = json.dumps(document).encode()
    readers: list[t.Callable[[], object]] = [
        lambda: gateway.watch_answer_of(data),
        lambda: gateway.error_of(500, data),
        *(
            lambda read=read: read(gateway.decode(data))
            for read in (gateway.page_of, gateway.history_of, gateway.succeeded, gateway.status_of, gateway.token_of)
        ),
    ]
    for read in readers:
        try:
            read()
        except EtcdError as error:
            assert error.message


@given(st.binary(max_size=60))
def test_a_key_of_any_bytes_keeps_its_place(raw: bytes) -> None:
    header = {"cluster_id": "1", "revision": "2"}
    page = gateway.page_of({"header": header, "kvs": [{"key": base64.b64encode(raw).decode(), "mod_revision": "1"}]})
    assert base64.b64decode(gateway.encoded(page.entries[0].key)) == raw


ANSWERS = [
    (b"", "the member closed the connection"),
    (b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "the length of the answer is not a number"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", "the member closed the connection"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "a part of the answer has no proper beginning"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "a part of the answer has no proper end"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 1000, "the member closed the connection"),
    (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, "the header of the answer is too long"),
    (b"HTTP/1.1 200 OK\r\n" + b"a" * 200_000, "a line of the answer is too long"),
    (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "the header of the answer is not HTTP"),
]


def asked(answer: bytes, work: t.Callable[[HttpTransport], t.Awaitable[object]]) -> object:
    """Return what `work` returns with a member that answers so and closes the connection."""

    async def scenario() -> object:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = MemberAddress(*server.sockets[0].getsockname()[:2])
        try:
            return await work(HttpTransport(address, None))
        finally:
            server.close()

    return asyncio.run(scenario())


@pytest.mark.parametrize("asked", [0, 1, 3])
def test_a_member_answers_each_range_that_was_counted(asked: int) -> None:
    body: dict[str, t.Any] = {"responses": [{"response_range": {"count": "7"}}] * 2}
    assert gateway.counts_of(body, 2) == [7, 7]
    with pytest.raises(InvalidAnswer) as caught:
        gateway.counts_of(body, asked)
    assert str(caught.value) == f"the answer has 2 responses instead of {asked}"


@pytest.mark.parametrize(("answer", "words"), ANSWERS)
def test_a_hostile_member(answer: bytes, words: str) -> None:
    with pytest.raises(TransportError) as refused:
        asked(answer, lambda member: member.call("/v3/kv/range", b"{}", {}, 5))
    assert words in str(refused.value)


def test_an_answer_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_LIMIT", 1000)
    monkeypatch.setattr(transport, "LINE_LIMIT", 1000)
    body = b"x" * 5000
    with pytest.raises(transport.AnswerTooLarge, match="the answer has more than 1000 bytes"):
        asked(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + body, lambda m: m.call("/", b"", {}, 5))

    async def watch(member: HttpTransport) -> object:
        async with member.watch("/v3/watch", b"{}", {}, 5) as lines:
            return await lines.next(5)

    with pytest.raises(TransportError, match="a line of the watch has more than 1000 bytes"):
        asked(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n" + body, watch)


def test_a_member_that_says_nothing_is_left() -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
        address = MemberAddress(*server.sockets[0].getsockname()[:2])
        with pytest.raises(TransportError, match=r"no answer within 0\.2 s"):
            await HttpTransport(address, None).call("/v3/kv/range", b"{}", {}, 0.2)
        server.close()

    asyncio.run(scenario())


def test_the_password_is_in_no_text() -> None:
    assert "geheim" not in repr(Credentials("node1", "geheim"))
    assert keys.WATCHED.start in keys.EVERYTHING
