# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trials of live policy: an open change is in force for its time, and stays only if the node sees that it was made.

    changes/open appears ──► tried ──► in force ──► answers/<node>/<id>: in_force
                                          │
                 one transaction writes the documents and removes changes/open
                                          │
    a new connection to the datastore shows both ──► kept        anything else, or no time left ──► reverted

The new connection proves that this node can still be reached by those who could take the policy back. One that was
there before proves nothing, because connection tracking keeps it alive.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import time
import typing as t

from ...datastore.documents import RefusedDocument
from ...datastore.keys import DocumentKey
from ...datastore.live import change_answer, open_change
from ...datastore.live.change_answer import ChangeAnswer
from ...datastore.live.live_reader import ReadDocument
from ...datastore.live.open_change import OpenChange
from ...state.live_policy import LivePolicy
from ...state.policy_state import PolicyState
from .answers import Answers

_BETWEEN_PROOFS = 0.5  # seconds between two attempts to connect
_SEEN = 16  # changes that are remembered, so that none is tried twice

Documents = t.Mapping[DocumentKey, ReadDocument]
#: Returns whether a new connection to the datastore shows that a change was made.
Prove = t.Callable[[OpenChange], t.Awaitable[bool]]


@dataclasses.dataclass(frozen=True)
class Trial:
    """A change that is tried until `until`, in seconds of the loop's clock.

    `live` is the policy with it, `before` and `after` are all documents without and with it. `policy` is that of
    Ansible's state when it began.
    """

    change: OpenChange
    live: LivePolicy
    before: Documents
    after: Documents
    policy: PolicyState
    until: float


class TrialState(enum.Enum):
    """What becomes of the trial that runs. UNPROVED was made, but no new connection showed it."""

    GOES_ON = "goes on"
    KEPT = "kept"
    REVERTED = "reverted"
    UNPROVED = "unproved"


class LiveTrials:
    """The trials of a node, at most one at a time, on the event loop. `running` is that one, or None.

    `node` returns the name of this node.
    """

    def __init__(self, node: t.Callable[[], str], answers: Answers, prove: Prove) -> None:
        self.running: t.Optional[Trial] = None
        self._node = node
        self._answers = answers
        self._prove = prove
        self._value: t.Optional[bytes] = None
        self._opened: t.Optional[OpenChange] = None
        self._seen: list[str] = []
        self._answered = False  # whether the datastore was told that the trial is in force

    def opened(self, value: t.Optional[bytes]) -> t.Optional[OpenChange]:
        """Return the open change in the value of its key, None if there is none that can be read."""
        if value != self._value:
            self._value = value
            try:
                self._opened = open_change.decode(value) if value is not None else None
            except RefusedDocument:
                self._opened = None
        return self._opened

    def is_new(self, change: OpenChange) -> bool:
        """Return whether a change is a trial that this node has neither tried nor refused."""
        return change.kind == open_change.TRIAL and change.id not in self._seen

    def refuse(self, change: OpenChange, reason: str) -> None:
        """Answer that this node does not try a change."""
        self._see(change)
        self._answer(change, change_answer.REFUSED, reason)

    def begin(self, trial: Trial) -> None:
        """Note that a trial has begun: its policy is to be in force."""
        self._see(trial.change)
        self.running, self._answered = trial, False

    def in_force(self) -> None:
        """Answer that the policy of the trial is in the kernel."""
        if self.running is not None and not self._answered:
            self._answered = True
            self._answer(self.running.change, change_answer.IN_FORCE)

    async def judge(
        self, opened: t.Optional[OpenChange], documents: Documents, policy: t.Optional[PolicyState]
    ) -> TrialState:
        """Return what becomes of the trial that runs, and answer it if it ends.

        `documents` are all that the datastore has, `opened` is the open change, and `policy` that of Ansible's state.
        """
        trial = self.running
        if trial is None:
            return TrialState.GOES_ON
        loop = asyncio.get_running_loop()
        made = opened is None and documents == trial.after
        if policy is not trial.policy:
            return self._end(change_answer.REVERTED, "a run of Ansible has changed the node meanwhile")
        if made:
            while loop.time() < trial.until:
                if await self._prove(trial.change):
                    return self._end(change_answer.KEPT)
                await asyncio.sleep(_BETWEEN_PROOFS)
            reason = f"no new connection to the datastore within {trial.change.seconds} s"
            self._end(change_answer.REVERTED, reason)
            return TrialState.UNPROVED
        if loop.time() >= trial.until:
            return self._end(change_answer.REVERTED, f"it was not committed within {trial.change.seconds} s")
        if opened is None or opened.id != trial.change.id:
            return self._end(change_answer.REVERTED, "it was withdrawn")
        if documents != trial.before:
            return self._end(change_answer.REVERTED, "other documents have changed meanwhile")
        return TrialState.GOES_ON

    def _end(self, state: str, reason: str = "") -> TrialState:
        trial, self.running = self.running, None
        if trial is not None:
            self._answer(trial.change, state, reason)
        return TrialState.KEPT if state == change_answer.KEPT else TrialState.REVERTED

    def _see(self, change: OpenChange) -> None:
        self._seen = [*self._seen, change.id][-_SEEN:]

    def _answer(self, change: OpenChange, state: str, reason: str = "") -> None:
        self._answers.put(ChangeAnswer(self._node(), change.id, time.time(), state, reason))
