# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of hostile nodes for every field of a report."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import FleetReport

#: Each would run `owned()` or add the element <b id="owned"> if it were not escaped.
TEXTS = (
    "</script><script>owned()</script><b id=owned>",
    "</style></title><script>owned()</script>",
    '"><img src=x onerror=owned()><b id="owned">',
    "' onmouseover='owned()' autofocus onfocus='owned()' x='",
    "<svg onload=owned()><b id=owned></b></svg>",
    "</text></svg><script>owned()</script>",
    "javascript:owned()",
    "&lt;b id=owned&gt;&#60;script&#62;owned()",
    "]]><script>owned()</script><!--",
    "--><script>owned()</script>",
    "{{ owned }} {% raw %} ${owned}",
    "\x1b[2J\x1b]0;owned\x07\x00\r\n\t",
    "\u202egnp.exe\u2066\u2069\u200f\ufeff\u2028",
    "\ud800\udfff",
    "<iframe srcdoc='<script>owned()</script>'></iframe><meta http-equiv=refresh content='0;url=//x.example'>",
    "x" * 1_000_000,
    "<" * 1_000_000,
    "\u0301" * 5000,
    "",
)


def everywhere(report: t.Any, text: str) -> t.Any:
    """Return a copy of a report, or of a part of it, with `text` in every field that is a text.

    The states of nodes are ours, and stay. Names of places are made different by a number at the end.
    """
    if isinstance(report, str):
        return text
    if isinstance(report, tuple):
        return tuple(everywhere(one, text) for one in report)
    if dataclasses.is_dataclass(report) and not isinstance(report, type):
        values = {
            field.name: getattr(report, field.name)
            if field.name == "state" and field.type == "State"
            else everywhere(getattr(report, field.name), text)
            for field in dataclasses.fields(report)
        }
        return dataclasses.replace(report, **values)
    return report


def named(report: FleetReport, text: str) -> FleetReport:
    """Return `everywhere`, with names that the map can tell apart, so that it is drawn with all links."""
    made = t.cast(FleetReport, everywhere(report, text))
    number = {node.name: f"{text[:40]}{index}" for index, node in enumerate(report.nodes)}
    racks = {rack: f"{text[:40]} {rack}" for rack in {node.rack for node in report.nodes}}
    number.update({rack: name for rack, name in racks.items() if rack not in number})
    number.update({router: f"{text[:40]}r{index}" for index, router in enumerate(report.routers)})
    return dataclasses.replace(
        made,
        nodes=tuple(
            dataclasses.replace(new, name=number[old.name], rack=racks[old.rack])
            for old, new in zip(report.nodes, made.nodes)
        ),
        routers=tuple(number[router] for router in report.routers),
        links=tuple(
            dataclasses.replace(new, a=number[old.a], b=number[old.b], modes=old.modes)
            for old, new in zip(report.links, made.links)
        ),
    )
