# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of a host's task: whether its result can be used, and why not."""

from __future__ import annotations

import typing as t

from ...base import terminal_text
from ...state.answers import limits
from . import results


def usable(result: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """Return whether there is a result, and its task did not fail, was not skipped and reached its host."""
    return (
        result is not None and not result.get("unreachable") and not result.get("failed") and not result.get("skipped")
    )


def settled(result: t.Optional[t.Mapping[str, t.Any]]) -> t.Mapping[str, t.Any]:
    """Return the field `settled` of a host's usable result if nothing is missing by it (`converged`), else {}."""
    found = (result or {}).get("settled") or {}
    return found if usable(result) and found.get("converged") else {}


def reason(result: t.Optional[t.Mapping[str, t.Any]]) -> str:
    """Return in words, on one line, why a host's result is not usable; None is a host without a result."""
    if result is None:
        return "unreachable, or failed earlier in this run (its error stands above)"
    if result.get("unreachable"):
        return f"unreachable: {first_line(result.get('msg'))}"
    return first_line(result.get("msg")) or "failed"


def first_line(message: t.Any) -> str:
    """Return a message's first line for a terminal, cut to 1,000 characters; "" if it is blank or no text."""
    text = results.message(message).strip()
    line = terminal_text.line(text.splitlines()[0]) if text else ""
    return line if len(line) <= limits.LINE else f"{line[: limits.LINE]}..."
