# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about groups: names that look like ours, and hosts in groups that exclude each other."""

from __future__ import annotations

import difflib
import re
import typing as t

from ..finding import Issue
from ..network import listed
from ..written_inventory import WrittenInventory

_NODES, _REFLECTORS = "calico_nodes", "calico_rr"
#: Names that are not nearly one of the two groups, but are probably meant as one.
_SYNONYMS = {
    "calico_hosts": _NODES,
    "calico_worker": _NODES,
    "calico_workers": _NODES,
    "calico_reflector": _REFLECTORS,
    "calico_reflectors": _REFLECTORS,
    "calico_route_reflector": _REFLECTORS,
    "calico_route_reflectors": _REFLECTORS,
    "calico_rr_hosts": _REFLECTORS,
    "calico_rr_nodes": _REFLECTORS,
}
#: The least similarity of a name to that of a group. The name calico, of a group around both, is less similar.
_SIMILAR = 0.85
#: Names of groups for places, such as rack_a, rack-12 and zone1, but not racks. A host is in one of them at most.
_PLACE = re.compile(r"(rack|row|room|zone|site)(?:[-_]?(?!s$)\w+)")


def look_alike(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a group whose name is nearly calico_nodes or calico_rr, with hosts that are not in that group."""
    for group, members in written.groups.items():
        meant = _meant(group)
        left_out = sorted(set(members) - set(written.groups.get(meant, ()))) if meant else []
        if left_out:
            them = "is not" if len(left_out) == 1 else "are not"
            yield Issue(
                f"group {group}",
                f"is no group of this collection, and {listed(left_out)} {them} in {meant}: a run leaves them out "
                f"there. Did you mean {meant}?",
                f"Rename the group to {meant}, or make it a child of {meant}.",
                written.places.get(group, ""),
            )


def _meant(group: str) -> str:
    """Return the group of this collection that `group` is nearly called, "" if it is one itself or none is similar."""
    name = group.lower().replace("-", "_")
    if group in (_NODES, _REFLECTORS):
        return ""
    near = difflib.get_close_matches(name, (_NODES, _REFLECTORS), n=1, cutoff=_SIMILAR)
    return _SYNONYMS.get(name) or (near[0] if near else "")


def in_two_places(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a host in two groups for places of one kind, such as rack_a and rack_b: it has the variables of both.

    Groups for places begin with rack, row, room, zone or site. A group whose name begins with the other one's is part
    of it, such as rack_a_top of rack_a.
    """
    found: dict[tuple[str, str], str] = {}  # (host, kind of place): the first such group with that host
    for group in sorted(written.groups):
        place = _PLACE.fullmatch(group)
        for host in written.groups[group] if place else ():
            other = found.setdefault((host, place.group(1)), group) if place else group
            if not group.startswith(other):
                yield Issue(
                    f"host {host}",
                    f"is in the groups {other} and {group}: where both set a variable, {group} decides.",
                    "Remove it from one of them.",
                    written.places.get(host, ""),
                )


def reflector_with_workloads(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a host in both calico_nodes and calico_rr, if other reflectors are in calico_rr only."""
    both = sorted(host.name for host in written.hosts if host.reflector and host.workload_node)
    alone = sorted(host.name for host in written.hosts if host.reflector and not host.workload_node)
    if both and alone:
        are = "is" if len(both) == 1 else "are"
        have = "has" if len(both) == 1 else "have"
        yield Issue(
            "group calico_rr",
            f"has {listed(both)}, which {are} in calico_nodes, too, and {have} blocks and workloads. "
            f"{listed(alone)} {'is' if len(alone) == 1 else 'are'} in calico_rr alone.",
            f"Remove {listed(both)} from one of the groups, or name this rule in calico_lint_ignore if it is meant.",
            written.places.get(both[0], ""),
        )
