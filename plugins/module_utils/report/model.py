# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as a report shows it: plain values. Texts may be hostile; the page escapes each of them."""

from __future__ import annotations

import dataclasses
import typing as t

#: How well something is: as planned, worth attention, wrong, or not known.
State = t.Literal["good", "warn", "bad", "unknown"]
WORDS: t.Mapping[State, str] = {"good": "ok", "warn": "attention", "bad": "down", "unknown": "not known"}


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a report comes from. `made` is the time as text, and `command` the command without secrets."""

    title: str
    command: str
    inventory: str
    made: str
    version: str
    user: str = ""
    source: str = ""  # how the values were read, as a sentence


@dataclasses.dataclass(frozen=True)
class ShownNode:
    """A host of the play. A count of None is not known.

    `word` says the state in one or two words, `detail` in a sentence. `used` of `size` addresses in its blocks are in
    use. `drift` counts what others changed within a day, and `kinds` are the kinds of objects. `age` is how old the
    answer is, "" for one that was read for this report.
    """

    name: str
    rack: str = ""
    reflector: bool = False
    workload_node: bool = True
    state: State = "unknown"
    word: str = ""
    detail: str = ""
    sessions_up: t.Optional[int] = None
    sessions_all: t.Optional[int] = None
    blocks: tuple[str, ...] = ()
    used: t.Optional[int] = None
    size: t.Optional[int] = None
    workloads: t.Optional[int] = None
    routes_present: t.Optional[int] = None
    routes_expected: t.Optional[int] = None
    drift: t.Optional[int] = None
    kinds: str = ""
    agent: str = ""
    age: str = ""
    changes: t.Optional[int] = None

    @property
    def role(self) -> str:
        """The node's role in a word or two."""
        if not self.reflector:
            return "node"
        return "node, reflector" if self.workload_node else "reflector"


@dataclasses.dataclass(frozen=True)
class MapLink:
    """What lies between two places of the map: nodes, racks or routers outside the fleet.

    `up` of `total` sessions are Established. `modes` are the modes of the routes there, such as `IPIP`. `missing`
    counts the routes that are not there, and `lost` of `sent` probes got no answer.
    """

    a: str
    b: str
    up: int = 0
    total: int = 0
    modes: tuple[str, ...] = ()
    missing: int = 0
    sent: int = 0
    lost: int = 0

    @property
    def state(self) -> State:
        """Whether sessions, routes and probes of the link are as planned."""
        if self.up < self.total or self.missing or self.lost:
            return "bad"
        return "good" if self.total or self.sent else "unknown"


@dataclasses.dataclass(frozen=True)
class DownSession:
    """A BGP session that is not Established, as the node `host` tells of it; or `count` sessions of one node."""

    host: str
    peer: str
    state: str
    since: str = ""
    why: str = ""
    routes_kept: bool = False
    count: int = 1


@dataclasses.dataclass(frozen=True)
class ShownPool:
    """A pool: its blocks, and how many of the addresses in them are used.

    `used`, `free` and `size` are None if nodes were not asked. `fullest` names the node with the largest used share.
    """

    name: str
    cidr: str
    mode: str
    blocks: int
    nodes: int
    used: t.Optional[int] = None
    size: t.Optional[int] = None
    fullest: str = ""


@dataclasses.dataclass(frozen=True)
class RouteMode:
    """The routes of all nodes in one mode: as planned, and how many of them are missing (None: not known)."""

    mode: str
    pool: str
    planned: int
    missing: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class ChangeGroup:
    """The changes of one kind and action. `lines` are (text, nodes as text), of at most some; `count` counts all."""

    kind: str
    action: str
    count: int
    nodes: int
    lines: tuple[tuple[str, str], ...] = ()
    more: int = 0


@dataclasses.dataclass(frozen=True)
class ShownPlan:
    """What a run changes, has changed or has put back, as lines; `approval` is the plan's hash."""

    made: bool
    put_back: bool
    hosts: int
    changing: int
    resets: int
    withdrawn: int
    name: str = ""
    approval: str = ""
    impact: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    groups: tuple[ChangeGroup, ...] = ()


@dataclasses.dataclass(frozen=True)
class SwitchPhase:
    """A phase of a switch. `at` is the time of its gate as text, `seconds` since the first gate."""

    name: str
    line: str
    ok: bool
    at: str = ""
    seconds: t.Optional[float] = None


@dataclasses.dataclass(frozen=True)
class LossyPath:
    """A path with lost probes or a gap. `gap` is the longest time without an answer in milliseconds.

    `why` also says on which way the probes were lost, if that is known. `pool` is "" in records that lack it.
    """

    path: str
    sent: int
    lost: int
    gap: float
    why: str = ""
    pool: str = ""


@dataclasses.dataclass(frozen=True)
class Loss:
    """The loss of a switch. `by_second` has (second since the watch began, lost probes), () if it was not recorded.

    `watched` is how many seconds the longest watch ran. With `proof` the switch ended before the flip: only probes
    used the new routes, and live traffic was not touched. `unwatched` are nodes that did not count all of it.
    """

    subject: str
    when: str = ""
    switched: bool = True
    proof: bool = False
    phases: tuple[SwitchPhase, ...] = ()
    sent: int = 0
    lost: int = 0
    paths: int = 0
    gap: float = 0.0
    worst: str = ""
    resolution: float = 0.0
    lossy: tuple[LossyPath, ...] = ()
    lossy_more: int = 0
    by_second: tuple[tuple[int, int], ...] = ()
    watched: float = 0.0
    unwatched: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class FleetReport:
    """All that a page shows. A part that is None, or empty without a count, was not asked for.

    `links` are between the places of the map: nodes of a small fleet, otherwise racks. `routers` are the places outside
    the fleet. `down` are the first of `down_count` sessions. `word` says in a few words how it is, and `verdict` more.
    """

    origin: Origin
    state: State
    word: str
    verdict: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    nodes: tuple[ShownNode, ...] = ()
    routers: tuple[str, ...] = ()
    links: tuple[MapLink, ...] = ()
    sessions_up: t.Optional[int] = None
    sessions_all: t.Optional[int] = None
    sessions_label: str = "BGP sessions Established"
    down: tuple[DownSession, ...] = ()
    down_count: int = 0
    pools: tuple[ShownPool, ...] = ()
    modes: tuple[RouteMode, ...] = ()
    plan: t.Optional[ShownPlan] = None
    paths: tuple[LossyPath, ...] = ()  # those of a run that lost probes, of at most some
    paths_more: int = 0
    loss: t.Optional[Loss] = None
    loss_note: str = ""
