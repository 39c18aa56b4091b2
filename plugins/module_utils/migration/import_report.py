# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an import says about each document: what was taken, changed or left out, and what still needs a person."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..base import terminal_text


class Remark(t.NamedTuple):
    """A remark about `what`, a resource, as a sentence without its subject. `place` is a file with its line, or ""."""

    what: str
    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.text}" + (f" ({self.place})" if self.place else "")


@dataclasses.dataclass
class ImportReport:
    """The remarks of an import. `taken` counts by kind what the inventory has."""

    taken: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    changed: list[Remark] = dataclasses.field(default_factory=list)
    left_out: list[Remark] = dataclasses.field(default_factory=list)
    for_a_person: list[Remark] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, t.Any]:
        return {
            "taken": dict(sorted(self.taken.items())),
            **{name: [remark._asdict() for remark in found] for name, found in self._parts()},
        }

    def lines(self) -> list[str]:
        """Return the report as lines: a heading for each part that has any, and its remarks."""
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.taken.items()))
        lines = [f"taken: {counts or 'nothing'}"]
        for name, found in self._parts():
            if found:
                remarks = (f"  {terminal_text.line(remark)}" for remark in _together(found))
                lines += ["", f"{name.replace('_', ' ')}:", *remarks]
        return lines

    def _parts(self) -> tuple[tuple[str, list[Remark]], ...]:
        return (("changed", self.changed), ("left_out", self.left_out), ("for_a_person", self.for_a_person))


_SHOWN = 20


def _together(found: t.Sequence[Remark]) -> t.Iterator[str]:
    """Yield the remarks in their order; of more than twenty with one text and kind, the first and how many more."""
    alike: dict[tuple[str, str], list[Remark]] = {}
    for remark in found:
        alike.setdefault((remark.what.partition(" ")[0], remark.text), []).append(remark)
    for (kind, text), remarks in alike.items():
        if len(remarks) <= _SHOWN:
            yield from map(str, remarks)
        else:
            yield f"{remarks[0].what} and {len(remarks) - 1} more {kind}: each {text}"
