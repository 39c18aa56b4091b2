# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ages of BGP sessions, from BIRD's answer `show protocols`: whether a session was interrupted meanwhile."""

from __future__ import annotations

import datetime
import re
import typing as t


def established_since(shown: str) -> dict[str, datetime.datetime]:
    """Return {session: time of its establishment} of the Established BGP sessions in BIRD's answer `show protocols`.

    BIRD must have `timeformat protocol iso long`. Times are in whole seconds. BIRD computes them anew for each answer,
    so two answers about one session may differ by a second.
    """
    lines = re.findall(r"^(\S+) +BGP +\S+ +up +(\S.*?) +Established", shown, re.MULTILINE)
    return {name: datetime.datetime.fromisoformat(since) for name, since in lines}


def younger_sessions(before: t.Mapping[str, datetime.datetime], after: t.Mapping[str, datetime.datetime]) -> list[str]:
    """Return the sessions that are up in `before` and down in `after`, or established more than 1.5 seconds later.

    Sessions in `after` alone are left out. BIRD prints whole seconds (`timeformat protocol iso long`), so the printed
    time of one session may vary by a second.
    """
    limit = datetime.timedelta(seconds=1.5)
    return [name for name, since in before.items() if name not in after or after[name] - since > limit]


def changed_sessions(before: t.Mapping[str, datetime.datetime], after: t.Mapping[str, datetime.datetime]) -> list[str]:
    """Return the sessions of `younger_sessions`, and those that are up in `after` alone."""
    return [*younger_sessions(before, after), *(name for name in after if name not in before)]
