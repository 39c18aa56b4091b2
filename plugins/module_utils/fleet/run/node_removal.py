# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet without one of its nodes, while the inventory still has that node."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...state.errors import FleetError, did_you_mean
from ..host import Host
from ..inventory import node_address
from ..inventory.flat_resource import values_of

#: Lists of the fleet whose entries may have the name of a node in their field `node`.
_NAMING = ("calico_workloads", "calico_bgp_peers", "calico_policies")


@dataclasses.dataclass(frozen=True)
class Removal:
    """The result of `of`.

    `others` are the hosts that stay. `places` are the files, some with a line, in which the inventory is known to have
    the node; none may be known.
    """

    others: tuple[Host, ...]
    places: tuple[str, ...]


def of(hosts: t.Sequence[Host], name: str) -> Removal:
    """Return what the removal of the node `name` leaves, and where the inventory has it, as far as known.

    Raise FleetError if the node is not in the fleet, or is the last host of group calico_nodes or of calico_rr. Also
    raise it if an entry of the fleet's lists of workloads, BGP peers or policies has the node in its field `node`.
    """
    leaving = next((host for host in hosts if host.name == name), None)
    if leaving is None:
        known = [host.name for host in hosts]
        hint = did_you_mean(name, known, "The hosts are") if known else ""
        raise FleetError(
            "node",
            name,
            "is no host of groups calico_nodes and calico_rr.",
            f"{hint} One that was deleted there already is forgotten by the others with the next playbooks/site.yml.",
        )
    others = tuple(host for host in hosts if host.name != name)
    if leaving.workload_node and not any(host.workload_node for host in others):
        raise FleetError(
            "node",
            name,
            "is the last one in calico_nodes.",
            "To take down the whole fleet, use playbooks/teardown.yml.",
        )
    if leaving.reflector and not any(host.reflector for host in others):
        raise FleetError(
            "node",
            name,
            "is the only route reflector: without it no node hears of another's blocks.",
            "First put another host into calico_rr, or return to the mesh, with playbooks/switch_topology.yml.",
        )
    _nothing_is_placed_on(hosts, name)
    return Removal(others, tuple(dict.fromkeys(_places(leaving))))


def _nothing_is_placed_on(hosts: t.Sequence[Host], name: str) -> None:
    """Raise FleetError if an entry of a list in _NAMING is placed on the node: its owner must say where it goes."""
    for variable in _NAMING:
        entries = next((host.variables[variable] for host in hosts if variable in host.variables), ())
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if name in values_of(entry, "spec", "node"):
                label = f"{variable}[{index}]"
                origin = next((host.origins[label] for host in hosts if label in host.origins), "")
                raise FleetError(
                    f"{label}.node", name, "is the node that is to go.", "Give it to another node or delete it.", origin
                )


def _places(leaving: Host) -> t.Iterator[str]:
    """Yield the known files of host_vars about the node, and the place of its address if elsewhere, maybe repeated."""
    own = re.compile(rf"(.*/host_vars/{re.escape(leaving.name)}(?:/.*|\.\w+)?)(?::\d+)")
    address = node_address.origin(leaving)
    if address and not own.fullmatch(address):
        yield address
    for origin in sorted(leaving.origins.values()):
        found = own.fullmatch(origin)
        if found:
            yield found.group(1)
