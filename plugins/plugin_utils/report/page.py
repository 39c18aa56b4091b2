# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as one HTML file that needs nothing else: no script, no request, folding by the browser itself."""

from __future__ import annotations

from markupsafe import Markup

from . import sections, style
from .markup import element, join, text
from .model import FleetReport

#: What a browser may load for the page: its own style sheet, and nothing by any request.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def html(report: FleetReport) -> str:
    """Return the page. Every text in it is cut and escaped, and long lists are cut and counted."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", join(report.origin.title, ", ", report.origin.made)),
        element("style", style.STYLE),
    )
    main = element(
        "main",
        sections.header(report),
        sections.tiles(report),
        sections.problems(report),
        sections.loss(report) if report.plan is not None else None,
        sections.plan(report.plan),
        sections.fleet_map(report),
        sections.sessions(report),
        sections.blocks(report),
        sections.routes(report),
        sections.drift(report),
        sections.loss(report) if report.plan is None else None,
        sections.nodes(report),
        element("footer", text("This page is complete in itself: it loads nothing and runs no script.")),
    )
    body = element("body", style.SIGNS, main)
    return str(join(Markup("<!DOCTYPE html>\n"), element("html", head, body, lang="en"), Markup("\n")))
