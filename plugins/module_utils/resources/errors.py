# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two faces of a refusal: `Refused` inside this room, `ResourceError` outside of it."""

from __future__ import annotations

import typing as t


class Refused(Exception):
    """A value that a field does not take. Readers raise it; containers add where they found it on its way out.

    `rule` is a sentence without its subject ("is not a range of addresses."), `remedy` a sentence of its own. `value`
    None stands for a value that is missing or needs no showing.
    """

    def __init__(self, value: t.Any, rule: str, remedy: str, field: str = "") -> None:
        self.value = value
        self.rule = rule
        self.remedy = remedy
        self.field = field
        super().__init__(value, rule, remedy)

    def inside(self, outer: t.Union[str, int]) -> Refused:
        """The same refusal, seen from one container further out: a field's name or an index."""
        here = f"[{outer}]" if isinstance(outer, int) else outer
        glue = "." if self.field and not self.field.startswith("[") else ""
        self.field = f"{here}{glue}{self.field}"
        return self


class ResourceError(ValueError):
    """A document that is no valid resource.

    `kind` and `name` say which resource ("" where not even that could be read), `field` is the path of what is wrong
    (`spec.blockSize`; `blockSize` in the flat form), `value` what stands there (None: nothing, or nothing worth
    showing), `rule` the sentence that says what is wrong, without its subject, `remedy` how to go on.
    """

    def __init__(self, kind: str, name: str, field: str, value: t.Any, rule: str, remedy: str) -> None:
        self.kind = kind
        self.name = name
        self.field = field
        self.value = value
        self.rule = rule
        self.remedy = remedy
        super().__init__(kind, name, field, value, rule, remedy)

    def __str__(self) -> str:
        who = " ".join(shown(part) for part in (self.kind, self.name) if part) or "document"
        what = " ".join(part for part in (self.field, "" if self.value is None else shown(self.value)) if part)
        return f"{who}{':' if self.field else ''} {what} {self.rule} {self.remedy}"


def shown(value: t.Any) -> str:
    """A value as an error shows it: short, on one line, and in quotes unless it reads well without."""
    plain = isinstance(value, str) and value.isprintable() and value and not value[0].isspace()
    text = value if plain else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
