# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as one HTML file, by the templates beside this module.

Jinja2 escapes every value that they write, after it is made visible on one line and cut. So no text of a node becomes
an element, an attribute or a script. The templates write attributes in double quotes.
"""

from __future__ import annotations

import functools
import pathlib

import jinja2
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import drawing, sections
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import WORDS, FleetReport
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.shown_text import LONGEST, MOST, cut
from markupsafe import Markup, escape

_TEMPLATES = pathlib.Path(__file__).resolve().parent / "templates"
#: What a browser may load for the page: its own style sheet, and nothing by any request.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def html(report: FleetReport) -> str:
    """Return the page. Every text in it is cut and escaped, and long lists are cut and counted."""
    return _environment().get_template("page.html.j2").render(page=sections.page(report))


def text(value: object, most: int = LONGEST) -> Markup:
    """Return the text as HTML, cut and escaped, for the content of an element or for an attribute in double quotes.

    A text that takes more than two bytes for each of its `most` characters, as one of signs that are all escaped, is
    cut to a fifth. So hostile texts make no page much larger than others do.
    """
    if isinstance(value, Markup):
        return value
    escaped = escape(cut(value, most))
    return escaped if len(escaped) <= most or len(escaped.encode()) <= 2 * most else escape(cut(value, most // 5))


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    # This is Jinja itself, not Ansible's templar: values are data in which no template may be evaluated.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(_TEMPLATES)),
        autoescape=True,
        finalize=text,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(cut=cut, decimal=_decimal, path=_path)
    environment.globals.update(
        POLICY=POLICY, MOST=MOST, WORDS=WORDS, WIDTH=drawing.WIDTH, HEIGHT=drawing.HEIGHT, CHART=drawing.CHART
    )
    return environment


def _decimal(value: float) -> Markup:
    """Return a number of a drawing. It has no sign that HTML would have to escape."""
    return Markup(drawing.decimal(value))


def _path(value: str) -> Markup:
    """Return the path of a drawing, which may be longer than a text."""
    return text(value, 4000)
