# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sessions and routes that a run would interrupt in the whole fleet, and the limits on them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from ...bgp import session_changes
from ...bgp.bird_state import Bird
from ...bgp.session_changes import SessionChange
from ...state.node_state import NodeState
from ..change import transition
from . import lost_routers
from .lost_routers import Cut

_NAMED = 3  # the most items that a text names; of the others it gives the number
_HOSTS_NAMED = 10  # the most hosts that a text about lockouts names


#: What tells sessions apart: `ends` and `sockets` of a Reset.
_Session = tuple[tuple[str, str], tuple[tuple[str, int], ...]]


@dataclasses.dataclass(frozen=True)
class Reset:
    """A BGP session that ends or restarts, counted once for both of its ends.

    `ends` are the names of two nodes, or the name of a node and the address of a router outside the fleet. `external`
    says that it is the latter. Sessions with the same ends differ in `sockets`, the addresses and ports of both ends.
    """

    ends: tuple[str, str]
    external: bool
    text: str  # what happens to the session, and why it restarts: `ends`, `restarts: cluster id`
    sockets: tuple[tuple[str, int], ...] = ()  # of both ends, as Bird.sockets returns them

    def __str__(self) -> str:
        return f"{self.ends[0]} with {self.ends[1]} {self.text}"


class Lockout(t.NamedTuple):
    """A node whose new policy denies SSH sessions: one of them, and what denies it."""

    node: str
    session: str
    by: str

    @property
    def rule(self) -> str:
        """What denies the session, without the place: `hosts#1` of `hosts#1 (ingress, HostEndpoint node1-all)`."""
        return self.by.rpartition(" (")[0] or self.by


@dataclasses.dataclass(frozen=True)
class Impact:
    """The interruptions that a run would cause in the fleet.

    `withdrawn` has the CIDRs of blocks that nodes may advertise or have routes to, and that the fleet will no longer
    advertise. `hosts` are the hosts whose state changes, () if that was not computed (see `changing`).
    With `hold` the change has phases in which backup routes carry the traffic that nodes of the fleet send. Traffic
    from routers outside the fleet depends on their sessions alone. With `divert` packets take backup routes into
    tunnels before sessions change. `moved` are the nodes that get another address, as in `witnesses.FleetChange`. `cut`
    are the paths between subnets for which no router will have a route. `lockouts` are the nodes to which SSH would be
    denied by a policy that is new, sorted by name.
    """

    resets: tuple[Reset, ...] = ()
    withdrawn: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    hold: bool = False
    divert: bool = False
    moved: tuple[str, ...] = ()
    cut: tuple[Cut, ...] = ()
    lockouts: tuple[Lockout, ...] = ()

    def without(self, other: Impact) -> Impact:
        """Return this impact without the entries of `resets`, `withdrawn`, `cut` and `lockouts` that `other` has."""
        resets, withdrawn, cut = frozenset(other.resets), frozenset(other.withdrawn), frozenset(other.cut)
        return dataclasses.replace(
            self,
            resets=tuple(reset for reset in self.resets if reset not in resets),
            withdrawn=tuple(cidr for cidr in self.withdrawn if cidr not in withdrawn),
            cut=tuple(one for one in self.cut if one not in cut),
            lockouts=tuple(one for one in self.lockouts if one not in other.lockouts),
        )

    @property
    def entries(self) -> int:
        """The number of interrupted sessions, withdrawn routes, nodes whose paths are cut, and nodes locked out."""
        return len(self.resets) + len(self.withdrawn) + len(self.cut) + len(self.lockouts)

    @property
    def bare(self) -> tuple[Reset, ...]:
        """The sessions in `resets` with routers outside the fleet, which backup routes cannot replace."""
        return tuple(reset for reset in self.resets if reset.external)

    def digest(self, plan: str) -> str:
        """Return a hash (12 hex digits) of `plan`, the plan's name, and of interruptions and hosts.

        `plan` stands for the addresses as well.
        """
        content = [plan, [(str(reset), reset.sockets) for reset in self.resets], self.withdrawn, self.hosts]
        if self.cut:
            content.append([(one.pool, str(one)) for one in self.cut])
        if self.lockouts:  # Sessions come and go, and an approval stays valid.
            content.append([(one.node, one.rule) for one in self.lockouts])
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]

    @property
    def cut_paths(self) -> int:
        """The number of paths in `cut`, each from one node to another in one pool."""
        return sum(one.paths for one in self.cut)

    @property
    def cut_where(self) -> str:
        """The pools of `cut` and some of its paths: `between subnets in pool direct (to node1 from node3)`."""
        pools = sorted({one.pool for one in self.cut})
        return f"between subnets in pool{'s'[: len(pools) > 1]} {_some(pools)} ({_some(self.cut)})"

    @property
    def first(self) -> str:
        """The node of `lockouts` to change first, alone; "" if there are none."""
        return self.lockouts[0].node if self.lockouts else ""

    @property
    def locked_out(self) -> str:
        """The nodes of `lockouts` and what denies them: `node1: hosts#1 (ingress, ...) denies ssh from ... port 22`.

        Of several nodes it has their number, the names of ten, and an example of each of three rules.
        """
        nodes = [one.node for one in self.lockouts]
        where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} hosts ({_some(nodes, _HOSTS_NAMED)})"
        examples: dict[str, str] = {}
        for one in self.lockouts:
            examples.setdefault(one.rule, f"{one.by} denies {one.session}")
        return f"{where}: {_some([*examples.values()])}"

    @property
    def lines(self) -> list[str]:
        """Up to six lines: new addresses, sessions, those with routers outside, routes, cut paths, and lockouts."""
        found = [f"addresses {_some(self.moved)}"] if self.moved else []
        if self.resets:
            reasons: dict[str, int] = {}
            for reset in self.resets:
                reasons[reset.text] = reasons.get(reset.text, 0) + 1
            most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
            texts = [f"{count} {text}" for text, count in most[:_NAMED]]
            if len(most) > _NAMED:
                texts.append(f"{sum(count for dummy, count in most[_NAMED:])} for other reasons")
            held = "backup routes hold the traffic between nodes" if self.hold else "nothing depends on them"
            found.append(f"sessions  {', '.join(texts)} · {held}")
        if self.bare:
            found.append(f"sessions  {len(self.bare)} of these with routers outside: {_some(self.bare)}")
        if self.withdrawn:
            found.append(f"routes    {len(self.withdrawn)} withdrawn: {_some(self.withdrawn)}")
        if self.cut:
            found.append(f"paths     {self.cut_paths} cut {self.cut_where} · no router learns these nodes' blocks")
        if self.lockouts:
            found.append(f"lockout   SSH to {self.locked_out}")
        return found


@dataclasses.dataclass(frozen=True)
class ImpactLimits:
    """The largest impact that a run may have without confirmation. A negative number means no limit.

    Cut paths and lockouts have no limit of their own: they always need confirmation.

    `session_resets` limits all sessions, `external_resets` those with routers outside the fleet. `hosts_changed`
    limits the hosts whose state changes, `routes_withdrawn` the blocks that are withdrawn.
    """

    session_resets: int = -1
    external_resets: int = -1
    hosts_changed: int = -1
    routes_withdrawn: int = -1

    def excess(self, impact: Impact) -> int:
        """Return by how much `impact` exceeds the limits, in all; 0 if it does not. Hosts do not count."""
        counts = (
            (impact.resets, self.session_resets),
            (impact.bare, self.external_resets),
            (impact.withdrawn, self.routes_withdrawn),
            (impact.cut, 0),
            (impact.lockouts, 0),
        )
        return sum(max(0, len(items) - limit) for items, limit in counts if limit >= 0)

    def exceeded(self, impact: Impact) -> list[str]:
        """Return a clause for each limit that `impact` exceeds, with the role variable that sets it; [] if none."""
        kinds: list[tuple[str, str, str, tuple[t.Any, ...], int]] = [
            ("reset", "session", "max_session_resets", impact.resets, self.session_resets),
            ("reset", "session", "max_external_resets", impact.bare, self.external_resets),
            ("change", "host", "max_hosts_changed", impact.hosts, self.hosts_changed),
            ("withdraw", "route", "max_routes_withdrawn", impact.withdrawn, self.routes_withdrawn),
        ]
        found = []
        for verb, noun, variable, items, limit in kinds:
            if 0 <= limit < len(items):
                plural = "" if len(items) == 1 else "s"
                outside = {
                    "max_external_resets": " with routers outside the fleet",
                    "max_hosts_changed": " (policy changes excluded)",
                }.get(variable, "")
                found.append(
                    f"it would {verb} {len(items)} {noun}{plural}{outside} and calico_node_{variable} is {limit} "
                    f"({_some(items)})"
                )
        if impact.cut:
            paths = "path" if impact.cut_paths == 1 else "paths"
            found.append(
                f"it would cut {impact.cut_paths} {paths} {impact.cut_where}, because no router outside the fleet "
                "learns the blocks of these nodes any more"
            )
        if impact.lockouts:
            found.append(f"it would deny new SSH connections to {impact.locked_out}")
        return found


def of_run(
    before: t.Mapping[str, t.Optional[NodeState]],
    after: t.Mapping[str, t.Optional[Bird]],
    announced: t.Collection[str],
    staying: t.Container[str],
    passwords: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
    alone: t.Container[str] = (),
    pools: t.Optional[t.Mapping[str, str]] = None,
) -> Impact:
    """Return the impact of a run on sessions and routes, with an empty `hosts`.

    `before` has the stored states and `after` the new data for BIRD of the nodes in this run, by node name. None stands
    for a node without a state or without BGP. Of a node that only `before` has, the routes count and the sessions do
    not; a node that only `after` has is ignored. Both ends of a session between nodes have the same `sockets` and count
    as one. An end whose counterpart is missing counts, too. `divert` in the result is True only if `hold` is.
    `announced` has the CIDRs of the blocks that the fleet will advertise, `staying` the names of all nodes that remain.
    `passwords` maps node names to the names of the passwords whose values change; None means no change. The nodes in
    `alone` end an earlier change by themselves: their backup routes are no reason for phases. `pools` are as for
    `lost_routers.cuts`.
    """
    resets: dict[_Session, Reset] = {}
    hold = divert = False
    for node, state in before.items():
        if state is None or node not in after:
            continue
        target, changing = after[node], (passwords or {}).get(node, ())
        ends_alone = node in alone
        hold = hold or transition.endangered(state, target, staying, changing, with_backups=not ends_alone)
        divert = divert or transition.diverts(state, target)
        for key, reset in _resets(node, state, target, changing):
            resets.setdefault(key, reset)
    known = {block for state in before.values() for block in announced_by(state)}
    return Impact(
        resets=tuple(sorted(resets.values(), key=lambda reset: (reset.ends, reset.sockets))),
        withdrawn=tuple(sorted(known.difference(announced))),
        hold=hold,
        divert=hold and divert,
        cut=lost_routers.cuts(before, after, pools or {}),
    )


def lockouts(denied: t.Mapping[str, t.Sequence[tuple[str, str]]]) -> tuple[Lockout, ...]:
    """Return the lockouts of an impact from the (session, rule) pairs that nodes say they would deny, by node."""
    return tuple(Lockout(node, *found[0]) for node, found in sorted(denied.items()) if found)


def with_lockouts(alone: t.Mapping[str, Impact], found: t.Iterable[Lockout]) -> dict[str, Impact]:
    """Return the parts in `alone`, the result of `reported_alone`, each with the lockout that its node tells of."""
    more = {one.node: one for one in found}
    return {
        node: dataclasses.replace(alone.get(node, Impact()), lockouts=(more[node],) if node in more else ())
        for node in sorted({*alone, *more})
    }


def reported_alone(
    found: Impact,
    before: t.Mapping[str, t.Optional[NodeState]],
    after: t.Mapping[str, t.Optional[Bird]],
    passwords: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
) -> dict[str, Impact]:
    """Return the part of the impact `found` that the state of only one node tells of, by node.

    A state tells of the node's own sessions, of the paths to it that are cut, and of the blocks of `announced_by`.
    Nodes that alone tell of nothing, or that `after` lacks, are missing. The arguments are those from which `of_run`
    made `found`.
    """
    withdrawn = frozenset(found.withdrawn)
    tellers: dict[t.Any, list[str]] = {}
    resets: dict[t.Any, Reset] = {}
    for node, state in before.items():
        if state is None or node not in after:
            continue
        entries: set[t.Any] = set(withdrawn.intersection(announced_by(state))) if withdrawn else set()
        for key, reset in _resets(node, state, after[node], (passwords or {}).get(node, ())):
            entries.add(key)
            resets[key] = reset
        for entry in entries:
            tellers.setdefault(entry, []).append(node)
    alone: dict[str, tuple[list[Reset], list[str]]] = {one.node: ([], []) for one in found.cut}
    for entry, nodes in tellers.items():
        if len(nodes) == 1:
            own_resets, own_withdrawn = alone.setdefault(nodes[0], ([], []))
            if entry in resets:
                own_resets.append(resets[entry])
            else:
                own_withdrawn.append(entry)
    cut: dict[str, list[Cut]] = {}
    for one in found.cut:
        cut.setdefault(one.node, []).append(one)
    return {
        node: Impact(tuple(some), tuple(others), cut=tuple(cut.get(node, ()))) for node, (some, others) in alone.items()
    }


def _resets(
    node: str, state: NodeState, target: t.Optional[Bird], passwords: t.Collection[str]
) -> t.Iterator[tuple[_Session, Reset]]:
    """Yield (key, session) for each session interrupted if the node's BIRD becomes `target`. Both ends share a key."""
    if state.bird is None:
        return
    changes = session_changes.resets(state.bird, target, passwords)
    peers = {peer.name: peer for peer in state.bird.peers} if changes else {}
    for change in changes:
        reset = _reset(node, change, state.bird.sockets(peers[change.name]))
        yield (reset.ends, reset.sockets), reset


def changing(before: t.Mapping[str, t.Optional[NodeState]], after: t.Mapping[str, NodeState]) -> tuple[str, ...]:
    """Return the names of the nodes in both mappings whose state changes, in the order of `before`, for `Impact.hosts`.

    A node without a state counts as changed. Not compared are the policy, the plan's name and generation, the list of
    nodes and the routes that BIRD learns. This is the most expensive part of an impact, so `of_run` leaves it out.
    """
    return tuple(node for node, state in before.items() if node in after and _changes(state, after[node]))


def _reset(node: str, change: SessionChange, sockets: tuple[tuple[str, int], ...]) -> Reset:
    if change.external:
        return Reset((node, change.address), True, change.text, sockets)
    one, other = sorted((node, change.node))
    return Reset((one, other), False, change.text, sockets)


def announced_by(state: t.Optional[NodeState]) -> t.Iterator[str]:
    """Yield the CIDRs of blocks that a node may advertise by BGP, and of those that it has routes to; none for None."""
    if state is None:
        return
    if state.bird is not None:
        yield from state.bird.blocks
        yield from (route.destination for route in state.bird_routes)
    else:
        yield from (route.destination for route in state.routes if route.gateway)


def _changes(before: t.Optional[NodeState], after: NodeState) -> bool:
    return before is None or before.phase != after.phase or _written(before) != _written(after)


def _written(state: NodeState) -> NodeState:
    """Return `state` with its plan, nodes, BIRD routes, policy and plan generation emptied, for a comparison."""
    ipam = dataclasses.replace(state.ipam, generation=0)
    return dataclasses.replace(state, plan="", nodes=(), bird_routes=(), policy=None, ipam=ipam)


def _some(items: t.Sequence[t.Any], most: int = _NAMED) -> str:
    shown = [str(item) for item in items[:most]]
    more = len(items) - most
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
