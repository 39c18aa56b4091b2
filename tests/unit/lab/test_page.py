# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a page whose commands are run (tests/lab/page.py), and what it makes of outputs."""

from __future__ import annotations

import pytest

from tests.lab.page import Command, File, differences, is_in_order, steps

PAGE = """\
# A page

```console
$ one
said
$ two \\
    more
```

```text
$ no command
```

```yaml
# some/file.yml
key: value
```

```console status=2
$ three
...
```
"""


def test_steps_are_commands_and_files_in_their_order() -> None:
    assert steps(PAGE) == [
        Command(4, "one", ("said",)),
        Command(6, "two \\\n    more", ()),
        File(15, "some/file.yml", "# some/file.yml\nkey: value\n"),
        Command(20, "three", ("...",), 2),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```yaml\nkey: value\n```\n", "line 2: 'key: value' is no comment with the path of a file"),
        ("x\n```console\nsaid\n$ one\n```\n", "line 3: a console block begins with a prompt"),
        ("```console\n```\n", "line 2: a console block begins with a prompt"),
    ],
)
def test_blocks_that_cannot_be_performed_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        steps(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("expected", "output", "wrong"),
    [
        (("a  b",), "\n  a b \n\n", []),
        (("a ... c",), "a - c\n", []),
        (("b", "a"), "a\nb\n", []),
        (("a", "..."), "x\na\ny\n", []),
        (("a",), "", ["not printed: a"]),
        (("a", "a", "..."), "a\nb\n", ["not printed: a"]),
        (("a",), "ab\n", ["not printed: a", "not in the page: ab"]),
        (("a.c",), "abc\n", ["not printed: a.c", "not in the page: abc"]),
        ((), "warning\n", ["not in the page: warning"]),
    ],
)
def test_an_output_is_compared_line_by_line(expected: tuple[str, ...], output: str, wrong: list[str]) -> None:
    """Each line of the page is printed once, and nothing else is unless the page has a line `...`."""
    assert differences(expected, output) == wrong


@pytest.mark.parametrize(
    ("expected", "output", "fits"),
    [
        ("", "", True),
        ("", "something\n", False),
        ("...\n", "", True),
        ("one   two\n", "\n  one two  \n", True),
        ("one\n", "one\ntwo\n", False),
        ("...\none ... three\n...\n", "zero\none two three\n", True),
        ("...\none ... three\n...\n", "one\nthree\n", False),
    ],
)
def test_an_output_is_compared_in_its_order(expected: str, output: str, fits: bool) -> None:
    """A line of three dots matches any lines, and three dots within a line match any text of that line."""
    assert is_in_order(tuple(expected.splitlines()), output) is fits
