# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of invalid resources: `Refused` inside this package, `ResourceError` for its users."""

from __future__ import annotations

import typing as t

from ..base.terminal_text import cut, flow


class Refused(Exception):
    """A value that a field does not accept. Each container that it passes adds a name or an index to `field`.

    `rule` is a sentence without its subject ("is not a range of addresses."), `remedy` a sentence of its own. `value`
    is None if the value is missing or need not be shown. `field` is the path to the value, as far as it is known.
    """

    def __init__(self, value: t.Any, rule: str, remedy: str, field: str = "") -> None:
        self.value = value
        self.rule = rule
        self.remedy = remedy
        self.field = field
        super().__init__(value, rule, remedy)

    def inside(self, outer: t.Union[str, int]) -> Refused:
        """Put `outer`, a field's name or a list index, in front of `field`; return this same refusal."""
        here = f"[{outer}]" if isinstance(outer, int) else outer
        glue = "." if self.field and not self.field.startswith("[") else ""
        self.field = f"{here}{glue}{self.field}"
        return self


class ResourceError(ValueError):
    """A document that is no valid resource, or a resource that cannot be applied here.

    `kind` and `name` are "" if they could not be read. `field` is the path of the wrong field (`spec.blockSize`;
    `blockSize` in the flat form; "" for the whole document) and `value` its value (None: missing, or not worth
    showing). `rule` says what is wrong, as a sentence without its subject, and `remedy` how to correct it.
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
    """Return a value as errors show it, at most 80 characters on one line; a longer one is cut and ends in "...".

    Printable text is shown as it is, empty text and one that begins with a space as `repr` writes it. Any other value
    is shown as YAML's flow style writes it.
    """
    if not isinstance(value, str):
        return cut(flow(value))
    plain = value.isprintable() and value and not value[0].isspace()
    return cut(value if plain else repr(value))
