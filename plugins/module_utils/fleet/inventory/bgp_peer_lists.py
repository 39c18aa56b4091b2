# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lists of BGPPeers in an inventory: of the fleet, of groups and of nodes. They add up; none overrides another.

Many hosts may have the same list through group_vars, and so the same entry. It counts once, for all of them. A list
with templates (sourceAddress: "{{ second_address }}") may differ between hosts. Then each different entry counts.
"""

from __future__ import annotations

import itertools
import typing as t

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
    of_groups = variables.of_groups(hosts, variables.PEERS_OF_GROUP, "BGPPeers")
    of_nodes = ((host, NODE, variables.of_host(host, NODE) or ()) for host in hosts)
    for host, variable, listed in itertools.chain(of_groups, of_nodes):
        for index, content in enumerate(listed):
            key = (variable, flat_resource.text_of([index, content]))
            owner = f" of {host.name}" if variable == NODE else ""
            found.setdefault(key, (content, f"{variable}[{index}]{owner}"))
            members.setdefault(key, []).append(host.name)
    for key, (content, label) in found.items():
        yield PeerEntry(content, label, frozenset(members[key]))
