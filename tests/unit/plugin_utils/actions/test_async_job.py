# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a job on a node: its answer, or the reason why it has none."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import async_job

Poll = t.Union[dict[str, t.Any], Exception]
DONE: dict[str, t.Any] = {"finished": 1, "changed": True, "_ansible_parsed": True}
UNREACHABLE = AnsibleConnectionFailure("no route to host")


class Node:
    """A node that answers polls with `polls`, one after the other, and the removal of files with `cleanup`."""

    def __init__(self, polls: t.Sequence[Poll], cleanup: Poll) -> None:
        self.polls = list(polls)
        self.cleanup = cleanup
        self.cleaned = 0
        self.resets = 0
        self.reset_error: t.Optional[Exception] = None

    def reset(self) -> None:
        """Count a reset of the connection, then raise `reset_error` unless it is None."""
        self.resets += 1
        if self.reset_error:
            raise self.reset_error

    def status(self, dummy: t.Any, task_vars: t.Any, **args: t.Any) -> dict[str, t.Any]:
        """Return the answer of the next poll, or that of the removal of files, which is counted.

        Raise it if it is an error.
        """
        if args.get("mode") == "cleanup":
            self.cleaned += 1
            answer = self.cleanup
        else:
            answer = self.polls.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def waited(monkeypatch: pytest.MonkeyPatch, node: Node) -> dict[str, t.Any]:
    """Return the answer of `wait` for a job that may take 4 seconds and is polled every 2; raise what it raises."""
    monkeypatch.setattr(async_job, "_status", node.status)
    monkeypatch.setattr(async_job, "time", types.SimpleNamespace(sleep=lambda seconds: None))
    task = types.SimpleNamespace(poll=2, async_val=4, _uuid="of-this-test")
    action = types.SimpleNamespace(_task=task, _connection=types.SimpleNamespace(reset=node.reset))
    assert async_job.is_waited_for(task)
    return async_job.wait(t.cast(t.Any, action), {"ansible_job_id": "1.2"}, {})


@pytest.mark.parametrize(
    ("polls", "message"),
    [
        ([{"finished": 0}, {"finished": 0}], "async task did not complete within the requested time - 4s"),
        (
            [{"finished": 0}, {"failed": True, "_ansible_parsed": True, "msg": "no async dir"}],
            "async task: its end cannot be asked for: no async dir",
        ),
        (
            [{"failed": True, "_ansible_parsed": True}],
            "async task: its end cannot be asked for: no reason",
        ),
        (
            [{"failed": True, "_ansible_parsed": False, "msg": "MODULE FAILURE"}] * 2,
            "async task: its end cannot be asked for: MODULE FAILURE",
        ),
        # Answers of ansible-core 2.21 have no _ansible_parsed.
        ([{"failed": True, "msg": "no async dir"}], "async task: its end cannot be asked for: no async dir"),
        (
            [{"failed": True, "msg": "MODULE FAILURE", "module_stdout": "?"}] * 2,
            "async task: its end cannot be asked for: MODULE FAILURE",
        ),
        ([{"skipped": True}], "async task: its end was not asked for, because the poll was skipped"),
    ],
)
def test_a_job_without_an_end_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, polls: list[Poll], message: str
) -> None:
    """A time-out, a poll that fails and a poll that is skipped are told apart; the job's files stay."""
    node = Node(polls, {})
    assert waited(monkeypatch, node) == {"failed": True, "msg": message}
    assert (node.polls, node.cleaned) == ([], 0)


@pytest.mark.parametrize("cleanup", [{}, UNREACHABLE])
def test_a_job_that_has_ended_is_answered_for(monkeypatch: pytest.MonkeyPatch, cleanup: Poll) -> None:
    """The answer of a finished job counts, also if its files cannot be removed, and if an earlier poll failed."""
    node = Node([UNREACHABLE, DONE], cleanup)
    assert waited(monkeypatch, node) == DONE
    assert (node.cleaned, node.resets) == (1, 1)


def test_an_outage_in_which_a_reset_fails_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that cannot connect again at once, as paramiko's reset does, is used again at the next poll."""
    node = Node([UNREACHABLE, DONE], {})
    node.reset_error = AnsibleConnectionFailure("still no route to host")
    assert waited(monkeypatch, node) == DONE
    assert (node.cleaned, node.resets) == (1, 1)


def test_a_node_that_is_unreachable_at_the_last_poll_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable node is no time-out: the error of the connection is raised."""
    with pytest.raises(AnsibleConnectionFailure, match="no route to host"):
        waited(monkeypatch, Node([{"finished": 0}, UNREACHABLE], {}))
    node = Node([{"finished": 0}, UNREACHABLE], {})
    node.reset_error = AnsibleConnectionFailure("still away")
    with pytest.raises(AnsibleConnectionFailure, match="no route to host"):
        waited(monkeypatch, node)
