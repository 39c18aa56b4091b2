# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of a page as values for its template. A section is None if the report has nothing for it."""

from __future__ import annotations

import dataclasses
import typing as t

from . import drawing
from .drawing import LossChart, MatrixRow, Ring, Spot, describe, worst
from .model import WORDS, ChangeGroup, FleetReport, Loss, LossyPath, MapLink, ShownNode, ShownPlan, ShownPool, State
from .shown_text import LONGEST, MOST, cut, plural
from .shown_text import name as shown_name

#: The most nodes that are listed by name in the rack's card; above that each is a cell.
_LISTED = 40
#: The most racks that have room beside the map.
_BESIDE = 4
#: The most rows of the table of nodes, and from how many on it is folded.
_ROWS, _FOLDED = 2000, 40
_RACKS = 120
_NOT_WELL = 25
#: The most entries of a table that are shown unfolded.
_SHOWN = 12
_NEARLY_ALL = 0.8
_ORDER = {"bad": 0, "warn": 1, "unknown": 2, "good": 3}
_ACTIONS = {"+": "added", "~": "changed", "-": "removed", "!": "conflict or interrupted", "=": "kept"}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a table: a text, with the sign of `state` or a bar that is filled by `part`, from 0 to 1, before it.

    `style` is mono, strong, share for a part that may come near its whole, or "". `below` is a smaller line under it.
    """

    text: str
    state: t.Optional[State] = None
    part: t.Optional[float] = None
    style: str = ""
    below: str = ""

    @property
    def nearly_all(self) -> bool:
        """Whether the bar of a share is nearly full."""
        return self.style == "share" and self.part is not None and self.part >= _NEARLY_ALL


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table, and whether it has numbers."""

    title: str
    numbers: bool = False


@dataclasses.dataclass(frozen=True)
class ShownTable:
    """A table. On a phone each row becomes a card."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def _table(titles: str, rows: t.Iterable[t.Sequence[t.Union[Cell, str]]]) -> ShownTable:
    """Return a table of texts and cells. `titles` are separated by |; one that ends with # has numbers."""
    columns = tuple(Column(title.rstrip("#"), title.endswith("#")) for title in titles.split("|"))
    return ShownTable(
        columns,
        tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row[: len(columns)]) for row in rows),
    )


class Tile(t.NamedTuple):
    """A number that a reader looks for first, such as 12 of 40, with its words; `of` is "" for a number alone."""

    number: str
    of: str
    words: str


@dataclasses.dataclass(frozen=True)
class RackEntry:
    """A node in the card of its rack."""

    state: State
    name: str
    count: str
    title: str


class RackCard(t.NamedTuple):
    """A rack: its nodes as entries in a small fleet, else as `cells` of (state, title)."""

    name: str
    state: State
    words: str
    entries: tuple[RackEntry, ...]
    cells: tuple[tuple[State, str], ...]


class FleetMap(t.NamedTuple):
    """The map: a ring or a matrix, None for neither, with the lines of links that are not well, and the racks.

    `shapes` are those of the ring's places, each with what it stands for. Few racks stand beside the map.
    """

    label: str
    ring: t.Optional[Ring]
    matrix: t.Optional[tuple[MatrixRow, ...]]
    shapes: tuple[tuple[str, str], ...]
    linked: bool
    tunnels: bool
    bad: tuple[str, ...]
    racks: tuple[RackCard, ...]
    more_racks: int
    racks_beside: bool


@dataclasses.dataclass(frozen=True)
class DownSessions:
    """The sessions that are down: a table, a folded one of `folded` more, and how many of `count` have no row."""

    count: int
    table: ShownTable
    rest: ShownTable
    folded: int
    more: int


class Limited(t.NamedTuple):
    """A table, how many entries it lacks, and the words above it."""

    table: t.Optional[ShownTable]
    more: int = 0
    words: str = ""


class PlanGroup(t.NamedTuple):
    """The changes of one kind and action as a folded list of (text, nodes)."""

    words: str
    lines: tuple[tuple[str, str], ...]
    more: int
    opened: bool


class PlanSection(t.NamedTuple):
    """What a run changes where; without a `table` it changes nothing."""

    title: str
    facts: tuple[tuple[str, str], ...]
    impact: tuple[str, ...]
    phases: tuple[str, ...]
    table: t.Optional[ShownTable]
    groups: tuple[PlanGroup, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is to change."""
        return self.table is None and not self.phases


class LossSection(t.NamedTuple):
    """The loss of a switch over its phases, its seconds and its paths; without one, why it is not known (`note`)."""

    title: str
    note: str
    known: bool = False
    state: State = "unknown"
    words: str = ""
    about: str = ""
    phases: t.Optional[ShownTable] = None
    seconds: str = ""
    chart: t.Optional[LossChart] = None
    unwatched: tuple[str, ...] = ()
    paths: t.Optional[ShownTable] = None
    more_paths: int = 0
    all_paths: str = ""


@dataclasses.dataclass(frozen=True)
class Nodes:
    """The table of nodes. In a large fleet it is folded, and those that are not well come first, alone."""

    count: int
    table: ShownTable
    more: int
    folded: bool
    not_well: t.Optional[ShownTable]
    not_well_count: int
    more_not_well: int


@dataclasses.dataclass(frozen=True)
class ReportPage:
    """All sections of a page."""

    report: FleetReport
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[Tile, ...]
    fleet_map: t.Optional[FleetMap]
    sessions: t.Optional[DownSessions]
    blocks: t.Optional[Limited]
    routes: t.Optional[Limited]
    drift: t.Optional[Limited]
    plan: t.Optional[PlanSection]
    loss: t.Optional[LossSection]
    paths: t.Optional[Limited]
    nodes: t.Optional[Nodes]


def page(report: FleetReport) -> ReportPage:
    """Return the sections of the page of a report."""
    return ReportPage(
        report,
        _facts(report),
        tuple(_tiles(report)),
        _fleet_map(report),
        _sessions(report),
        _blocks(report),
        _routes(report),
        _drift(report),
        _plan(report.plan),
        _loss(report),
        _run_paths(report) if report.loss is None else None,
        _nodes(report),
    )


def _facts(report: FleetReport) -> tuple[tuple[str, str], ...]:
    origin = report.origin
    entries = (
        ("Made", origin.made + (f" by {origin.user}" if origin.user else "")),
        ("Inventory", origin.inventory),
        ("Command", origin.command),
        ("Collection", f"baremetal.host_routing {origin.version}"),
        ("Read from", origin.source),
    )
    return tuple((name, value) for name, value in entries if value)


def _tiles(report: FleetReport) -> t.Iterator[Tile]:
    """Yield the numbers that a reader looks for first."""
    nodes = report.nodes
    if nodes and report.plan is None:
        yield _share_tile(sum(node.state in ("good", "warn") for node in nodes), len(nodes), "nodes good")
    if report.sessions_all:
        yield _share_tile(report.sessions_up or 0, report.sessions_all, report.sessions_label)
    expected = [node for node in nodes if node.routes_expected is not None]
    if expected:
        missing = sum((node.routes_expected or 0) - (node.routes_present or 0) for node in expected)
        yield _tile(missing, f"of {sum(node.routes_expected or 0 for node in expected):,} routes missing")
    sizes = [node for node in nodes if node.size]
    if sizes:
        used, size = sum(node.used or 0 for node in sizes), sum(node.size or 0 for node in sizes)
        yield _share_tile(used, size, "addresses of blocks used")
    if any(node.workloads is not None for node in nodes):
        yield _tile(sum(node.workloads or 0 for node in nodes), "workloads")
    if any(node.drift is not None for node in nodes):
        yield _tile(sum(node.drift or 0 for node in nodes), "changes by others within 24 h")
    plan = report.plan
    if plan is not None:
        yield _share_tile(plan.changing, plan.hosts, f"nodes {'changed' if plan.made else 'change'}")
        if not plan.put_back:
            yield _tile(plan.resets, "ends of BGP sessions reset")
            yield _tile(plan.withdrawn, "routes withdrawn")
    loss = report.loss
    if loss is not None and loss.sent:
        which = "the switch" if plan is not None else "the last switch"
        if loss.proof:
            yield _tile(loss.lost, f"of {loss.sent:,} probes over the new routes unanswered in {which}")
        else:
            yield _tile(loss.lost, f"of {loss.sent:,} probes lost in {which}")
            yield Tile(f"{loss.gap:.1f} ms", "", f"longest gap in {which}")


def _tile(number: int, words: str) -> Tile:
    return Tile(f"{number:,}", "", words)


def _share_tile(number: int, of: int, words: str) -> Tile:
    return Tile(f"{number:,}", f"{of:,}", words)


def _spots(report: FleetReport) -> list[Spot]:
    """Return the places of the map: each node, or each rack of a large fleet, and the routers outside the fleet."""
    outside = [
        Spot(
            name,
            name.partition(" (")[0],
            "outside",
            _at(name, report.links),
            "square",
            f"router {shown_name(name)} outside the fleet",
            name.partition(" (")[2].rstrip(")"),
        )
        for name in report.routers
    ]
    nodes = [
        Spot(
            node.name,
            node.name,
            node.rack,
            node.state,
            "diamond" if node.reflector else "circle",
            f"{shown_name(node.name)} ({node.role}): {shown_name(node.word)}",
            f"{node.sessions_up}/{node.sessions_all} sessions" if node.sessions_all else "",
        )
        for node in sorted(report.nodes, key=lambda node: (node.rack, node.name))
    ]
    if len(nodes) + len(outside) <= drawing.RING:
        return nodes + outside
    racks = _by_rack(report.nodes)
    return [
        Spot(
            rack or "no rack",
            rack or "no rack",
            "",
            worst(node.state for node in members),
            "circle",
            f"{shown_name(rack)}: {plural(len(members), 'node')}",
            plural(len(members), "node"),
        )
        for rack, members in racks.items()
    ] + outside


def _at(name: str, links: t.Sequence[MapLink]) -> State:
    return worst(link.state for link in links if name in (link.a, link.b))


def _by_rack(nodes: t.Sequence[ShownNode]) -> dict[str, list[ShownNode]]:
    """Return the nodes by rack, both in the order of names."""
    found: dict[str, list[ShownNode]] = {}
    for node in sorted(nodes, key=lambda node: (node.rack, node.name)):
        found.setdefault(node.rack, []).append(node)
    return found


def _fleet_map(report: FleetReport) -> t.Optional[FleetMap]:
    """Return the map: places and links, a card for each rack, and the links that are down."""
    if not report.nodes:
        return None
    spots = _spots(report)
    racks = _by_rack(report.nodes)
    bad = [link for link in report.links if link.state == "bad"]
    label = (
        f"{plural(len(report.nodes), 'node')} in {plural(len(racks), 'rack')}, {plural(len(bad), 'link')} with losses"
    )
    in_ring = bool(report.links) and len(spots) <= drawing.RING
    in_matrix = bool(report.links) and not in_ring and len(spots) <= drawing.MATRIX
    return FleetMap(
        label,
        drawing.ring(spots, report.links) if in_ring else None,
        drawing.matrix([spot.name for spot in spots], report.links) if in_matrix else None,
        _shapes(spots, report.nodes) if in_ring else (),
        bool(report.links),
        any(mode in ("IPIP", "VXLAN") for link in report.links for mode in link.modes),
        tuple(describe(link) for link in bad),
        tuple(_card(rack, members, len(report.nodes)) for rack, members in list(racks.items())[:_RACKS]),
        len(racks) - _RACKS,
        in_ring and len(racks) <= _BESIDE,
    )


def _shapes(spots: t.Sequence[drawing.Spot], nodes: t.Sequence[ShownNode]) -> tuple[tuple[str, str], ...]:
    """Return the shapes of the places, each with what it stands for."""
    by_node = {node.name for node in nodes}.issuperset(spot.name for spot in spots if spot.shape == "circle")
    known = {"circle": "node" if by_node else "rack", "diamond": "route reflector", "square": "router outside"}
    shown = {spot.shape for spot in spots}
    return tuple((shape, words) for shape, words in known.items() if shape in shown)


def _card(rack: str, members: t.Sequence[ShownNode], nodes: int) -> RackCard:
    not_well = sum(node.state not in ("good", "warn") for node in members)
    words = f"{not_well} of {len(members)} not well" if not_well else f"{plural(len(members), 'node')}"
    changing = sum(bool(node.changes) for node in members)
    if changing and not not_well:
        words = f"{changing} of {plural(len(members), 'node')} with changes"
    small = nodes <= _LISTED
    return RackCard(
        shown_name(rack or "no rack"),
        worst(node.state for node in members),
        words,
        tuple(_entry(node) for node in members) if small else (),
        () if small else tuple((node.state, f"{shown_name(node.name)}: {_word(node)}") for node in members),
    )


def _word(node: ShownNode) -> str:
    return shown_name(node.word or WORDS[node.state])


def _entry(node: ShownNode) -> RackEntry:
    count = f"{node.sessions_up}/{node.sessions_all}" if node.sessions_all else node.word
    if node.changes is not None:
        count = plural(node.changes, "change")
    return RackEntry(node.state, shown_name(node.name), cut(count, 24), f"{node.role}: {_word(node)}")


def _sessions(report: FleetReport) -> t.Optional[DownSessions]:
    """Return a table with one row for each session that is down, or None if all are up."""
    if not report.down_count:
        return None
    down = report.down[:MOST]
    rows = [
        (
            Cell(f"{shown_name(one.host)} - {shown_name(one.peer)}", style="mono"),
            Cell(one.state or WORDS["bad"], "bad"),
            one.since or "-",
            cut(one.why or "-", LONGEST - 50) + (" Routes are kept by graceful restart." if one.routes_kept else ""),
        )
        for one in down
    ]
    titles = "Session|State|Since|Why"
    return DownSessions(
        report.down_count,
        _table(titles, rows[:_SHOWN]),
        _table(titles, rows[_SHOWN:]),
        len(rows) - _SHOWN,
        report.down_count - sum(one.count for one in down),
    )


def _blocks(report: FleetReport) -> t.Optional[Limited]:
    """Return the use of each pool's blocks."""
    if not report.pools:
        return None
    rows = [
        (
            shown_name(pool.name),
            Cell(pool.cidr, style="mono"),
            pool.mode or "-",
            f"{pool.blocks:,} on {plural(pool.nodes, 'node')}",
            _use(pool),
            pool.fullest or "-",
        )
        for pool in report.pools[:MOST]
    ]
    asked = any(pool.used is not None for pool in report.pools)
    titles = "Pool|CIDR|Mode|Blocks#|Addresses used|Fullest node" if asked else "Pool|CIDR|Mode|Blocks#"
    return Limited(_table(titles, rows), len(report.pools) - MOST)


def _use(pool: ShownPool) -> Cell:
    if pool.used is None or not pool.size:
        return Cell("not known" if pool.used is None else "-")
    part = pool.used / pool.size
    words = f"{pool.used:,} of {pool.size:,} ({100 * part:.0f} %)"
    return Cell(words + (" nearly full" if part >= _NEARLY_ALL else ""), part=part, style="share")


def _routes(report: FleetReport) -> t.Optional[Limited]:
    """Return the routes of all nodes by mode."""
    if not report.modes:
        return None
    most = max(mode.planned for mode in report.modes) or 1
    rows = [
        (
            Cell(mode.mode, style="strong"),
            shown_name(mode.pool),
            Cell(f"{mode.planned:,}", part=mode.planned / most),
            _missing(mode.missing),
        )
        for mode in report.modes[:MOST]
    ]
    asked = any(mode.missing is not None for mode in report.modes)
    titles = "Mode|Pool|Routes of all nodes|Missing" if asked else "Mode|Pool|Routes of all nodes"
    words = "Routes of all nodes to the blocks of the others, as the inventory plans them."
    return Limited(_table(titles, rows), words=words)


def _missing(count: t.Optional[int]) -> Cell:
    if count is None:
        return Cell("not known")
    return Cell(f"{count:,} missing", "bad") if count else Cell("none", "good")


def _drift(report: FleetReport) -> t.Optional[Limited]:
    """Return what other programs changed within a day, and the agents repaired."""
    known = [node for node in report.nodes if node.drift is not None]
    if not known:
        return None
    found = sorted((node for node in known if node.drift), key=lambda node: (-(node.drift or 0), node.name))
    if not found:
        words = f"No other program changed anything of this network within 24 hours, on {plural(len(known), 'node')}."
        return Limited(None, words=words)
    most = max(node.drift or 0 for node in found)
    rows = [
        (shown_name(node.name), Cell(f"{node.drift:,}", part=(node.drift or 0) / most), node.kinds or "-")
        for node in found[:10]
    ]
    words = "Changes by other programs within 24 hours. The agent of the node has repaired them, or tells of it above."
    return Limited(_table("Node|Changes|Kinds", rows), len(found) - 10, words)


def _plan(part: t.Optional[ShownPlan]) -> t.Optional[PlanSection]:
    """Return what a run changes where."""
    if part is None:
        return None
    total = sum(group.count for group in part.groups) or 1
    rows = [
        (
            Cell(f"{group.action} {_ACTIONS.get(group.action, '')}", style="strong"),
            group.kind,
            Cell(f"{group.count:,}", part=group.count / total),
            f"{group.nodes:,}",
        )
        for group in part.groups
    ]
    title = "What the run changed" if part.made else "What this plan changes"
    return PlanSection(
        title + (", and put back" if part.put_back else ""),
        tuple((name, value) for name, value in (("Plan", part.name), ("Approval", part.approval)) if value),
        part.impact,
        part.phases,
        _table("Change|Kind|Objects|Nodes#", rows) if rows else None,
        tuple(_group(group, index == 0) for index, group in enumerate(part.groups) if group.lines),
    )


def _group(group: ChangeGroup, first: bool) -> PlanGroup:
    return PlanGroup(
        f"{group.action} {group.kind}: {plural(group.count, 'object')} on {plural(group.nodes, 'node')}",
        group.lines,
        group.more,
        first and len(group.lines) <= 30,
    )


def _loss(report: FleetReport) -> t.Optional[LossSection]:
    """Return the loss of a switch over its phases, its seconds and its paths."""
    found = report.loss
    if found is None:
        return LossSection("Last switch", report.loss_note) if report.loss_note else None
    words = "switched" if found.switched else "not switched"
    if found.proof:
        words += "; only probes used the new routes, live traffic was not touched"
    elif found.sent:
        words += f", {found.lost:,} of {found.sent:,} probes lost" if found.lost else ", no probe lost"
    return LossSection(
        "Loss of the last switch" if report.plan is None else "Loss of the switch",
        report.loss_note,
        True,
        "bad" if found.lost or not found.switched else "good",
        words,
        cut(found.subject, LONGEST - 50) + (f", {found.when}" if found.when else ""),
        _phases(found),
        _seconds(found) if found.watched else "",
        drawing.loss_by_second(found) if found.watched else None,
        tuple(f"not all counted: {text}" for text in found.unwatched),
        _paths(found),
        found.lossy_more,
        _all_paths(found),
    )


def _phases(found: Loss) -> t.Optional[ShownTable]:
    if not found.phases:
        return None
    rows = [
        (
            Cell(phase.name, style="strong"),
            Cell("done" if phase.ok else "stopped here", "good" if phase.ok else "bad"),
            (phase.at or "-") + (f" (+{phase.seconds:.0f} s)" if phase.seconds else ""),
            phase.line,
        )
        for phase in found.phases
    ]
    return _table("Phase|Result|Finished|What was seen", rows)


def _seconds(found: Loss) -> str:
    return (
        f"Lost probes of all paths by second, from the start of the watches before the flip. The longest gap is "
        f"{found.gap:.1f} ms{f' ({found.worst})' if found.worst else ''}"
        f"{f'; gaps shorter than {found.resolution:.0f} ms may be missed' if found.resolution else ''}."
    )


def _run_paths(report: FleetReport) -> t.Optional[Limited]:
    """Return the paths of a run that lost probes. A switch has them in its loss."""
    if not report.paths:
        return None
    words = "Probes have the full size that fits the path. A path without any answer carries no packets of workloads."
    return Limited(_path_table(report.paths), report.paths_more, words)


def _paths(found: Loss) -> t.Optional[ShownTable]:
    return _path_table(found.lossy) if found.lossy else None


def _path_table(paths: t.Sequence[LossyPath]) -> ShownTable:
    rows = [
        (
            Cell(path.path, style="mono"),
            shown_name(path.pool or "-"),
            Cell(f"{path.lost:,} of {path.sent:,}", "bad") if path.lost else f"0 of {path.sent:,}",
            f"{path.gap:.1f} ms",
            path.why or "-",
        )
        for path in paths
    ]
    return _table("Path|Pool|Lost|Longest gap#|Why", rows)


def _all_paths(found: Loss) -> str:
    paths = plural(found.paths, "path")
    if found.lossy:
        return f"{paths} in all."
    return f"All {paths} answered." if found.paths else ""


def _nodes(report: FleetReport) -> t.Optional[Nodes]:
    """Return the table of nodes. Those that are not well come first, and stand alone in a large fleet."""
    if not report.nodes:
        return None
    ordered = sorted(report.nodes, key=lambda node: (_ORDER[node.state], node.rack, node.name))
    not_well = [node for node in ordered if node.state == "bad"]
    folded = len(ordered) > _FOLDED
    return Nodes(
        len(ordered),
        _rows(ordered[:_ROWS]),
        len(ordered) - _ROWS,
        folded,
        _rows(not_well[:_NOT_WELL]) if folded and not_well else None,
        len(not_well),
        len(not_well) - _NOT_WELL,
    )


def _rows(shown: t.Sequence[ShownNode]) -> ShownTable:
    def has(name: str) -> bool:
        return any(getattr(node, name) not in (None, "") for node in shown)

    columns: list[tuple[str, bool, t.Callable[[ShownNode], t.Union[Cell, str]]]] = [
        ("Node", True, lambda node: shown_name(node.name)),
        ("Rack", has("rack"), lambda node: shown_name(node.rack or "-")),
        ("Role", any(node.reflector for node in shown), lambda node: node.role),
        ("State", True, lambda node: Cell(node.word or WORDS[node.state], node.state, below=cut(node.detail, 200))),
        ("Changes#", has("changes"), lambda node: _number(node.changes)),
        ("BGP#", has("sessions_all"), lambda node: _of(node.sessions_up, node.sessions_all)),
        ("Routes#", has("routes_expected"), lambda node: _of(node.routes_present, node.routes_expected)),
        ("Addresses used", has("size"), _node_use),
        ("Workloads#", has("workloads"), lambda node: _number(node.workloads)),
        ("Drift (24 h)#", has("drift"), lambda node: _number(node.drift)),
        ("Agent", has("agent"), lambda node: shown_name(node.agent or "-")),
        ("Answer", has("age"), lambda node: node.age or "-"),
    ]
    used = [(title, cell) for title, wanted, cell in columns if wanted]
    return _table("|".join(title for title, dummy in used), ([cell(node) for dummy, cell in used] for node in shown))


def _number(value: t.Optional[int]) -> str:
    return "-" if value is None else f"{value:,}"


def _node_use(node: ShownNode) -> Cell:
    if not node.size:
        return Cell("-")
    names = ", ".join(node.blocks[:2]) + (f" +{len(node.blocks) - 2}" if len(node.blocks) > 2 else "")
    return Cell(f"{node.used}/{node.size}", part=(node.used or 0) / node.size, style="share", below=cut(names, 90))


def _of(up: t.Optional[int], total: t.Optional[int]) -> Cell:
    if up is None or total is None:
        return Cell("-")
    return Cell(f"{up:,}/{total:,}", None if up >= total else "bad")
