# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a task with ``async`` inside its action, so that the answer passes the action's filter.

Ansible itself would poll after the action has ended, and accept the answer as the node gives it.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible.errors import AnsibleError
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text

Data = dict[str, t.Any]

#: {uuid of a task: its seconds between polls}, in this process. A retried task has `poll: 0`, set at its first attempt.
_POLLS: dict[str, int] = {}


def is_waited_for(task: t.Any) -> bool:
    """Return whether `task` has a ``poll`` above 0, or had one before a retry.

    Set its ``poll`` to 0, which keeps Ansible from polling afterwards, and record the value for `wait`.
    """
    if task.poll > 0:
        _POLLS[str(task._uuid)] = int(task.poll)
        task.poll = 0
    return str(task._uuid) in _POLLS


def wait(action: ActionBase, started: t.Mapping[str, t.Any], task_vars: Data) -> Data:
    """Wait for the job that `action` has `started`, and return its answer.

    It sleeps the task's ``poll`` seconds before each poll, for about its ``async`` seconds in all. Return a failure
    with its reason if `started` has no job id, if the job has not ended then, or if a poll is skipped or fails on the
    node. The job's files on the node are removed once it has finished, if the node can be reached. Raise AnsibleError
    if the last poll raises it, and KeyError if `is_waited_for` was not True for the task.
    """
    job, task = started.get("ansible_job_id"), action._task
    if job is None:
        return {"failed": True, "msg": "No job id was returned by the async task"}
    pause, left = _POLLS[str(task._uuid)], int(task.async_val)
    answer: Data = {}
    while left > 0:
        time.sleep(pause)
        left -= pause
        try:
            answer = _status(action, task_vars, jid=job)
        except AnsibleError as error:
            # The connection may work again at the next poll.
            Display().vvvv(f"async poll failed: {terminal_text.text(error)}")
            # Some connections, such as paramiko, connect in reset(): while the node is away, this fails like a poll.
            with contextlib.suppress(AnsibleError):
                action._connection.reset()
            if left <= 0:
                raise
            continue
        if answer.get("finished") or answer.get("skipped") or (answer.get("failed") and _was_read(answer)):
            break
    if not answer.get("finished"):
        return {"failed": True, "msg": _unfinished(answer, int(task.async_val))}
    try:
        _status(action, task_vars, jid=job, mode="cleanup")
    except AnsibleError as error:
        # The job has ended, and its answer is known: files that are left on the node do not make it a failure.
        Display().vvvv(f"async cleanup failed: {terminal_text.text(error)}")
    return answer


def _was_read(answer: Data) -> bool:
    """Return whether Ansible could read what the node printed as `answer`.

    From ansible-core 2.21 on, an answer does not say so itself. One that could not be read has what was printed.
    """
    return bool(answer.get("_ansible_parsed", "module_stdout" not in answer))


def _unfinished(answer: Data, seconds: int) -> str:
    """Return why a job has no end, whose limit was `seconds`. `answer` is the last poll's, {} if there was no poll."""
    if answer.get("skipped"):
        return "async task: its end was not asked for, because the poll was skipped"
    if answer.get("failed"):
        return f"async task: its end cannot be asked for: {terminal_text.line(str(answer.get('msg') or 'no reason'))}"
    return f"async task did not complete within the requested time - {seconds}s"


def _status(action: ActionBase, task_vars: Data, **args: t.Any) -> Data:
    task = action._task
    status = Task.load({"async_status": args, "check_mode": task.check_mode, "environment": task.environment})
    handler = action._shared_loader_obj.action_loader.get(
        "ansible.legacy.async_status",
        task=status,
        connection=action._connection,
        play_context=action._play_context,
        loader=action._loader,
        templar=action._templar,
        shared_loader_obj=action._shared_loader_obj,
    )
    try:
        return t.cast(Data, handler.run(task_vars=task_vars))
    finally:
        handler.cleanup(force=True)
