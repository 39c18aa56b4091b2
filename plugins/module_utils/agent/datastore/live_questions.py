# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers to questions of operators: what a change of live policy would do to this node, if it were made.

    changes/open ──► read in the thread of live policy ──► a child reads documents and computes ──► answers/<node>/<id>

The child has the lowest priority and ten seconds, and attaching workloads does not wait for it. What it has not found
out by then is missing in the answer, which says so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import threading
import time
import typing as t

from ...base.terminal_text import line
from ...dataplane.kernel.port import Kernel
from ...datastore import keys
from ...datastore.documents import RefusedDocument
from ...datastore.keys import DocumentKey
from ...datastore.live import live_documents, open_change
from ...datastore.live.change_answer import ANSWERED, REFUSED, ChangeAnswer
from ...datastore.live.change_effect import ChangeEffect
from ...datastore.live.live_reader import ReadDocument
from ...datastore.live.open_change import QUESTION, OpenChange
from ...datastore.mirror import Mirror
from ...node.change.verdicts import policy_effect
from ...state import live_policy
from ...state.live_policy import Unresolved
from ...state.node_state import NodeState
from ...state.policy_state import PolicyState
from ..concurrency import forked
from ..concurrency.driver_thread import Worker
from ..known.host import AgentHost
from ..known.known import Known
from . import own_ways
from .live_policy_feed import LivePolicyFeed
from .own_ways import OwnWays

_log = logging.getLogger("calico.datastore")

#: The most seconds for which a child computes an answer.
MOST_SECONDS = 10
_LEAST = 1.0  # seconds that a child has, however late it begins
_PAUSE = 0.02  # seconds between two looks at how far documents are read


class NotAnswerable(Exception):
    """A question that this node does not answer, with the reason."""


class LiveQuestions:
    """The answers of one agent. It belongs to the event loop.

    `mirror` returns the mirror with the open change, `reading` is the thread that reads documents, and `synced` returns
    whether the datastore is followed in sync. `answer` writes an answer.
    """

    def __init__(
        self,
        host: AgentHost,
        known: Known,
        feed: LivePolicyFeed,
        mirror: t.Callable[[], Mirror],
        reading: Worker,
        synced: t.Callable[[], bool],
        ways: OwnWays,
        answer: t.Callable[[ChangeAnswer], None],
    ) -> None:
        self._persisted = known.persisted
        self._desired = known.desired
        self._kernels = host.kernels
        self._computing = host.thread("questions")
        self._reading = reading
        self._feed = feed
        self._mirror = mirror
        self._synced = synced
        self._ways = ways
        self._answer = answer
        self._wake = asyncio.Event()
        self._seen = b""  # the value of the last open change

    def documents_changed(self) -> None:
        """Answer the open change soon if it is a new question. Do not wait."""
        self._wake.set()

    async def run(self) -> None:
        """Answer questions until cancelled. Never return."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            value = self._mirror().open_change
            if value is None or value == self._seen or not self._feed.is_allowed:
                continue
            self._seen = value
            try:
                question = await self._reading(functools.partial(_question, value))
                if question is not None:
                    await self._reply(question)
            except Exception:  # noqa: BLE001  a fault here must not end the agent, on which the workloads depend
                _log.exception("A question about live policy could not be answered.")

    async def _reply(self, question: OpenChange) -> None:
        state = self._persisted.state
        if state is None:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + min(question.seconds, MOST_SECONDS)
        effect: t.Optional[ChangeEffect] = None
        try:
            await self._read_until(question.base, until)
            effect, reason = await self._effect(question, max(_LEAST, until - loop.time()))
        except NotAnswerable as refusal:
            reason = str(refusal)
        said = REFUSED if reason else ANSWERED
        self._answer(ChangeAnswer(state.node, question.id, time.time(), said, line(reason), effect))

    async def _read_until(self, revision: int, until: float) -> None:
        """Wait until documents are read up to a revision, at most `until` a time of the loop. Raise NotAnswerable."""
        while not self._synced() or self._feed.read_until < revision:
            if asyncio.get_running_loop().time() > until:
                raise NotAnswerable("this node does not follow the datastore in sync")
            await asyncio.sleep(_PAUSE)

    async def _effect(self, question: OpenChange, seconds: float) -> tuple[t.Optional[ChangeEffect], str]:
        """Return the effect of a change, and why this node would hold it back. Raise NotAnswerable."""
        before, state = self._desired.without_policy(), self._persisted.state
        own = state.policy if state is not None else None
        if before is None or own is None or not self._feed.is_allowed:
            raise NotAnswerable("the inventory does not allow live policy here")
        inventory, now = own, before
        documents, compile = self._feed.reading.documents, self._desired.compiler()
        ways, others, kernels = self._ways, self._persisted.others, self._kernels

        def work() -> t.Iterator[dict[str, t.Any]]:
            kernel: Kernel = kernels()

            def cut_by(after: NodeState) -> str:
                denied = ways.question(after)
                return own_ways.said(denied(kernel)) if denied is not None else ""

            try:
                after = dataclasses.replace(now, policy=_changed(inventory, documents, question))
            except NotAnswerable as refusal:
                yield {"refused": str(refusal)}
                return
            yield from policy_effect.parts(kernel, now, after, compile, others, cut_by)

        over = threading.Event()
        answer = asyncio.ensure_future(
            self._computing(lambda: forked.ask(work, seconds, self._desired.still(), over.is_set))
        )
        try:
            found = await asyncio.shield(answer)
        finally:
            over.set()  # An agent that ends does not wait for the child.
        refused = next((part["refused"] for part in found.parts if "refused" in part), "")
        if refused:
            raise NotAnswerable(refused)
        return policy_effect.effect_of(found.parts, found.problem)


def _question(value: bytes) -> t.Optional[OpenChange]:
    """Return the open change in the value of its key if it is a question."""
    try:
        change = open_change.decode(value)
    except RefusedDocument:
        return None
    return change if change.kind == QUESTION else None


def _changed(own: PolicyState, documents: t.Mapping[DocumentKey, ReadDocument], question: OpenChange) -> PolicyState:
    """Return the inventory's policy with live documents, those of a question laid over. Raise NotAnswerable."""
    values = {key: one.value for key, one in documents.items()}
    for key, value in question.documents.items():
        try:
            values[key] = None if value is None else live_documents.value_of(live_documents.decode(key, value))
        except RefusedDocument as refusal:
            raise NotAnswerable(f"{keys.document_key(key)}: {refusal}") from None
    try:
        live = live_policy.resolve(own.policy_set, [one for one in values.values() if one is not None])
    except Unresolved as error:
        raise NotAnswerable(str(error)) from None
    return live_policy.merged(own, live)
