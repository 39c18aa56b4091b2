# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the files of an inventory: files of nobody, keys that are there twice, and passwords in clear text."""

from __future__ import annotations

import difflib
import typing as t

from ..finding import Issue
from .written_inventory import VariableFile, WrittenInventory

_GROUPS = "group_vars"
_ALWAYS = {_GROUPS: frozenset({"all", "ungrouped"}), "host_vars": frozenset({"localhost"})}


def of_nobody(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a file in group_vars or host_vars for a group or host that the inventory does not have.

    A folder there counts as a file.
    """
    hosts = frozenset(written.groups.get("all", ()))
    for file in written.variable_files:
        groups = file.folder == _GROUPS
        owners = frozenset(written.groups) if groups else hosts
        if file.owner not in owners and file.owner not in _ALWAYS[file.folder]:
            yield Issue(
                f"{file.folder}/{file.owner}",
                None,
                f"is for a {'group' if groups else 'host'} that the inventory does not have: nothing reads it.",
                _remedy(file, owners, hosts if groups else frozenset(written.groups)),
                file.path,
            )


def _remedy(file: VariableFile, owners: t.Collection[str], others: t.Collection[str]) -> str:
    plain = {_plain(name): name for name in sorted(owners)}
    near = difflib.get_close_matches(_plain(file.owner), plain, n=1, cutoff=0.75)
    if file.owner in others:
        other, kind = ("host_vars", "host") if file.folder == _GROUPS else (_GROUPS, "group")
        return f"{file.owner} is a {kind}: move it to {other}."
    if near:
        return f"Did you mean {plain[near[0]]}? Rename the file, or remove it."
    return "Rename the file to what it is for, or remove it."


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def key_twice(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a key that a mapping of a YAML file has twice: Ansible uses only the last one."""
    for repeated in written.repeated_keys:
        yield Issue(
            f"key {repeated.key}",
            None,
            f"is also on line {repeated.first_line}, in the same mapping: only the last one is used.",
            "Remove one of them, or write both contents under one.",
            repeated.origin,
        )


def clear_secret(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a password that a file of the inventory has in clear text.

    These are the values of calico_bgp_secrets, and the passwords with which Ansible connects and becomes root.
    """
    for secret in written.clear_secrets:
        yield Issue(
            secret.variable,
            None,
            "is a password in clear text, for everybody who can read this file and its history.",
            "Encrypt it: ansible-vault encrypt_string, or ansible-vault encrypt for the whole file; then change it.",
            secret.origin,
        )
