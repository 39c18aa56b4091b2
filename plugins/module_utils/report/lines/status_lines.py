# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of all nodes: one row for each, then problems, warnings and a verdict."""

from __future__ import annotations

import collections
import re
import typing as t
from types import MappingProxyType

from ...base import release
from ...cli.render import heartbeat_cells, tables
from ...fleet.node_answers import outcome
from ...fleet.paths import untried
from ...ipam.errors import names
from ...state.derived.probe_paths import Untried
from ...state.phase import AT_REST
from . import member_lines, watch_lines
from .live_drift import LiveDrift

Result = t.Mapping[str, t.Any]
Results = t.Mapping[str, Result]
#: The number of sessions between two ends (names of nodes, or an address outside the fleet) over IPv6, or over IPv4.
Counts = collections.Counter[tuple[frozenset[str], bool]]

HEADING = ("NODE", "BGP", "BLOCKS", "WORKLOADS", "ROUTES", "DRIFT(24h)", "AGENT")
#: The used share of a pool's addresses on a node, spare blocks included, from which they are reported as running out.
NEARLY_ALL = 0.8

#: The most hosts that a warning names; the others are counted.
_NAMED = 10
_LONGEST_VERSION = 40
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")


def known(result: t.Optional[Result]) -> t.Optional[dict[str, t.Any]]:
    """Return the entries of a host's answer that node_status_info documents, None without an answer that is usable."""
    if result is None or not outcome.usable(result) or "agent" not in result:
        return None
    own = ("node", "plan", "phase", "complete", "bgp", "routes", "blocks", "workloads", "agent", "problems")
    return {name: result[name] for name in own if name in result}


def text(
    hosts: t.Sequence[str],
    results: Results,
    warned: t.Optional[t.Sequence[str]] = None,
    gaps: t.Sequence[Untried] = (),
    members: int = 0,
    silent: t.Mapping[str, str] = MappingProxyType({}),
    drift: t.Optional[LiveDrift] = None,
) -> list[str]:
    """Return the table, lines about problems, warnings, equal live policy and paths, and one for the fleet.

    `members` is the number of members of the etcd cluster, 0 if none was asked, and `silent` is as in `member_lines`.
    `warned` are those of `warnings` by default, `gaps` those of `untried.of_status`. `drift` compares live policy with
    a folder, if that was asked. `results` are those of node_status_info by host. A host without one, or that was not
    reached, is shown as unreachable, and one whose other result is not usable as not read.
    """
    nodes = {host: known(results.get(host)) for host in hosts}
    wrong = [*problems(hosts, results), *member_lines.problems(silent), *(drift.problems if drift else ())]
    rows = [_row(host, node, results.get(host)) for host, node in nodes.items()]
    lines = tables.columns(HEADING, rows).splitlines()
    lines += [f"! {problem}" for problem in wrong]
    warned = warnings(hosts, results) if warned is None else warned
    lines += [f"warning: {warning}" for warning in warned]
    return [
        *lines,
        *(drift.lines if drift else ()),
        *untried.lines_of_status(gaps),
        _verdict(nodes, results, wrong, member_lines.verdict(members, silent)),
    ]


def problems(hosts: t.Iterable[str], results: Results, blamed: t.Container[str] = ()) -> list[str]:
    """Return sentences about what is wrong, an empty list for nothing.

    A host without a usable result of node_status_info is a problem. A session that both of its nodes report as down is
    named once, and so is a phase of several nodes. A session whose other end is a `blamed` host is left out.
    """
    found: list[str] = []
    nodes = {host: known(results.get(host)) for host in hosts}
    away = {host for host, node in nodes.items() if node is None or node["node"] is None}
    paths = watch_lines.problems(watch_lines.of_answers(nodes), _Either(away, blamed))
    seen: Counts = collections.Counter()
    halfway: dict[str, list[str]] = {}
    for host, node in nodes.items():
        if node is None:
            found.append(f"{host}: {outcome.reason(results.get(host)).replace('Task failed: ', '')}")
        elif node["node"] is None:
            found += [f"{host}: {problem}" for problem in node["problems"]] or [
                f"{host}: has no state yet. Run playbooks/site.yml."
            ]
        else:
            found += _of_node(host, node, seen, blamed)
            found += paths.get(host, ())
            if node["phase"] not in AT_REST:
                halfway.setdefault(node["phase"], []).append(host)
    return [*found, *(_halfway(phase, nodes) for phase, nodes in halfway.items())]


class _Either:
    """The names that either of two containers has."""

    def __init__(self, one: t.Container[str], other: t.Container[str]) -> None:
        self._both = (one, other)

    def __contains__(self, name: object) -> bool:
        return any(name in names_ for names_ in self._both)


def troubled(nodes: t.Mapping[str, t.Optional[Result]]) -> set[str]:
    """Return the hosts to blame for sessions that are down: without an answer or state, or with most of theirs down."""
    return {host for host, node in nodes.items() if node is None or node["node"] is None or _mostly_down(node)}


def _mostly_down(node: Result) -> bool:
    sessions = node["bgp"]["sessions"]
    lost = len(sessions) if not node["bgp"]["running"] else sum(not one["established"] for one in sessions)
    return bool(sessions) and lost * 2 > len(sessions)


def _halfway(phase: str, nodes: t.Sequence[str]) -> str:
    """Return a sentence about nodes that are in a phase in which no change ends."""
    return (
        f"{names(nodes)} {'is' if len(nodes) == 1 else 'are'} in phase {phase} of a change. If no run goes on, one was "
        "left half-way: run playbooks/site.yml without --limit, which takes all nodes to the inventory's mode."
    )


def warnings(hosts: t.Sequence[str], results: Results) -> list[str]:
    """Return a sentence for each other release of an agent, then for each pool nearly full on a node (NEARLY_ALL)."""
    nodes = {host: node for host in hosts if (node := known(results.get(host)))}
    scarce = [warning for host, node in nodes.items() if node["node"] for warning in _scarce(host, node["blocks"])]
    return [*_other_releases(nodes), *scarce]


def _of_node(host: str, node: Result, seen: Counts, blamed: t.Container[str]) -> t.Iterator[str]:
    """Yield a sentence for each problem of a node, but none for a session that `seen` has, or with a `blamed` host.

    `seen` counts the sessions that are named so far, by their two ends and IP version; those named here are added.
    """
    sessions = node["bgp"]["sessions"] if node["bgp"]["running"] else ()
    peers = collections.Counter(session["node"] for session in sessions)
    own: Counts = collections.Counter()
    for session in sessions:
        if session["established"] or session["node"] in blamed:
            continue
        between = (frozenset((host, session["node"] or session["address"])), ":" in session["address"])
        own[between] += 1
        if own[between] > seen[between]:
            yield _session(host, session, several=peers[session["node"]] > 1)
    seen |= own  # the larger count of both: the other node reports the same sessions
    yield from (f"{host}: {missing}" for missing in node["routes"]["missing"])
    if not node["complete"]:
        yield f"{host}: its last run was cut short. Run playbooks/site.yml, which completes it."
    yield from (f"{host}: {problem}" for problem in node["problems"])
    agent = node["agent"]
    if not agent["running"]:
        if agent["wanted"]:
            yield f"{host}: the agent does not run. `systemctl status calico-agent` there says why."
        return
    yield from (f"{host}: {problem}" for problem in agent["problems"])
    if not agent["in_sync"] and not agent["problems"]:
        yield f"{host}: the agent repairs, and is not done within seconds. `calicoctl plan` there says what."


def _session(host: str, session: Result, *, several: bool) -> str:
    """Return a sentence about a session that is down: `node7 <-> node4: Active since 14:02:11 (Hold timer expired)`.

    If the host has `several` sessions with that node, the address follows: `node7 <-> node4 (fd00::4): ...`.
    """
    peer = session["node"] or session["address"]
    if several and session["node"]:
        peer += f" ({session['address']})"
    since = f" since {session['since']}" if session["since"] else ""
    error = f" ({session['error']})" if session["error"] else ""
    kept = "; its routes are kept by graceful restart" if session["routes_kept"] else ""
    reason = f": {session['reason']}" if session.get("reason") else ""
    return f"{host} <-> {peer}: {session['state']}{since}{error}{kept}{reason}"


def _other_releases(nodes: t.Mapping[str, Result]) -> t.Iterator[str]:
    """Yield a sentence for each release that agents of `nodes` have and this controller has not."""
    hosts: dict[str, list[str]] = {}
    for host, node in nodes.items():
        if node["agent"]["running"]:
            hosts.setdefault(node["agent"]["version"], []).append(host)
    hosts.pop(release.VERSION, None)
    own = _numbers(release.VERSION)
    for version, having in hosts.items():
        more = f" and {len(having) - _NAMED} more" if len(having) > _NAMED else ""
        verb = "runs" if len(having) == 1 else "run"
        what = f"{', '.join(having[:_NAMED])}{more} {verb} release {version[:_LONGEST_VERSION]}, "
        if _numbers(version) > own:
            yield (
                f"{what}newer than this controller's {release.VERSION}. Use the playbooks of that release: site.yml of "
                "this controller would bring the older one back."
            )
        else:
            yield (
                f"{what}and this controller has {release.VERSION}. playbooks/site.yml upgrades, also node by node with "
                "--limit (docs/how-to/upgrading.md)."
            )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release such as 0.2.0, () for a text that is none."""
    match = _VERSION.fullmatch(version)
    return tuple(map(int, match.groups())) if match else ()


def _scarce(host: str, blocks: t.Sequence[Result]) -> t.Iterator[str]:
    for pool in dict.fromkeys(block["pool"] for block in blocks):
        own = [block for block in blocks if block["pool"] == pool]
        size, free = (sum(block[name] for block in own) for name in ("size", "free"))
        if size - free >= NEARLY_ALL * size:
            yield (
                f"{host}: {free} of its {size} addresses of pool {pool} are free. "
                "Run playbooks/site.yml, which grants more."
            )


def _row(host: str, node: t.Optional[Result], result: t.Optional[Result]) -> tuple[str, ...]:
    if node is None:
        read = result is not None and not result.get("unreachable")
        return (host, "-", "-", "-", "-", "-", "not read !" if read else "unreachable !")
    if node["node"] is None:
        return (host, "-", "-", "-", "-", "-", "no state !")
    blocks = [block for block in node["blocks"] if not block["spare"]]
    size = sum(block["size"] for block in blocks)
    more = f" +{len(blocks) - 1}" if len(blocks) > 1 else ""
    return (
        host,
        _bgp(node["bgp"]),
        f"{blocks[0]['cidr']}{more}" if blocks else "-",
        f"{node['workloads']}/{size}" if blocks else "-",
        _routes(node["routes"]),
        _drift(node["agent"]),
        _agent(node["agent"]),
    )


def _bgp(bgp: Result) -> str:
    if not bgp["enabled"]:
        return "-"
    up = sum(1 for session in bgp["sessions"] if session["established"])
    return f"{up}/{len(bgp['sessions'])}{'' if up == len(bgp['sessions']) and bgp['running'] else ' !'}"


def _routes(routes: Result) -> str:
    absent = routes["expected"] - routes["present"]
    return f"{absent} missing" if absent else "ok"


def _drift(agent: Result) -> str:
    if not agent["running"]:
        return "-"
    drift = agent["drift"]
    kinds = ", ".join(kind for kind, dummy in sorted(drift["kinds"].items(), key=lambda item: (-item[1], item[0])))
    return f"{drift['day']} ({kinds})" if drift["day"] and kinds else str(drift["day"])


def _agent(agent: Result) -> str:
    if not agent["running"]:
        return "down !" if agent["wanted"] else "-"
    return f"{agent['version']} up {heartbeat_cells.duration(agent['uptime'])}{'' if agent['in_sync'] else ' !'}"


def _verdict(
    nodes: t.Mapping[str, t.Optional[Result]], results: Results, wrong: t.Sequence[str], more: t.Iterable[str] = ()
) -> str:
    blamed = troubled(nodes)
    good = sum(1 for host in nodes if host not in blamed and not problems([host], results, blamed))
    parts = [f"{good}/{len(nodes)} nodes{' good' if wrong else ''}"]
    up = wanted = 0
    for node in nodes.values():
        for session in node["bgp"]["sessions"] if node and node["node"] else ():
            # The sums count ends. A session between nodes is reported by both of its nodes, so each report counts one
            # end; one with an external peer is reported once, which counts both ends.
            ends = 1 if session["node"] else 2
            wanted += ends
            up += ends if session["established"] else 0
    if wanted:
        parts.append(f"{up // 2}/{wanted // 2} sessions Established")
    parts.append(f"{sum(node['workloads'] for node in nodes.values() if node and node['node'])} workloads")
    parts.append(watch_lines.verdict(watch_lines.of_answers(nodes).values()))
    parts += more
    return f"{'good' if not wrong else 'degraded'}  {' · '.join(parts)}"
