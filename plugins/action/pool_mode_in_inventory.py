# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import os
import stat
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.files import replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_documents, pool_entry


class ActionModule(GuardedAction):
    """The action pool_mode_in_inventory, which prints how to write a switched mode into the inventory, or writes it.

    With `write`, the file is replaced, except in check mode, and the result has `changed` and `diff`. An entry stays,
    without these keys, if its file is not known, cannot be read or written, or cannot be edited line by line, or if a
    variable of a host or a document of a file cannot be read; the printed `lines` say how to write it. Without `write`
    nothing changes.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "pool": {"type": "str", "required": True},
                "mode": {"type": "str", "required": True, "choices": list(pool_entry.FIELDS)},
                "write": {"type": "bool", "default": False},
            }
        )
        pool, mode = args["pool"], args["mode"]
        # The pool has its mode already: what cannot be read or edited is no failure, but has to be said.
        place, unread = fleet_documents.PoolPlace("", None), []
        try:
            place = fleet_documents.pool_place(task_vars, pool)
        except FleetError as error:
            unread = [f"the file with pool {pool} is not known: {error}"]
        origin, resource = place
        path = origin.rsplit(":", 1)[0]
        now, says = (f"would be {mode}", "would say") if self._task.check_mode else (f"is {mode} now", "says")
        lines = [
            *unread,
            f"pool {pool} {now}. To keep it, set in {origin or 'the inventory'} ({resource or f'pool {pool}'}):",
        ]
        lines += [f"    {line}" for line in pool_entry.lines_to_set(mode)]
        written: dict[str, t.Any] = {}
        if args["write"] and resource not in (None, f"IPPool {pool}"):
            lines.insert(0, f"{origin} is left as it is: the pool is a part of {resource} there.")
        elif args["write"] and os.path.isfile(path):
            try:
                with open(path, encoding="utf-8", newline="") as stream:
                    before = stream.read()
                line_end = "\r\n" if "\r\n" in before else "\n"
                if resource is None:
                    after = pool_entry.with_mode(before.replace(line_end, "\n"), pool, mode).replace("\n", line_end)
                else:
                    after = pool_entry.document_with_mode(before, pool, mode, path.endswith(".json"))
                if not self._task.check_mode:
                    _write(path, after)
            except pool_entry.CannotEdit as error:
                lines.insert(0, f"{path} is left as it is: {error}.")
            except UnicodeDecodeError as error:
                lines.insert(0, f"{path} is left as it is: it is not UTF-8 at byte {error.start}.")
            except OSError as error:
                lines.insert(0, f"{path} is left as it is: {error.strerror}.")
            else:
                diff = {"before_header": path, "after_header": path, "before": before, "after": after}
                written = {"changed": after != before, "diff": diff}
                lines = [f"pool {pool} {now}, and {path} {says} so."]
        shown_lines.show(lines)
        return {**written, "lines": lines}


def _write(path: str, text: str) -> None:
    """Replace the file's content as a whole, or leave it; its mode and symbolic links that lead to it stay."""
    target = os.path.realpath(path)
    with contextlib.suppress(replacement.NotSynced):  # the text is there, and the file system writes its name later
        replacement.replace(target, text.encode(), stat.S_IMODE(os.stat(target).st_mode))
