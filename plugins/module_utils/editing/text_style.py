# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a value in the style of the file that it is written into: indentation, line ends, brackets."""

from __future__ import annotations

import json
import re
import typing as t

from ..cli.render import yaml_text
from .text_nodes import TextDocument, TextNode

_BREAK = re.compile("\r\n|[\n\r]")
#: Texts that need no quotes between brackets.
_WORD = re.compile(r"[A-Za-z_/][\w./()=+-]*", re.ASCII)


class TextStyle(t.NamedTuple):
    """The style of a file: the characters by which a mapping and a list below a key are indented, and its line end."""

    step: int = 2
    list_step: int = 0
    line_end: str = "\n"


def style_of(text: str, documents: t.Sequence[TextDocument], node: t.Optional[TextNode] = None) -> TextStyle:
    """Return the style of `node`; what it does not show is that of the whole text, or else that of Calico's output."""
    step = list_step = -1
    for root in ([node] if node else []) + [document.root for document in documents]:
        for inner in root.within():
            if inner.kind == "mapping" and not inner.flow:
                for value in inner.children[1::2]:
                    if value.flow or value.anchor is not None:
                        continue
                    if value.kind == "mapping" and step < 0 and value.column > inner.column:
                        step = value.column - inner.column
                    elif value.kind == "list" and list_step < 0:
                        list_step = value.column - inner.column
    found = _BREAK.search(text)
    return TextStyle(2 if step < 1 else step, max(list_step, 0), found.group() if found else "\n")


def block(value: t.Any, style: TextStyle, column: int) -> str:
    """Return a value as lines of YAML without the last line end; lines behind the first are indented to `column`."""
    lines = yaml_text.dump(value, style.step, style.list_step).removesuffix("\n").split("\n")
    return f"{style.line_end}{' ' * column}".join(lines)


def json_lines(value: t.Any, indent: str, before: str, line_end: str) -> str:
    """Return a value as JSON, on one line without `indent`; lines behind the first begin with the text `before`."""
    found = json.dumps(value, indent=indent or None, ensure_ascii=False, allow_nan=False, sort_keys=True)
    return found.replace("\n", f"{line_end}{before}")


def brackets(value: t.Any) -> str:
    """Return a value on one line of YAML, in brackets, with quotes only where a text needs them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{brackets(key)}: {brackets(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(brackets, value)) + "]"
    written = yaml_text.flat(value)
    if isinstance(value, str) and not written.startswith('"') and not _WORD.fullmatch(written):
        return f'"{written}"'
    return written
