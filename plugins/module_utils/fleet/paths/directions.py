# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The direction in which the probes of a silent path are lost, by what the node at its other end heard.

A node hears probes of others only while it probes itself. It says nothing about a path if it may have missed every
round on it. Either it heard a whole round on another path of the same two nodes, or the clocks decide: nodes' answers
have a window, which is when, by the controller's clock, the node probed.
"""

from __future__ import annotations

import typing as t

from ...base.typed_json import Reader, Unreadable, number, open_table
from ...state.derived import path_loss

#: The part of the time in which a node probes that has one whole round of three.
_ROUND = 2 / 3

_SECONDS = number(0.0, 1e6)
_CLOCK = open_table({"began": _SECONDS, "ended": _SECONDS, "total": _SECONDS})
#: The reader of a window: the earliest and the latest second at which the node began to probe, and for how long it did.
WINDOW: Reader = open_table({"earliest": number(0.0, 1e12), "latest": number(0.0, 1e12), "seconds": number(0.0, 1e6)})


def window(clock: t.Any, before: float, after: float) -> t.Optional[dict[str, float]]:
    """Return the window of probes in a call that lasted from `before` to `after` (seconds) by the controller's clock.

    `clock` is what the node says: when probes began and ended, since the call began there, and how long it lasted.
    Return None if it is unusable.
    """
    try:
        said = _CLOCK(clock)
    except Unreadable:
        return None
    if not said["began"] <= said["ended"] <= said["total"] <= after - before:
        return None
    return {
        "earliest": before + said["began"],
        "latest": after - (said["total"] - said["began"]),
        "seconds": said["ended"] - said["began"],
    }


Answer = t.Mapping[str, t.Any]


def direction(heard: t.Optional[int], own: Answer, other: Answer, listened: bool = False) -> str:
    """Return where the probes of a silent path were lost: one of path_loss.DIRECTIONS.

    `heard` is how many of them the other node heard, by its entry of the same path in the other direction; None without
    one. `own` and `other` are the answers of the probing node and of the other one, in one task. Answers of different
    times leave the direction unknown, unless the other node surely `listened`.
    """
    if heard == 0 and not listened and not _met(own.get("window"), other.get("window")):
        heard = None
    return path_loss.direction_of(heard)


def _met(own: t.Optional[Answer], other: t.Optional[Answer]) -> bool:
    """Return whether the other node surely listened during one whole round of probes of this one."""
    if own is None or other is None or not own["seconds"]:
        return False
    shifts = (other["earliest"] - own["latest"], other["latest"] - own["earliest"])
    common = [min(own["seconds"], shift + other["seconds"]) - max(0.0, shift) for shift in shifts]
    return bool(min(common) >= _ROUND * own["seconds"])
