# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input of the rules about an inventory as it is written."""

from __future__ import annotations

import dataclasses
import typing as t

from ....state.errors import FleetError
from ...host import Host


class VariableFile(t.NamedTuple):
    """A file or folder of group_vars or host_vars (`folder`), and the group or host that it is for (`owner`)."""

    folder: str
    owner: str
    path: str


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
    errors in variables of roles.
    """

    hosts: t.Sequence[Host] = ()
    groups: t.Mapping[str, t.Collection[str]] = dataclasses.field(default_factory=dict)
    places: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    variable_files: tuple[VariableFile, ...] = ()
    repeated_keys: tuple[RepeatedKey, ...] = ()
    clear_secrets: tuple[ClearSecret, ...] = ()
    unknown: tuple[UnknownVariable, ...] = ()
    role_errors: tuple[FleetError, ...] = ()
