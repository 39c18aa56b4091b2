# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory as its files have it, for the rules that need no valid fleet."""

from __future__ import annotations

import difflib
import os
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.written_inventory import (
    ENDINGS,
    ClearSecret,
    LikeFolder,
    RepeatedKey,
    UnknownVariable,
    VariableFile,
    WrittenInventory,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ...actions import controller_variables
from .. import given_inventory
from . import role_variables, yaml_file
from .value_origin import value_origin

_VARIABLE_FOLDERS = ("group_vars", "host_vars")
#: The passwords by which Ansible connects to a host and becomes root.
_PASSWORDS = frozenset(
    {"ansible_password", "ansible_ssh_pass", "ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"}
)
_SECRETS = frozenset({"calico_bgp_secrets", "calico_etcd_password", "calico_etcd_node_secret"}) | _PASSWORDS
_REFERENCE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_SECTION = re.compile(r"\s*\[([^\]:]+)(?::\w+)?\]")


def read(task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[Host]) -> WrittenInventory:
    """Return the inventory as its readable files have it; `hosts` are those of calico_nodes and calico_rr."""
    groups = {str(name): tuple(map(str, members)) for name, members in task_vars.get("groups", {}).items()}
    sources = _sources(task_vars)
    folders = _folders(sources)
    variable_files = tuple(_variable_files(folders))
    # What a program prints is not written in it.
    files = [path for source in sources for path in given_inventory.files(source) if not os.access(path, os.X_OK)]
    read = {path: yaml_file.of_file(path) for path in (*files, *_below(file.path for file in variable_files))}
    values = _Values(task_vars, hosts)
    return WrittenInventory(
        hosts,
        groups,
        _places(files, read, {*groups, *groups.get("all", ())}),
        variable_files,
        tuple(
            RepeatedKey(key.text, key.first_line, f"{path}:{key.line}")
            for path, found in read.items()
            for key in found.keys
            if key.first_line is not None
        ),
        tuple(values.secrets),
        tuple(values.unknown),
        tuple(values.errors),
        tuple(_like_folders(folders)),
        tuple(number for found in read.values() for number in found.numbers),
        tuple(key for path in files for key in read[path].group_keys),
    )


def owned_files(task_vars: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str]]:
    """Yield the group or host and the path of each file of variables, and "" with each file of hosts and groups."""
    sources = _sources(task_vars)
    for source in sources:
        for path in given_inventory.files(source):
            if not os.access(path, os.X_OK):
                yield "", path
    for file in _variable_files(_folders(sources)):
        for path in _below([file.path]):
            yield file.owner, path


def _sources(task_vars: t.Mapping[str, t.Any]) -> list[str]:
    """Return the paths of the inventory's sources that exist."""
    inventory = getattr(task_vars.get("hostvars"), "_inventory", None)
    named = task_vars.get("ansible_inventory_sources") or getattr(inventory, "_sources", None) or ()
    return [str(source) for source in named if os.path.exists(str(source))]


def _folders(sources: t.Sequence[str]) -> list[str]:
    """Return the folders in which group_vars and host_vars of the sources are, each once."""
    return list(dict.fromkeys(path if os.path.isdir(path) else os.path.dirname(path) or "." for path in sources))


def _listed(folder: str) -> list[str]:
    """Return the sorted names in `folder` that do not begin with a dot or end with ~; [] if it cannot be read."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith(".") and not name.endswith("~"))
    except OSError:
        return []


def _variable_files(folders: t.Sequence[str]) -> t.Iterator[VariableFile]:
    for base in folders:
        for folder in _VARIABLE_FOLDERS:
            for name in _listed(os.path.join(base, folder)):
                path = os.path.join(base, folder, name)
                owner, ending = os.path.splitext(name)
                if os.path.isdir(path):
                    yield VariableFile(folder, name, path)
                elif ending in ENDINGS:
                    yield VariableFile(folder, owner, path)
                elif "." in name:  # a name with a dot and without an ending, as a host's, or with an ending
                    yield VariableFile(folder, name, path, ending)


def _like_folders(folders: t.Sequence[str]) -> t.Iterator[LikeFolder]:
    """Yield the folders whose names are nearly that of a folder of variables, such as group_var and Host_vars."""
    for base in folders:
        for name in _listed(base):
            near = difflib.get_close_matches(name.lower().replace("-", "_"), _VARIABLE_FOLDERS, n=1, cutoff=0.85)
            path = os.path.join(base, name)
            if near and name not in _VARIABLE_FOLDERS and os.path.isdir(path):
                yield LikeFolder(name, near[0], path)


def _below(paths: t.Iterable[str]) -> t.Iterator[str]:
    """Yield the files among `paths` and in their folders, at any depth, that Ansible reads as variables."""
    for path in paths:
        if os.path.isdir(path):
            yield from _below(os.path.join(path, name) for name in _listed(path))
        elif os.path.splitext(path)[1] in ENDINGS:
            yield path


def _places(
    files: t.Sequence[str], read: t.Mapping[str, yaml_file.YamlFile], names: t.Collection[str]
) -> dict[str, str]:
    """Return the first "file:line" of each of `names` in the inventory's files, which are YAML or INI."""
    found: dict[str, str] = {}
    for path in files:
        written = [(key.text, key.line) for key in read[path].keys] or _sections(path)
        for name, line in written:
            if name in names:
                found.setdefault(name, f"{path}:{line}")
    return found


def _sections(path: str) -> list[tuple[str, int]]:
    """Return the sections and the first words of lines of an INI file, each with its line from 1; [] if unreadable."""
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, ValueError):
        return []
    found = []
    for number, line in enumerate(lines, 1):
        section = _SECTION.match(line)
        words = line.split()
        if section or words:
            found.append((section.group(1) if section else words[0], number))
    return found


class _Values:
    """The errors in variables that are not the fleet's, and passwords in clear text; a group's are examined once."""

    def __init__(self, task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[Host]) -> None:
        self.secrets: list[ClearSecret] = []
        self.unknown: list[UnknownVariable] = []
        self.errors: list[FleetError] = []
        self._hostvars = task_vars["hostvars"]
        self._seen: set[tuple[str, str]] = set()
        variables_of = controller_variables.raw(self._hostvars)
        for host in hosts:
            raw = variables_of(host.name)
            for key in raw:
                name = str(key)
                if name in _SECRETS:
                    self._add_secrets(raw, name, raw[key], host.name if name in _PASSWORDS else "")
                elif name.startswith("calico_") and not controller_variables.is_of_fleet(name):
                    self._add_value(host.name, name, value_origin(key), raw[key])

    def _add_value(self, host: str, name: str, origin: str, value: t.Any) -> None:
        if not origin or (name, origin) in self._seen:
            return  # A value without a place is no variable of the inventory, but registered or set by a play.
        self._seen.add((name, origin))
        if name not in role_variables.options():
            if name not in variables.RENAMED:
                self.unknown.append(UnknownVariable(name, role_variables.meant(name), origin))
            return
        error = role_variables.of_value(name, host, self._hostvars[host], origin)
        if error is not None:
            self.errors.append(error)

    def _add_secrets(self, raw: t.Mapping[str, t.Any], path: str, value: t.Any, host: str) -> None:
        """Add the texts in `value` that are in clear text. `path` names the value, `host` its owner or is ""."""
        if isinstance(value, t.Mapping):
            for key in value:
                self._add_secrets(raw, f"{path}.{key}", value[key], host)
        elif isinstance(value, str):
            reference = _REFERENCE.fullmatch(value.strip())
            if reference and reference.group(1) in raw:
                inner = raw[reference.group(1)]
                if inner is not value:
                    self._add_secrets(raw, reference.group(1), inner, "")
            elif "{{" not in value and value:
                self._add_secret(f"{path} of {host}" if host else path, value_origin(value))

    def _add_secret(self, variable: str, origin: str) -> None:
        file = origin.rpartition(":")[0]
        if not file or ("", origin) in self._seen:
            return
        self._seen.add(("", origin))
        if not yaml_file.is_encrypted(file):
            self.secrets.append(ClearSecret(variable, origin))
