# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
r"""Text that is safe for terminals and logs: it can neither control the terminal nor change the order of what is read.

Names and messages come from nodes, workloads and files, so they may be hostile. Control characters (C0, DEL, C1), marks
that change the direction of text (CVE-2021-42574), separators of lines, the byte order mark and halves of surrogate
pairs are escaped, for example as `\x1b` or `\u202e`. `text` keeps line feeds and tabs.
"""

from __future__ import annotations

import itertools
import json
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


#: Texts that YAML reads as they are. Those that it reads as another type, such as a number, are in _OTHER_TYPE.
_PLAIN = re.compile(r"[A-Za-z0-9_./@*-][\w./@*()+:-]*(?<!:)", re.ASCII)
_OTHER_TYPE = re.compile(
    r"[-+.]?[\d_]*\.?[\d_]*(e[-+]?\d*)?|0[xo][\da-f_]*|[\d:]+|\d+-\d+-\d+.*|[*@].*|-|null|true|false|yes|no|on|off|y|n",
    re.ASCII | re.IGNORECASE,
)
_MOST_ENTRIES, _MOST_LEVELS = 80, 8  # of what a message shows before it is cut


def flow(value: object, level: int = 0) -> str:
    """Return a value as YAML's flow style writes it, `[IPv4, {a: "1"}]`; long and deep values have "..." inside.

    Values of other types than those of JSON are shown by their `repr`.
    """
    if isinstance(value, (list, tuple, dict)):
        entries: t.Iterable[str] = ["..."]
        if level < _MOST_LEVELS:
            some = list(itertools.islice(value.items() if isinstance(value, dict) else value, _MOST_ENTRIES))
            if isinstance(value, dict):
                entries = [f"{flow(key, level + 1)}: {flow(entry, level + 1)}" for key, entry in some]
            else:
                entries = [flow(entry, level + 1) for entry in some]
            if len(value) > _MOST_ENTRIES:
                entries = [*entries, "..."]
        joined = ", ".join(entries)
        return f"{{{joined}}}" if isinstance(value, dict) else f"[{joined}]"
    if isinstance(value, str):
        text_of = str.__str__(value)
        if _PLAIN.fullmatch(text_of) and not _OTHER_TYPE.fullmatch(text_of):
            return text_of
        return json.dumps(text_of, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return repr(value)


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
