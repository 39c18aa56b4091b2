# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The releases of etcd in which no user writes keys of others by nested transactions (CVE-2026-33343).

Live policy needs one of them, or gates, which pass no such transaction.
"""

from __future__ import annotations

import re
import typing as t

from ...base.terminal_text import line

#: A release of etcd: three numbers, and what follows them.
RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})((?:[-+.].{0,60})?)", re.ASCII)
#: The first such release of each minor one. Later minor releases never had the fault.
_FIRST = {(3, 4): 42, (3, 5): 28, (3, 6): 9}
_LONGEST = 40

#: What to do about members of another release.
REMEDY = (
    "Upgrade the members to 3.4.42, 3.5.28, 3.6.9 or later, use a cluster of role calico_etcd, whose gates prevent it, "
    "or set calico_live_policy to false"
)


def problem(releases: t.Mapping[str, str]) -> str:
    """Return a clause about the first member in which rights do not hold, "" for none; `releases` are by member."""
    for name, release in sorted(releases.items()):
        if not _holds(release):
            shown = line(release[:_LONGEST]) or "of no version"  # a member writes it
            return f"{name} runs etcd {shown}, in which every node can write documents (CVE-2026-33343)"
    return ""


def _holds(release: str) -> bool:
    match = RELEASE.fullmatch(release)
    if match is None:
        return False
    minor, patch = (int(match.group(1)), int(match.group(2))), int(match.group(3))
    first = _FIRST.get(minor)
    if first is None:
        return minor > max(_FIRST)
    return patch > first or (patch == first and not match.group(4).startswith("-"))  # 3.5.28-rc.0 comes before 3.5.28
