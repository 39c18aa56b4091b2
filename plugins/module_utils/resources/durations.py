# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lengths of time as Calico writes them: 120s, 1m30s, 1.5h (the form of Go's time.ParseDuration)."""

from __future__ import annotations

import re
import typing as t

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"([-+]?)((?:{_PART})+)", re.ASCII)
_ONE = re.compile(_PART, re.ASCII)
#: The longest duration in seconds: 64 bits of nanoseconds.
_LIMIT = (2**63 - 1) / 1e9


def parse_duration(text: str) -> t.Optional[float]:
    """Return the duration `text`, such as "1m30s", in seconds, negative after a minus sign, or None if it is none.

    A number without a unit is no duration, except 0. Neither are more than 2**63 - 1 nanoseconds (292 years), which Go
    cannot count.
    """
    if text in ("0", "+0", "-0"):
        return 0.0
    found = _DURATION.fullmatch(text)
    if not found:
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _ONE.findall(found.group(2)))
    if seconds > _LIMIT:
        return None
    return -seconds if found.group(1) == "-" else seconds


def whole_seconds(text: str, most: int) -> t.Optional[int]:
    """Return a duration such as 60s, 2m or 60 in whole seconds; None for other text, or outside of 1 to `most`."""
    found = parse_duration(f"{text}s" if text.isascii() and text.isdigit() else text)
    return int(found) if found is not None and 1 <= found <= most else None
