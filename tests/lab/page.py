# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page whose commands are run as they are written: its steps, and the comparison with what it says they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"^```(console|yaml)(?: status=(\d+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROMPT = "$ "
_ANY = "..."


@dataclass(frozen=True)
class Command:
    """A command after a prompt; it has to print the lines `output` and to end with `status`. `line` is its place."""

    line: int
    text: str
    output: tuple[str, ...]
    status: int = 0


@dataclass(frozen=True)
class File:
    """A file to write: a block of YAML whose first line is a comment with the file's path."""

    line: int
    path: str
    text: str


def steps(page: str) -> list[Command | File]:
    """Return the commands and files of `page` in its order; raise ValueError for a block that is neither."""
    found: list[Command | File] = []
    for block in _BLOCK.finditer(page):
        line = page.count("\n", 0, block.start()) + 2
        if block[1] == "console":
            found += _commands(block[3], line, int(block[2] or 0))
            continue
        first = block[3].split("\n", 1)[0]
        if not re.fullmatch(r"# [\w./-]+", first):
            raise ValueError(f"line {line}: {first!r} is no comment with the path of a file")
        found.append(File(line, first[2:], block[3]))
    return found


def _commands(text: str, first: int, status: int) -> Iterator[Command]:
    """Yield the commands of a console block whose first line has the number `first`; raise ValueError without any."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(_PROMPT)]
    if not starts or starts[0]:
        raise ValueError(f"line {first}: a console block begins with a prompt")
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        command, rest = [lines[start][len(_PROMPT) :]], start + 1
        while command[-1].endswith("\\"):
            command.append(lines[rest])
            rest += 1
        yield Command(first + start, "\n".join(command), tuple(lines[rest:end]), status)


def differences(expected: tuple[str, ...], output: str) -> list[str]:
    """Return what is wrong with `output` if a page says `expected`, each in words; [] if nothing is.

    Each line of the page matches one line of the output, in any order because hosts answer in any order. `...` in a
    line stands for any text, and a line that is `...` for any lines. Empty lines do not count, and blanks count once.
    """
    left = [line for line in map(_plain, output.splitlines()) if line]
    wrong = []
    for line in filter(None, map(_plain, expected)):
        if line == _ANY:
            continue
        pattern = ".*".join(re.escape(part) for part in line.split(_ANY))
        found = next((one for one in left if re.fullmatch(pattern, one)), None)
        if found is None:
            wrong.append(f"not printed: {line}")
        else:
            left.remove(found)
    if _ANY not in map(_plain, expected):
        wrong += [f"not in the page: {line}" for line in left]
    return wrong


def is_in_order(expected: tuple[str, ...], output: str) -> bool:
    """Return whether a page's lines `expected` are all of `output`, in their order.

    `...` and blanks count as in `differences`. Without expected lines, the output has to be empty.
    """
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == _ANY else ".*".join(map(re.escape, line.split(_ANY))) + r"\n"
        for line in filter(None, map(_plain, expected))
    )
    return (
        re.fullmatch(pattern, "".join(f"{line}\n" for line in filter(None, map(_plain, output.splitlines()))))
        is not None
    )


def _plain(line: str) -> str:
    return " ".join(line.split())
