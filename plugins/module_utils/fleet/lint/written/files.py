# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the files of an inventory: files of nobody, keys that are there twice, and passwords in clear text."""

from __future__ import annotations

import difflib
import typing as t

from ..finding import Issue
from ..written_inventory import ENDINGS, GROUP_KEYS, LABEL, OCTAL, SIXTIES, VariableFile, WrittenInventory

_GROUPS = "group_vars"
#: Why YAML reads another number, and the remedy.
_ODD = {
    SIXTIES: ("a number with colons counts in sixties", "Write it in quotes, or as the number that is meant."),
    OCTAL: ("a number that begins with 0 is octal", "Write it without the 0, or in quotes if it is a text."),
    LABEL: ("selectors compare the label with this text", "Write the value in quotes."),
}
_ALWAYS = {_GROUPS: frozenset({"all", "ungrouped"}), "host_vars": frozenset({"localhost"})}


def of_nobody(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a file in group_vars or host_vars for a group or host that the inventory does not have.

    A folder there counts as a file. A folder with nearly the name group_vars or host_vars is reported, too.
    """
    for like in written.like_folders:
        yield Issue(
            like.name,
            f"is a folder that Ansible does not read. Did you mean {like.meant}?",
            "Rename the folder, or remove it.",
            like.path,
        )
    hosts = frozenset(written.groups.get("all", ()))
    for file in written.variable_files:
        groups = file.folder == _GROUPS
        owners = frozenset(written.groups) if groups else hosts
        known = {*owners, *_ALWAYS[file.folder]}
        if file.owner in known:
            continue
        of = _owner_of_unread(file)
        if of in known:
            yield Issue(
                f"{file.folder}/{file.owner}",
                f"has the ending {file.unread}, with which Ansible does not read it.",
                f"Rename the file to {of}.yml, or remove it.",
                file.path,
            )
        else:
            yield Issue(
                f"{file.folder}/{file.owner}",
                f"is for a {'group' if groups else 'host'} that the inventory does not have: nothing reads it.",
                _remedy(file, owners, hosts if groups else frozenset(written.groups)),
                file.path,
            )


def _owner_of_unread(file: VariableFile) -> str:
    """Return whom the file is for without its endings, "" if Ansible reads it: node1 for node1.yml.bak."""
    if not file.unread:
        return ""
    rest = file.owner[: -len(file.unread)]
    return next((rest[: -len(ending)] for ending in ENDINGS if ending and rest.endswith(ending)), rest)


def _remedy(file: VariableFile, owners: t.Collection[str], others: t.Collection[str]) -> str:
    plain = {_plain(name): name for name in sorted(owners)}
    bare, dummy, ending = file.owner.rpartition(".")
    plainly = _plain(bare if f".{ending}" in ENDINGS else file.owner)
    near = difflib.get_close_matches(plainly, plain, n=1, cutoff=0.75)
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
            f"is also on line {repeated.first_line}, in the same mapping: only the last one is used.",
            "Remove one of them, or write both contents under one.",
            repeated.origin,
        )


def odd_number(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a number that YAML reads as another one, such as 064512 (octal) and 20:30 (1230)."""
    for one in written.odd_numbers:
        why, remedy = _ODD[one.why]
        yield Issue(one.variable, f"is {one.value} to YAML: {why}.", remedy, value=one.text, origin=one.origin)


def group_key(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a key of a group in an inventory file that is none of hosts, vars and children: Ansible leaves it out."""
    for one in written.group_keys:
        near = difflib.get_close_matches(one.key, GROUP_KEYS, n=1, cutoff=0.7)
        remedy = f"Did you mean {near[0]}?" if near else "Move it below vars, hosts or children of the group."
        yield Issue(
            f"key {one.key} of group {one.group}",
            "is none of hosts, vars and children: Ansible leaves it out.",
            remedy,
            one.origin,
        )


def clear_secret(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a password that a file of the inventory has in clear text.

    These are the values of calico_bgp_secrets, calico_etcd_password and calico_etcd_node_secret, and the passwords with
    which Ansible connects and becomes root.
    """
    for secret in written.clear_secrets:
        yield Issue(
            secret.variable,
            "is a password in clear text, for everybody who can read this file and its history.",
            "Encrypt it: ansible-vault encrypt_string, or ansible-vault encrypt for the whole file; then change it.",
            secret.origin,
        )


def without_effect(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a document among calico_resource_files, or fields of it, that no variable here means.

    The collection has its own way of what they say, or none.
    """
    for one in written.without_effect:
        yield Issue(
            one.written.who,
            one.what,
            "Remove it if it is not needed; docs/how-to/resource-files.md says what takes its place.",
            one.place,
        )
