# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""FleetError, the error for every wrong inventory, and helpers for its texts."""

from __future__ import annotations

import difflib
import typing as t

from ..base.terminal_text import cut, flow


class FleetError(Exception):
    """An error of an inventory that cannot become a fleet.

    `variable` is what to look for in the inventory (`calico_ip_pools[0].cidr`). `value` is its content, None to show
    none. `rule` is the rest of the sentence that says what is wrong, `remedy` a sentence that says how to go on.
    `origin` is the file and line, "" if not known.
    """

    def __init__(self, variable: str, value: t.Any, rule: str, remedy: str, origin: str = "") -> None:
        self.variable = variable
        self.value = value
        self.rule = rule
        self.remedy = remedy
        self.origin = origin
        super().__init__(str(self))

    def __reduce__(self) -> t.Any:
        """Return (class, its arguments): actions pass errors to the processes of other hosts."""
        return type(self), (self.variable, self.value, self.rule, self.remedy, self.origin)

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        value = "" if self.value is None else f" {shown(self.value)}"
        return f"{where}{self.variable}{value} {self.rule} {self.remedy}"


def shown(value: t.Any) -> str:
    """Return a value as an error shows it, cut to 80 characters.

    A string has no quotes unless it is empty. Any other value is shown as YAML's flow style writes it. A text that
    begins with "/" is a path and is not cut, because its end matters most.
    """
    text = flow(value)
    if isinstance(value, str):
        text = value or repr(value)
    path = text.startswith("/")
    return text if path else cut(text)


def within(label: str, field: t.Union[str, int]) -> str:
    """Return the name of a field or index of an entry: `peers[0].peerIP of node1` for `peers[0] of node1`, peerIP."""
    path, separator, owner = label.partition(" of ")
    inner = f"[{field}]" if isinstance(field, int) else f".{field}"
    return f"{path}{inner}{separator}{owner}"


def did_you_mean(name: str, known: t.Iterable[str], otherwise: str) -> str:
    """Return a remedy: it suggests the entry of `known` that resembles `name`, or lists up to eight after `otherwise`.

    Raise IndexError if `known` is empty.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if near:
        return f"Did you mean {near[0]}?"
    shown = names if len(names) <= 8 else [*names[:7], "..."]
    return f"{otherwise} {', '.join(shown[:-1])}{' or ' if len(shown) > 1 else ''}{shown[-1]}."
