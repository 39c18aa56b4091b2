# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that Ansible has read the inventory that a run was given, and that it has hosts of the fleet.

Ansible itself only warns of an inventory that does not exist or cannot be parsed, and continues with what is left.
"""

from __future__ import annotations

import os
import typing as t

from ansible.inventory.manager import IGNORED
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..lines.shown_path import shown_path
from . import yaml_files

#: Ansible reads this file if neither the command line nor its settings name an inventory.
_DEFAULT = "/etc/ansible/hosts"
#: The group of the members of the etcd cluster.
CLUSTER_GROUP = "calico_etcd"
_FIRST_GROUPS = 5  # the number of groups that an error names


def check_hosts(variables: t.Mapping[str, t.Any], groups: t.Sequence[str]) -> None:
    """Raise FleetError if a source of the inventory does not exist, or if none of its hosts is in one of `groups`."""
    sources = _sources(variables)
    for source in sources:
        if source == _DEFAULT and not os.path.exists(source):
            raise FleetError(
                "inventory",
                None,
                f"is not given, and Ansible's default {_DEFAULT} does not exist.",
                "Give it with -i, for example -i inventories/prod.",
            )
        _check_exists(source)
        _check_no_list(source)
    _check_groups(variables.get("groups") or {}, ", ".join(map(_shown, sources)) or None, groups, sources)


def check_variables(loader: t.Any, variables: t.Mapping[str, t.Any]) -> None:
    """Raise FleetError if a file of variables beside the inventory is not YAML, with its line. See yaml_files."""
    yaml_files.check_variables(loader, variables, _sources(variables))


def check_limit(variables: t.Mapping[str, t.Any], groups: t.Sequence[str]) -> None:
    """Raise FleetError if --limit leaves no host of `groups`. `variables` are those of the play."""
    limit = variables.get("ansible_limit")
    left = set(map(str, variables.get("ansible_play_hosts_all") or ()))
    if limit and not left & _members(variables.get("groups") or {}, groups):
        raise FleetError(
            "--limit",
            str(limit),
            f"leaves no host of group {_either(groups)}.",
            "Name hosts of the fleet, or leave it out for all of them.",
        )


def check_parsed(task_vars: t.Mapping[str, t.Any]) -> None:
    """Raise FleetError if a file of the inventory does not exist, or if no plugin of Ansible could parse it.

    Of a folder, these are the files that Ansible reads as inventory. Whether a file was parsed is known from the
    inventory behind `hostvars`; where `task_vars` does not have it, nothing is checked.
    """
    parsed = _parsed(task_vars.get("hostvars"))
    if parsed is None:
        return
    for source in _sources(task_vars):
        if source in parsed or (source == _DEFAULT and not os.path.exists(source)):
            continue
        _check_exists(source)
        for path in files(source):
            if path not in parsed:
                _check_yaml([path])
                raise FleetError(
                    "inventory",
                    _shown(path),
                    "was parsed by no plugin of Ansible, so its hosts and groups are missing.",
                    "Correct what Ansible's warnings say about it, or take it out of the inventory.",
                )


def _sources(variables: t.Mapping[str, t.Any]) -> list[str]:
    return [str(source) for source in variables.get("ansible_inventory_sources") or () if source]


def _shown(source: str) -> str:
    return source if "," in source else shown_path(source)


def _check_yaml(sources: t.Sequence[str]) -> None:
    """Raise FleetError if a file of these sources is not YAML although its name says so."""
    for source in sources:
        for path in files(source) if os.path.exists(source) else ():
            error = yaml_files.not_yaml(path) if path.endswith((".yml", ".yaml", ".json")) else None
            if error is not None:
                raise error


def _check_exists(source: str) -> None:
    """Raise FleetError if the source is a path, not a list of hosts such as `node1,`, and does not exist."""
    if "," not in source and not os.path.exists(source):
        raise FleetError(
            "inventory", _shown(source), "does not exist.", f"Write where it is, seen from {os.getcwd()}, after -i."
        )


def _check_no_list(source: str) -> None:
    """Raise FleetError if the source is a list of hosts to Ansible, but names a file."""
    parts = [part for part in source.split(",") if part]
    if "," in source and any(map(os.path.exists, parts)):
        raise FleetError(
            "inventory",
            source,
            "is a list of hosts to Ansible, because it has a comma.",
            f"Give each inventory with an -i of its own: {' '.join(f'-i {part}' for part in parts)}.",
        )


def _check_groups(
    members: t.Mapping[str, t.Collection[t.Any]],
    given: t.Optional[str],
    groups: t.Sequence[str],
    sources: t.Sequence[str],
) -> None:
    """Raise FleetError if no group of `groups` has a host. `members` are all groups, `given` is the inventory."""
    # A file that Ansible gives up half-way leaves hosts in groups, but none in all: no play has them.
    if not members.get("all"):
        _check_yaml(sources)
        raise FleetError(
            "inventory",
            given,
            "has no hosts: Ansible found none there.",
            f"Correct what Ansible's warnings above say about it, and put {_remedy(groups)}.",
        )
    if _members(members, groups):
        return
    others = sorted(str(name) for name, hosts in members.items() if hosts and name not in ("all", "ungrouped"))
    more = len(others) - _FIRST_GROUPS
    names = ", ".join(others[:_FIRST_GROUPS]) + (f" and {more} more" if more > 0 else "")
    has = f"its groups are {names}" if others else "its hosts are in no group"
    raise FleetError(
        "inventory",
        given,
        f"has no host in group {_either(groups)}: {has}.",
        f"Put {_remedy(groups)}, and correct what Ansible's warnings above say, if there are any.",
    )


def _members(members: t.Mapping[str, t.Collection[t.Any]], groups: t.Sequence[str]) -> set[str]:
    return {str(host) for group in groups for host in members.get(group) or ()}


def _remedy(groups: t.Sequence[str]) -> str:
    """Return which hosts belong into which group, for a play of `groups`."""
    if CLUSTER_GROUP in groups:
        return f"the members of the etcd cluster into group {CLUSTER_GROUP}"
    return "the hosts that route for workloads into group calico_nodes"


def _either(groups: t.Sequence[str]) -> str:
    return " or ".join(groups)


def _parsed(hostvars: t.Any) -> t.Optional[set[str]]:
    """Return the sources and files that a plugin of Ansible parsed; None if it is not known."""
    hostvars = getattr(hostvars, "_hostvars", hostvars)  # those within PlayVariables
    data = getattr(getattr(hostvars, "_inventory", None), "_inventory", None)
    known = getattr(data, "processed_sources", None)
    return None if known is None else {str(source) for source in known if source}


def files(source: str) -> t.Iterator[str]:
    """Yield the files that Ansible reads as inventory: `source` itself, or those in it if it is a folder."""
    if not os.path.isdir(source):
        yield source
        return
    for name in sorted(os.listdir(source)):
        if not IGNORED.search(name.encode()):
            yield from files(os.path.join(source, name))
