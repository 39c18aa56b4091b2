# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every change can be undone by one command, as long as nobody has touched its documents since.

Three operators and another tool change documents at random. After each change, each one of the history is undone on
trial: the documents are those before it, byte for byte, and nothing else changes; or it is refused, and the words name
the later change.
"""

from __future__ import annotations

import asyncio
import typing as t
from unittest import mock

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import ChangeRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import ResourceKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.live import batches
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import store
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.change import Writer
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.store import LiveStore
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd
from tests.long_form import LONG
from tests.unit.live.conftest import Data, add_operator, document, policy

USERS = ("ada", "bob", "cyn")
TOOL = "another tool"
#: The most documents of a transaction here, so that some changes are several.
AT_ONCE = 3

Values = dict[str, bytes]


class Touched(t.NamedTuple):
    """What a change has done to a document: its value before, and `last` of it before and after."""

    before: t.Optional[bytes]
    after: t.Optional[bytes]
    last_before: tuple[str, ...]
    last_after: tuple[str, ...]


class Series:
    """A datastore that is changed at random, and what each change has done to each document.

    `last` has the changes whose effect a document has, the newest first: the last change, and below a rollback what it
    has restored. Those of another tool are among them as TOOL and a number. `order` has the place of each.
    """

    def __init__(self) -> None:
        self.etcd = FakeEtcd()
        self.etcd.users["root"] = "secret"
        for user in USERS:
            add_operator(self.etcd, user)
        self.done: dict[str, dict[str, Touched]] = {}
        self.last: dict[str, tuple[str, ...]] = {}
        self.users: dict[str, str] = {}
        self.order: dict[str, int] = {}

    def below(self, start: str) -> Values:
        """Return the keys that begin with `start`."""
        data = self.etcd.data()
        return {key.decode(): event.value or b"" for key, event in data.items() if key.startswith(start.encode())}

    def writer(self, user: str) -> Writer:
        client = EtcdClient(self.etcd.members, Credentials(user, "secret"), seconds=5.0, jitter=0.0)
        return Writer(LiveStore(client, user), lambda dummy: None)

    async def act(self, user: str, asked: Data) -> None:
        """Do one thing of a series. A change that is refused is none."""
        if user == TOOL:
            self._put(asked)
            return
        undone = ""
        if "rollback" in asked:
            if not self.done:
                return
            undone = list(self.done)[asked["rollback"] % len(self.done)]
        before, begun = self.below(keys.DOCUMENTS), self.etcd.revision
        try:
            writer = self.writer(user)
            made = await (writer.undo(undone) if undone else writer.change(asked))
        except ChangeRefused:
            return
        after = self.below(keys.DOCUMENTS)
        if made.change:
            self.users[made.change], self.done[made.change] = user, {}
            self.order[made.change] = len(self.order)
        for key in {event.key.decode() for event in self.etcd.log if event.revision > begun}:
            if key.startswith(keys.DOCUMENTS):
                last = (made.change, *(self.done[undone][key].last_before if undone else ()))
                touched = Touched(before.get(key), after.get(key), self.last.get(key, ()), last)
                self.done[made.change][key], self.last[key] = touched, last

    def _put(self, content: Data) -> None:
        """Write or delete a document as another tool does, which leaves no entry in the history."""
        key = keys.document_key(keys.DocumentKey(content["kind"], "", content["metadata"]["name"]))
        if content["spec"]["order"] > 1:
            self.etcd.put(key, documents.encoded(content))
        elif key in self.below(keys.DOCUMENTS):
            self.etcd.delete(key)
            changes = [touched[key] for touched in self.done.values() if key in touched]
            if changes and changes[-1].after is None:  # nobody can see that it was there in between
                self.last[key] = changes[-1].last_after
                return
        else:
            return
        self.last[key] = (f"{TOOL}{len(self.order)}",)
        self.order[self.last[key][0]] = len(self.order)

    async def check(self, change: str, user: str) -> None:
        """Undo a change, compare what becomes of it, and go back to before."""
        log, revision = list(self.etcd.log), self.etcd.revision
        before, begun = self.etcd.data(), self.below(keys.DOCUMENTS)
        wanted: dict[str, t.Optional[bytes]] = dict(begun)
        wanted.update({key: touched.before for key, touched in self.done[change].items()})
        restored = {key: value for key, value in wanted.items() if value is not None}
        later = {
            key: [one for one in self.last[key] if self.order[one] > self.order[change]][-1]
            for key in self.done[change]
            if change not in self.last[key]
        }
        try:
            undone = await self.writer(user).undo(change)
        except ChangeRefused as refused:
            assert (self.etcd.log, self.etcd.revision) == (log, revision)
            words = str(refused)
            assert later or "tier" in words and not _has_all_tiers(restored), words
            for key, by in later.items():
                assert f"{by} of {self.users[by]} (" in words if by in self.users else f"{TOOL} (" in words, words
                assert str(ResourceKey(*t.cast(keys.DocumentKey, keys.parse_document_key(key)))) in words
            if later:
                named = {by for by in self.done if by in words.partition("touch the same: ")[2].partition(". ")[0]}
                assert named == {by for by in later.values() if by in self.users}
        else:
            assert not later and _has_all_tiers(restored) and self.below(keys.DOCUMENTS) == restored
            others = {key: event for key, event in self.etcd.data().items() if key.decode() not in self.done[change]}
            new = [key.decode() for key in others if key not in before]
            assert {key: event for key, event in others.items() if key in before} == {
                key: event for key, event in before.items() if key.decode() not in self.done[change]
            }
            assert new and all(key.startswith(keys.history_of(user)) for key in new) and undone.change in new[0]
            self.etcd.log, self.etcd.revision = log, revision


def _has_all_tiers(values: Values) -> bool:
    """Return whether the tiers of all policies are there."""
    missing = [tier for tier in ("red", "blue") if f"{keys.DOCUMENTS}tiers/{tier}" not in values]
    return not any(f'"tier":"{tier}"'.encode() in value for tier in missing for value in values.values())


def _policy(tier: str, name: str, order: int) -> Data:
    return policy(name if tier == "default" else f"{tier}.{name}", order, tier)


_ORDERS = st.integers(1, 3)
_POLICIES = st.builds(_policy, st.sampled_from(["default", "default", "red", "blue"]), st.sampled_from("ab"), _ORDERS)
_DOCUMENTS = st.one_of(
    _POLICIES, _POLICIES, st.builds(lambda name, order: document("Tier", name, {"order": order}),
                                    st.sampled_from(["red", "blue"]), _ORDERS),
)  # fmt: skip
_NAMED = {"kind": "GlobalNetworkPolicy", "word": "gnp", "namespace": "", "skip": False}


def _of_documents(verb: str, contents: list[Data]) -> Data:
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in contents}
    listed = [{"content": content, "place": "x"} for content in by_name.values()]
    return {"verb": verb, "namespace": "", "skip": True, "documents": listed}


_REQUESTS = st.one_of(
    st.builds(_of_documents, st.sampled_from(["apply", "apply", "apply", "create", "replace", "delete"]),
              st.lists(_DOCUMENTS, min_size=1, max_size=5)),
    st.builds(lambda name, order: {**_NAMED, "verb": "patch", "names": [name], "patch": {"spec": {"order": order}},
                                   "type": "strategic"}, st.sampled_from("ab"), _ORDERS),
    st.builds(lambda name, order: {**_NAMED, "verb": "label", "names": [name], "label": f"rack={order}",
                                   "remove": False, "overwrite": True}, st.sampled_from("ab"), _ORDERS),
)  # fmt: skip
_ROLLBACKS = st.builds(lambda number: {"rollback": number}, st.integers(0, 20))
_BY_HAND = st.builds(_policy, st.just("default"), st.sampled_from("ab"), _ORDERS)
#: What makes and deletes the same policy again and again.
_SIMPLE = st.builds(lambda verb, order: _of_documents(verb, [_policy("default", "a", order)]),
                    st.sampled_from(["apply", "delete"]), _ORDERS)  # fmt: skip
_ACTIONS = st.one_of(
    st.tuples(st.sampled_from(USERS), _REQUESTS), st.tuples(st.sampled_from(USERS), _SIMPLE),
    st.tuples(st.sampled_from(USERS), _ROLLBACKS), st.tuples(st.just(TOOL), _BY_HAND),
)  # fmt: skip


@given(st.lists(_ACTIONS, max_size=9))
@settings(deadline=None, max_examples=1000 if LONG else 60)
def test_every_change_is_undone(actions: list[tuple[str, Data]]) -> None:
    async def scenario() -> None:
        series = Series()
        for number, (user, asked) in enumerate(actions):
            await series.act(user, asked)
            for place, change in enumerate(series.done):
                await series.check(change, USERS[(place + number) % len(USERS)])

    with mock.patch.object(batches, "CHANGE_DOCUMENTS", AT_ONCE):
        asyncio.run(scenario())


class Bounds(t.NamedTuple):
    changes: int
    size: int
    entry: int


def test_the_history_of_each_operator_is_bounded() -> None:
    """After each command, it has no more changes and bytes than are kept, and the newest ones are among them.

    Ada makes large changes of several transactions, so that no number of hers is ever a multiple of 16. Bob makes many
    small ones.
    """
    bounds = Bounds(150, 64 << 12, 1 << 12)
    sizes = [("ada", 1, 10), *[("ada", 2, 1_300), ("bob", 4, 10), ("bob", 3, 10)] * 45]

    async def scenario() -> int:
        series, most = Series(), 0
        for number, (user, count, size) in enumerate(sizes):
            note = {"note": f"{number}".ljust(size, "x")}
            contents = [policy(f"{user}{one}", annotations=note) for one in range(count)]
            made = await series.writer(user).change(_of_documents("apply", contents))
            own = series.below(keys.history_of(user))
            assert len(own) <= bounds.changes and sum(map(len, own.values())) <= bounds.size
            assert any(made.change in key for key in own)
            most = max(most, sum(map(len, own.values())))
        assert len(series.below(keys.history_of("bob"))) >= bounds.changes - 16
        return most

    with (
        mock.patch.object(batches, "CHANGE_DOCUMENTS", 1),
        mock.patch.multiple(
            store, MOST_CHANGES=bounds.changes, MOST_HISTORY_BYTES=bounds.size, MOST_ENTRY_BYTES=bounds.entry
        ),
    ):
        assert asyncio.run(scenario()) > bounds.size // 2
