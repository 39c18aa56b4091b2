# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
r"""Text that is safe for terminals and logs: it can neither control the terminal nor change the order of what is read.

Names and messages come from nodes, workloads and files, so they may be hostile. Control characters (C0, DEL, C1), marks
that change the direction of text (CVE-2021-42574), separators of lines, the byte order mark and halves of surrogate
pairs are escaped, for example as `\x1b` or `\u202e`. `text` keeps line feeds and tabs.
"""

from __future__ import annotations

import re
import typing as t

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def text(value: object) -> str:
    """Return `str(value)` with all unsafe characters as Python's escapes, except line feeds and tabs."""
    return _UNSAFE.sub(_escape, str(value))


def line(value: object) -> str:
    """Return `str(value)` as one line: as `text`, but with line feeds and tabs escaped, too."""
    return text(value).replace("\t", "\\t").replace("\n", "\\n")


def lines(values: t.Iterable[object]) -> str:
    """Return one text that has a line for each value, escaped by `line` and ended by a line feed."""
    return "".join(f"{line(value)}\n" for value in values)


def cut(value: str, most: int = 80) -> str:
    """Return a text for a message, its end replaced by "..." if it has more than `most` characters."""
    return value if len(value) <= most else f"{value[: most - 3]}..."


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()


class Stream:
    """A text stream that escapes what is written to it by `text`; all else is that of the wrapped stream."""

    def __init__(self, stream: t.TextIO) -> None:
        self._stream = stream

    def write(self, value: str) -> int:
        """Write `value`, escaped by `text`, and return its length in characters before escaping."""
        self._stream.write(text(value))
        return len(value)

    def writelines(self, values: t.Iterable[str]) -> None:
        """Write all of `values`, escaped by `text`, without adding line feeds."""
        for value in values:
            self.write(value)

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._stream, name)
