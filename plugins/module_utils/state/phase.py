# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases by which a fleet changes its mode or BGP sessions while traffic flows; see fleet/change/transition.py."""

from __future__ import annotations

import enum


class Phase(str, enum.Enum):
    """A phase of a change. Its value is its text in playbooks, in stored states and in messages to nodes."""

    CONVERGE = "converge"
    PREPARE = "prepare"
    LINKS = "links"
    DIVERT = "divert"
    FLIP = "flip"
    RETIRE = "retire"

    def __str__(self) -> str:
        """Return the plain text, also in format strings of every Python version."""
        return str(self.value)

    @classmethod
    def from_text(cls, text: str) -> Phase:
        """Return the phase with this value, such as "flip". Raise ValueError if there is none."""
        try:
            return cls(text)
        except ValueError:
            raise ValueError(f"phase {text!r} is not one of {', '.join(cls)}") from None


#: The phases of a change in their order. DIVERT is left out if nothing would change in it.
PHASES = (Phase.PREPARE, Phase.LINKS, Phase.DIVERT, Phase.FLIP, Phase.RETIRE)
#: Phases in whose state a node may stay. The others are steps of a change: they never become a generation, and a node
#: reverts to one only if the next phase is not confirmed.
AT_REST = (Phase.CONVERGE, Phase.RETIRE)
#: Phases in which BGP sessions are still as they were before the change, if backup routes hold its traffic.
SESSIONS_HELD = (Phase.PREPARE, Phase.LINKS, Phase.DIVERT)
