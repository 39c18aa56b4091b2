# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about times: how soon the failure of a peer is detected, and how long its routes are kept."""

from __future__ import annotations

import typing as t

from ...bgp.bird_state import Bfd
from ...resources.durations import parse_duration
from ...state.errors import within
from .finding import Issue
from .network import LintedFleet

#: The least hold time and keepalive time, in seconds, that are no finding. With shorter ones load alone may reset
#: sessions (projectcalico/calico#7086).
SHORTEST_HOLD, SHORTEST_KEEPALIVE = 9, 3
#: The least interval between two packets of BFD, in milliseconds, that is no finding. BIRD is slower than the hardware
#: of routers.
QUICKEST_BFD = 50
#: The least graceful restart time in seconds that is no finding. A restart of BIRD may take as long, for example in a
#: package upgrade.
RESTART = 10


class _Times(t.NamedTuple):
    """The effective times in seconds of the sessions that one variable configures, and the fields that issues name.

    `bfd` is the BFD of these sessions, None without it.
    """

    hold: int
    keepalive: int
    hold_field: str
    keepalive_field: str
    bfd: t.Optional[Bfd]


def _times(network: LintedFleet) -> t.Iterator[_Times]:
    """Yield the fleet's times, then those of each BGPPeer with a hold or keepalive time; nothing if BGP is disabled."""
    bgp = network.fleet.bgp
    if network.speakers:
        yield _Times(
            bgp.hold_time, bgp.keepalive_time, "calico_bgp_hold_time", "calico_bgp_keepalive_time", bgp.unasked.bfd
        )
    for given, _local, _remote in network.meant:
        own = given.extensions
        if own.holdTime is not None or own.keepaliveTime is not None:
            yield _Times(
                own.holdTime or bgp.hold_time,
                own.keepaliveTime or bgp.keepalive_time,
                within(given.where, "holdTime" if own.holdTime is not None else "keepaliveTime"),
                within(given.where, "keepaliveTime" if own.keepaliveTime is not None else "holdTime"),
                own.bfd,
            )


def hold_below_keepalive(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a hold time of less than three keepalive times: one lost packet may end the session (RFC 4271)."""
    for one in _times(network):
        if one.hold < 3 * one.keepalive:
            yield Issue(
                one.hold_field,
                f"makes the hold time {one.hold} s with keepalives every {one.keepalive} s: one that is lost ends the "
                "session.",
                "Make the hold time three keepalive times or more.",
            )


def too_short(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a hold time below 9 s or a keepalive time below 3 s, without BFD: busy hosts lose sessions."""
    for one in _times(network):
        if one.bfd is None and (one.hold < SHORTEST_HOLD or one.keepalive < SHORTEST_KEEPALIVE):
            short = one.hold < SHORTEST_HOLD
            yield Issue(
                one.hold_field if short else one.keepalive_field,
                f"makes the {'hold' if short else 'keepalive'} time {one.hold if short else one.keepalive} s: a host "
                "that is busy for a moment loses its sessions.",
                f"Use BFD to detect failures quickly (bfd, calico_bgp_bfd), and at least {SHORTEST_HOLD} s and "
                f"{SHORTEST_KEEPALIVE} s here.",
            )


def bfd_too_quick(network: LintedFleet) -> t.Iterator[Issue]:
    """Report BFD intervals below 50 ms: a busy host is taken for a dead one."""
    bgp = network.fleet.bgp
    found = [("calico_bgp_bfd", bgp.unasked.bfd)] if network.speakers else []
    found += [(within(given.where, "bfd"), given.extensions.bfd) for given, _local, _remote in network.meant]
    for variable, bfd in found:
        quickest = min(bfd.min_rx, bfd.min_tx) if bfd is not None else QUICKEST_BFD
        if quickest < QUICKEST_BFD:
            yield Issue(
                variable,
                f"has an interval of {quickest} ms: a host that is busy for a moment is taken for a dead one.",
                f"Use {QUICKEST_BFD} ms or more; 100 ms with multiplier 5 notices within half a second.",
            )


def restart_too_short(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a graceful restart time below 10 s: a restart of BIRD may take longer, and its routes are dropped."""
    found: list[tuple[str, t.Optional[float]]] = []
    if network.speakers:
        found.append(("calico_bgp_graceful_restart_time", network.fleet.settings.graceful_restart_time))
        found.append(("calico_bgp_mesh_max_restart_time", network.fleet.bgp.unasked.graceful_restart_time))
    for given, _local, _remote in network.meant:
        text = given.peer.maxRestartTime
        found.append((within(given.where, "maxRestartTime"), parse_duration(text) if text else None))
    for variable, seconds in found:
        if seconds is not None and seconds < RESTART:
            yield Issue(
                variable,
                f"has peers drop the routes of a BIRD that restarts after {seconds:g} s, which is less than a restart "
                "may take.",
                "Set it to 120 s, the default, or leave it out.",
                value=f"{seconds:g}",
            )
