# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources in files beside the inventory, which are read without templating.

The variables calico_resource_files and calico_policy_files name them. Both are read by the same rules, within common
limits, and no file is read twice.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import types
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

RESOURCES, POLICIES = "calico_resource_files", "calico_policy_files"
#: Folders within an inventory's folder in which Ansible does not look for hosts and groups.
_NO_INVENTORY = ("group_vars", "host_vars")
#: The variables' limits together: files, and characters in them. A folder may have `_MOST_ENTRIES` files of any kind
#: below it, in folders inside each other down to `_DEEPEST`.
_MOST_FILES, _MOST_CHARACTERS, _MOST_ENTRIES, _DEEPEST = 10_000, 32 * 1024 * 1024, 100_000, 32


#: {path of a file: the text that is read in its place, None for a file that is not there}
Instead = t.Mapping[str, t.Optional[str]]
NOTHING: Instead = types.MappingProxyType({})


class ResourceFiles(t.NamedTuple):
    """The documents of all files that could be read, by the variable that names them, and the errors about others."""

    documents: t.Mapping[str, list[Document]]
    errors: tuple[FleetError, ...]


def documents(names: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, list[Document]]:
    """Return the documents of the files that variables name, by variable, in their order; [] for one without a value.

    `names` maps variables to lists of paths, folders or patterns, relative to the inventory's folder, or to the current
    one if it has none. Folders are read with their subfolders. Each file is read once, for the first variable that
    names it. Raise FleetError if an entry is not a text or finds no file, or if a file cannot be read, cannot be
    parsed, lies where Ansible takes it for an inventory, or is a link out of the folder in which it was found, and if
    there are too many files, too much text in them or too many folders inside each other.
    """
    found = readable(names, task_vars)
    if found.errors:
        raise found.errors[0]
    return dict(found.documents)


def readable(
    names: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any], instead: Instead = NOTHING
) -> ResourceFiles:
    """Return the documents of all files that can be read, and the errors for which `documents` would refuse the others.

    Of a file that cannot be parsed, the documents before the error are returned. `names` are those of `documents`.
    `instead` are texts to read in the place of files; a new file among them counts if an entry names a folder that it
    lies in.
    """
    reading = _Reading(task_vars, instead)
    found = {variable: list(reading.of(variable, entries or ())) for variable, entries in names.items()}
    return ResourceFiles(found, tuple(reading.errors))


class _Reading:
    """The reading of the files that variables name. What refuses a file is appended to `errors`."""

    def __init__(self, task_vars: t.Mapping[str, t.Any], instead: Instead) -> None:
        self._instead = instead
        self.errors: list[FleetError] = []
        self._folder = str(task_vars.get("inventory_dir") or os.getcwd())
        self._sources = [str(source) for source in task_vars.get("ansible_inventory_sources") or ()]
        self._seen: set[str] = set()
        self._characters = 0

    def of(self, variable: str, names: t.Iterable[t.Any]) -> t.Iterator[Document]:
        """Yield the documents of the files that `names`, the value of `variable`, names."""
        for index, name in enumerate(names):
            label = f"{variable}[{index}]"
            try:
                paths, within = _files(label, name, self._folder, self._instead)
                for path in paths:
                    yield from self._of_file(label, path, within)
            except FleetError as error:
                self.errors.append(error)

    def _of_file(self, label: str, path: str, within: t.Optional[str]) -> t.Iterator[Document]:
        """Yield the documents of a file that was not read before. Raise FleetError beyond the limits of all files."""
        same = os.path.realpath(path)
        if same in self._seen:
            return
        self._seen.add(same)
        if len(self._seen) > _MOST_FILES:
            raise _too_many_files(label)
        try:
            _check_place(label, path, self._sources)
            if within is not None and os.path.isfile(path):
                _check_link(label, path, within)
            text = _text(label, path, self._instead)
        except FleetError as error:
            self.errors.append(error)
            return
        self._characters += len(text)
        if self._characters > _MOST_CHARACTERS:
            raise FleetError(
                label,
                path,
                f"brings the text of all files to more than {_MOST_CHARACTERS // 1024 // 1024} MiB.",
                "Name only files with Calico's documents.",
            )
        try:
            yield from _parsed(text, path)
        except NotReadable as error:
            where = f"{path}:{error.line}" if error.line else path
            self.errors.append(FleetError("document", None, str(error), "Correct it.", where))


@functools.lru_cache(maxsize=_MOST_FILES)
def _parsed(text: str, path: str) -> tuple[Document, ...]:
    """Return the documents of a file. They are remembered: a change reads all files before it and after it."""
    return tuple(Document(content, path, line) for content, line in documents_of(text, path))


def _too_many_files(label: str) -> FleetError:
    remedy = "Write several resources into one file, with a line --- between them."
    return FleetError(label, None, f"is beyond {_MOST_FILES:,} files in all.", remedy)


def _files(label: str, name: t.Any, folder: str, instead: Instead) -> tuple[list[str], t.Optional[str]]:
    """Return the files of an entry of a variable, and the folder in which they were looked for, None for one file."""
    if not isinstance(name, str):
        raise FleetError(label, name, "is not a path.", "Write for example ../policy/*.yml.")
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(name)))
    if os.path.isfile(path) and instead.get(path, "") is not None:
        return [path], None
    if os.path.isdir(path):
        new = [file for file in instead if file.startswith(os.path.join(path, "")) and file.endswith(EXTENSIONS)]
        entries = sorted(file for file in {*_Walk(label, path).files(), *new} if instead.get(file, "") is not None)
        if not entries and label.startswith(POLICIES):
            raise FleetError(label, name, "has no file *.yml, *.yaml or *.json.", "Put policy there, or remove it.")
        return entries, path
    if glob.has_magic(name):
        # Only the variable's text is a pattern: a [ in the path of the inventory's folder is a plain character.
        pattern = os.path.normpath(os.path.join(glob.escape(folder), os.path.expanduser(name)))
        matching = sorted(
            entry for entry in glob.glob(pattern) if os.path.isfile(entry) and instead.get(entry, "") is not None
        )
        if not matching:
            raise FleetError(label, name, "matches no file.", f"Correct it, as seen from {folder}, or remove it.")
        literal = os.path.join(folder, os.path.expanduser(re.split(r"[*?[]", name, maxsplit=1)[0]))
        return matching, os.path.normpath(os.path.dirname(literal))
    raise FleetError(label, name, "is no file and no folder.", f"Write where it is, seen from {folder}.")


class _Walk:
    """A walk through a folder and the folders in it. `label` names the variable's entry in errors."""

    def __init__(self, label: str, folder: str) -> None:
        self._label = label
        self._folder = folder
        self._entries = 0

    def files(self) -> t.Iterator[str]:
        """Yield the paths of documents' files by their endings, and of links to such files, in any order.

        A link to a folder is left out: where it leads is below the folder anyway, or the link is refused. Raise
        FleetError for a folder that cannot be read, for a link that leads out of its folder, and beyond a limit.
        """
        return self._below(self._folder, 1)

    def _below(self, folder: str, depth: int) -> t.Iterator[str]:
        if depth > _DEEPEST:
            raise FleetError(
                self._label,
                self._folder,
                f"has folders inside each other down to more than {_DEEPEST} levels.",
                "Name the folder that has the documents.",
            )
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > _MOST_ENTRIES:
                        raise FleetError(
                            self._label,
                            self._folder,
                            f"has more than {_MOST_ENTRIES:,} files and folders below it.",
                            "Name the folder that has the documents, and nothing else.",
                        )
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._below(entry.path, depth + 1)
                    elif entry.is_symlink() and os.path.isdir(entry.path):
                        _check_link(self._label, entry.path, self._folder)
                    elif entry.name.endswith(EXTENSIONS):
                        yield entry.path
        except OSError as error:
            raise FleetError(
                self._label, folder, f"cannot be read: {error.strerror}.", "Correct its permissions."
            ) from error


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
                f"Put the file itself there, or name what it points to in {label.partition('[')[0]}.",
            )
        place = target


def _text(label: str, path: str, instead: Instead) -> str:
    new = instead.get(path)
    if new is not None:
        return new.removeprefix("\ufeff")
    try:
        return document_file.read(path)
    except BeyondLimits as error:
        raise FleetError(label, path, error.rule, error.remedy) from error
    except UnicodeDecodeError as error:
        raise FleetError(label, path, f"is not UTF-8 at byte {error.start}.", "Save it as UTF-8.") from error
    except OSError as error:
        raise FleetError(label, path, f"cannot be read: {error.strerror}.", "Correct its permissions.") from error
