# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input of the rules about an inventory as it is written."""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.errors import FleetError
from ..host import Host
from ..inventory.documents.without_effect import WithoutEffect

#: Why YAML makes another number of a text: colons count in sixties, a leading zero is octal, and the text of a label's
#: number is another one.
SIXTIES, OCTAL, LABEL = "sixties", "octal", "label"
#: The endings of files in group_vars and host_vars that Ansible reads.
ENDINGS = ("", ".yml", ".yaml", ".json")
#: The keys that Ansible reads of a group in an inventory file.
GROUP_KEYS = ("hosts", "vars", "children")


class VariableFile(t.NamedTuple):
    """A file or folder of group_vars or host_vars (`folder`), and the group or host that it is for (`owner`).

    `unread` is the ending for which Ansible does not read it, "" if it has another one.
    """

    folder: str
    owner: str
    path: str
    unread: str = ""


class LikeFolder(t.NamedTuple):
    """A folder beside the inventory whose name is nearly group_vars or host_vars (`meant`)."""

    name: str
    meant: str
    path: str


class OddNumber(t.NamedTuple):
    """A number in `variable`, written as `text` and read by YAML as `value`; `why` is SIXTIES, OCTAL or LABEL."""

    variable: str
    text: str
    value: t.Union[int, float]
    why: str
    origin: str


class UnknownGroupKey(t.NamedTuple):
    """A key of a group in an inventory file that Ansible leaves out."""

    group: str
    key: str
    origin: str


class RepeatedKey(t.NamedTuple):
    """A key that a mapping of a YAML file has twice. `origin` is the file and line of the second one."""

    key: str
    first_line: int
    origin: str


class ClearSecret(t.NamedTuple):
    """A password that a file of the inventory has in clear text. `variable` is its path, `origin` its file and line."""

    variable: str
    origin: str


class UnknownVariable(t.NamedTuple):
    """A variable calico_* that this collection does not have. `meant` is a known one with a similar name, or ""."""

    name: str
    meant: str
    origin: str


@dataclasses.dataclass(frozen=True)
class WrittenInventory:
    """An inventory as its files have it.

    `hosts` are those of calico_nodes and calico_rr. `groups` maps all groups of the inventory to the names of their
    hosts. `places` maps names of groups and hosts to their file and line, where these are known. `role_errors` are the
    errors in variables of roles. `without_effect` are documents of files, or fields of them, that mean nothing.
    """

    hosts: t.Sequence[Host] = ()
    groups: t.Mapping[str, t.Collection[str]] = dataclasses.field(default_factory=dict)
    places: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    variable_files: tuple[VariableFile, ...] = ()
    repeated_keys: tuple[RepeatedKey, ...] = ()
    clear_secrets: tuple[ClearSecret, ...] = ()
    unknown: tuple[UnknownVariable, ...] = ()
    role_errors: tuple[FleetError, ...] = ()
    like_folders: tuple[LikeFolder, ...] = ()
    odd_numbers: tuple[OddNumber, ...] = ()
    group_keys: tuple[UnknownGroupKey, ...] = ()
    without_effect: tuple[WithoutEffect, ...] = ()
