# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times with their age: `2026-11-21 14:02 UTC, 3 h ago`. No I/O."""

from __future__ import annotations

import datetime

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def dated(when: str, now: float) -> str:
    """Return the time `when` with its age at `now`, as `2026-11-21 14:02 UTC, 3 h ago`; below a minute, "just now".

    Leave the age out if the time is in the future (another node's clock). `when` is ISO 8601 in UTC
    (2026-11-21T14:02:09Z); another text is returned as it is. `now` is in seconds since 1970.
    """
    try:
        then = datetime.datetime.strptime(when[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return when
    text = f"{then:%Y-%m-%d %H:%M} UTC"
    passed = now - then.timestamp()
    if passed < 0:
        return text
    for seconds, unit in _UNITS:
        if passed >= seconds:
            return f"{text}, {int(passed // seconds)} {unit} ago"
    return f"{text}, just now"
