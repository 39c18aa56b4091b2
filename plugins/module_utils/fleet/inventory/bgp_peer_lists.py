# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lists of BGPPeers in an inventory: of the fleet, of groups and of nodes. They add up; none overrides another.

Many hosts may have the same list through group_vars, and so the same entry. It counts once, for all of them. A list
with templates (sourceAddress: "{{ second_address }}") may differ between hosts. Then each different entry counts.
"""

from __future__ import annotations

import re
import typing as t

from ...state.errors import FleetError, did_you_mean
from .. import variables
from ..host import Host
from . import flat_resource

FLEET, NODE = "calico_bgp_peers", "calico_node_bgp_peers"


class PeerEntry(t.NamedTuple):
    """One entry of a list of BGPPeers; `label` is for errors, `members` are its nodes, None for the fleet's list."""

    content: t.Any
    label: str
    members: t.Optional[frozenset[str]] = None


def entries(get: t.Callable[[str], t.Any], hosts: t.Sequence[Host]) -> t.Iterator[PeerEntry]:
    """Yield the entries of the fleet's list, then of the groups' lists, then of the nodes' lists.

    An entry that several hosts have at the same place of the same variable is yielded once, with all of them. Raise
    FleetError if a variable is not a list or names an unknown group; calico_node_bgp_peers may be null. Raise TypeError
    for a key that JSON cannot have, such as a date.
    """
    for index, content in enumerate(get(FLEET)):
        yield PeerEntry(content, f"{FLEET}[{index}]")
    hosts = sorted(hosts, key=lambda host: host.name)
    members: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], tuple[t.Any, str]] = {}
    groups = {_in_a_name(name) for host in hosts for name in host.groups}
    for host in hosts:
        for variable, entry_list, label in _lists(host, groups):
            for index, content in enumerate(entry_list):
                key = (variable, flat_resource.text_of([index, content]))
                found.setdefault(key, (content, label.format(index=index)))
                members.setdefault(key, []).append(host.name)
    order = sorted(found, key=lambda key: key[0] == NODE)
    for key in order:
        content, label = found[key]
        yield PeerEntry(content, label, frozenset(members[key]))


def _lists(host: Host, groups: t.Collection[str]) -> t.Iterator[tuple[str, t.Sequence[t.Any], str]]:
    """Yield (variable, entries, label of an entry with {index} in it) for the lists of `host` and of its own groups."""
    own_groups = {_in_a_name(group) for group in host.groups}
    for variable in sorted(host.variables):
        if variable.startswith(variables.PEERS_OF_GROUP):
            group = variable[len(variables.PEERS_OF_GROUP) :]
            if group not in own_groups:
                _check_group(variable, group, groups)
                continue
            value = host.variables[variable]
            if not isinstance(value, (list, tuple)):
                raise FleetError(variable, value, "is not a list.", "Write BGPPeers there, as in calico_bgp_peers.")
            yield variable, value, variable + "[{index}]"
    value = host.variables.get(NODE)
    if value is not None:
        variables.check(NODE, value, host.name)
        yield NODE, value, f"{NODE}[{{index}}] of {host.name}"


def _check_group(variable: str, group: str, groups: t.Collection[str]) -> None:
    if group not in groups:
        remedy = did_you_mean(group, groups or {"all"}, f"Name it {variables.PEERS_OF_GROUP} and one of")
        raise FleetError(variable, None, f"is for the group {group}, which no node is in.", remedy)


def _in_a_name(group: str) -> str:
    return re.sub(r"[-.]", "_", group)
