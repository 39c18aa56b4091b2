# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report on the status of a fleet, from the nodes' answers or from the heartbeats in its datastore."""

from __future__ import annotations

import dataclasses
import typing as t

from ..cli.render import heartbeat_cells
from ..fleet.node_answers import outcome
from ..ipam.errors import names
from ..state.derived.path_status import PathStatus
from ..state.phase import AT_REST
from . import drawing
from .lines import status_lines, watch_lines
from .lines.heartbeat_lines import HeartbeatStatus
from .model import DownSession, FleetReport, Origin, ShownNode, State
from .places import Links, Places
from .shown_text import MOST, plural

Result = t.Mapping[str, t.Any]
Results = t.Mapping[str, Result]

#: The lost probes in a row that a path which is down has at least.
_LOST = 5


def by_nodes(
    origin: Origin,
    hosts: t.Sequence[str],
    results: Results,
    places: Places,
    problems: t.Sequence[str],
    warnings: t.Sequence[str],
) -> FleetReport:
    """Return the report from results of node_status_info by host; `problems` and `warnings` are those printed."""
    known = {host: status_lines.known(results.get(host)) for host in hosts}
    answered = {host: node for host, node in known.items() if node and node["node"] is not None}
    troubled = status_lines.troubled(known)
    telling = {host for host, node in answered.items() if node["bgp"]["running"]}
    links = Links(places, drawing.RING)
    down: list[DownSession] = []
    of_troubled: dict[str, DownSession] = {}
    missing: dict[tuple[str, str], int] = {}
    for host, node in answered.items():
        for session in node["bgp"]["sessions"] if host in telling else ():
            if links.session(host, session["node"], session["address"], session["established"], telling, troubled):
                one = _down(host, session, places)
                cause = one.peer if one.peer in troubled else host if host in troubled else ""
                if cause:
                    before = of_troubled.get(cause)
                    of_troubled[cause] = dataclasses.replace(one, count=1 + (before.count if before else 0))
                elif len(down) < MOST:
                    down.append(one)
        for words in node["routes"]["missing"]:
            owner = places.owner(words)
            if owner is not None and owner[0] != host:
                links.missing(host, owner[0])
                key = (places.mode(host, owner[0], owner[1]), owner[1])
                missing[key] = missing.get(key, 0) + 1
    _add_paths(links, watch_lines.of_answers(known), hosts)
    used, fullest = _use(answered)
    nodes = tuple(_node(places.node(host), known[host], results.get(host), troubled) for host in hosts)
    well = sum(node.state in ("good", "warn") for node in nodes)
    verdict = f"{well:,} of {len(nodes):,} nodes good"
    if links.total:
        verdict += f" · {links.total - links.down:,} of {links.total:,} sessions Established"
    paths = watch_lines.verdict(watch_lines.of_answers(known).values())
    verdict += f" · {sum(node.workloads or 0 for node in nodes):,} workloads · {paths}"
    return FleetReport(
        origin,
        **_said(problems, warnings, verdict),
        problems=_joined(problems, troubled),
        warnings=tuple(warnings),
        nodes=nodes,
        routers=tuple(links.routers),
        links=links.all(),
        sessions_up=links.total - links.down,
        sessions_all=links.total,
        down=(*(_joined_session(node, one) for node, one in of_troubled.items()), *down),
        down_count=links.down,
        pools=places.pools(used, fullest),
        modes=places.route_modes(missing),
    )


def _add_paths(links: Links, said: t.Mapping[str, watch_lines.Said], hosts: t.Container[str]) -> None:
    """Add the paths that agents found down to the links between their ends, with the probes that were lost at least."""
    for host, one in said.items():
        for path in one.down if isinstance(one, PathStatus) else ():
            if path.node in hosts and path.node != host:
                links.probes(host, path.node, _LOST, _LOST)


def _said(problems: t.Sequence[str], warnings: t.Sequence[str], verdict: str) -> dict[str, t.Any]:
    """Return the state, the word and the verdict, without the word that the printed line begins with."""
    state: State = "bad" if problems else "warn" if warnings else "good"
    word = {"bad": "Degraded", "warn": "Good, with warnings", "good": "Good"}[state]
    return {"state": state, "word": word, "verdict": verdict.partition("  ")[2] or verdict}


def _joined(problems: t.Sequence[str], troubled: t.Container[str]) -> tuple[str, ...]:
    """Return the problems, with one for all sessions of a troubled node if there are several."""
    found: list[str] = []
    several: dict[str, list[str]] = {}
    for problem in problems:
        words = problem.split(" ", 3)
        ends = (words[2].rstrip(":"), words[0]) if len(words) > 2 and words[1] == "<->" else ()
        cause = next((end for end in ends if end in troubled), "")
        if cause:
            several.setdefault(cause, []).append(problem)
        else:
            found.append(problem)
    for node, texts in several.items():
        found += texts if len(texts) == 1 else [f"{node}: {len(texts)} of its BGP sessions are down ({texts[0]} ...)"]
    return tuple(found)


def _joined_session(node: str, one: DownSession) -> DownSession:
    """Return the sessions of a troubled node as one; a single session stays as it is."""
    return one if one.count == 1 else dataclasses.replace(one, host=node, peer=f"{one.count} others")


def _down(host: str, session: Result, places: Places) -> DownSession:
    peer = session["node"] or places.router(session["address"])
    why = "; ".join(filter(None, (session["error"], session.get("reason"))))
    return DownSession(host, peer, session["state"], session["since"], why, session["routes_kept"])


def _use(nodes: Results) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Return by pool (used, size) of the addresses in blocks, and the node with the largest used share, as text."""
    sums: dict[str, tuple[int, int]] = {}
    shares: dict[str, tuple[float, str]] = {}
    for host, node in nodes.items():
        own: dict[str, tuple[int, int]] = {}
        for block in node["blocks"]:
            used, size = own.get(block["pool"], (0, 0))
            own[block["pool"]] = (used + block["size"] - block["free"], size + block["size"])
        for pool, (used, size) in own.items():
            before = sums.get(pool, (0, 0))
            sums[pool] = (before[0] + used, before[1] + size)
            share = used / size if size else 0.0
            if share > shares.get(pool, (0.0, ""))[0]:
                shares[pool] = (share, f"{host} ({100 * share:.0f} %)")
    return sums, {pool: words for pool, (dummy, words) in shares.items()}


def _node(
    place: ShownNode, node: t.Optional[Result], result: t.Optional[Result], troubled: t.Container[str]
) -> ShownNode:
    """Return the node at `place`, with what it answered."""
    if node is None:
        word = "not read" if result is not None and not result.get("unreachable") else "unreachable"
        return dataclasses.replace(place, state="bad", word=word, detail=outcome.reason(result))
    if node["node"] is None:
        return dataclasses.replace(place, state="bad", word="no state", detail="; ".join(node["problems"][:2]))
    sessions = node["bgp"]["sessions"]
    up = sum(one["established"] for one in sessions) if node["bgp"]["running"] else 0
    state, word, detail = _judged(place.name, node, troubled)
    blocks = node["blocks"]
    agent = node["agent"]
    drift = agent["drift"] if agent["running"] else None
    kinds = sorted(drift["kinds"].items(), key=lambda item: (-item[1], item[0])) if drift else []
    return dataclasses.replace(
        place,
        state=state,
        word=word,
        detail=detail,
        sessions_up=up if node["bgp"]["enabled"] else None,
        sessions_all=len(sessions) if node["bgp"]["enabled"] else None,
        blocks=tuple(f"{block['cidr']}{' (spare)' if block['spare'] else ''}" for block in blocks),
        used=sum(block["size"] - block["free"] for block in blocks),
        size=sum(block["size"] for block in blocks),
        workloads=node["workloads"],
        routes_present=node["routes"]["present"],
        routes_expected=node["routes"]["expected"],
        drift=drift["day"] if drift else None,
        kinds=", ".join(f"{kind} {count}" for kind, count in kinds[:6]) if drift and drift["day"] else "",
        agent=f"{agent['version']}, up {heartbeat_cells.duration(agent['uptime'])}" if agent["running"] else "",
    )


def _judged(host: str, node: Result, troubled: t.Container[str]) -> tuple[State, str, str]:
    """Return the state of a node, a word and a detail. Sessions with a node that is troubled are that node's fault."""
    bgp = node["bgp"]
    agent = node["agent"]
    if bgp["enabled"] and not bgp["running"]:
        return "bad", "BIRD is down", ""
    down = [one for one in bgp["sessions"] if not one["established"]]
    own = [one for one in down if host in troubled or one["node"] not in troubled]
    absent = node["routes"]["expected"] - node["routes"]["present"]
    other = [*node["problems"], *(agent.get("problems", ()) if agent["running"] else ())]
    sessions = f"{plural(len(down), 'session')} down"
    if own:
        return "bad", sessions, other[0] if other else ""
    if agent["wanted"] and not agent["running"]:
        return "bad", "agent down", other[0] if other else ""
    if other:
        return "bad", "problem", other[0]
    if not node["complete"]:
        return "bad", "run cut short", ""
    if absent and not down:
        return "bad", f"{plural(absent, 'route')} missing", ""
    if down:
        # The map would show a whole fleet as not well where one of its nodes is down.
        return "good", f"ok, but {sessions}", f"with {names([str(one['node']) for one in down])}, not well"
    if node["phase"] not in AT_REST:
        return "bad", f"in phase {node['phase']}", ""
    if agent["running"] and not agent["in_sync"]:
        return "warn", "repairing", ""
    return "good", "ok", ""


def by_heartbeats(origin: Origin, status: HeartbeatStatus, places: Places) -> FleetReport:
    """Return the report from the heartbeats. Its links are those with paths that fresh heartbeats say are down."""
    links = Links(places, drawing.RING)
    fresh = (one for one in status.heartbeats if heartbeat_cells.is_fresh(one, status.now))
    _add_paths(links, {one.node: one.paths for one in fresh if one.paths is not None}, status.hosts)
    return FleetReport(
        origin,
        **_said(status.problems, (), status.verdict),
        problems=tuple(status.problems),
        notes=(
            "Heartbeats have no routes and blocks, and do not name sessions that are up: run status.yml with -e "
            "source=nodes for a report that has them.",
        ),
        nodes=tuple(_by_heartbeat(status, host, places.node(host)) for host in status.hosts),
        links=links.all(),
        sessions_up=sum(one.sessions_established for one in status.heartbeats),
        sessions_all=sum(one.sessions_total for one in status.heartbeats),
        sessions_label="BGP sessions Established, counted at both ends",
        pools=places.pools({}, {}),
        modes=places.route_modes(None),
    )


def _by_heartbeat(status: HeartbeatStatus, host: str, node: ShownNode) -> ShownNode:
    if host in status.refused:
        return dataclasses.replace(node, state="bad", word="not read", detail=status.refused[host], age="not read")
    found = status.found.get(host)
    if found is None:
        if host not in status.agents:
            return dataclasses.replace(node, word="no agent", age="-")
        return dataclasses.replace(node, state="bad", word="no heartbeat", age="never")
    wrong = status.wrong[host]
    age = found.age(status.now)
    down = found.sessions_total - found.sessions_established
    sessions = f"{plural(down, 'session')} down"
    if not wrong:
        word = f"ok, but {sessions}" if down else "ok"
    elif not heartbeat_cells.is_fresh(found, status.now):
        word = "old heartbeat"
    else:
        word = sessions if down else "problem"
    return dataclasses.replace(
        node,
        state="bad" if wrong else "good",
        word=word,
        detail=wrong[0] if wrong else "",
        sessions_up=found.sessions_established,
        sessions_all=found.sessions_total,
        workloads=found.workloads,
        drift=found.drift_day,
        agent=found.version,
        age=f"{heartbeat_cells.duration(abs(age))} {'old' if age >= 0 else 'ahead of this clock'}",
    )
