# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of the fleet's nodes in a NodeState, which can be read without the classes of all the rest."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.typed_json import by_name, flag, items, maybe, open_table, table, text, whole

#: The version of a NodeState as plain data.
VERSION = 1


@dataclasses.dataclass(frozen=True)
class FleetMember:
    """One node of the fleet, itself included: for people who ask a node for the list of nodes."""

    name: str
    address: str  # the node's IPv4 address with its prefix length; "" without IPv4
    as_number: int
    reflector: bool = False
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    address6: str = ""  # the node's IPv6 address with its prefix length; "" without IPv6
    probes: tuple[str, ...] = ()  # the addresses of its probe endpoint, one of each pool that it is tested in


class Addressed(t.Protocol):
    """A node with an IPv4 and an IPv6 address, with or without prefix length, "" for one that it does not have."""

    @property
    def address(self) -> str: ...

    @property
    def address6(self) -> str: ...


def bare(cidr: str) -> str:
    """Return an address without its prefix length, if it has one; "" for ""."""
    return cidr.partition("/")[0]


def has_moved(old: Addressed, new: Addressed) -> bool:
    """Return whether one of a node's addresses became another one; getting or losing one does not count."""
    pairs = ((old.address, new.address), (old.address6, new.address6))
    return any(before and after and bare(before) != bare(after) for before, after in pairs)


def probe_nodes(members: t.Iterable[FleetMember]) -> dict[str, str]:
    """Return a mapping from the address of each probe endpoint to its node."""
    return {address: member.name for member in members for address in member.probes}


@dataclasses.dataclass(frozen=True)
class FleetList:
    """The nodes of the fleet as the node `node` knows them.

    `tunnels` has that node's addresses by kind of tunnel. `as_number` and `cluster_id` are those of its BIRD, None if
    BGP is disabled; `cluster_id` is also None for a node that is not a route reflector.
    """

    node: str = ""
    members: tuple[FleetMember, ...] = ()
    tunnels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    as_number: t.Optional[int] = None
    cluster_id: t.Optional[str] = None


_MEMBER = table(
    {"name": text(), "address": text(), "as_number": whole()},
    {"reflector": flag, "labels": by_name(text()), "address6": text(), "probes": items(text())},
)
_STATE = open_table(
    {"version": whole(VERSION, VERSION), "node": text()},
    {
        "nodes": items(_MEMBER),
        "ipam": open_table({}, {"tunnels": by_name(text())}),
        "bird": maybe(open_table({"as_number": whole()}, {"cluster_id": maybe(text())})),
    },
)


def from_state(data: t.Any) -> FleetList:
    """Return the list of nodes in a NodeState that is plain data. Raise Unreadable for a part of another type."""
    state = _STATE(data)
    bird = state.get("bird") or {}
    members = tuple(FleetMember(**{**one, "probes": tuple(one.get("probes", ()))}) for one in state.get("nodes", ()))
    tunnels = state.get("ipam", {}).get("tunnels", {})
    return FleetList(state["node"], members, tunnels, bird.get("as_number"), bird.get("cluster_id"))
