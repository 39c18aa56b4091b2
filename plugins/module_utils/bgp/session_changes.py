# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `birdc configure` does to BGP sessions, told from what BIRD does now and what it is to do.

BIRD keeps a session whose options did not change, and takes over some options while it runs. Any other one has it send
Cease and begin anew; both sides forget at once what they learned, graceful restart or not, and it takes a second or
more until it is there again. Which is which was measured with BIRD 2.0.12, 2.17.5 and 3.4.0, and here stands what any
of them restarts for (tests/integration/bird/sessions/test_session_changes.py asks them again).
"""

from __future__ import annotations

import dataclasses
import typing as t

from .bird_state import Bird, BirdPeer

#: Fields of a BirdPeer for which a session restarts, and how people call them.
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
#: Fields that a running session takes over, or that say nothing to BIRD. `kind` counts by what it means for the others.
QUIET = ("name", "kind", "node", "bfd", "next_hop", "reachable_by", "filters")


@dataclasses.dataclass(frozen=True)
class SessionChange:
    """`what` is restarts, ends or begins; `because` what differs in a session that restarts."""

    name: str  # BIRD protocol name
    what: str
    node: str = ""  # of the peer, "" for one outside the fleet
    address: str = ""
    kind: str = ""  # as BirdPeer has it: of a session that begins the new one, else the one that was
    because: tuple[str, ...] = ()

    @property
    def external(self) -> bool:
        return not self.node

    @property
    def text(self) -> str:
        """`restarts: cluster id`."""
        return f"{self.what}: {', '.join(self.because)}" if self.because else self.what


def changes(
    before: t.Optional[Bird], after: t.Optional[Bird], passwords: t.Collection[str] = ()
) -> tuple[SessionChange, ...]:
    """All sessions that do not simply stay, in the order of what there was, then new ones. None: no BIRD at all.
    `passwords` are the secrets that are to have another value under the same name."""
    old = {peer.name: peer for peer in before.peers} if before else {}
    new = {peer.name: peer for peer in after.peers} if after else {}
    found = []
    alike = before is not None and after is not None and _of_all_sessions(before) == _of_all_sessions(after)
    for name, peer in old.items():
        other = new.get(name)
        if alike and peer == other and peer.password not in passwords:
            continue  # most of them, in a fleet of thousands
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
    """Those of `changes` that interrupt something: the sessions that end or restart."""
    return tuple(change for change in changes(before, after, passwords) if change.what != "begins")


def endangers(change: SessionChange, staying: t.Container[str]) -> bool:
    """Whether routes that are needed may be missing for a while, or for good. `staying`: the nodes that will be there.

    A session with a node that leaves takes along that node's routes alone, unless it reflected those of others.
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
    return tuple(words)


def _of_all_sessions(bird: Bird) -> tuple[t.Any, ...]:
    """All that counts for a session and does not stand in its BirdPeer."""
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
    """The fields of RESTARTING, with what holds for all sessions in the place of None."""
    whole = bird.with_defaults(peer)
    values = {field: getattr(whole, field) for field in RESTARTING}
    # States of former versions name a client's cluster only once, for all; a peer of another AS is none.
    if peer.kind == "client" and peer.cluster_id is None and peer.as_number == whole.local_as:
        values["cluster_id"] = bird.cluster_id
    return values
