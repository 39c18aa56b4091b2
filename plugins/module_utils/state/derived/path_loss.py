# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a probed path loses packets: one closed list of reasons for runs, agents and people."""

from __future__ import annotations

import typing as t

NO_ROUTE = "no route"
UNREACHABLE = "unreachable"
TOO_LARGE = "too large"
REFUSED = "refused"
LOOP = "loop"
NO_ANSWER = "no answer"
#: Every reason. NO_ROUTE is what the probing node itself says, NO_ANSWER is the reason if nobody said anything.
REASONS = (NO_ROUTE, UNREACHABLE, TOO_LARGE, REFUSED, LOOP, NO_ANSWER)

#: Where probes are lost: on the way to the other node, or their answers on the way back. "" if that is not known.
THERE, BACK = "there", "back"
DIRECTIONS = ("", THERE, BACK)

_WORDS = {TOO_LARGE: "too large for the path", LOOP: "time to live exceeded (a loop)"}


class PathLoss(t.NamedTuple):
    """Why a path loses packets.

    `reason` is one of REASONS. `by` is the address of the router or node that said so, "" if nobody did. `direction` is
    one of DIRECTIONS.
    """

    reason: str
    by: str = ""
    direction: str = ""

    def __str__(self) -> str:
        said = f", says {self.by}" if self.by else ""
        lost = {THERE: " (lost on the way there)", BACK: " (lost on the way back)"}.get(self.direction, "")
        return f"{_WORDS.get(self.reason, self.reason)}{said}{lost}"


def direction_of(heard: t.Optional[int]) -> str:
    """Return where the probes of a silent path were lost, by how many of them the other end heard; None: not known."""
    if heard is None:
        return ""
    return BACK if heard else THERE
