# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place where a text becomes part of a page: it is cut, made visible and escaped.

    element("td", node.name, css="name")      # <td class="name">node1</td>
    element("p", "is ", element("b", "down"))

A child that is no Markup is a text, whatever it contains. So no text can become an element, an attribute or a script.
"""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from markupsafe import Markup, escape

#: The most characters of a text that a page shows, and those of a name.
LONGEST = 500
LONGEST_NAME = 80
#: The most entries of a list that a page shows. The others are counted.
MOST = 200

Child = t.Union[Markup, str, int, None, t.Iterable[t.Any]]


def cut(value: object, most: int = LONGEST) -> str:
    r"""Return `str(value)` on one line without unsafe characters, cut to `most` characters and "..." if it is longer.

    Control characters and marks of text direction are shown as `\x1b` and `\u202e`.
    """
    given = str(value)
    text = terminal_text.line(given[: most + 1])
    return text if len(text) <= most else f"{text[:most]}..."


def text(value: object, most: int = LONGEST) -> Markup:
    """Return the text as HTML, cut and escaped, for the content of an element or for an attribute in double quotes.

    A text that takes more than two bytes for each of its `most` characters, as one of signs that are all escaped, is
    cut to a fifth. So hostile texts make no page much larger than others do.
    """
    if isinstance(value, Markup):
        return value
    escaped = escape(cut(value, most))
    return escaped if len(escaped) <= most or len(escaped.encode()) <= 2 * most else escape(cut(value, most // 5))


def element(tag: str, *children: Child, css: str = "", **attributes: object) -> Markup:
    """Return an element with its children. `css` are its classes.

    Names of attributes have `_` for `-`, and one at the end is left out. An attribute that is None or False is left
    out, and one that is True has no value. `tag` and the names of attributes are ours, never a text of a node.
    """
    values = {"class": css or None, **{name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}}
    written = "".join(
        f" {name}" if value is True else f' {name}="{text(value, _ATTRIBUTE)}"'
        for name, value in values.items()
        if value is not None and value is not False
    )
    if tag in _EMPTY:
        # The slash ends an element of SVG, which HTML would leave open without it.
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: Child) -> Markup:
    """Return the children one after another as HTML; None is nothing."""
    return Markup("".join(itertools.chain.from_iterable(map(_parts, children))))


def _parts(child: Child) -> t.Iterator[str]:
    if child is None:
        return
    if isinstance(child, (Markup, str, int, float)):
        yield str(text(child))
        return
    for one in child:
        yield from _parts(one)


_ATTRIBUTE = 4000  # the most characters of an attribute; paths of drawings are the longest
_EMPTY = frozenset({"meta", "rect", "line", "circle", "path", "use"})
