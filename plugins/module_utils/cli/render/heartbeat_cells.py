# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's heartbeat says, as cells of a table and as sentences about what is wrong. No I/O."""

from __future__ import annotations

import typing as t

from ...datastore.heartbeats import INTERVAL_SECONDS, Heartbeat
from ...state.derived import path_status
from ...state.derived.path_status import PathStatus
from ...state.phase import AT_REST

HEADINGS = ("HEARTBEAT", "AGENT", "BGP", "WORKLOADS", "SYNC", "DRIFT(24h)", "REVISION", "PROBLEMS")
#: A heartbeat that is older, in seconds, says how the node was, not how it is.
STALE_SECONDS = 3 * INTERVAL_SECONDS
#: A heartbeat from the future shows a clock that is wrong by more seconds than this.
_AHEAD_SECONDS = 30.0
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
_ABSENT = ("never !", *("-" for dummy in HEADINGS[1:]))


def cells(heartbeat: t.Optional[Heartbeat], now: float) -> tuple[str, ...]:
    """Return the cells for HEADINGS. `now` is the time in seconds since 1970. "!" marks what is wrong."""
    if heartbeat is None:
        return _ABSENT
    up, total = heartbeat.sessions_established, heartbeat.sessions_total
    return (
        f"{_age(heartbeat, now)}{' !' if not is_fresh(heartbeat, now) else ''}",
        heartbeat.version,
        f"{up}/{total}{' !' if up < total else ''}" if total else "-",
        str(heartbeat.workloads),
        "ok" if heartbeat.in_sync else "no !",
        str(heartbeat.drift_day),
        f"{heartbeat.revision}{'' if heartbeat.feed_synced else ' !'}",
        f"{heartbeat.problems} !" if heartbeat.problems else "0",
    )


def is_fresh(heartbeat: Heartbeat, now: float) -> bool:
    """Return whether a heartbeat says how its node is at present, and its clock agrees."""
    return -_AHEAD_SECONDS <= heartbeat.age(now) <= STALE_SECONDS


def mostly_down(heartbeat: Heartbeat) -> bool:
    """Return whether most of a node's BGP sessions are not Established, or nothing is known of them."""
    down = heartbeat.sessions_total - heartbeat.sessions_established
    return down * 2 > heartbeat.sessions_total if heartbeat.sessions_total else heartbeat.problems > 0


def wrong(heartbeat: Heartbeat, now: float, blamed: t.Container[str] = frozenset()) -> t.Iterator[str]:
    """Yield a clause that ends in a full stop for each thing that is wrong, without the node's name.

    A session with a node that is `blamed` is left out, unless this node is itself blamed.
    """
    age = heartbeat.age(now)
    if age > STALE_SECONDS:
        yield (
            f"its last heartbeat is {duration(age)} old. The agent or the host is down, does not reach the datastore, "
            "or has a clock that is behind; what follows is from then."
        )
    elif age < -_AHEAD_SECONDS:
        yield f"its clock is {duration(-age)} ahead of the one here. Let both take the time by NTP."
    if heartbeat.problems:
        more = f" ({heartbeat.problems - 1} more)" if heartbeat.problems > 1 else ""
        yield f"{heartbeat.first_problem.rstrip('.')}{more}."
    elif not heartbeat.in_sync:
        yield "the agent repairs. `calicoctl plan` there says what."
    down = heartbeat.sessions_total - heartbeat.sessions_established
    if heartbeat.node not in blamed:
        down -= sum(peer in blamed for peer in heartbeat.sessions_down)
    if down:
        verb = "is" if down == 1 else "are"
        yield f"{down} of {heartbeat.sessions_total} BGP sessions {verb} not Established."
    if heartbeat.paths is not None:
        yield from _wrong_paths(heartbeat.node, heartbeat.paths, blamed)
    if not heartbeat.feed_synced:
        heard = f"since {duration(heartbeat.feed_age)}" if heartbeat.feed_age is not None else "so far"
        yield f"it hears nothing of other nodes {heard}; its policy keeps what it knows of them."
    if heartbeat.phase and heartbeat.phase not in map(str, AT_REST):
        yield (
            f"it is in phase {heartbeat.phase} of a change. If no run goes on, run playbooks/site.yml without --limit."
        )


def _wrong_paths(node: str, paths: PathStatus, blamed: t.Container[str]) -> t.Iterator[str]:
    """Yield a clause about each path that is down, unless it leads to a node that is `blamed`."""
    down = [path for path in paths.down if path.node not in blamed]
    begin = f"{node} -> "
    yield from (f"the path to {path_status.sentence(node, path).removeprefix(begin)}." for path in down)
    more = paths.count_down - len(paths.down)
    if more > 0 and len(down) == len(paths.down):
        yield f"{more} more paths are down."
    if paths.fragmenting is not None:
        yield str(paths.fragmenting)


def _age(heartbeat: Heartbeat, now: float) -> str:
    age = heartbeat.age(now)
    return f"{duration(-age)} ahead" if age < -_AHEAD_SECONDS else duration(age)


def duration(seconds: float) -> str:
    """Return a time in its largest whole unit: `9d`, `3h`, `12m` or `40s`. A negative time is `0s`."""
    whole = max(int(seconds), 0)
    for unit, letter in _UNITS:
        if whole >= unit:
            return f"{whole // unit}{letter}"
    return f"{whole}s"
