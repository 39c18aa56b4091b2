# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lists of BGPPeers in an inventory, of the fleet, its groups and its nodes: they add up, none overwrites another.

Many hosts may see the same list, by group_vars, and so the same entry: it counts once, for all of them. A list that has
templates in it may be another one on each host (sourceAddress: "{{ second_address }}"), and is then each host's own.
"""

from __future__ import annotations

import json
import re
import typing as t

from ...state.errors import FleetError, did_you_mean
from .. import variables
from ..host import Host

FLEET, NODE = "calico_bgp_peers", "calico_node_bgp_peers"


class Entry(t.NamedTuple):
    """One entry of a list. `members`: the nodes whose list it stands in, None for that of the fleet."""

    content: t.Any
    label: str
    members: t.Optional[frozenset[str]] = None


def entries(get: t.Callable[[str], t.Any], hosts: t.Sequence[Host]) -> t.Iterator[Entry]:
    """Those of the fleet first, then of the groups, then of the nodes. Raises FleetError."""
    for index, content in enumerate(get(FLEET)):
        yield Entry(content, f"{FLEET}[{index}]")
    hosts = sorted(hosts, key=lambda host: host.name)
    members: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], tuple[t.Any, str]] = {}
    groups = {_in_a_name(name) for host in hosts for name in host.groups}
    for host in hosts:
        for variable, entry_list, label in _lists(host, groups):
            for index, content in enumerate(entry_list):
                key = (variable, json.dumps([index, content], sort_keys=True, default=str))
                found.setdefault(key, (content, label.format(index=index)))
                members.setdefault(key, []).append(host.name)
    order = sorted(found, key=lambda key: key[0] == NODE)
    for key in order:
        content, label = found[key]
        yield Entry(content, label, frozenset(members[key]))


def _lists(host: Host, groups: t.Collection[str]) -> t.Iterator[tuple[str, t.Sequence[t.Any], str]]:
    """(variable, its entries, how one of them is named) of one host."""
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
