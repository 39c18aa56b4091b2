# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BGPPeers of an inventory, read from its lists and checked against its nodes and pools.

There are lists of the fleet, of groups and of nodes. They add up; none overrides another. Many hosts may have the same
list through group_vars, and so the same entry. It counts once, for all of them. A list with templates (sourceAddress:
"{{ second_address }}") may differ between hosts. Then each different entry counts.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

from ...bgp import peer_extensions
from ...bgp.peer_definition import PeerDefinition
from ...bgp.speaker import Speaker
from ...resources import api as resources
from ...resources.durations import parse_duration
from ...resources.errors import Refused
from ...resources.fields import types_of
from ...state.errors import FleetError, did_you_mean, within
from .. import variables
from ..host import Host
from . import flat_resource
from .bgp_checks import bgp_secrets
from .bgp_checks.addresses import PeerAddresses, wrong

#: The name of a BGPPeer whose entry has none.
UNNAMED = "peer"
FLEET_LIST, NODE_LIST = "calico_bgp_peers", "calico_node_bgp_peers"


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
    for index, content in enumerate(get(FLEET_LIST)):
        yield PeerEntry(content, f"{FLEET_LIST}[{index}]")
    hosts = sorted(hosts, key=lambda host: host.name)
    members: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], tuple[t.Any, str]] = {}
    of_groups = variables.of_groups(hosts, variables.PEERS_OF_GROUP, "BGPPeers")
    of_nodes = ((host, NODE_LIST, variables.of_host(host, NODE_LIST) or ()) for host in hosts)
    for host, variable, listed in itertools.chain(of_groups, of_nodes):
        for index, content in enumerate(listed):
            key = (variable, flat_resource.text_of([index, content]))
            owner = f" of {host.name}" if variable == NODE_LIST else ""
            found.setdefault(key, (content, f"{variable}[{index}]{owner}"))
            members.setdefault(key, []).append(host.name)
    for key, (content, label) in found.items():
        yield PeerEntry(content, label, frozenset(members[key]))


class Times(t.NamedTuple):
    """The hold time and keepalive time of a session, in seconds."""

    hold: int
    keepalive: int

    def with_own(self, hold: t.Optional[int], keepalive: t.Optional[int]) -> Times:
        """Return the times of a session that has these values itself; None keeps the present one."""
        return Times(self.hold if hold is None else hold, self.keepalive if keepalive is None else keepalive)

    def check(self, label: str, value: t.Optional[int]) -> None:
        """Raise FleetError about field `label` with `value` if the hold time is below the keepalive time."""
        if self.keepalive > self.hold:
            raise FleetError(
                label,
                value,
                f"makes the hold time {self.hold} s with keepalives every {self.keepalive} s: BIRD refuses a hold time "
                "that is shorter.",
                "Set both, the hold time to three keepalive times or more.",
            )


class Peers:
    """A reader of BGPPeers, which parses equal entries of several hosts only once.

    `secrets` are the names of all existing secrets. `times` apply to sessions without times of their own.
    """

    def __init__(
        self,
        speakers: t.Mapping[str, Speaker],
        pools: t.Sequence[resources.IPPool],
        secrets: t.Collection[str],
        times: Times,
    ) -> None:
        self.speakers = speakers
        self.times = times
        self.secrets = secrets
        self.addresses = PeerAddresses(speakers.values(), pools)
        self._read: dict[str, tuple[resources.BGPPeer, peer_extensions.PeerExtensions]] = {}

    def read(self, entry: PeerEntry) -> PeerDefinition:
        """Return the checked BGPPeer of `entry`. Raise FleetError, or TypeError for a key that JSON cannot have."""
        peer, extensions = self._resource(entry)
        given = PeerDefinition(peer, extensions, entry.members, entry.label)
        self._check(given)
        password = bgp_secrets.referred(peer.password, self.secrets, within(entry.label, "password"))
        return dataclasses.replace(given, password=password)

    def _resource(self, entry: PeerEntry) -> tuple[resources.BGPPeer, peer_extensions.PeerExtensions]:
        label = entry.label
        content = flat_resource.mapping(resources.BGPPeer, entry.content, label)
        key = flat_resource.text_of(content)
        if key not in self._read:
            named = content if "metadata" in content or "spec" in content else {"name": UNNAMED, **content}
            try:
                theirs, extensions = peer_extensions.split(named)
            except Refused as refused:
                raise flat_resource.refused(refused.inside("spec") if "spec" in content else refused, label) from None
            _check_names(theirs, label)
            self._read[key] = (flat_resource.read(resources.BGPPeer, theirs, label), extensions)
        return self._read[key]

    def _check(self, given: PeerDefinition) -> None:
        peer, label = given.peer, given.where
        if peer.localWorkloadSelector:
            raise wrong(
                given,
                "localWorkloadSelector",
                "would have this node speak BGP with its own workloads, which is not done here.",
                "Remove it. Nodes advertise the addresses of their workloads, which come from the pools.",
            )
        if peer.node and peer.node not in self.speakers:
            raise wrong(given, "node", "is not a host of the fleet.", "Name one of the inventory's nodes.")
        if not peer.peerIP and not peer.peerSelector:
            raise FleetError(
                label,
                None,
                "names no peer.",
                "Write peerIP: 10.10.1.1 and asNumber: 65000 for a router, or peerSelector: has(reflector) for nodes.",
            )
        if peer.sourceAddress == "None" and given.extensions.bfd:
            raise wrong(
                given,
                "sourceAddress",
                "stands beside bfd. BFD has to know both addresses of a session.",
                "Leave it out, which means the node's own address, or write one there.",
            )
        _check_ranges(given)
        self.addresses.check(given)
        own = given.extensions
        if own.holdTime is not None or own.keepaliveTime is not None:
            field, value = ("keepaliveTime", own.keepaliveTime) if own.holdTime is None else ("holdTime", own.holdTime)
            self.times.with_own(own.holdTime, own.keepaliveTime).check(within(label, field), value)


def _check_ranges(given: PeerDefinition) -> None:
    """Raise FleetError for AS number 0, a maxRestartTime outside 0 to 4095 s or numAllowedLocalASNumbers below 0."""
    peer = given.peer
    for field in ("asNumber", "localASNumber"):
        if getattr(peer, field) == 0:
            raise wrong(
                given,
                field,
                "is reserved: no speaker may have it (RFC 7607).",
                "Write a number from 1 to 4294967295, or leave it out.",
            )
    least, most = peer_extensions.RESTART_TIME
    restart = (parse_duration(peer.maxRestartTime) if peer.maxRestartTime else None) or 0
    if restart < least:
        raise wrong(
            given,
            "maxRestartTime",
            f"is less than {least}.",
            f"Write how long the peer keeps the routes of a BIRD that restarts, from {least}s to {most}s, or leave it "
            "out.",
        )
    if restart > most:
        raise wrong(
            given,
            "maxRestartTime",
            "is longer than BGP can say (RFC 4724).",
            f"Choose {most}s or less; longLivedStaleTime keeps routes for longer.",
        )
    if peer.numAllowedLocalASNumbers is not None and peer.numAllowedLocalASNumbers < 0:
        raise wrong(
            given,
            "numAllowedLocalASNumbers",
            "is less than 0.",
            "Write how often the own AS number may stand in a path, for example 1, or leave it out.",
        )


def _check_names(content: t.Mapping[str, t.Any], label: str) -> None:
    """Raise FleetError, which suggests a similar name, if the spec in `content` has an unknown field."""
    spec = content.get("spec", content)
    if not isinstance(spec, t.Mapping):
        return
    outside = ("name", "labels", "annotations", "kind", "apiVersion", "metadata") if spec is content else ()
    known = {*types_of(resources.BGPPeer), *peer_extensions.NAMES}
    for name in spec:
        if name not in known and name not in outside:
            path = name if spec is content else f"spec.{name}"
            raise FleetError(
                within(label, str(path)), None, "is not a field of a BGPPeer.", did_you_mean(str(name), known, "It has")
            )
