# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of the actions that ask a member: they add the operator's user, which no playbook names."""

from __future__ import annotations

import typing as t

from ..actions.guarded_action import GuardedAction
from ..sources import given_inventory
from . import etcd_folder


class EtcdAction(GuardedAction):
    """An action of a module with the options username and password, which no task sets."""

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """Call the module with the operator's user, and return its answer."""
        args = {key: value for key, value in self._task.args.items() if key not in ("username", "password")}
        given_inventory.check_parsed(task_vars)
        found = etcd_folder.credentials(etcd_folder.folder_of(task_vars), task_vars, self._templar.template)
        if found is not None:
            args.update(username=found.user, password=found.password)
        answer = self._execute_module(module_args=args, task_vars=task_vars)
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return answer
