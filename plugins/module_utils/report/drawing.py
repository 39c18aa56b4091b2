# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawings of a report as values, whose positions are numbers: the page's template draws them as SVG."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from .model import Loss, MapLink, State
from .shown_text import name as shown_name
from .shown_text import plural

#: The most places of a ring: with more of them, their names would lie on each other.
RING = 20
#: The most racks of a matrix.
MATRIX = 64
WIDTH, HEIGHT = 400.0, 390.0
_ACROSS, _DOWN = 112.0, 148.0  # the radii of the ring
_NAMED_LINKS = 6  # the most links whose loss is written beside them
_GRAVE: t.Mapping[State, int] = {"bad": 3, "warn": 2, "unknown": 1, "good": 0}
_Point = tuple[float, float]


def worst(states: t.Iterable[State]) -> State:
    """Return the gravest of the states; unknown for none."""
    return max(states, key=_GRAVE.__getitem__, default="unknown")


@dataclasses.dataclass(frozen=True)
class Spot:
    """A place on the map, called `name` in links and `label` in the drawing.

    `shape` is circle for a node or rack, diamond for a reflector, square for a router.
    """

    name: str
    label: str
    rack: str
    state: State
    shape: str
    title: str
    count: str = ""
    x: float = 0.0
    y: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the label lies to the right of the place."""
        return self.x >= WIDTH / 2


class Band(t.NamedTuple):
    """The band below the places of a rack: its SVG path, and the middle of the rack's name."""

    rack: str
    path: str
    x: float
    y: float


class Chord(t.NamedTuple):
    """A link as a curve: its SVG path and the point halfway. `words` are written there, "" for none."""

    title: str
    path: str
    bad: bool
    tunnel: bool
    x: float
    y: float
    words: str


class Ring(t.NamedTuple):
    """Places on a ring, with their links as chords."""

    bands: tuple[Band, ...]
    chords: tuple[Chord, ...]
    spots: tuple[Spot, ...]


def ring(spots: t.Sequence[Spot], links: t.Sequence[MapLink]) -> Ring:
    """Return at most RING places on a ring in the order of `spots`, with their links. A rack's places share a band."""
    placed = tuple(dataclasses.replace(spot, x=x, y=y) for spot, (x, y) in zip(spots, positions(spots)))
    at = {spot.name: (spot.x, spot.y) for spot in placed}
    known = [link for link in links if link.a in at and link.b in at and link.a != link.b]
    named = sum(link.state == "bad" for link in known) <= _NAMED_LINKS
    return Ring(
        tuple(_band(rack, turns) for rack, turns in _bands(spots).items()),
        tuple(_chord(link, at[link.a], at[link.b], named) for link in known),
        placed,
    )


def describe(link: MapLink) -> str:
    """Return what is known of a link, as one line."""
    parts = []
    if link.total:
        parts.append(f"{link.up} of {link.total} sessions Established")
    if link.modes:
        parts.append(f"routes: {', '.join(link.modes)}")
    if link.missing:
        parts.append(f"{plural(link.missing, 'route')} missing")
    if link.sent:
        parts.append(f"{link.lost:,} of {link.sent:,} probes lost")
    return f"{shown_name(link.a)} - {shown_name(link.b)}: {'; '.join(parts) or 'nothing known'}"


def _short(link: MapLink) -> str:
    if link.up < link.total:
        down = link.total - link.up
        return "down" if link.total == 1 else f"{down} of {link.total} down"
    if link.missing:
        return f"{plural(link.missing, 'route')} missing"
    return f"{link.lost} lost"


def _chord(link: MapLink, a: _Point, b: _Point, named: bool) -> Chord:
    """Return a link as a curve that is bent towards the middle of the ring."""
    (ax, ay), (bx, by) = a, b
    mx, my = (ax + bx) / 2, (ay + by) / 2
    cx, cy = mx + (WIDTH / 2 - mx) * 0.45, my + (HEIGHT / 2 - my) * 0.45
    bad = link.state == "bad"
    return Chord(
        describe(link),
        f"M{decimal(ax)} {decimal(ay)}Q{decimal(cx)} {decimal(cy)} {decimal(bx)} {decimal(by)}",
        bad,
        any(mode in ("IPIP", "VXLAN") for mode in link.modes),
        0.25 * ax + 0.5 * cx + 0.25 * bx,
        0.25 * ay + 0.5 * cy + 0.25 * by,
        _short(link) if bad and named else "",
    )


def _angles(spots: t.Sequence[Spot]) -> list[float]:
    """Return the angle of each place, in turns from the top. Between two racks lies half a place more."""
    gaps = [0.5 if spot.rack != spots[index - 1].rack else 0.0 for index, spot in enumerate(spots)]
    whole = len(spots) + sum(gaps)
    turns, now = [], 0.0
    for gap in gaps:
        now += gap
        turns.append(now / whole)
        now += 1
    # The first and the last place lie at the same distance from the top.
    shift = (1 + gaps[0]) / 2 / whole - turns[0] if spots else 0.0
    return [turn + shift for turn in turns]


def positions(spots: t.Sequence[Spot]) -> list[_Point]:
    """Return the points of the places on the ring."""
    return [_point(turn) for turn in _angles(spots)]


def _point(turn: float, scale: float = 1.0) -> _Point:
    angle = 2 * math.pi * turn
    return WIDTH / 2 + _ACROSS * scale * math.sin(angle), HEIGHT / 2 - _DOWN * scale * math.cos(angle)


def _bands(spots: t.Sequence[Spot]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for spot, turn in zip(spots, _angles(spots)):
        found.setdefault(spot.rack, []).append(turn)
    return found


def _band(rack: str, turns: t.Sequence[float]) -> Band:
    first, last = turns[0], turns[-1]
    steps = max(1, round((last - first) * 60))
    points = [_point(first + (last - first) * step / steps) for step in range(steps + 1)]
    path = "M" + "L".join(f"{decimal(x)} {decimal(y)}" for x, y in points) + ("h.01" if first == last else "")
    return Band(rack, path, *_point((first + last) / 2, 0.7))


def decimal(value: float) -> str:
    """Return a number with at most one digit after the point."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


class MatrixCell(t.NamedTuple):
    """A pair of racks in a matrix, by the index of its column."""

    column: int
    title: str
    state: State


class MatrixRow(t.NamedTuple):
    """A rack of a matrix, and its pairs with the racks before it and with itself."""

    rack: str
    cells: tuple[MatrixCell, ...]


def matrix(racks: t.Sequence[str], links: t.Sequence[MapLink]) -> tuple[MatrixRow, ...]:
    """Return the links between at most MATRIX racks as a triangle of cells; the diagonal is inside a rack."""
    index = {rack: number for number, rack in enumerate(racks)}
    found = {
        (max(index[link.a], index[link.b]), min(index[link.a], index[link.b])): link
        for link in links
        if link.a in index and link.b in index
    }
    return tuple(
        MatrixRow(
            rack,
            tuple(
                MatrixCell(column, describe(found[row, column]), found[row, column].state)
                for column in range(row + 1)
                if (row, column) in found
            ),
        )
        for row, rack in enumerate(racks)
    )


class LossBar(t.NamedTuple):
    """The lost probes of one or several seconds: the bar's place and size, and what it says."""

    title: str
    x: float
    y: float
    width: float
    height: float


class LossChart(t.NamedTuple):
    """The lost probes over the seconds of a watch. `most` are those of the highest bar, 0 for none."""

    seconds: float
    most: int
    bars: tuple[LossBar, ...]


#: The place of the chart's area inside its drawing: left, top, width, height.
CHART = (44.0, 16.0, 340.0, 90.0)


def loss_by_second(loss: Loss, bars: int = 120) -> LossChart:
    """Return the lost probes over the seconds of the watch, as bars; several seconds share a bar of a long watch."""
    seconds = max(1.0, math.ceil(loss.watched), *(second + 1 for second, dummy in loss.by_second))
    each = max(1, math.ceil(seconds / bars))
    sums: dict[int, int] = {}
    for second, lost in loss.by_second:
        sums[second // each] = sums.get(second // each, 0) + lost
    most = max(sums.values(), default=0)
    left, top, width, height = CHART
    wide = width * each / seconds
    drawn = []
    for slot, lost in sorted(sums.items()):
        tall = max(2.0, height * lost / most)
        until = f"{slot * each} s" if each == 1 else f"{slot * each} to {(slot + 1) * each} s"
        drawn.append(
            LossBar(f"{until}: {lost:,} lost", left + slot * wide, top + height - tall, max(1.5, wide - 0.6), tall)
        )
    return LossChart(seconds, most, tuple(drawn))
