# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probable mistakes in an inventory's policy, with the file and line where each is written, as far as known."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet
from ..host import Host, origin
from ..lint.policies import policy


def notices(fleet: Fleet, hosts: t.Sequence[Host]) -> tuple[str, ...]:
    """Return texts about probable mistakes in policy and denied probes, for readers of a plan; () without policy."""
    found = policy.mistakes(fleet)
    texts = []
    for one in [*found, *policy.denied_probes(fleet, found)]:
        variable, file = policy.written_at(fleet, one)
        places = (origin(variable, hosts) if variable else file, variable, f"{one.kind} {one.name}", one.text)
        texts.append(": ".join(filter(None, places)))
    return tuple(texts)
