# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and documents of the datastore, the mirror that checks them, and its copy on the disk."""

from __future__ import annotations

import json
import os
import pathlib
import zlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys, snapshot
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import mirror as mirror_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import ShareLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import RefusedDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import KeyChange, KeyValue
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey, InvalidKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror, Position
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.snapshot import SnapshotUnusable
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers import details
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.details import EndpointDetails
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.endpoints import OwnBlocks
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.datastore.test_feed import workload

BLOCKS = keys.blocks_key("node2")
KEY = EndpointKey("node2", "cali1")
AT = keys.endpoint_key(*KEY)
HEADER = (
    b'{"format": "calico-datastore", "version": 1, "cluster": "1", "revision": 1, "changed": 1, "keys": 0,'
    b' "written": 1, "plan": ""}\n'
)


def put(key: str, value: bytes, revision: int) -> KeyChange:
    return KeyChange(key, value, revision)


def test_keys_are_built_and_parsed_back() -> None:
    assert keys.endpoint_key("node1", "cali0") == "/host-routing/v1/endpoints/node1/cali0"
    assert keys.heartbeat_key("node1") == "/host-routing/v1/heartbeats/node1/agent"
    assert keys.parse_endpoint_key(AT) == KEY and keys.parse_endpoint_key(BLOCKS) is None
    assert keys.parse_complete_key(keys.complete_key("node1")) == "node1"
    assert keys.parse_endpoint_key(keys.complete_key("node1")) is None
    assert keys.parse_heartbeat_key(keys.heartbeat_key("node1")) == "node1"


def test_a_node_has_no_key_of_another() -> None:
    """The range of node1 does not contain the keys of node10, nor heartbeats those that agents watch."""
    own = keys.under(keys.endpoints_of("node1"))
    assert keys.endpoint_key("node1", "cali0") in own and keys.endpoint_key("node10", "cali0") not in own
    assert AT in keys.WATCHED and BLOCKS in keys.WATCHED and keys.heartbeat_key("node2") not in keys.WATCHED


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "a\n", "é", "x" * 254, "-a", ".a", "a/../b"])
def test_a_name_that_would_make_another_key(name: str) -> None:
    with pytest.raises(InvalidKey):
        keys.endpoints_of(name)
    with pytest.raises(InvalidKey):
        keys.endpoint_key("node1", f"cali/{name}")


@given(st.text(max_size=40))
def test_no_text_is_read_as_a_key_that_is_written_otherwise(text: str) -> None:
    for key in (text, keys.ENDPOINTS + text, keys.BLOCKS + text):
        parsed = keys.parse_endpoint_key(key)
        assert parsed is None or keys.endpoint_key(*parsed) == key
        node = keys.parse_blocks_key(key)
        assert node is None or keys.blocks_key(node) == key


def test_a_workload_is_read_as_it_was_written() -> None:
    published = workload("node2", 1)._replace(planned=True)
    found = documents.decode_endpoint(KEY, documents.encode_endpoint(published), OwnBlocks(["10.244.1.0/26"]))
    assert found.planned and found.endpoint.addresses == published.endpoint.addresses
    assert dict(found.endpoint.labels)["app"] == "web"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "it is not JSON."),
        (b"[" * 50_000, "it is not JSON."),
        (b"[]", "it is no JSON object."),
        (b'"' + b"x" * 70_000 + b'"', "it has more than 65536 bytes."),
        (b'{"planned": 1}', "its field planned is not true or false."),
        (b'{"node": "node3"}', "its node and its interface stand in its key alone."),
        (b'{"name": "default/w", "namespace": "default", "addresses": ["10.244.0.1"]}', "its address 10.2"),
        (b'{"name": "default/w", "namespace": "default", "addresses": ["10.244.1.1/8"]}', "10.244.1.1/8 is not a"),
        (b'{"name": "default/w\\n", "namespace": "default", "addresses": ["10.244.1.1"]}', "its name is not its"),
        (b'{"name": "a/w", "namespace": "a", "addresses": ["10.244.1.1"], "more": 1}', "this release does not know"),
    ],
)  # fmt: skip
def test_a_document_that_is_refused(value: bytes, words: str) -> None:
    with pytest.raises(RefusedDocument) as refused:
        documents.decode_endpoint(KEY, value, OwnBlocks(["10.244.1.0/26"]))
    assert str(refused.value).startswith(words)


DETAILS = EndpointDetails("default-ipv4-ippool", "docker", "eth0", "3f0c" * 16, "ee:ee:ee:ee:ee:0a", "web")


def test_details_are_for_people_and_no_agent_keeps_them() -> None:
    """They cost at most 776 bytes, and a document without any is that of an earlier release."""
    plain = workload("node2", 1)
    value = documents.encode_endpoint(plain._replace(details=DETAILS))
    assert documents.decode_endpoint(KEY, value, None, details=True).details == DETAILS
    assert documents.decode_endpoint(KEY, value, None) == documents.decode_endpoint(
        KEY, documents.encode_endpoint(plain), None
    )
    assert b"details" not in documents.encode_endpoint(plain)
    longest = EndpointDetails("p" * 253, "b" * 32, "e" * 15, "c" * 128, "ee:ee:ee:ee:ee:0a", "n" * 253)
    costs = [
        len(documents.encode_endpoint(plain._replace(details=one))) - len(documents.encode_endpoint(plain))
        for one in (longest, DETAILS._replace(container="", name=""), DETAILS)
    ]
    assert costs == [776, 99, 191]


@pytest.mark.parametrize(
    "data",
    [
        None, [], "x", 7, {"pool": "\x1b[2J"}, {"pool": "p" * 254}, {"pool": ["p"]}, {"by": "In Ventory"},
        {"by": "b" * 33}, {"by": "inventory\n"}, {"endpoint": "../../etc"}, {"endpoint": "e" * 16},
        {"name": "\x1b[2J"}, {"name": "n" * 254}, {"name": "-web"}, {"name": "docker/a"},
        {"container": "c" * 129}, {"container": "a b"}, {"mac": "ee:ee"}, {"mac": "EE:EE:EE:EE:EE:0A"},
        {"more": "x" * 60_000}, {"pool": {"pool": "p"}}, {"by": "\u202edocker"},
    ],
)  # fmt: skip
def test_wrong_details_are_left_out_and_the_workload_counts(data: object) -> None:
    """A node cannot take its workload from policy by wrong details, nor write on a terminal by them."""
    body = json.loads(documents.encode_endpoint(workload("node2", 1)))
    value = json.dumps({**body, "details": data}).encode()
    found = documents.decode_endpoint(KEY, value, OwnBlocks(["10.244.1.0/26"]), details=True)
    assert found == documents.decode_endpoint(KEY, documents.encode_endpoint(workload("node2", 1)), None)
    good = json.dumps({**body, "details": {"mac": "x", "pool": "good"}}).encode()
    assert documents.decode_endpoint(KEY, good, None, details=True).details == EndpointDetails("good")


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        (b"{}", False), (b'{"reads":["details"]}', True), (b'{"reads":["details","x"],"more":1}', True),
        (b"", False), (b"[" * 60, False), (b'{"reads":"details"}', False), (b'{"reads":[7]}', False),
        (b'{"reads":["details"],"x":"' + b"x" * 64 + b'"}', False),
    ],
)  # fmt: skip
def test_a_node_says_whether_it_reads_details(value: bytes, reads: bool) -> None:
    mirror = filled()
    assert mirror.all_read_details("node1") and mirror.all_read_details("node2")
    mirror.change([put(keys.complete_key("node2"), value, 10)], Position(1, 10, 10))
    assert mirror.is_complete("node2")
    assert (mirror.all_read_details("node1"), mirror.all_read_details("node2")) == (reads, True)


def test_what_nodes_read_is_known_from_a_copy_of_an_earlier_agent() -> None:
    """It wrote "{}" for each node whose workloads are all there; the checksum is that of the value in the store."""
    mirror = filled()
    mirror.change([put(keys.complete_key("node2"), details.COMPLETE, 10)], Position(1, 10, 10))
    for document in (documents.COMPLETE, details.COMPLETE):
        entries = [
            (known, document if keys.parse_complete_key(known.key) else value) for known, value in mirror.entries()
        ]
        again = Mirror()
        again.restore_part(entries, True)
        list(again.list_end(Position(1, 10, 10)))
        assert again.all_read_details("node1") and again.is_complete("node2")
        again.change([put(keys.complete_key("node2"), documents.COMPLETE, 11)], Position(1, 11, 11))
        assert not again.all_read_details("node1")


def filled() -> Mirror:
    mirror = Mirror()
    mirror.list_part([KeyValue(BLOCKS, documents.encode_blocks(["10.244.1.0/26"]), 5)], True)
    mirror.list_part([KeyValue(AT, documents.encode_endpoint(workload("node2", 1)), 7)], False)
    list(mirror.list_end(Position(1, 9, 9)))
    return mirror


def test_a_workload_counts_only_inside_its_nodes_blocks() -> None:
    changed: list[frozenset[EndpointKey]] = []
    mirror = Mirror(lambda keys_, nodes: changed.append(frozenset(keys_)))
    mirror.change([put(AT, documents.encode_endpoint(workload("node2", 1)), 3)], Position(1, 3, 3))
    assert mirror.endpoints == {} and mirror.refused() == [(AT, "no run has published blocks of its node.")]
    mirror.change([put(BLOCKS, documents.encode_blocks(["10.244.9.0/26"]), 4)], Position(1, 4, 4))
    assert mirror.refused() == [(AT, "one of its addresses lies in none of its node's blocks.")]
    mirror.change([put(BLOCKS, documents.encode_blocks(["10.244.1.0/26"]), 5)], Position(1, 5, 5))
    assert set(mirror.endpoints) == {KEY} and mirror.refused() == []
    mirror.change([KeyChange(BLOCKS, None, 6)], Position(1, 6, 6))
    assert mirror.endpoints == {} and changed == [{KEY}, {KEY}]


def test_rubbish_leaves_the_last_good_value_in_force() -> None:
    mirror = filled()
    before = dict(mirror.endpoints)
    rubbish = [put(AT, b"rubbish", 10), put(BLOCKS, b"{}", 10), put(keys.BLOCKS + "a/b", b"{}", 10)]
    mirror.change(rubbish, Position(1, 10, 10))
    assert mirror.endpoints == before and mirror.count == 3
    assert [key for key, _why in mirror.refused()] == sorted([AT, BLOCKS, keys.BLOCKS + "a/b"])
    # A listing of the same keys does not forget it either, and the cure is taken.
    mirror.list_part([KeyValue(AT, b"rubbish", 10), KeyValue(BLOCKS, b"{}", 10)], True)
    list(mirror.list_end(Position(1, 11, 11)))
    assert mirror.endpoints == before and mirror.count == 2
    mirror.change([put(AT, documents.encode_endpoint(workload("node2", 1, "db")), 12)], Position(1, 12, 12))
    assert dict(mirror.endpoints[KEY].endpoint.labels)["app"] == "db"


def junk(name: object, revision: int, created: bool = True) -> KeyChange:
    return KeyChange(f"{keys.ENDPOINTS}node2/{name}", b"rubbish", revision, created)


def test_the_keys_of_a_node_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys beyond the limit are counted, so that the mirror knows how many the store has, and not kept."""
    monkeypatch.setattr(mirror_module, "KEYS_OF_NODE", 10)
    mirror = filled()
    mirror.change([junk(number, 10) for number in range(30)], Position(1, 10, 10))
    mirror.change([junk(number, 11, created=False) for number in range(30)], Position(1, 11, 11))
    other = EndpointKey("node1", "cali1")
    mirror.change([put(keys.blocks_key("node1"), documents.encode_blocks(["10.244.0.0/26"]), 12)], Position(1, 12, 12))
    document = documents.encode_endpoint(workload("node1", 1))
    mirror.change([put(keys.endpoint_key(*other), document, 13)], Position(1, 13, 13))
    assert set(mirror.endpoints) == {KEY, other} and (mirror.count, mirror.kept) == (34, 13)
    words = "a node has at most 10 keys of 16777216 bytes in all, none of them overlong; 21 are left out."
    assert ("/host-routing/v1/endpoints/node2/", words) in mirror.refused()
    mirror.change([KeyChange(junk(number, 0).key, None, 14) for number in range(30)], Position(1, 14, 14))
    assert (mirror.count, mirror.kept, mirror.refused()) == (4, 4, [])
    mirror.change([KeyChange(AT, None, 15), KeyChange(BLOCKS, None, 15)], Position(1, 15, 15))
    assert mirror.nodes == {"node1"} and mirror.count == 2


def test_an_overlong_key_is_counted_and_not_kept() -> None:
    mirror = filled()
    mirror.change([junk("x" * 1000, 10)], Position(1, 10, 10))
    assert (mirror.count, mirror.kept) == (3, 2)
    words = "a node has at most 16384 keys of 16777216 bytes in all, none of them overlong; 1 are left out."
    assert mirror.refused() == [("/host-routing/v1/endpoints/node2/", words)]
    mirror.change([KeyChange(junk("x" * 1000, 0).key, None, 11)], Position(1, 11, 11))
    assert (mirror.count, mirror.refused()) == (2, [])


def test_the_bytes_of_a_nodes_documents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that would be too much is refused by name; one that another leaves room for is taken."""
    size = len(documents.encode_endpoint(workload("node2", 1)))
    monkeypatch.setattr(mirror_module, "BYTES_OF_NODE", 3 * size + size // 2)
    mirror = filled()

    def write(number: int, revision: int, app: str = "web") -> None:
        document = documents.encode_endpoint(workload("node2", number, app))
        mirror.change([put(keys.endpoint_key("node2", f"cali{number}"), document, revision)], Position(1, revision, 9))

    for number in range(1, 5):
        write(number, 10 + number)
    reason = f"the documents of its node have more than {3 * size + size // 2} bytes."
    assert len(mirror.endpoints) == 3
    assert mirror.refused() == [(keys.endpoint_key("node2", "cali4"), reason)]
    for revision in range(20, 30):
        write(1, revision, "web" if revision % 2 else "db")
    mirror.change([put(AT, b"rubbish", 31), put(AT, b"more rubbish", 32)], Position(1, 32, 32))
    assert len(mirror.endpoints) == 3
    mirror.list_part([KeyValue(BLOCKS, documents.encode_blocks(["10.244.1.0/26"]), 5), KeyValue(AT, b"?", 33)], True)
    list(mirror.list_end(Position(1, 33, 33)))
    assert set(mirror.endpoints) == {KEY}
    for number in range(2, 5):
        write(number, 40 + number)
    assert len(mirror.endpoints) == 3
    mirror.change([KeyChange(AT, None, 50)], Position(1, 50, 50))
    write(4, 51)
    assert set(mirror.endpoints) == {EndpointKey("node2", f"cali{number}") for number in (2, 3, 4)}


def test_refused_values_are_not_compared_with_the_store() -> None:
    """The store would have to send them, and they may be large."""
    mirror = filled()
    mirror.change([put(AT, b"x" * 1_000_000, 10)], Position(1, 10, 10))
    assert [known.key for known in mirror.newest(8)] == [BLOCKS]


def test_the_copy_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    mirror = filled()
    mirror.change([put(AT, b"rubbish", 10), put(keys.BLOCKS + "a/b", b"?", 11)], Position(1, 11, 11))
    path = str(tmp_path / snapshot.FILE)
    snapshot.write(path, snapshot.parts(mirror, 1_795_000_000.5, "7f3a"))
    again = Mirror()
    *_, header = snapshot.read(path, again)
    assert header == (Position(1, 11, 11), 3, 1_795_000_000.5, "7f3a")
    assert again.endpoints == mirror.endpoints and again.position == mirror.position
    assert set(again.newest(8)) > set(mirror.newest(8)) and again.count == mirror.count
    assert oct(os.stat(path).st_mode & 0o777) == "0o600" and os.listdir(tmp_path) == [snapshot.FILE]


@pytest.mark.parametrize("cut", [0, 1, 40, 130, -1, -30])
def test_a_copy_that_is_not_whole_is_not_used(tmp_path: pathlib.Path, cut: int) -> None:
    path = tmp_path / snapshot.FILE
    snapshot.write(str(path), snapshot.parts(filled(), 1.0))
    path.write_bytes(path.read_bytes()[:cut])
    again = Mirror()
    with pytest.raises(SnapshotUnusable):
        list(snapshot.read(str(path), again))
    assert again.position is None and again.endpoints == {} and again.count == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "its last line is not whole"),
        (b"\xff\n", "it is not text"),
        (b"[]\n", "it has the form of another release"),
        (b'{"format": "calico-datastore", "version": 2}\n', "it has the form of another release"),
        (HEADER.replace(b'"1"', b'"x"'), "a line of it cannot be read: cluster is x, not the identity of a cluster"),
        (HEADER.replace(b'"revision": 1', b'"revision": -1'),
         "a line of it cannot be read: revision is -1, not a whole number from 0 to 9223372036854775807"),
        (HEADER.replace(b'"keys": 0', b'"keys": 9e9'),
         "a line of it cannot be read: keys is 9000000000.0, not a whole number from 0 to 2000000"),
        (HEADER.replace(b'"keys": 0', b'"keys": 9000000'),
         "a line of it cannot be read: keys is 9000000, not a whole number from 0 to 2000000"),
        (HEADER.replace(b'"written": 1', b'"written": "now"'),
         "a line of it cannot be read: written is now, not a number from 0 to 1e+12"),
        (HEADER + b'["/x", 1, 2]\n', "a line of it is no key"),
        (HEADER + b'["/x", 1, -2, "{}"]\n',
         "a line of it cannot be read: it is -2, not a whole number from 0 to 4294967295"),
        (HEADER + b'["/x", 1, 2, "{}"]\n', "it has 1 keys instead of 0"),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_not_used(tmp_path: pathlib.Path, content: bytes, said: str) -> None:
    path = tmp_path / snapshot.FILE
    path.write_bytes(content)
    with pytest.raises(SnapshotUnusable) as caught:
        list(snapshot.read(str(path), Mirror()))
    assert str(caught.value) == said
    with pytest.raises(SnapshotUnusable):
        list(snapshot.read(str(path) + ".gone", Mirror()))


def test_a_copy_that_cannot_be_written_leaves_the_old_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / snapshot.FILE
    snapshot.write(str(path), snapshot.parts(filled(), 1.0))
    before = path.read_bytes()

    def full_disk():
        yield b"x" * 100
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        snapshot.write(str(path), full_disk())
    assert path.read_bytes() == before and os.listdir(tmp_path) == [snapshot.FILE]


POLICY = keys.DocumentKey("GlobalNetworkPolicy", "", "web")
TIER = keys.DocumentKey("Tier", "", "early")


def texts(mirror: Mirror) -> dict[str, bytes]:
    return {key.name: zlib.decompress(text) for key, text in mirror.documents.items()}


def test_live_documents_are_told_when_a_revision_is_whole() -> None:
    told: list[dict[str, bytes]] = []
    mirror = Mirror(on_documents=lambda: told.append(texts(mirror)))
    mirror.change([put(keys.document_key(POLICY), b"one", 5)], Position(1, 4, 4))
    assert told == []  # another document of revision 5 follows
    mirror.change([put(keys.document_key(TIER), b"two", 5)], Position(1, 5, 5))
    mirror.change([put(keys.blocks_key("a"), documents.encode_blocks(["10.0.0.0/26"]), 6)], Position(1, 6, 6))
    assert told == [{"web": b"one", "early": b"two"}]
    mirror.change([KeyChange(keys.document_key(TIER), None, 7)], Position(1, 7, 7))
    assert told[1:] == [{"web": b"one"}]


def test_live_documents_survive_the_copy_on_the_disk(tmp_path: pathlib.Path) -> None:
    mirror = Mirror()
    values = {POLICY: b'{"a": "\xc3\xa9\\u0000"}', TIER: b"rubbish"}
    mirror.list_part([KeyValue(keys.document_key(key), value, 3) for key, value in values.items()], True)
    list(mirror.list_end(Position(1, 9, 9)))
    path = str(tmp_path / "copy")
    snapshot.write(path, snapshot.parts(mirror.frozen(), 1.0))
    restored = Mirror()
    list(snapshot.read(path, restored))
    assert texts(restored) == texts(mirror) == {key.name: value for key, value in values.items()}
    assert restored.newest(9) == mirror.newest(9) and restored.count == 2


def test_what_is_no_text_or_no_document_is_refused_and_the_last_good_text_stays() -> None:
    mirror = Mirror()
    at = keys.document_key(POLICY)
    mirror.change([put(at, b"good", 3)], Position(1, 3, 3))
    for revision, value in enumerate((b"\xff", b"x" * (256 * 1024 + 1)), start=4):
        mirror.change([put(at, value, revision)], Position(1, revision, revision))
        assert texts(mirror) == {"web": b"good"} and set(mirror.refused_documents) == {at}
    mirror.list_part([KeyValue(at, b"\xff", 9), KeyValue(f"{keys.DOCUMENTS}pods/a", b"{}", 9)], True)
    list(mirror.list_end(Position(1, 9, 9)))
    assert texts(mirror) == {"web": b"good"} and (mirror.count, mirror.count_refused) == (2, 2)
    assert mirror.count_refused_documents == 2
    mirror.change([put(BLOCKS, b"{}", 9)], Position(1, 9, 9))
    assert [key for key, dummy in mirror.refused(with_documents=False)] == [BLOCKS]
    assert (len(mirror.refused()), mirror.count_refused, mirror.count_refused_documents) == (3, 3, 2)
    assert mirror.refused_documents == {
        at: "it is not UTF-8.",
        f"{keys.DOCUMENTS}pods/a": "no live document can have this key.",
    }
    mirror.change([put(at, b"x" * (256 * 1024), 10)], Position(1, 10, 10))
    assert len(texts(mirror)["web"]) == 256 * 1024 and at not in mirror.refused_documents


def test_live_documents_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "DOCUMENT_LIMITS", ShareLimits(3, 100))
    mirror = Mirror()
    names = [keys.document_key(POLICY._replace(name=f"p{number}")) for number in range(5)]
    mirror.change([KeyChange(name, b"x" * 40, 3, True) for name in names], Position(1, 3, 3))
    assert set(texts(mirror)) == {"p0", "p1"} and mirror.count == 5
    most = "3 documents of 100 bytes in all are the most; 2 are left out."
    assert mirror.refused_documents == {
        names[2]: "all live documents together have more than 100 bytes.",
        keys.DOCUMENTS: most,
    }
    mirror.change([KeyChange(name, None, 4) for name in names], Position(1, 4, 4))
    assert (texts(mirror), mirror.count, mirror.refused_documents) == ({}, 0, {})
    # None of it keeps the workloads of nodes out.
    mirror.change([KeyChange(name, b"x", 5, True) for name in names], Position(1, 5, 5))
    mirror.change([put(BLOCKS, documents.encode_blocks(["10.244.1.0/26"]), 6)], Position(1, 6, 6))
    mirror.change([put(AT, documents.encode_endpoint(workload("node2", 1)), 7)], Position(1, 7, 7))
    assert set(mirror.endpoints) == {KEY}


def test_the_last_good_text_of_a_refused_document_counts_towards_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "DOCUMENT_LIMITS", ShareLimits(3, 100))
    mirror = Mirror()
    first, second = (keys.document_key(POLICY._replace(name=name)) for name in ("a", "b"))
    mirror.change([KeyChange(first, b"x" * 60, 3, True)], Position(1, 3, 3))
    mirror.list_part([KeyValue(first, b"\xff", 4)], True)
    list(mirror.list_end(Position(1, 4, 4)))
    mirror.change([KeyChange(second, b"x" * 60, 5, True)], Position(1, 5, 5))
    assert set(texts(mirror)) == {"a"}
    mirror.change([KeyChange(first, None, 6)], Position(1, 6, 6))
    mirror.change([KeyChange(second, b"x" * 60, 7)], Position(1, 7, 7))
    assert set(texts(mirror)) == {"b"}


def test_the_open_change_is_told_with_the_documents_of_its_revision(tmp_path: pathlib.Path) -> None:
    told: list[tuple[dict[str, bytes], bytes | None]] = []
    mirror = Mirror(on_documents=lambda: told.append((texts(mirror), mirror.open_change)))
    mirror.change([KeyChange(keys.OPEN_CHANGE, b"trial", 5, True)], Position(1, 5, 5))
    path = str(tmp_path / "copy")
    snapshot.write(path, snapshot.parts(mirror.frozen(), 1.0))
    restored = Mirror()
    list(snapshot.read(path, restored))
    assert (restored.open_change, restored.count, restored.refused()) == (None, 1, [])
    mirror.change([KeyChange(keys.document_key(TIER), b"one", 6, True)], Position(1, 5, 5))
    mirror.change([KeyChange(keys.OPEN_CHANGE, None, 6)], Position(1, 6, 6))
    assert told == [({}, b"trial"), ({"early": b"one"}, None)]
    mirror.change([KeyChange(keys.OPEN_CHANGE, b"x" * (600 << 10), 7, True)], Position(1, 7, 7))
    assert mirror.open_change is None and mirror.refused() == [(keys.OPEN_CHANGE, "it has more than 524288 bytes.")]
