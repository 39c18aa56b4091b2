# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of a page. Each function returns one as HTML, or None if the report has nothing for it."""

from __future__ import annotations

import typing as t

from markupsafe import Markup

from . import drawing
from .markup import LONGEST_NAME, MOST, Child, cut, element, join
from .model import ChangeGroup, FleetReport, Loss, MapLink, ShownNode, ShownPlan, ShownPool, State

#: The most nodes that are listed by name in the rack's card; above that each is a cell.
_LISTED = 40
#: The most rows of the table of nodes, and from how many on it is folded.
_ROWS, _FOLDED = 2000, 40
_RACKS = 120
_NOT_WELL = 25
#: The most entries of a list that are shown unfolded.
_SHOWN = 12
_NEARLY_ALL = 0.8
_ORDER = {"bad": 0, "warn": 1, "unknown": 2, "good": 3}
_ACTIONS = {"+": "added", "~": "changed", "-": "removed", "!": "conflict or interrupted", "=": "kept"}


def section(title: str, *children: Child, name: str) -> Markup:
    """Return a section with a heading; `name` is its id."""
    return element("section", element("h2", title, id=name), *children)


def plural(count: int, noun: str) -> str:
    """Return `1 node` or `2 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def table(heads: t.Sequence[tuple[str, bool]], rows: t.Iterable[t.Sequence[Child]]) -> Markup:
    """Return a table. `heads` are (title, whether the column has numbers). On a phone each row becomes a card."""
    head = element("tr", *(element("th", title, css="num" if num else "", scope="col") for title, num in heads))
    body = [
        element(
            "tr",
            *(
                element("td", cell, css="num" if num else "" if index else "name", data_l=title)
                for index, ((title, num), cell) in enumerate(zip(heads, row))
            ),
        )
        for row in rows
    ]
    return element("table", element("thead", head), element("tbody", *body), css="stack")


def more(count: int, what: str) -> t.Optional[Markup]:
    """Return a line that says how many are not shown, None for none."""
    return element("p", f"... and {count:,} more {what}, not shown here.", css="dim") if count > 0 else None


def listed(texts: t.Sequence[str], state: State, most: int = _SHOWN) -> Markup:
    """Return the texts as a list with the sign of `state`: `most` of them, and others of the first MOST folded."""
    items = [element("li", drawing.sign(state), text) for text in texts[:MOST]]
    return join(
        element("ul", *items[:most], css="list"),
        folded(element("ul", *items[most:], css="list"), len(items) - most),
        more(len(texts) - MOST, "lines"),
    )


def folded(content: Markup, count: int) -> t.Optional[Markup]:
    """Return the content folded below a line that says how many entries it has, None for none."""
    return element("details", element("summary", f"{count:,} more"), content) if count > 0 else None


def header(report: FleetReport) -> Markup:
    """Return the title, the verdict, and where the report comes from."""
    origin = report.origin
    entries = [
        ("Made", origin.made + (f" by {origin.user}" if origin.user else "")),
        ("Inventory", origin.inventory),
        ("Command", element("code", origin.command)),
        ("Collection", f"baremetal.host_routing {origin.version}"),
        ("Read from", origin.source),
    ]
    meta = [join(element("dt", name), element("dd", value)) for name, value in entries if value]
    return element(
        "header",
        element("h1", origin.title),
        element(
            "div",
            drawing.sign(report.state),
            element("span", report.word, ": " if report.verdict else None, report.verdict),
            css=f"banner {report.state}",
            role="status",
        ),
        element("dl", *meta, css="meta"),
        *(element("p", note, css="dim") for note in report.notes),
    )


def tiles(report: FleetReport) -> t.Optional[Markup]:
    """Return the numbers that a reader looks for first."""
    nodes = report.nodes
    found: list[tuple[str, str]] = []
    if nodes and report.plan is None:
        found.append((f"{sum(node.state in ('good', 'warn') for node in nodes):,}/{len(nodes):,}", "nodes well"))
    if report.sessions_all:
        found.append((f"{report.sessions_up or 0:,}/{report.sessions_all:,}", f"{report.sessions_are} Established"))
    expected = [node for node in nodes if node.routes_expected is not None]
    if expected:
        missing = sum((node.routes_expected or 0) - (node.routes_present or 0) for node in expected)
        found.append((f"{missing:,}", f"of {sum(node.routes_expected or 0 for node in expected):,} routes missing"))
    sizes = [node for node in nodes if node.size]
    if sizes:
        used, size = (sum(getattr(node, name) or 0 for node in sizes) for name in ("used", "size"))
        found.append((f"{used:,}/{size:,}", "addresses of blocks used"))
    if any(node.workloads is not None for node in nodes):
        found.append((f"{sum(node.workloads or 0 for node in nodes):,}", "workloads"))
    if any(node.drift is not None for node in nodes):
        found.append((f"{sum(node.drift or 0 for node in nodes):,}", "changes by others within 24 h"))
    if report.plan is not None:
        verb = "changed" if report.plan.made else "change"
        found.append((f"{report.plan.changing:,}/{report.plan.hosts:,}", f"nodes {verb}"))
        if not report.plan.put_back:
            found.append((f"{report.plan.resets:,}", "ends of BGP sessions reset"))
            found.append((f"{report.plan.withdrawn:,}", "routes withdrawn"))
    if report.loss is not None and report.loss.sent:
        loss = report.loss
        which = "the switch" if report.plan is not None else "the last switch"
        if loss.proof:
            found.append((f"{loss.lost:,}", f"of {loss.sent:,} marked probes over the new mode unanswered in {which}"))
        else:
            found.append((f"{loss.lost:,}", f"of {loss.sent:,} probes lost in {which}"))
            found.append((f"{loss.gap:.1f} ms", f"longest gap in {which}"))
    if not found:
        return None
    shown = [
        element("div", element("b", _breakable(number)), element("span", words), css="tile") for number, words in found
    ]
    return element("div", *shown, css="tiles")


def _breakable(number: str) -> Markup:
    """Return a number such as 12/40, which may be broken behind the slash alone."""
    first, slash, second = number.partition("/")
    return join(first, slash, Markup("<wbr>"), second)


def problems(report: FleetReport) -> t.Optional[Markup]:
    """Return what is wrong and what needs attention soon, in words."""
    parts = []
    if report.problems:
        parts += [element("h3", "Wrong"), listed(report.problems, "bad")]
    if report.warnings:
        parts += [element("h3", "Needs attention soon"), listed(report.warnings, "warn")]
    return section("Problems", *parts, name="problems") if parts else None


def spots(report: FleetReport) -> list[drawing.Spot]:
    """Return the places of the map: each node, or each rack of a large fleet, and the routers outside the fleet."""
    outside = [
        drawing.Spot(
            name,
            name.partition(" (")[0],
            "outside",
            _at(name, report.links),
            "square",
            f"router {cut(name, LONGEST_NAME)} outside the fleet",
            name.partition(" (")[2].rstrip(")"),
        )
        for name in report.routers
    ]
    nodes = [
        drawing.Spot(
            node.name,
            node.name,
            node.rack,
            node.state,
            "diamond" if node.reflector else "circle",
            f"{cut(node.name, LONGEST_NAME)} ({node.role}): {cut(node.word, LONGEST_NAME)}",
            f"{node.sessions_up}/{node.sessions_all} sessions" if node.sessions_all else "",
        )
        for node in sorted(report.nodes, key=lambda node: (node.rack, node.name))
    ]
    if len(nodes) + len(outside) <= drawing.RING:
        return nodes + outside
    racks = by_rack(report.nodes)
    return [
        drawing.Spot(
            rack or "no rack",
            rack or "no rack",
            "",
            drawing.worst(node.state for node in members),
            "circle",
            f"{cut(rack, LONGEST_NAME)}: {plural(len(members), 'node')}",
            plural(len(members), "node"),
        )
        for rack, members in racks.items()
    ] + outside


def _at(name: str, links: t.Sequence[MapLink]) -> State:
    return drawing.worst(link.state for link in links if name in (link.a, link.b))


def by_rack(nodes: t.Sequence[ShownNode]) -> dict[str, list[ShownNode]]:
    """Return the nodes by rack, both in the order of names."""
    found: dict[str, list[ShownNode]] = {}
    for node in sorted(nodes, key=lambda node: (node.rack, node.name)):
        found.setdefault(node.rack, []).append(node)
    return found


def fleet_map(report: FleetReport) -> t.Optional[Markup]:
    """Return the map: places and links, a card for each rack, and the links that are down."""
    if not report.nodes:
        return None
    places = spots(report)
    racks = by_rack(report.nodes)
    bad = [link for link in report.links if link.state == "bad"]
    tunnels = any(mode in ("IPIP", "VXLAN") for link in report.links for mode in link.modes)
    label = (
        f"{plural(len(report.nodes), 'node')} in {plural(len(racks), 'rack')}, {plural(len(bad), 'link')} with losses"
    )
    drawn: t.Optional[Markup] = None
    if report.links and len(places) <= drawing.RING:
        drawn = drawing.ring(places, report.links, label)
    elif report.links and len(places) <= drawing.MATRIX:
        drawn = join(
            element("p", "Each cell is a pair of racks; the last cell of a row is inside the rack.", css="dim"),
            drawing.matrix([spot.name for spot in places], report.links, label),
        )
    side: list[Child] = []
    if report.links:
        side.append(drawing.legend(tunnels))
    if bad:
        side += [element("h3", "Links that are not well"), listed([drawing.describe(link) for link in bad], "bad", 8)]
    elif report.links:
        side.append(element("p", drawing.said("good", "all links of the map are well")))
    top = element("div", element("div", drawn), element("div", *side), css="map") if drawn else join(*side)
    cards = [_card(rack, members, len(report.nodes)) for rack, members in list(racks.items())[:_RACKS]]
    return section(
        "Map",
        top,
        element("h3", "Racks"),
        element("div", *cards, css="racks"),
        more(len(racks) - _RACKS, "racks"),
        name="map",
    )


def _card(rack: str, members: t.Sequence[ShownNode], nodes: int) -> Markup:
    state = drawing.worst(node.state for node in members)
    not_well = sum(node.state not in ("good", "warn") for node in members)
    words = f"{not_well} of {len(members)} not well" if not_well else f"{plural(len(members), 'node')}"
    changing = sum(bool(node.changes) for node in members)
    if changing and not not_well:
        words = f"{changing} of {plural(len(members), 'node')} with changes"
    if nodes <= _LISTED:
        content = element("ul", *(_entry(node) for node in members))
    else:
        content = drawing.cells(members)
    return element(
        "div",
        element("h3", cut(rack or "no rack", LONGEST_NAME)),
        element("p", drawing.said(state, words), css="dim"),
        content,
        css="rack",
    )


def _entry(node: ShownNode) -> Markup:
    count = f"{node.sessions_up}/{node.sessions_all}" if node.sessions_all else node.word
    if node.changes is not None:
        count = plural(node.changes, "change")
    title = f"{node.role}: {cut(node.word or drawing.WORDS[node.state], LONGEST_NAME)}"
    return element(
        "li", drawing.sign(node.state), element("span", cut(node.name, LONGEST_NAME)), element("span", cut(count, 24)),
        title=title,
    )  # fmt: skip


def sessions(report: FleetReport) -> t.Optional[Markup]:
    """Return a table with one row for each session that is down, or None if all are up."""
    if not report.down_count:
        return None
    rows = [
        (
            element("span", f"{cut(one.host, LONGEST_NAME)} - {cut(one.peer, LONGEST_NAME)}", css="mono"),
            drawing.said("bad", one.state),
            one.since or "-",
            join(one.why or "-", " Routes are kept by graceful restart." if one.routes_kept else None),
        )
        for one in report.down[:MOST]
    ]
    heads = [("Session", False), ("State", False), ("Since", False), ("Why", False)]
    return section(
        f"Sessions that are down ({report.down_count:,})",
        table(heads, rows[:_SHOWN]),
        folded(table(heads, rows[_SHOWN:]), len(rows) - _SHOWN),
        more(report.down_count - sum(one.count for one in report.down[:MOST]), "sessions"),
        name="sessions",
    )


def blocks(report: FleetReport) -> t.Optional[Markup]:
    """Return the use of each pool's blocks."""
    if not report.pools:
        return None
    heads = [("Pool", False), ("CIDR", False), ("Mode", False), ("Blocks", True), ("Addresses used", False),
             ("Fullest node", False)]  # fmt: skip
    rows: list[tuple[Child, ...]] = [
        (
            cut(pool.name, LONGEST_NAME),
            element("span", pool.cidr, css="mono"),
            pool.mode or "-",
            f"{pool.blocks:,} on {plural(pool.nodes, 'node')}",
            _use(pool),
            pool.fullest or "-",
        )
        for pool in report.pools[:MOST]
    ]
    if all(pool.used is None for pool in report.pools):
        heads, rows = heads[:4], [row[:4] for row in rows]
    return section("Blocks", table(heads, rows), more(len(report.pools) - MOST, "pools"), name="blocks")


def _use(pool: ShownPool) -> Child:
    return _share(pool.used, pool.size)


def _share(used: t.Optional[int], size: t.Optional[int]) -> Child:
    if used is None or not size:
        return "not known" if used is None else "-"
    part = used / size
    return element(
        "span", drawing.filled(part, part >= _NEARLY_ALL), f"{used:,} of {size:,} ({100 * part:.0f} %)",
        " nearly full" if part >= _NEARLY_ALL else None,
    )  # fmt: skip


def routes(report: FleetReport) -> t.Optional[Markup]:
    """Return the routes of all nodes by mode."""
    if not report.modes:
        return None
    most = max(mode.planned for mode in report.modes) or 1
    heads = [("Mode", False), ("Pool", False), ("Routes of all nodes", False), ("Missing", False)]
    rows: list[tuple[Child, ...]] = [
        (
            element("b", mode.mode),
            cut(mode.pool, LONGEST_NAME),
            element("span", drawing.filled(mode.planned / most), f"{mode.planned:,}"),
            "not known" if mode.missing is None
            else drawing.said("bad", f"{mode.missing:,} missing") if mode.missing else drawing.said("good", "none"),
        )
        for mode in report.modes[:MOST]
    ]  # fmt: skip
    if all(mode.missing is None for mode in report.modes):
        heads, rows = heads[:3], [row[:3] for row in rows]
    words = "Routes of all nodes to the blocks of the others, as the inventory plans them."
    return section("Routes by mode", element("p", words, css="dim"), table(heads, rows), name="routes")


def drift(report: FleetReport) -> t.Optional[Markup]:
    """Return what other programs changed within a day, and the agents repaired."""
    known = [node for node in report.nodes if node.drift is not None]
    if not known:
        return None
    found = sorted((node for node in known if node.drift), key=lambda node: (-(node.drift or 0), node.name))
    if not found:
        words = f"No other program changed anything of this network within 24 hours, on {plural(len(known), 'node')}."
        return section("Drift", element("p", drawing.said("good", "none")), element("p", words), name="drift")
    most = max(node.drift or 0 for node in found)
    rows = [
        (
            cut(node.name, LONGEST_NAME),
            element("span", drawing.filled((node.drift or 0) / most), f"{node.drift:,}"),
            node.kinds or "-",
        )
        for node in found[:10]
    ]
    words = "Changes by other programs within 24 hours. The agent of the node has repaired them, or tells of it above."
    heads = [("Node", False), ("Changes", False), ("Kinds", False)]
    return section(
        "Drift", element("p", words, css="dim"), table(heads, rows), more(len(found) - 10, "nodes"), name="drift"
    )


def plan(part: t.Optional[ShownPlan]) -> t.Optional[Markup]:
    """Return what a run changes where."""
    if part is None:
        return None
    title = "What the run changed" if part.made else "What this plan changes"
    title += ", and put back" if part.put_back else ""
    if not part.groups and not part.phases:
        return section(title, element("p", drawing.said("good", "nothing to change")), name="plan")
    facts = [("Plan", part.name), ("Approval", part.approval)]
    meta = [join(element("dt", name), element("dd", element("code", value))) for name, value in facts if value]
    total = sum(group.count for group in part.groups) or 1
    heads = [("Change", False), ("Kind", False), ("Objects", False), ("Nodes", True)]
    rows = [
        (
            element("b", f"{group.action} {_ACTIONS.get(group.action, '')}"),
            group.kind,
            element("span", drawing.filled(group.count / total), f"{group.count:,}"),
            f"{group.nodes:,}",
        )
        for group in part.groups
    ]
    return section(
        title,
        element("dl", *meta, css="meta") if meta else None,
        listed(part.impact, "warn") if part.impact else None,
        join(element("h3", "Phases"), element("ul", *(element("li", line, css="mono") for line in part.phases),
                                              css="lines")) if part.phases else None,
        table(heads, rows) if rows else None,
        *(_group(group, index == 0) for index, group in enumerate(part.groups)),
        name="plan",
    )  # fmt: skip


def _group(group: ChangeGroup, first: bool) -> t.Optional[Markup]:
    if not group.lines:
        return None
    items = [element("li", element("code", line), element("span", f"on {nodes}")) for line, nodes in group.lines]
    words = f"{group.action} {group.kind}: {plural(group.count, 'object')} on {plural(group.nodes, 'node')}"
    return element(
        "details", element("summary", words), element("ul", *items, css="lines"),
        more(group.more, "different changes"), open=first and len(items) <= 30,
    )  # fmt: skip


def loss(report: FleetReport) -> t.Optional[Markup]:
    """Return the loss of a switch over its phases, its seconds and its paths."""
    found = report.loss
    if found is None:
        return section("Last switch", element("p", report.loss_note), name="loss") if report.loss_note else None
    title = "Loss of the last switch" if report.plan is None else "Loss of the switch"
    state: State = "bad" if found.lost or not found.switched else "good"
    words = "switched" if found.switched else "not switched"
    if found.proof:
        words += "; marked probes tried the new mode, live traffic was not touched"
    elif found.sent:
        words += f", {found.lost:,} of {found.sent:,} probes lost" if found.lost else ", no probe lost"
    about = join(" ", found.subject, f", {found.when}" if found.when else "")
    return section(
        title,
        element("p", drawing.said(state, words), element("span", about, css="dim")),
        element("p", report.loss_note, css="dim") if report.loss_note else None,
        _phases(found),
        _seconds(found),
        _paths(found),
        name="loss",
    )


def _phases(found: Loss) -> t.Optional[Markup]:
    if not found.phases:
        return None
    rows = [
        (
            element("b", phase.name),
            drawing.said("good" if phase.ok else "bad", "done" if phase.ok else "stopped here"),
            (phase.at or "-") + (f" (+{phase.seconds:.0f} s)" if phase.seconds else ""),
            phase.line,
        )
        for phase in found.phases
    ]
    heads = [("Phase", False), ("Result", False), ("Finished", False), ("What was seen", False)]
    return join(element("h3", "Phases"), table(heads, rows))


def _seconds(found: Loss) -> t.Optional[Markup]:
    if not found.watched:
        return None
    words = (
        f"Lost probes of all paths by second, from the start of the watches before the flip. The longest gap is "
        f"{found.gap:.1f} ms{f' ({found.worst})' if found.worst else ''}"
        f"{f'; gaps shorter than {found.resolution:.0f} ms may be missed' if found.resolution else ''}."
    )
    return join(
        element("h3", "Loss over time"),
        element("p", words, css="dim"),
        element("div", element("div", drawing.loss_by_second(found)), css="map"),
        listed([f"not all counted: {text}" for text in found.unwatched], "warn", 20) if found.unwatched else None,
    )


def _paths(found: Loss) -> t.Optional[Markup]:
    if not found.lossy:
        return element("p", f"All {plural(found.paths, 'path')} answered.") if found.paths else None
    rows = [
        (
            element("span", path.path, css="mono"),
            drawing.said("bad", f"{path.lost:,} of {path.sent:,}") if path.lost else f"0 of {path.sent:,}",
            f"{path.gap:.1f} ms",
            path.why or "-",
        )
        for path in found.lossy
    ]
    heads = [("Path", False), ("Lost", False), ("Longest gap", True), ("Why", False)]
    return join(
        element("h3", "Paths with losses"),
        table(heads, rows),
        more(found.lossy_more, "paths"),
        element("p", f"{plural(found.paths, 'path')} in all.", css="dim"),
    )


def nodes(report: FleetReport) -> t.Optional[Markup]:
    """Return the table of nodes. Those that are not well come first, and stand alone in a large fleet."""
    if not report.nodes:
        return None
    ordered = sorted(report.nodes, key=lambda node: (_ORDER[node.state], node.rack, node.name))
    not_well = [node for node in ordered if node.state == "bad"]
    if len(ordered) <= _FOLDED:
        return section("Nodes", _rows(ordered), name="nodes")
    parts: list[Child] = []
    if not_well:
        parts += [element("h3", f"Not well ({len(not_well):,})"), _rows(not_well[:_NOT_WELL])]
        parts.append(more(len(not_well) - _NOT_WELL, "nodes; the table below has them"))
    everything = element(
        "details", element("summary", f"All {len(ordered):,} nodes"), _rows(ordered[:_ROWS]),
        more(len(ordered) - _ROWS, "nodes"),
    )  # fmt: skip
    return section("Nodes", *parts, everything, name="nodes")


def _rows(shown: t.Sequence[ShownNode]) -> Markup:
    has = {
        name: any(getattr(node, name) not in (None, "") for node in shown)
        for name in ("rack", "sessions_all", "routes_expected", "size", "workloads", "drift", "agent", "age", "changes")
    }
    columns: list[tuple[str, bool, bool, t.Callable[[ShownNode], Child]]] = [
        ("Node", False, True, lambda node: cut(node.name, LONGEST_NAME)),
        ("Rack", False, has["rack"], lambda node: cut(node.rack or "-", LONGEST_NAME)),
        ("Role", False, any(node.reflector for node in shown), lambda node: node.role),
        ("State", False, True, _state),
        ("Changes", True, has["changes"], lambda node: "-" if node.changes is None else f"{node.changes:,}"),
        ("BGP", True, has["sessions_all"], lambda node: _of(node.sessions_up, node.sessions_all)),
        ("Routes", True, has["routes_expected"], lambda node: _of(node.routes_present, node.routes_expected)),
        ("Addresses used", False, has["size"], _node_use),
        ("Workloads", True, has["workloads"], lambda node: "-" if node.workloads is None else f"{node.workloads:,}"),
        ("Drift (24 h)", True, has["drift"], lambda node: "-" if node.drift is None else f"{node.drift:,}"),
        ("Agent", False, has["agent"], lambda node: cut(node.agent or "-", LONGEST_NAME)),
        ("Answer", False, has["age"], lambda node: node.age or "-"),
    ]
    used = [(title, num, cell) for title, num, wanted, cell in columns if wanted]
    rows = [[cell(node) for dummy, dummy2, cell in used] for node in shown]
    return table([(title, num) for title, num, dummy in used], rows)


def _state(node: ShownNode) -> Child:
    said = drawing.said(node.state, node.word)
    return join(said, element("div", cut(node.detail, 200), css="dim")) if node.detail else said


def _node_use(node: ShownNode) -> Child:
    names = ", ".join(node.blocks[:2]) + (f" +{len(node.blocks) - 2}" if len(node.blocks) > 2 else "")
    if not node.size:
        return "-"
    part = (node.used or 0) / node.size
    return element(
        "span", drawing.filled(part, part >= _NEARLY_ALL), f"{node.used}/{node.size}",
        element("div", cut(names, 90), css="mono dim") if names else None,
    )  # fmt: skip


def _of(up: t.Optional[int], total: t.Optional[int]) -> Child:
    if up is None or total is None:
        return "-"
    return f"{up:,}/{total:,}" if up >= total else drawing.said("bad", f"{up:,}/{total:,}")
