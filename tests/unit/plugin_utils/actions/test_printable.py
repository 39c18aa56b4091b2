# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of nodes as actions give them to Ansible."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils._internal._messages import Event, WarningSummary
from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import controller_variables, printable
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from hypothesis import given
from hypothesis import strategies as st

HOSTILE = "\x1b]0;owned\x07\u202e\rread\n\t\x9b2J"
SHOWN = "\\x1b]0;owned\\x07\\u202e\\rread\n\t\\x9b2J"


def test_texts_at_every_depth_are_escaped() -> None:
    found = printable.shown({HOSTILE: [(HOSTILE, {"a": HOSTILE})], "n": 1, "none": None, "honest": "über\n"})
    assert found == {SHOWN: [[SHOWN, {"a": SHOWN}]], "n": 1, "none": None, "honest": "über\n"}


def test_warnings_of_ansible_are_escaped() -> None:
    """Texts in Ansible 2.19's objects for warnings are escaped; an object that needs no escapes is returned itself."""
    event = Event(msg=HOSTILE, help_text=HOSTILE, events=(Event(msg=HOSTILE), Event(msg="honest")))
    (found,) = printable.shown([WarningSummary(event=event)])
    assert found == WarningSummary(
        event=Event(msg=SHOWN, help_text=SHOWN, events=(Event(msg=SHOWN), Event(msg="honest")))
    )
    honest = WarningSummary(event=Event(msg="honest"))
    assert printable.shown(honest) is honest


@pytest.mark.parametrize("kind", [AnsibleConnectionFailure, AnsibleError, ValueError])
def test_errors_are_escaped(kind: type[Exception]) -> None:
    raised = printable.error(kind(HOSTILE))
    assert isinstance(raised, AnsibleError)
    assert raised.message == SHOWN
    assert isinstance(raised, AnsibleConnectionFailure) == (kind is AnsibleConnectionFailure)
    honest = kind("honest")
    assert printable.error(honest) is honest


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_output_of_a_module_means_the_same(answer: t.Any) -> None:
    printed = printable.json_text(json.dumps(answer, ensure_ascii=False))
    assert json.loads(printed) == answer
    assert printed.isascii() and printed.isprintable()


def test_ends_of_lines_of_a_pseudo_terminal_stay() -> None:
    assert printable.json_text("{}\r\n\rx\x1b\U0001f600") == "{}\r\n\\u000dx\\u001b\\ud83d\\ude00"


class Action(GuardedAction):
    """An action that raises `outcome` if it is an exception, and otherwise adds its items to the result."""

    outcome: t.Any

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return dict(self.outcome)


def test_border_is_the_way_out_of_an_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an action returns or raises, documented data included, is escaped."""
    monkeypatch.setattr(ActionBase, "run", lambda *dummy: {})
    monkeypatch.setattr(controller_variables, "of_hosts", lambda *dummy: {})
    action = Action.__new__(Action)
    action._task = None
    action.outcome = {"msg": HOSTILE, "workloads": [HOSTILE], "diff": [{"prepared": HOSTILE}], "changed": True}
    assert action.run(task_vars={}) == {
        "msg": SHOWN, "workloads": [SHOWN], "diff": [{"prepared": SHOWN}], "changed": True,
    }  # fmt: skip
    action.outcome = AnsibleConnectionFailure(HOSTILE)
    with pytest.raises(AnsibleConnectionFailure) as error:
        action.run(task_vars={})
    assert error.value.message == SHOWN
    assert error.value.__suppress_context__
