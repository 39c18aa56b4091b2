# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of all actions of this collection, the border of what nodes answer.

A node's answer sets no variables and keeps only some keys, and no text that leaves an action controls a terminal.
"""

from __future__ import annotations

import abc
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from . import async_job, controller_variables, engine_call, module_answer, printable

Data = dict[str, t.Any]

_OF_ANSIBLE = ("ansible.builtin.", "ansible.legacy.")
#: The strategies by which a task ends on all hosts before the next one begins.
_IN_STEP = ("linear", "debug", "mitogen_linear")


def prepare() -> None:
    """Read what any call of a module needs, once before Ansible forks for each host. Raise OSError if that fails."""
    controller_variables.prepare()
    engine_call.engine_digest()


class GuardedAction(ActionBase):
    """An action whose variables come from the controller, and that returns only some keys of its modules' answers.

    `module_answer.passed_on` selects these keys. Subclasses define `act` in place of `run`. If
    `controller_variables.check_host` refuses the host, or `check` the task, it fails without `act`. The task fails with
    the text of a FleetError. Unsafe characters are escaped in the result and in the messages of errors.
    """

    #: Whether the task fails under a strategy of the play by which hosts do not wait for each other.
    NEEDS_ALL_HOSTS = False

    def run(self, tmp: t.Any = None, task_vars: t.Optional[Data] = None) -> Data:
        try:
            return t.cast(Data, printable.shown(self._checked(super().run(tmp, task_vars), task_vars)))
        except Exception as error:
            escaped = printable.error(error)
            if escaped is error:
                raise
            raise escaped from None  # a cause would be printed, too

    def _checked(self, result: Data, task_vars: t.Optional[Data]) -> Data:
        task_vars = task_vars or {}
        try:
            controller_variables.check_host(task_vars)
            if self.NEEDS_ALL_HOSTS:
                self._check_strategy()
            self.check(task_vars)
            with controller_variables.without_facts():
                hostvars = controller_variables.of_hosts(task_vars, self._task)
                result = {**result, **self.act({**task_vars, "hostvars": hostvars})}
                # A run that fails here changes nothing of what it predicts.
                return {**result, "changed": False} if result.get("failed") and self._task.check_mode else result
        except FleetError as error:
            return {**result, "failed": True, "msg": str(error)}

    def _check_strategy(self) -> None:
        """Raise FleetError if the play's strategy lets a host run ahead of tasks that need the answers of all hosts."""
        strategy = str(self._task.get_play().strategy)
        if strategy.rpartition(".")[2] not in _IN_STEP:
            raise FleetError(
                "strategy",
                strategy,
                "lets hosts run ahead of tasks that need the answers of all hosts.",
                "Leave it out of the play, of ansible.cfg and of ANSIBLE_STRATEGY: the default, linear, is needed.",
            )

    def check(self, task_vars: Data) -> None:
        """Raise FleetError if the task has to fail before it does anything. No action but some subclasses refuses."""

    @abc.abstractmethod
    def act(self, task_vars: Data) -> Data:
        """Return the keys of the task's result.

        `task_vars` are the task's variables, in which `hostvars` has facts in `ansible_facts` only. Any exception fails
        the task; its message is escaped.
        """

    def _execute_module(self, module_name: t.Optional[str] = None, **options: t.Any) -> Data:
        """Run a module on the node and return the keys of its answer that `module_answer.passed_on` keeps.

        The engine or Ansible's archive runs it; see engine_call. `options` are those of ActionBase. The answer of one
        of Ansible's own modules is returned whole. The errors are those of `EngineCall.run`, and KeyError for a module
        that module_answer.DOCUMENTED does not have.
        """
        name = module_name or str(self._task.action)
        # A helper of ActionBase needs the answer of Ansible's own module whole, and no action returns such an answer.
        if name.startswith(_OF_ANSIBLE):
            return t.cast(Data, super()._execute_module(module_name=module_name, **options))
        args = options.get("module_args")
        answer = engine_call.by_engine(
            self,
            name,
            self._task.args if args is None else args,
            options.get("task_vars") or {},
            bool(options.get("wrap_async")),
        )
        if answer is None:
            answer = super()._execute_module(module_name=module_name, **self.archive_options(options))
        return self._passed_on(name, answer)

    def archive_options(self, options: Data) -> Data:
        """Return the options of a call that Ansible's archive makes: `options`, unless a subclass changes them.

        A subclass transfers here what an engine would have brought along, and may raise AnsibleError or OSError.
        """
        return options

    def _parse_returned_data(self, res: Data, profile: str) -> t.Any:
        printed = printable.json_text(res.get("stdout", ""))
        return super()._parse_returned_data({**res, "stdout": printed}, profile)

    def _passed_on(self, module_name: str, answer: t.Mapping[str, t.Any]) -> Data:
        module = module_name.rpartition(".")[2]
        return module_answer.passed_on(module, answer, self._discovered_interpreter_key, self._discovered_interpreter)


class PlainAction(GuardedAction):
    """The action of a module that needs nothing from the controller, with ``async`` like Ansible's own.

    meta/runtime.yml names the modules whose action is this one.
    """

    _supports_async = True

    def act(self, task_vars: Data) -> Data:
        in_background = bool(self._task.async_val) and not self._connection.has_native_async
        answer = self._execute_module(task_vars=task_vars, wrap_async=in_background)
        if not in_background:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        elif async_job.is_waited_for(self._task) and not answer.get("failed") and not answer.get("skipped"):
            answer = self._passed_on(str(self._task.action), async_job.wait(self, answer, task_vars))
        return answer
