# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two writers at once: each accepted change is whole, the history explains each revision, and all can be undone."""

from __future__ import annotations

import asyncio
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import history
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import ChangeRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.change import Conflict, LiveChange, Writer
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.store import LiveStore
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd
from tests.unit.live.conftest import Data, add_operator, document, policy

USERS = ("ada", "bob")
_TIERS = st.sampled_from(["default", "red", "blue"])
_DOCUMENTS = st.one_of(
    st.builds(
        lambda tier, order: document("Tier", tier, {"order": order}),
        st.sampled_from(["red", "blue"]), st.integers(1, 3)
    ),
    st.builds(
        lambda tier, name, order: policy(name if tier == "default" else f"{tier}.{name}", order, tier),
        _TIERS, st.sampled_from(["a", "b"]), st.integers(1, 3),
    ),
)  # fmt: skip


def _key(content: Data) -> tuple[str, str]:
    return content["kind"], content["metadata"]["name"]


_REQUESTS = st.builds(
    lambda verb, contents, skip: {
        "verb": verb, "namespace": "", "skip": skip,
        "documents": [{"content": content, "place": "x"} for content in {_key(one): one for one in contents}.values()],
    },
    st.sampled_from(["apply", "apply", "create", "replace", "delete"]),
    st.lists(_DOCUMENTS, min_size=1, max_size=4),
    st.booleans(),
)  # fmt: skip


@given(st.tuples(st.lists(_REQUESTS, max_size=8), st.lists(_REQUESTS, max_size=8)))
@settings(deadline=None, max_examples=40)
def test_two_writers(requests: tuple[list[Data], list[Data]]) -> None:
    etcd = FakeEtcd()
    etcd.users["root"] = "secret"
    for user in USERS:
        add_operator(etcd, user)
    begun = etcd.revision
    accepted = asyncio.run(_both(etcd, requests))
    revisions = [change.revision for change in accepted if change.revision]
    assert sorted(revisions) == list(range(begun + 1, etcd.revision + 1))
    data: dict[str, bytes] = {}
    for revision in range(begun + 1, etcd.revision + 1):
        written = {event.key.decode(): event.value for event in etcd.log if event.revision == revision}
        (name,) = [key for key in written if key.startswith(keys.HISTORY)]
        entry = history.decode(written.pop(name) or b"")
        assert written == {keys.document_key(key): content for key, content in entry.after.items()}
        assert {key: data.get(key) for key in written} == {
            keys.document_key(key): content for key, content in entry.before.items()
        }
        data = {key: value for key, value in {**data, **written}.items() if value is not None}
        assert all(_tier_is_there(value, data) for value in data.values())
    for change in accepted:
        if change.revision:
            planned = {keys.document_key(keys.DocumentKey(*one.key)) for one in change.plan.changes}
            assert planned == {
                event.key.decode()
                for event in etcd.log
                if event.revision == change.revision and not event.key.decode().startswith(keys.HISTORY)
            }
    asyncio.run(_undo(etcd, sorted((change.revision, change.change) for change in accepted if change.revision)))
    assert [key for key in etcd.data() if key.startswith(keys.DOCUMENTS.encode())] == []


async def _undo(etcd: FakeEtcd, changes: list[tuple[int, str]]) -> None:
    """Undo all changes, the last one first: none is refused."""
    for dummy, change in reversed(changes):
        await Writer(_store(etcd, "ada"), lambda dummy: None).undo(change)


def _tier_is_there(value: bytes, data: t.Mapping[str, bytes]) -> bool:
    for tier in ("red", "blue"):
        if f'"tier":"{tier}"'.encode() in value:
            return keys.document_key(keys.DocumentKey("Tier", "", tier)) in data
    return True


def _store(etcd: FakeEtcd, user: str) -> LiveStore:
    return LiveStore(EtcdClient(etcd.members, Credentials(user, "secret"), seconds=5.0, jitter=0.0), user)


async def _both(etcd: FakeEtcd, requests: tuple[list[Data], list[Data]]) -> list[LiveChange]:
    async def write(user: str, own: list[Data]) -> list[LiveChange]:
        found = []
        writer = Writer(_store(etcd, user), lambda dummy: None)
        for request in own:
            try:
                found.append(await writer.change(request))
            except (ChangeRefused, Conflict):
                continue
        return found

    both = await asyncio.gather(*(write(user, own) for user, own in zip(USERS, requests)))
    return [change for one in both for change in one]
