# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of variables as people write them: a list of resources with its surroundings, and the text without some."""

from __future__ import annotations

import json
import random
import typing as t

Entry = dict[str, t.Any]
#: Lines before and behind the list. None of them has the name of its variable as a key.
_SURROUNDINGS = (
    "# The network of rack a.\n",
    "\n",
    "other: &shared\n  a: 1   # one\n  <<: {b: 2}\nagain: *shared\n",
    "secret: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3132\n",
    "text: |\n  calico_ip_pools:\n  - name: p0\n    # no comment\n",
    "folded: >-\n  a\n\n  b\nlist:\n- - 1\n  - 2\n-   x: y\n",
    "note: 'it''s' # calico_ip_pools: []\n",
    "tagged: !unsafe '{{ x }}'\n",
    '"quoted": "a \\\n  b"\n',
    "? complex\n: value\n",
)
_REMARKS = ("# agreed with the network team\n", "# - name: old\n#   cidr: 10.1.0.0/16\n", "\n", "\n# next\n\n")


class WrittenList(t.NamedTuple):
    """A list in a file of variables: the text before its key, its key, and behind each item; items have their remarks.

    `indent` is that of the key. `flow` lists are in brackets.
    """

    variable: str
    before: str
    comment: str
    items: list[tuple[str, str]]  # (text before an item, the item with its line end)
    behind: str
    flow: bool
    line_end: str
    entries: list[Entry]
    dashes: list[int]  # the lines of an item before its mapping begins

    @property
    def text(self) -> str:
        return self.without(())

    def without(self, going: t.Collection[int]) -> str:
        """Return the text without items; a list without any is []."""
        left = [index for index in range(len(self.items)) if index not in going]
        key = f"{self.variable}:"
        if self.flow:
            body = f"{key} [{', '.join(self.items[index][1] for index in left)}]{self.comment}\n"
        else:
            parts = "".join(remark + (item if index in left else "") for index, (remark, item) in enumerate(self.items))
            body = f"{key}{'' if left else ' []'}{self.comment}\n{parts}"
        return f"{self.before}{body}{self.behind}".replace("\n", self.line_end)

    def line(self, index: int) -> int:
        """Return the line on which an item's mapping begins, as Ansible knows it."""
        text = f"{self.before}{self.variable}:{self.comment}\n" if not self.flow else self.before
        if not self.flow:
            text += "".join(remark + item for remark, item in self.items[:index]) + self.items[index][0]
            text += "\n" * self.dashes[index]
        return text.count("\n") + 1


def written_list(draw: random.Random, variable: str, entries: t.Sequence[Entry]) -> WrittenList:
    """Return a list of the entries as somebody may have written it. `draw` makes the choices."""
    before = "".join(draw.sample(_SURROUNDINGS, draw.randrange(4)))
    if draw.random() < 0.5:
        before = f"---\n{before}"
    rest = [one for one in _SURROUNDINGS if one not in before]
    behind = "".join(draw.sample(rest, draw.randrange(3)))
    flow = draw.random() < 0.3
    comment = draw.choice(("", "", " # all of them", "   #"))
    items, dashes = [], []
    pad = draw.choice(("", "  ", "    "))
    for entry in entries:
        remark = "" if flow else "".join(draw.sample(_REMARKS, draw.choice((0, 0, 1, 2))))
        text, lines = (_flow(entry), 0) if flow else _item(draw, entry, pad)
        items.append((remark, text))
        dashes.append(lines)
    line_end = draw.choice(("\n", "\n", "\r\n"))
    return WrittenList(variable, before, comment, items, behind, flow, line_end, list(entries), dashes)


def _flow(entry: t.Any) -> str:
    return json.dumps(entry)


def _item(draw: random.Random, entry: Entry, pad: str) -> tuple[str, int]:
    """Return one item of a list in block style with its line end, and how many lines its mapping is behind its dash."""
    dash = draw.choice(("- ", "- ", "-   ", "-\n"))
    if draw.random() < 0.3:
        column = " " * (len(pad) + 2) if dash == "-\n" else ""
        return f"{pad}{dash}{column}{_flow(entry)}{draw.choice(('', '  # one line'))}\n", int(dash == "-\n")
    column = len(pad) + (2 if dash == "-\n" else len(dash))
    lines: list[str] = []
    keys = list(entry)
    draw.shuffle(keys)
    for key in keys:
        value = entry[key]
        if isinstance(value, dict) and draw.random() < 0.7:
            lines += [f"{key}:", *(f"  {inner}: {json.dumps(value[inner])}" for inner in value)]
        elif isinstance(value, list) and value and draw.random() < 0.5:
            lines += [f"{key}: # several", *(f"- {json.dumps(one)}" for one in value)]
        else:
            lines.append(f"{key}: {json.dumps(value)}{draw.choice(('', '', '   # why'))}")
        if draw.random() < 0.1 and key != keys[-1]:
            lines.append("# a remark inside")
    first = " " * column if dash == "-\n" else ""
    body = f"\n{' ' * column}".join(lines)
    return f"{pad}{dash}{first}{body}\n", int(dash == "-\n")
