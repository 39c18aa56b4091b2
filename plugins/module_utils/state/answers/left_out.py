# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a node's answer that were left out, and sentences about them."""

from __future__ import annotations

import dataclasses
import typing as t

from . import limits


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A part of `node`'s answer that is not used: `what` it is, and `why` (a clause that ends in a full stop)."""

    node: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.node}: {self.what} is left out: {self.why}"


def sentences(left_out: t.Iterable[LeftOut]) -> list[str]:
    """Return sentences about the parts, sorted by node: up to limits.NAMED of a node, and the count of the others."""
    by_node: dict[str, list[LeftOut]] = {}
    for one in left_out:
        by_node.setdefault(one.node, []).append(one)
    found = []
    for node, parts in sorted(by_node.items()):
        found += [str(one) for one in parts[: limits.NAMED]]
        more = len(parts) - limits.NAMED
        if more > 0:
            found.append(f"{node}: {more} more parts of its answer are left out.")
    return found
