# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error that a bad inventory ends in."""

from __future__ import annotations

import difflib
import typing as t


class FleetError(Exception):
    """An inventory that cannot become a fleet.

    `variable` is what to look for in the inventory (`calico_ip_pools[0].cidr`), `value` what stands there, `rule` one
    sentence that says what is wrong, `remedy` one that says how to go on, `origin` the file and line where known.
    """

    def __init__(self, variable: str, value: t.Any, rule: str, remedy: str, origin: str = "") -> None:
        self.variable = variable
        self.value = value
        self.rule = rule
        self.remedy = remedy
        self.origin = origin
        super().__init__(str(self))

    def __reduce__(self) -> t.Any:
        """Pickle what it was made of: actions hand errors to the forks of other hosts."""
        return type(self), (self.variable, self.value, self.rule, self.remedy, self.origin)

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        value = "" if self.value is None else f" {shown(self.value)}"
        return f"{where}{self.variable}{value} {self.rule} {self.remedy}"


def shown(value: t.Any) -> str:
    """A value as an error shows it: short, and in quotes only where it would not be seen without."""
    if isinstance(value, bool):
        value = str(value).lower()  # as YAML has it
    text = value if isinstance(value, str) and value else repr(value)
    path = text.startswith("/")  # of which the end matters most
    return text if path or len(text) <= 80 else text[:77] + "..."


def within(label: str, field: str) -> str:
    """`calico_node_bgp_peers[0] of node1` and peerIP: calico_node_bgp_peers[0].peerIP of node1."""
    path, separator, owner = label.partition(" of ")
    return f"{path}.{field}{separator}{owner}"


def did_you_mean(name: str, known: t.Iterable[str], otherwise: str) -> str:
    """A remedy: the one of `known` that is nearly `name`, or `otherwise` and some of them. There is at least one."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if near:
        return f"Did you mean {near[0]}?"
    shown = names if len(names) <= 8 else [*names[:7], "..."]
    return f"{otherwise} {', '.join(shown[:-1])}{' or ' if len(shown) > 1 else ''}{shown[-1]}."
