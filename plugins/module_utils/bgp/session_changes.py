# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The effect of `birdc configure` on BGP sessions, derived from BIRD's present and its next configuration.

BIRD changes some options while the session runs. For any other it sends Cease and starts the session again: both sides
forget at once what they learned, graceful restart or not, and it takes a second or more until the session is up.
RESTARTING has the options that restart a session in BIRD 2.0.12, 2.17.5 or 3.4.0
(tests/integration/bird/sessions/test_session_changes.py measures it). BIRD's router id and bind mode do so too.

Two nodes may exchange their addresses. Then BIRD keeps a session whose peer is another node from now on: PARTNER.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .bird_state import Bird, BirdPeer

#: {field of a BirdPeer whose change restarts the session: its name for people}.
RESTARTING: dict[str, str] = {
    "address": "address",
    "as_number": "AS number",
    "passive": "who listens",
    "multihop": "multihop",
    "family": "address family",
    "port": "port",
    "local_port": "own port",
    "local_as": "own AS number",
    "source_address": "source address",
    "cluster_id": "cluster id",
    "password": "password",
    "ttl_security": "TTL security",
    "hold_time": "hold time",
    "keepalive_time": "keepalive time",
    "connect_retry_time": "connect retry time",
    "graceful_restart_time": "graceful restart time",
    "long_lived_stale_time": "long-lived stale time",
    "allow_local_as": "allowed own AS numbers",
}
#: The reason for which the node restarts a session that BIRD keeps: another node has the peer's address now. BIRD would
#: notice that only after the hold time, as nobody answers by the connection with the earlier one.
PARTNER = "partner"
#: Fields of a BirdPeer that change without a restart of the session, or that BIRD does not see. `kind` causes a restart
#: only through other fields. Another `name` is another session: the old one ends and a new one begins.
QUIET = ("name", "kind", "bfd", "next_hop", "reachable_by", "filters")


@dataclasses.dataclass(frozen=True)
class SessionChange:
    """A change of one session. `what` is restarts, ends or begins; `because` names the changes that restart it."""

    name: str  # the session's name in BIRD
    what: str
    node: str = ""  # the name of the peer's node, "" for a peer outside of the fleet
    address: str = ""  # the peer's address
    kind: str = ""  # the `kind` of the BirdPeer: the new one if the session begins, else the old one
    because: tuple[str, ...] = ()

    @property
    def external(self) -> bool:
        return not self.node

    @property
    def text(self) -> str:
        """The change in words, as in `restarts: cluster id` or `ends`."""
        return f"{self.what}: {', '.join(self.because)}" if self.because else self.what


def changes(
    before: t.Optional[Bird], after: t.Optional[Bird], passwords: t.Collection[str] = ()
) -> tuple[SessionChange, ...]:
    """Return the sessions that restart, end or begin: first the old ones in their order, then the new ones in theirs.

    A session is recognized by its name. `before` or `after` is None if there is no BIRD. `passwords` are names
    (name:key) of secrets whose value changes under the same name.
    """
    old = {peer.name: peer for peer in before.peers} if before else {}
    new = {peer.name: peer for peer in after.peers} if after else {}
    found = []
    alike = before is not None and after is not None and _of_all_sessions(before) == _of_all_sessions(after)
    for name, peer in old.items():
        other = new.get(name)
        if alike and peer == other and peer.password not in passwords:
            continue  # an unchanged session, the usual case: the costlier comparison below is saved
        if other is None:
            found.append(_change(peer, "ends"))
        elif before is not None and after is not None:
            because = _differing(before, peer, after, other)
            if other.password in passwords and RESTARTING["password"] not in because:
                because += (RESTARTING["password"],)
            if because:
                found.append(_change(peer, "restarts", because))
    found += [_change(peer, "begins") for name, peer in new.items() if name not in old]
    return tuple(found)


def resets(
    before: t.Optional[Bird], after: t.Optional[Bird], passwords: t.Collection[str] = ()
) -> tuple[SessionChange, ...]:
    """Return the sessions that end or restart, in the order of `changes`, which has the same parameters."""
    return tuple(change for change in changes(before, after, passwords) if change.what != "begins")


def with_other_partners(
    before: t.Optional[Bird], after: t.Optional[Bird], passwords: t.Collection[str] = ()
) -> tuple[str, ...]:
    """Return the names in BIRD of the sessions that restart because of PARTNER alone, by parameters of `changes`."""
    return tuple(change.name for change in resets(before, after, passwords) if change.because == (PARTNER,))


def endangers(change: SessionChange, staying: t.Container[str]) -> bool:
    """Return whether routes that nodes still need may be missing because of the change.

    `staying` are the names of the nodes that remain. False if the session begins, or ends with a leaving node that did
    not reflect for this node.
    """
    if change.what == "begins":
        return False
    return change.what == "restarts" or change.external or change.kind == "reflector" or change.node in staying


def _change(peer: BirdPeer, what: str, because: tuple[str, ...] = ()) -> SessionChange:
    return SessionChange(peer.name, what, peer.node, peer.address, peer.kind, because)


def _differing(before: Bird, old: BirdPeer, after: Bird, new: BirdPeer) -> tuple[str, ...]:
    was, will = _resolved(before, old), _resolved(after, new)
    words = [word for field, word in RESTARTING.items() if was[field] != will[field]]
    if before.router_id != after.router_id:
        words.append("router id")
    if before.strict_bind != after.strict_bind:
        words.append("bind mode")
    if old.node != new.node and old.node and new.node:
        words.append(PARTNER)
    return tuple(words)


def _of_all_sessions(bird: Bird) -> tuple[t.Any, ...]:
    """Return all settings of a Bird that may restart a session without a change in its BirdPeer."""
    return (
        bird.router_id,
        bird.strict_bind,
        bird.listen_port,
        bird.as_number,
        bird.address,
        bird.address6,
        bird.graceful_restart_time,
        bird.hold_time,
        bird.keepalive_time,
        bird.long_lived_stale_time,
        bird.cluster_id,
    )


def _resolved(bird: Bird, peer: BirdPeer) -> dict[str, t.Any]:
    """Return the values of the fields of RESTARTING after `Bird.with_defaults`."""
    whole = bird.with_defaults(peer)
    values = {field: getattr(whole, field) for field in RESTARTING}
    # In a stored state of an earlier release only the Bird has the cluster id of a client in the same AS.
    if peer.kind == "client" and peer.cluster_id is None and peer.as_number == whole.local_as:
        values["cluster_id"] = bird.cluster_id
    return values
