# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl node status`: the table of BGP sessions that Calico's users know, and the paths that the agent watches.

It exits with 0 only if all sessions are up and no path is down.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import re
import sys
import typing as t

from ....base import terminal_text
from ....base.addresses import family_of
from ....bgp.bird_state import Bird
from ....bird import dropped_segments, refusals, status
from ....bird.dropped_segments import Dropped
from ....bird.errors import BirdError
from ....bird.status import Session
from ...errors import DONE, PROBLEMS
from ...render import structured, tables
from ...sources import Sources
from . import node_paths

#: Calico's names of session types, by the first word of the name of the session in BIRD (Mesh_10_0_0_1).
TYPES = {"Mesh": "node-to-node mesh", "Node": "node specific", "Global": "global"}

_HEADING = ("PEER ADDRESS", "PEER TYPE", "STATE", "SINCE", "INFO")
_SINCE = re.compile(r"(?:(\d{4}-\d\d-\d\d)\s*)?(\d\d:\d\d:\d\d)?(?:\.\d+)?")


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    state = sources.state()
    planned = state.bird
    agent = sources.agent.runs()
    observed: t.Optional[status.Status] = None
    error = ""
    if planned is not None:
        try:
            observed = status.observe(sources.machine.bird_socket)
        except BirdError as failure:
            error = str(failure)
    sessions = _sessions(planned, observed) if planned else []
    watched = sources.machine.watched if refusals.unexplained(sessions) else 0.0
    dropped = dropped_segments.during(watched, sources.machine.netstat)
    reasons = _reasons(planned, sessions, dropped) if planned else {}
    up = not error and all(session.established for session in sessions)
    paths = node_paths.of_node(sources, state, agent)
    plain = {
        **_plain(agent, planned, observed, error, sessions, up, reasons),
        "paths": node_paths.plain(paths),
    }
    if not structured.written(arguments.output, plain):
        sys.stdout.write(f"Calico process is {'running' if agent else 'not running'}.\n\n")
        sys.stdout.write(_text(planned, error, sessions, datetime.date.today()))
        if reasons and not error:
            down = [session for session in sessions if session.name in reasons]
            sys.stdout.write("\n" + terminal_text.lines(f"! {name_of(each)}: {reasons[each.name]}" for each in down))
        if paths is not None:
            sys.stdout.write("\n" + terminal_text.lines(node_paths.lines(state.node, paths)))
    if error:
        sys.stderr.write(f"{error}\n")
    return DONE if up and node_paths.good(paths) else PROBLEMS


def _sessions(planned: Bird, observed: t.Optional[status.Status]) -> list[Session]:
    """Return BIRD's sessions and the planned ones that it lacks (state "none"), sorted; [] if BIRD was not observed."""
    found = {session.name: session for session in observed.sessions} if observed else {}
    for peer in planned.peers:
        if peer.name not in found and observed is not None:
            found[peer.name] = Session(peer.name, "none", "", address=peer.address, error="not in BIRD's configuration")
    return sorted(found.values(), key=lambda session: (_order(session.address), session.name))


def _reasons(planned: Bird, sessions: t.Sequence[Session], dropped: Dropped) -> dict[str, str]:
    """Return {name of the session: reason} for the planned sessions that BIRD has and that are not Established."""
    peers = {peer.name: peer for peer in planned.peers}
    found = {}
    for session in sessions:
        if session.name in peers and not session.established and session.state != "none":
            found[session.name] = refusals.why(session, planned, peers[session.name], dropped)
    return found


def name_of(session: Session) -> str:
    return f"{session.description} ({session.address})" if session.description else session.address


def _order(address: str) -> tuple[int, int]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return (0, 0)
    return (parsed.version, int(parsed))


def _text(planned: t.Optional[Bird], error: str, sessions: t.Sequence[Session], today: datetime.date) -> str:
    if planned is None:
        return "None of the BGP backend processes (BIRD or GoBGP) are running.\n"
    if error:
        return "IPv4 BGP status\nThe BGP backend process (BIRD) is not running.\n"
    parts = []
    for version in (4, 6):
        own = [session for session in sessions if family_of(session.address) == version]
        rows = [(session.address, kind_of(session), session.state, since(session.since, today), info(session))
                for session in own]  # fmt: skip
        table = tables.boxed(_HEADING, rows) if rows else f"No IPv{version} peers found.\n"
        parts.append(f"IPv{version} BGP status\n{table}")
    return "\n".join(parts)


def kind_of(session: Session) -> str:
    return TYPES.get(session.name.partition("_")[0], "other")


def since(text: str, today: datetime.date) -> str:
    """Return BIRD's time as Calico shows it: the time of day if that was today or has no date, else the date.

    Fractions of seconds are left out. A text that is no time is returned unchanged.
    """
    found = _SINCE.match(text)
    if not found or not (found.group(1) or found.group(2)):
        return text
    date, time = found.groups()
    return time if time and date in (None, today.isoformat()) else date


def info(session: Session) -> str:
    kept = "(routes kept by graceful restart)" if session.neighbor_restarting else ""
    return " ".join(part for part in (session.bgp_state, session.error, kept) if part)


def _plain(
    agent: bool,
    planned: t.Optional[Bird],
    observed: t.Optional[status.Status],
    error: str,
    sessions: t.Sequence[Session],
    good: bool,
    reasons: t.Mapping[str, str],
) -> dict[str, t.Any]:
    nodes = {peer.name: peer.node for peer in planned.peers} if planned else {}
    return {
        "agent": {"running": agent},
        "bgp": {
            "enabled": planned is not None,
            "running": observed is not None,
            "version": observed.version if observed else None,
            "routerID": observed.router_id if observed else None,
            "error": error or None,
        },
        "allUp": good,
        "peers": [
            {
                "name": session.name,
                "address": session.address,
                "node": nodes.get(session.name, ""),
                "type": kind_of(session),
                "state": session.state,
                "since": session.since,
                "bgpState": session.bgp_state,
                "error": session.error,
                "reason": reasons.get(session.name, ""),
                "asNumber": session.neighbor_as,
                "imported": session.imported,
                "exported": session.exported,
                "gracefulRestart": session.graceful_restart,
            }
            for session in sessions
        ],
    }
