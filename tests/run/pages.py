# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of Markdown as the check `prose` reads them: paragraphs and sentences without code, comments and headings."""

from __future__ import annotations

import re
import typing as t

#: The most words of a sentence in a page for users.
MOST_WORDS = 25

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"``.+?``|`[^`]*`")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s")
_END = re.compile(r"(?<=[.!?:;])[\"')*_]*\s+(?=\S)")
#: Ends of abbreviations, after which a sentence goes on.
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf)\.$")


class Sentence(t.NamedTuple):
    """A sentence, and the line at which its paragraph begins. Code in it is one word."""

    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of its words. Text between blanks is a word if it has a letter or a digit."""
        return sum(bool(re.search(r"\w", word)) for word in self.text.split())


def prose_of(page: str) -> str:
    """Return a page without its comments and blocks of code, with the same lines."""
    for pattern in (_COMMENT, _FENCE):
        page = pattern.sub(lambda match: "\n" * match[0].count("\n"), page)
    return page


def paragraphs(page: str) -> t.Iterator[tuple[int, str]]:
    """Yield (first line, text) of each paragraph, item of a list and cell of a table. Headings are left out."""
    block: list[str] = []
    first = 0
    for number, line in enumerate([*prose_of(page).split("\n"), ""], 1):
        is_row = line.lstrip().startswith("|")
        is_heading = line.startswith("#")
        if block and (not line.strip() or is_row or is_heading or _ITEM.match(line)):
            yield first, " ".join(block)
            block = []
        if is_row:
            yield from ((number, cell.strip()) for cell in line.strip().strip("|").split(" | "))
        elif line.strip() and not is_heading:
            first = first if block else number
            block.append(_ITEM.sub("", line, count=1).strip() if not block else line.strip())


def sentences(page: str) -> t.Iterator[Sentence]:
    """Yield the sentences of a page. A colon or a semicolon ends one, too."""
    for line, paragraph in paragraphs(page):
        text = _CODE.sub("x", _LINK.sub(r"\1", paragraph))
        begun = ""
        for part in _END.split(text):
            begun = f"{begun} {part}".strip()
            if not _ABBREVIATED.search(begun):
                yield Sentence(line, begun)
                begun = ""
        if begun:
            yield Sentence(line, begun)
