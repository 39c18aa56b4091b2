# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of an inventory's files of resources: planned, checked with the whole inventory, and written."""

from __future__ import annotations

import contextlib
import difflib
import os
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import document_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import (
    ChangeRefused,
    ResourcePlan,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_request import plan_request
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.changed_texts import (
    CannotWrite,
    changed_texts,
    new_file,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import key_in
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.patches.labels import LabelRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded, change_set
from ansible_collections.baremetal.host_routing.plugins.module_utils.files.change_set import (
    ChangedMeanwhile,
    FileChange,
    InterruptedChange,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.finding import ERROR

from ...lines import lint_lines
from ...lines.shown_path import shown_path
from .. import lint_source
from . import adoption, present_resources

Data = dict[str, t.Any]

#: The file beside the inventory that says which files are to be renamed while several change.
JOURNAL = ".calicoctl-change.json"
_LIMIT = 10 << 20  # bytes of a file of resources, as its reader's


class ResourceChange(t.NamedTuple):
    """The files that a change writes or has written, and lines for people, with the unified diff `differences`."""

    files: tuple[str, ...]
    lines: list[str]
    differences: list[str]


def change(task_vars: t.Mapping[str, t.Any], request: Data, write: bool) -> ResourceChange:
    """Plan, check and, with `write`, write the change that `request` asks for (cli/commands/inventory_change.py).

    Raise CommandError if it is refused, and FleetError if the inventory cannot be read before it. Then nothing changes.
    """
    folder = _inventory_folder(task_vars)
    journal = os.path.join(folder, JOURNAL)
    try:
        with contextlib.ExitStack() as stack:
            finished = stack.enter_context(change_set.held(journal)) if write else []
            lines = [f"An interrupted change of {shown_path(path)} is finished." for path in finished]
            if any(_is_of_ansible(path, folder) for path in finished):
                # The variables at hand are those from before.
                raise CommandError("\n".join([*lines, "Run this command again."]))
            present = present_resources.read(task_vars, *_named(request))
            plan = plan_request(present.resources, request)
            moved = adoption.adoption(plan.changes, present.hosts, task_vars)
            texts, contents = _texts(plan, present.folder)
            after = {
                path: "" if text is None and not present.may_remove(path) else text
                for path, text in changed_texts(plan.changes, texts, present.folder).items()
            }
            adoption.check_same_network(plan.changes, present.folder, moved, present.hosts, task_vars)
            # The lines around an entry of a variable may be secrets.
            differences = _differences(texts, after) + _differences(moved.before, moved.after, 0)
            lines += differences
            lines += _checked(task_vars, after, moved.hosts) if after or moved.after else []
            contents.update(moved.contents)
            after.update(moved.after)
            if write and after:
                changes = [
                    FileChange(path, contents[path], None if text is None else text.encode())
                    for path, text in after.items()
                ]
                change_set.write(changes, journal)
    except (ChangeRefused, LabelRefused, CannotWrite, ChangedMeanwhile, InterruptedChange) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        where = shown_path(os.fsdecode(error.filename or folder))
        raise CommandError(f"{where} cannot be written: {error.strerror}. Nothing was changed.") from error
    unchanged = [str(one.key) for one in plan.changes if one.unchanged]
    said = plan.said if write or not after else f"Nothing was written: this is a dry run of: {plan.said}"
    lines += [said, *(f"{key} is unchanged" for key in unchanged)]
    return ResourceChange(tuple(after), lines, differences)


def _inventory_folder(task_vars: t.Mapping[str, t.Any]) -> str:
    """Return the folder of the one inventory. Raise CommandError if there are several or it is no file."""
    sources = [str(source) for source in task_vars.get("ansible_inventory_sources") or ()]
    if len(sources) > 1:
        raise CommandError(f"several inventories ({', '.join(sources)}) are not changed. Name one: -i INVENTORY.")
    folder = task_vars.get("inventory_dir")
    if not folder:
        raise CommandError("the inventory is no file, so there are no files to change. Name one: -i INVENTORY.")
    return str(folder)


def _is_of_ansible(path: str, folder: str) -> bool:
    """Return whether Ansible reads a file of the inventory's folder: resources lie outside of it, or behind a dot."""
    inside = os.path.relpath(path, os.path.realpath(folder)).split(os.sep)
    return not any(part.startswith(".") for part in inside)


def _named(request: Data) -> tuple[set[str], set[str]]:
    """Return the kinds and the names of the resources that a request names."""
    if "documents" not in request:
        return {str(request["kind"])}, set(request["names"])
    keys = {key for one in request["documents"] if (key := key_in(one["content"])) is not None}
    return {key.kind for key in keys}, {key.name for key in keys}


def _texts(plan: ResourcePlan, folder: str) -> tuple[dict[str, t.Optional[str]], dict[str, t.Optional[bytes]]]:
    """Return the texts and the bytes of the files that a plan changes, None for a missing one. Raise CommandError."""
    texts: dict[str, t.Optional[str]] = {}
    contents: dict[str, t.Optional[bytes]] = {}
    for one in plan.changes:
        if not one.is_written:
            continue
        if not one.file and not folder:
            raise CommandError(
                f"{one.key} needs a file, and calico_resource_files names no folder for it. Make a folder beside the "
                "inventory, and name it in group_vars/all: calico_resource_files: [../resources]"
            )
        path = one.file or new_file(folder, one.key)
        try:
            contents[path] = bounded.read(path, _LIMIT)
        except FileNotFoundError:
            contents[path] = None
        except bounded.TooLarge as error:
            raise CommandError(f"{path} is not changed: {error}.") from error
        content = contents[path]
        try:
            if content is not None:
                document_file.read(path)  # refuses what the reader of resources refuses
            texts[path] = None if content is None else content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CommandError(f"{path} is not UTF-8 at byte {error.start}. Save it as UTF-8.") from error
        except BeyondLimits as error:
            raise CommandError(f"{path} {error}") from error
    return texts, contents


def _differences(
    before: t.Mapping[str, t.Optional[str]], after: t.Mapping[str, t.Optional[str]], around: int = 3
) -> list[str]:
    """Return the unified diff of all files, without line ends, with `around` unchanged lines around each change."""
    lines: list[str] = []
    for path, text in after.items():
        old, shown = before[path], shown_path(path)
        lines += difflib.unified_diff(
            (old or "").splitlines(),
            (text or "").splitlines(),
            shown if old is not None else os.devnull,
            shown if text is not None else os.devnull,
            lineterm="",
            n=around,
        )
    return lines


def _checked(
    task_vars: t.Mapping[str, t.Any], after: t.Mapping[str, t.Optional[str]], hosts: t.Sequence[Host]
) -> list[str]:
    """Return the warnings about the changed files. Raise CommandError if the inventory is not valid with them."""
    looked = lint_source.lint(task_vars, after, hosts)
    errors = [one for one in looked.findings if one.severity == ERROR]
    if errors:
        told = "\n".join(lint_lines.table(errors))
        raise CommandError(f"nothing was written, because the inventory would not be valid:\n{told}")
    files = {shown_path(path) for path in after}
    return lint_lines.table([one for one in looked.findings if one.origin.rpartition(":")[0] in files])
