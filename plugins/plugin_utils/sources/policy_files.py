# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy resources in files beside the inventory (calico_policy_files), which are read without templating."""

from __future__ import annotations

import glob
import os
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import document_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import (
    EXTENSIONS,
    NotReadable,
    documents_of,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

VARIABLE = "calico_policy_files"
#: Folders within an inventory's folder in which Ansible does not look for hosts and groups.
_NO_INVENTORY = ("group_vars", "host_vars")


def documents(names: t.Any, task_vars: t.Mapping[str, t.Any]) -> list[Document]:
    """Return the documents of the files that the variable names, in their order; [] if it is not set.

    `names` are paths, folders or patterns, relative to the inventory's folder, or to the current one if it has none.
    Each file is read once. Raise FleetError if an entry is not a text or finds no file, or if a file cannot be read,
    cannot be parsed, lies where Ansible takes it for an inventory, or is a link out of the folder in which it was
    found.
    """
    found, errors = readable(names, task_vars)
    if errors:
        raise errors[0]
    return found


def readable(names: t.Any, task_vars: t.Mapping[str, t.Any]) -> tuple[list[Document], list[FleetError]]:
    """Return the documents of all files that can be read, and the errors for which `documents` would refuse the others.

    Of a file that cannot be parsed, the documents before the error are returned. `names` are those of `documents`.
    """
    folder = task_vars.get("inventory_dir") or os.getcwd()
    sources = [str(source) for source in task_vars.get("ansible_inventory_sources") or ()]
    found: list[Document] = []
    errors: list[FleetError] = []
    seen: set[str] = set()
    for index, name in enumerate(names or ()):
        label = f"{VARIABLE}[{index}]"
        try:
            paths, within = _files(label, name, folder)
        except FleetError as error:
            errors.append(error)
            continue
        for path in paths:
            if path in seen:
                continue
            seen.add(path)
            try:
                _check_place(label, path, sources)
                if within is not None and os.path.isfile(path):
                    _check_link(label, path, within)
                for document in _documents(label, path):
                    found.append(document)
            except FleetError as error:
                errors.append(error)
    return found, errors


def _files(label: str, name: t.Any, folder: str) -> tuple[list[str], t.Optional[str]]:
    """Return the files of an entry of the variable, and the folder in which they were looked for, None for one file."""
    if not isinstance(name, str):
        raise FleetError(label, name, "is not a path.", "Write for example ../policy/*.yml.")
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(name)))
    if os.path.isfile(path):
        return [path], None
    if os.path.isdir(path):
        try:
            entries = sorted(os.path.join(path, entry) for entry in os.listdir(path) if entry.endswith(EXTENSIONS))
        except OSError as error:
            raise FleetError(label, path, f"cannot be read: {error.strerror}.", "Correct its permissions.") from error
        if not entries:
            raise FleetError(label, name, "has no file *.yml, *.yaml or *.json.", "Put policy there, or remove it.")
        return entries, path
    if glob.has_magic(name):
        # The pattern is what the variable says: a [ in the path of the inventory's folder is no part of it.
        pattern = os.path.normpath(os.path.join(glob.escape(folder), os.path.expanduser(name)))
        matching = sorted(entry for entry in glob.glob(pattern) if os.path.isfile(entry))
        if not matching:
            raise FleetError(label, name, "matches no file.", f"Correct it, as seen from {folder}, or remove it.")
        literal = os.path.join(folder, os.path.expanduser(re.split(r"[*?[]", name, maxsplit=1)[0]))
        return matching, os.path.normpath(os.path.dirname(literal))
    raise FleetError(label, name, "is no file and no folder.", f"Write where it is, seen from {folder}.")


def _check_place(label: str, path: str, sources: t.Sequence[str]) -> None:
    """Raise FleetError if the file lies where Ansible takes it for an inventory.

    That is in a folder of `sources`, but not below group_vars or host_vars there, and not where a part of the path in
    that folder begins with a dot. `label` names the variable's entry in the error.
    """
    for source in sources:
        if not os.path.isdir(source):
            continue
        inside = os.path.relpath(path, os.path.abspath(source)).split(os.sep)
        if inside[0] != ".." and not any(part.startswith(".") or part in _NO_INVENTORY for part in inside):
            raise FleetError(
                label,
                path,
                "lies in the inventory, where Ansible takes it for hosts and groups.",
                f"Move it beside {source}, or into a folder there whose name begins with a dot.",
            )


def _check_link(label: str, path: str, folder: str) -> None:
    """Raise FleetError if a part of the path below `folder` is a link that leads out of the folder that has the link.

    Who adds a file to a folder of policies must not make a run read another file, and quote it in its errors.
    """
    place = os.path.realpath(folder)
    for part in os.path.relpath(path, folder).split(os.sep):
        target = os.path.realpath(os.path.join(place, part))
        if os.path.commonpath([place, target]) != place:
            raise FleetError(
                label,
                path,
                f"is a link that leads out of {place}.",
                f"Put the file itself there, or name what it points to in {VARIABLE}.",
            )
        place = target


def _documents(label: str, path: str) -> t.Iterator[Document]:
    try:
        for content, line in documents_of(document_file.read(path), path):
            yield Document(content, path, line)
    except NotReadable as error:
        where = f"{path}:{error.line}" if error.line else path
        raise FleetError("document", None, str(error), "Correct it.", where) from error
    except BeyondLimits as error:
        raise FleetError(label, path, error.rule, error.remedy) from error
    except UnicodeDecodeError as error:
        raise FleetError(label, path, f"is not UTF-8 at byte {error.start}.", "Save it as UTF-8.") from error
    except OSError as error:
        raise FleetError(label, path, f"cannot be read: {error.strerror}.", "Correct its permissions.") from error
