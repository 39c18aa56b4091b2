# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawings of a report, as SVG inside the page: the map, the cells of a rack, bars, and a switch over time.

Positions are computed here from numbers. Names appear as text and in titles, which `markup` escapes.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from markupsafe import Markup

from .markup import LONGEST_NAME, cut, element, join
from .model import Loss, MapLink, ShownNode, State

#: The most places of a ring: with more of them, their names would lie on each other.
RING = 20
#: The most racks of a matrix.
MATRIX = 64
_WIDTH, _HEIGHT = 400.0, 390.0
_ACROSS, _DOWN = 112.0, 148.0  # the radii of the ring
_LABEL = 13  # the most characters of a name beside the ring
_NAMED_LINKS = 6  # the most links whose loss is written beside them
WORDS: t.Mapping[State, str] = {"good": "ok", "warn": "attention", "bad": "down", "unknown": "not known"}
_GRAVE: t.Mapping[State, int] = {"bad": 3, "warn": 2, "unknown": 1, "good": 0}


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


def worst(states: t.Iterable[State]) -> State:
    """Return the gravest of the states; unknown for none."""
    return max(states, key=_GRAVE.__getitem__, default="unknown")


def sign(state: State) -> Markup:
    """Return the sign of a state for a line of text. The word has to stand beside it."""
    return element("svg", element("use", href=f"#{state}"), css=f"i {state}", viewBox="0 0 12 12", aria_hidden="true")


def said(state: State, word: str = "") -> Markup:
    """Return a state as sign and word."""
    return element("span", sign(state), cut(word or WORDS[state], 120), css=f"state {state}")


def _mark(state: State, x: float, y: float, size: float) -> Markup:
    half = size / 2
    return element(
        "use",
        href=f"#{state}",
        css="sign",
        x=_n(x - half),
        y=_n(y - half),
        width=_n(size),
        height=_n(size),
    )


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def ring(spots: t.Sequence[Spot], links: t.Sequence[MapLink], label: str) -> Markup:
    """Return the map of at most RING places on a ring in the order of `spots`, with their links as chords.

    Places of one rack lie side by side on a band. `label` says in words what the map shows.
    """
    at = dict(zip((spot.name for spot in spots), _positions(spots)))
    bands = {rack: turns for rack, turns in _bands(spots).items() if rack}
    drawn = [_band(turns) for turns in bands.values()]
    known = [link for link in links if link.a in at and link.b in at and link.a != link.b]
    bad = [link for link in known if link.state == "bad"]
    curves = {id(link): _curve(at[link.a], at[link.b]) for link in known}
    drawn += [
        element("path", css="tube", d=curves[id(link)][0])
        for link in known
        if any(mode in ("IPIP", "VXLAN") for mode in link.modes)
    ]
    for link in sorted(known, key=lambda link: link.state == "bad"):
        css = "chord bad" if link.state == "bad" else "chord"
        drawn.append(element("g", element("title", describe(link)), element("path", css=css, d=curves[id(link)][0])))
    for link in bad:
        x, y = curves[id(link)][1]
        words = element("text", _short(link), x=_n(x + 9), y=_n(y + 4), css="redtext halo")
        drawn.append(
            element(
                "g",
                element("circle", css="spot", cx=_n(x), cy=_n(y), r="7"),
                _mark("bad", x, y, 10),
                words if len(bad) <= _NAMED_LINKS else None,
                css="bad",
            )
        )
    drawn += [_spot(spot, *at[spot.name]) for spot in spots]
    drawn += [_band_name(rack, turns) for rack, turns in bands.items()]
    return element("svg", *drawn, css="draw", viewBox=f"0 0 {_n(_WIDTH)} {_n(_HEIGHT)}", role="img", aria_label=label)


def describe(link: MapLink) -> str:
    """Return what is known of a link, as one line."""
    parts = []
    if link.total:
        parts.append(f"{link.up} of {link.total} sessions Established")
    if link.modes:
        parts.append(f"routes: {', '.join(link.modes)}")
    if link.missing:
        parts.append(f"{link.missing} route{'' if link.missing == 1 else 's'} missing")
    if link.sent:
        parts.append(f"{link.lost:,} of {link.sent:,} probes lost")
    return f"{cut(link.a, LONGEST_NAME)} - {cut(link.b, LONGEST_NAME)}: {'; '.join(parts) or 'nothing known'}"


def _short(link: MapLink) -> str:
    if link.up < link.total:
        down = link.total - link.up
        return "down" if link.total == 1 else f"{down} of {link.total} down"
    if link.missing:
        return f"{link.missing} route{'' if link.missing == 1 else 's'} missing"
    return f"{link.lost} lost"


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


def _positions(spots: t.Sequence[Spot]) -> list[tuple[float, float]]:
    return [_point(turn) for turn in _angles(spots)]


def _point(turn: float, scale: float = 1.0) -> tuple[float, float]:
    angle = 2 * math.pi * turn
    return _WIDTH / 2 + _ACROSS * scale * math.sin(angle), _HEIGHT / 2 - _DOWN * scale * math.cos(angle)


def _bands(spots: t.Sequence[Spot]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for spot, turn in zip(spots, _angles(spots)):
        found.setdefault(spot.rack, []).append(turn)
    return found


def _band(turns: t.Sequence[float]) -> Markup:
    first, last = turns[0], turns[-1]
    steps = max(1, round((last - first) * 60))
    points = [_point(first + (last - first) * step / steps) for step in range(steps + 1)]
    path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points) + ("h.01" if first == last else "")
    return element("g", element("path", css="edge", d=path), element("path", css="band", d=path))


def _band_name(rack: str, turns: t.Sequence[float]) -> Markup:
    x, y = _point((turns[0] + turns[-1]) / 2, 0.7)
    return element("text", cut(rack, 18), x=_n(x), y=_n(y + 4), css="small halo", text_anchor="middle")


def _curve(a: tuple[float, float], b: tuple[float, float]) -> tuple[str, tuple[float, float]]:
    """Return the SVG path of a link, a curve bent towards the middle of the ring, and the point halfway along it."""
    (ax, ay), (bx, by) = a, b
    mx, my = (ax + bx) / 2, (ay + by) / 2
    cx, cy = mx + (_WIDTH / 2 - mx) * 0.45, my + (_HEIGHT / 2 - my) * 0.45
    half = (0.25 * ax + 0.5 * cx + 0.25 * bx, 0.25 * ay + 0.5 * cy + 0.25 * by)
    return f"M{_n(ax)} {_n(ay)}Q{_n(cx)} {_n(cy)} {_n(bx)} {_n(by)}", half


def _spot(spot: Spot, x: float, y: float) -> Markup:
    if spot.shape == "diamond":
        shape = element("path", css="spot", d=f"M{_n(x)} {_n(y - 11)}l11 11-11 11-11-11z")
    elif spot.shape == "square":
        shape = element("rect", css="spot", x=_n(x - 8), y=_n(y - 8), width="16", height="16")
    else:
        shape = element("circle", css="spot", cx=_n(x), cy=_n(y), r="8.5")
    right = x >= _WIDTH / 2
    side = {"text_anchor": "start" if right else "end", "x": _n(x + (17 if right else -17))}
    name = element("text", cut(spot.label, _LABEL), y=_n(y + (0 if spot.count else 4)), css="halo", **side)
    count = element("text", cut(spot.count, 18), y=_n(y + 11), css="small halo", **side) if spot.count else None
    return element("g", element("title", spot.title), shape, _mark(spot.state, x, y, 11), name, count, css=spot.state)


def matrix(racks: t.Sequence[str], links: t.Sequence[MapLink], label: str) -> Markup:
    """Return the links between at most MATRIX racks as a triangle of cells; the diagonal is inside a rack."""
    index = {rack: number for number, rack in enumerate(racks)}
    found = {
        (max(index[link.a], index[link.b]), min(index[link.a], index[link.b])): link
        for link in links
        if link.a in index and link.b in index
    }
    left, size = 84.0, 10.0
    width = left + size * len(racks) + 8
    drawn = []
    for row, rack in enumerate(racks):
        y = 4 + row * size
        drawn.append(element("text", cut(rack, 16), x=_n(left - 6), y=_n(y + 8), text_anchor="end", css="small"))
        for column in range(row + 1):
            link = found.get((row, column))
            if link is None:
                continue
            x = left + column * size
            drawn.append(
                element(
                    "g",
                    element("title", describe(link)),
                    element(
                        "rect", css=f"cell {link.state}", x=_n(x + 0.5), y=_n(y + 0.5), width=_n(size - 1),
                        height=_n(size - 1),
                    ),
                    _mark("bad", x + size / 2, y + size / 2, size - 2) if link.state == "bad" else None,
                    css=link.state,
                )
            )  # fmt: skip
    height = size * len(racks) + 8
    svg = element("svg", *drawn, css="draw", viewBox=f"0 0 {_n(width)} {_n(height)}", role="img", aria_label=label)
    return element("div", svg, css="wide", tabindex="0")


def cells(nodes: t.Sequence[ShownNode], columns: int = 10) -> Markup:
    """Return a small cell for each node of a rack, with its sign; the name is in the cell's title."""
    size, apart = 14, 17
    drawn = []
    for number, node in enumerate(nodes):
        x, y = number % columns * apart + 1, number // columns * apart + 1
        drawn.append(
            element(
                "g",
                element(
                    "title", f"{cut(node.name, LONGEST_NAME)}: {cut(node.word or WORDS[node.state], LONGEST_NAME)}"
                ),
                element("rect", x=x, y=y, width=size, height=size, rx=3),
                _mark(node.state, x + size / 2, y + size / 2, 11),
                css=node.state,
            )
        )
    rows = -(-len(nodes) // columns)
    width, height = columns * apart, rows * apart
    return element(
        "svg", *drawn, css="cells", viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
        aria_label=f"{len(nodes)} nodes",
    )  # fmt: skip


def filled(part: float, full: bool = False) -> Markup:
    """Return a bar that is filled by `part`, from 0 to 1. The numbers have to stand beside it."""
    width = _n(100 * min(1.0, max(0.0, part)))
    return element(
        "svg", element("rect", width=width, height="10"), css="bar full" if full else "bar", viewBox="0 0 100 10",
        preserveAspectRatio="none", aria_hidden="true",
    )  # fmt: skip


def loss_by_second(loss: Loss, bars: int = 120) -> Markup:
    """Return the lost probes over the seconds of the watch, as bars; several seconds share a bar of a long watch."""
    seconds = max(1.0, math.ceil(loss.watched), *(second + 1 for second, dummy in loss.by_second))
    each = max(1, math.ceil(seconds / bars))
    sums: dict[int, int] = {}
    for second, lost in loss.by_second:
        sums[second // each] = sums.get(second // each, 0) + lost
    most = max(sums.values(), default=0)
    left, top, width, height = 44.0, 16.0, 340.0, 90.0
    wide = width * each / seconds
    drawn = [
        element("line", css="axis", x1=_n(left), x2=_n(left + width), y1=_n(top + height), y2=_n(top + height)),
        element("text", "0", x=_n(left - 5), y=_n(top + height), text_anchor="end", css="small"),
        element("text", "0 s", x=_n(left), y=_n(top + height + 13), css="small"),
        element(
            "text", f"{seconds:.0f} s", x=_n(left + width), y=_n(top + height + 13), text_anchor="end", css="small"
        ),
    ]
    if most:
        drawn.append(element("text", f"{most:,}", x=_n(left - 5), y=_n(top + 6), text_anchor="end", css="small"))
    else:
        drawn.append(
            element("text", "no probe was lost", x=_n(left + width / 2), y=_n(top + height / 2), text_anchor="middle")
        )
    for slot, lost in sorted(sums.items()):
        tall = max(2.0, height * lost / most)
        until = f"{slot * each} s" if each == 1 else f"{slot * each} to {(slot + 1) * each} s"
        drawn.append(
            element(
                "g",
                element("title", f"{until}: {lost:,} lost"),
                element(
                    "rect", css="lossbar", x=_n(left + slot * wide), y=_n(top + height - tall),
                    width=_n(max(1.5, wide - 0.6)), height=_n(tall),
                ),
            )
        )  # fmt: skip
    return element(
        "svg", *drawn, css="draw", viewBox="0 0 400 124", role="img",
        aria_label=f"Lost probes over {seconds:.0f} seconds",
    )  # fmt: skip


def legend(tunnels: bool) -> Markup:
    """Return the legend of the map."""
    keys = [
        (element("svg", element("path", css="chord", d="M1 6h28"), css="key draw", viewBox="0 0 30 12"), "session up"),
        (
            element("svg", element("path", css="chord bad", d="M1 6h28"), css="key draw", viewBox="0 0 30 12"),
            "something down (dashed, with a cross)",
        ),
    ]
    if tunnels:
        tube = element("path", css="tube", d="M3 6h24"), element("path", css="chord", d="M1 6h28")
        keys.append((element("svg", *tube, css="key draw", viewBox="0 0 30 12"), "routes through a tunnel"))
    signs = [element("span", sign(state), WORDS[state]) for state in ("good", "warn", "bad", "unknown")]
    return element("div", *(element("span", join(key, words)) for key, words in keys), *signs, css="legend")
