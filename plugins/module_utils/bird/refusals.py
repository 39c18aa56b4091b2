# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explanations, for the operator, of why a BGP session is not Established.

BIRD reports a session's state and last error, the kernel the TCP segments that it dropped. A conclusion that is not
certain is worded as likely or possible. The words of errors are BIRD's (proto/bgp/bgp.c, packets.c), for sockets the C
library's. They are the same in 2.0.12, 2.17.5 and 3.4.0 (tests/integration/bird/sessions/test_refusals.py).
"""

from __future__ import annotations

import typing as t

from ..base.addresses import family_of
from ..bgp.bird_state import Bird, BirdPeer
from .dropped_segments import Dropped
from .status import Session


def unexplained(sessions: t.Iterable[Session]) -> bool:
    """Return whether any of `sessions` is down for a reason that only the kernel's counters may show.

    Such a session is not Established, Idle or disabled on this node, and BIRD has no error of it except a timeout.
    """
    return any(
        not session.established
        and session.state != "down"
        and session.bgp_state != "Idle"
        and session.error.rpartition(": ")[2] in ("", "Hold timer expired", "Connection timed out")
        for session in sessions
    )


def why(session: Session, bird: Bird, peer: BirdPeer, dropped: Dropped) -> str:
    """Return what is wrong with `session`, or its possible causes, and mostly what to do; "" if it is Established.

    `peer` is the session's entry in `bird`. `dropped` counts segments of a time in which the session was down.
    """
    if session.established:
        return ""
    if session.state == "down":
        if session.error == "Error: No listening socket":
            return _not_listening(session, bird.with_defaults(peer))
        return (
            f"it was switched off by hand on this node. `birdc -s /run/calico/bird.ctl enable {session.name}` there "
            "switches it on."
        )
    kind, dummy, error = session.error.rpartition(": ")
    case = _Case(session, bird, bird.with_defaults(peer), dropped)
    known = _BY_ERROR.get((kind, error))
    if known is not None:
        return known(case)
    if kind == "Received":
        return f"the peer ended it: {error}. Its own log says why."
    if error:
        return f"BIRD says {session.error!r}. See its log (journalctl -u calico-bird.service) and the peer's."
    return _silent(case)


def _not_listening(session: Session, peer: BirdPeer) -> str:
    """Return the explanation for a session that BIRD disabled for good at its start: it could not open its port.

    `peer` has the defaults for all sessions in place of None.
    """
    return (
        f"BIRD could not listen on TCP port {peer.local_port} of this node when it started: another program has it. "
        f"`ss -ltnp 'sport = :{peer.local_port}'` there names it. Stop it, then `systemctl restart calico-bird`."
    )


class _Case(t.NamedTuple):
    session: Session
    bird: Bird
    peer: BirdPeer  # the session's peer in `bird`, with the defaults for all sessions in place of None
    dropped: Dropped

    @property
    def where(self) -> str:
        """The peer's address and port in words, as in `10.0.0.1 port 179`."""
        return f"{self.peer.address} port {self.peer.port}"

    @property
    def own_address(self) -> str:
        return self.peer.source_address or "of this node"

    @property
    def address_variable(self) -> str:
        """The variable with the node's address of the session's IP version."""
        return f"calico_node_address{'_ipv6' if family_of(self.own_address) == 6 else ''}"

    @property
    def secret(self) -> str:
        """The name of the session's password in parentheses, after a space; "" without a password."""
        return f" ({self.peer.password})" if self.peer.password else ""

    @property
    def within(self) -> str:
        """Words for how soon BFD detects a failure, such as " within 900 ms"; "" for a session without BFD."""
        bfd = self.peer.bfd
        return f" within {bfd.min_rx * bfd.multiplier} ms" if bfd else ""


def _silent(case: _Case) -> str:
    """Return the explanation for a session without an error, by its BGP state, its settings and dropped segments."""
    state, peer = case.session.bgp_state, case.peer
    if state == "Idle":
        if not peer.multihop:
            return (
                f"no interface that is up has a subnet with {peer.address} in it. See that the link is up and the "
                "address right, or that the peer is not meant to be a neighbor of this node."
            )
        return "it begins anew within seconds. Look again; BIRD's log says why it ended."
    if state in ("OpenSent", "OpenConfirm"):
        return _ttl(case) or (
            "the connection stands, and the peer does not answer in it. Possible causes: it is overloaded; the way "
            f"drops larger packets (MTU){'' if peer.ttl_security is not None else '; TTL security there and not here'}."
        )
    evidence = _password(case) or _ttl(case)
    if evidence:
        return evidence
    causes = ["the peer, or its BGP, does not run", "it has no neighbor with the address of this node"]
    if state == "Passive":
        causes.append("it waits for this node to connect, too")
    causes.append("a firewall drops TCP between them")
    if peer.password:
        causes.append("the passwords differ")
    if peer.ttl_security is not None:
        causes.append("TTL security is not set on both sides")
    elif peer.kind == "external":
        causes.append("TTL security there and not here")
    waited = (
        f"the peer has not connected from {peer.address}"
        if state == "Passive"
        else f"nothing at all came back from {case.where}"
    )
    return f"{waited}. Possible causes: {'; '.join(causes)}."


def _password(case: _Case) -> str:
    """Return the explanation by segments dropped for their TCP MD5 signatures, "" if no such drops fit the peer.

    With a password here, wrong and missing signatures fit; without one, signed segments do. Drops name no peer.
    """
    name, dropped = case.peer.password, case.dropped
    if name and dropped.wrong:
        return (
            f"most likely the passwords differ: the kernel just dropped {_segments(dropped.wrong)} with a wrong TCP "
            f"MD5 signature. Set the same password at the peer as in calico_bgp_secrets ({name})."
        )
    if name and dropped.unsigned:
        return (
            f"most likely the peer has no password for it: the kernel just dropped {_segments(dropped.unsigned)} "
            f"without a TCP MD5 signature. Set that of calico_bgp_secrets ({name}) there, or none here."
        )
    if not name and dropped.signed:
        return (
            f"most likely the peer has a password for it, and none is set here: the kernel just dropped "
            f"{_segments(dropped.signed)} with a TCP MD5 signature. Set the password of this peer."
        )
    return ""


def _ttl(case: _Case) -> str:
    if case.peer.ttl_security is None or not case.dropped.ttl:
        return ""
    hops = case.peer.ttl_security
    return (
        f"most likely the peer has no TTL security, or is more than {hops} hop{'' if hops == 1 else 's'} away: the "
        f"kernel just dropped {_segments(case.dropped.ttl)} with too low a TTL. Set TTL security there, or not here."
    )


def _segments(count: int) -> str:
    return f"{count} TCP segment{'' if count == 1 else 's'}"


def _template(text: str) -> t.Callable[[_Case], str]:
    """Return a function that fills a _Case into the braces of `text`, such as `{case.within}`."""
    return lambda case: text.format(case=case)


def _by_drops(text: str) -> t.Callable[[_Case], str]:
    """Return a function that says which segments the kernel dropped, or, if it dropped none, fills in `text`."""
    return lambda case: _password(case) or _ttl(case) or text.format(case=case)


_ROUTER_ID = _template(
    "the router id of the peer is that of this node, {case.bird.router_id}, or none. Give one of them another router "
    "id."
)
_FAMILY = _template(
    "the peer does not carry IPv{case.peer.family} routes in it. Activate the address family ipv{case.peer.family} "
    "unicast for its neighbor {case.own_address}."
)
_HOLD_TIME = _template("a hold time of {case.peer.hold_time} s is not accepted. Choose another holdTime.")
_CLOSED = _template(
    "{case.where} takes connections and closes them at once. Possible causes: it has no neighbor {case.own_address}; "
    "that neighbor is shut down there; or its own source address is another one than {case.peer.address}."
)
_NO_NEIGHBOR = _template(
    "nobody answers for {case.peer.address} in its subnet, or a router or firewall says so. See that the host is up, "
    "in the subnet that it should be in, and reachable (`ping`)."
)
_LINK = _template(
    "the interface towards {case.peer.address} is down or lost its address. See `ip address` on this node, and the "
    "cable or switch port."
)

#: {(where the error came from, error), both in BIRD's words: function that returns an explanation}.
_BY_ERROR: dict[tuple[str, str], t.Callable[[_Case], str]] = {
    ("BGP Error", "Bad peer AS"): _template(
        "the peer is in another AS than {case.peer.as_number}. Correct asNumber of this peer in the inventory, or the "
        "peer's own AS number. BIRD's log (journalctl -u calico-bird.service) has what it said."
    ),
    ("Received", "Bad peer AS"): _template(
        "the peer refuses AS {case.peer.local_as} of this node: it has another one for its neighbor "
        "{case.own_address}. Correct it there, or calico_bgp_as_number (calico_node_bgp_as_number, localASNumber) here."
    ),
    ("BGP Error", "Bad BGP identifier"): _ROUTER_ID,
    ("Received", "Bad BGP identifier"): _ROUTER_ID,
    ("BGP Error", "Hold timer expired"): _by_drops(
        "nothing was heard of the peer for {case.peer.hold_time} s, the hold time, and it has not come back. See that "
        "it runs and can be reached; possible causes are also a firewall, and an MTU that the way cannot carry."
    ),
    ("Received", "Hold timer expired"): _by_drops(
        "the peer heard nothing of this node for its hold time. Possible causes: a way that drops packets towards it, "
        "larger ones above all (MTU), or TTL security there and not here."
    ),
    ("BGP Error", "Required capability missing"): _FAMILY,
    ("Received", "Required capability missing"): _FAMILY,
    ("Received", "Unsupported capability"): _FAMILY,
    ("BGP Error", "Unacceptable hold time"): _HOLD_TIME,
    ("Received", "Unacceptable hold time"): _HOLD_TIME,
    ("Received", "Authentication failure"): _template(
        "the peer refuses how this node proves itself. Set the same password on both sides{case.secret}."
    ),
    ("Received", "Administrative shutdown"): _template(
        "it was shut down at the peer by its operator. Enable the neighbor {case.own_address} there."
    ),
    ("Received", "Peer de-configured"): _template(
        "the peer took its neighbor {case.own_address} out of its configuration. Put it back there, or remove this "
        "peer from the inventory."
    ),
    ("Received", "Connection rejected"): _template(
        "the peer rejected the connection: it has no neighbor {case.own_address}, or does not want it now."
    ),
    ("Received", "Connection collision resolution"): _template(
        "both sides connected at once, and it begins anew within seconds. Look again."
    ),
    ("Received", "Maximum number of prefixes reached"): _template(
        "the peer takes no more routes: its limit of prefixes is reached. Raise it there, or announce fewer."
    ),
    ("Socket", "Connection refused"): _template(
        "nobody listens at {case.where}. See that BGP runs there, on this port, and that no firewall rejects it."
    ),
    ("Socket", "Connection reset by peer"): _CLOSED,
    ("Socket", "Connection closed"): _CLOSED,
    ("Socket", "No route to host"): _NO_NEIGHBOR,
    ("Socket", "Host is unreachable"): _NO_NEIGHBOR,
    ("Socket", "Network is unreachable"): _template(
        "this node has no route to {case.peer.address}. Add one, or set reachableBy of the peer."
    ),
    ("Socket", "Connection timed out"): _by_drops(
        "{case.where} does not answer. See that the host is up, and that no firewall drops TCP to this port."
    ),
    ("Socket", "Cannot assign requested address"): _template(
        "{case.own_address}, its source address, is no address of this node. Correct sourceAddress of the peer, or "
        "{case.address_variable}."
    ),
    ("Error", "Link down"): _LINK,
    ("Error", "Neighbor lost"): _LINK,
    ("Error", "BFD session down"): _template(
        "BFD heard nothing of the peer{case.within}: it, or the way to it, is down, or it has no BFD for this session. "
        "See that it runs BFD and that nothing drops UDP 3784 and 4784."
    ),
}
