# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics as Prometheus reads them: the text format, version 0.0.4 (prometheus.io, "Exposition formats")."""

from __future__ import annotations

import math
import typing as t

from .metrics import Metric, Registry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text(registry: Registry) -> str:
    """All metrics of a registry. Of one that has no values yet, the description stands alone."""
    return "".join(line for metric in registry.metrics() for line in _lines(metric))


def _lines(metric: Metric) -> t.Iterator[str]:
    # In this format a counter's description has the name that its samples have.
    name = metric.name + ("_total" if metric.kind == "counter" else "")
    yield f"# HELP {name} {_escaped(metric.help)}\n"
    yield f"# TYPE {name} {metric.kind}\n"
    for suffix, labels, value in metric.samples():
        shown = ",".join(f'{label}="{_quoted(content)}"' for label, content in labels)
        yield (
            f"{metric.name}{suffix}{{{shown}}} {_number(value)}\n"
            if shown
            else f"{metric.name}{suffix} {_number(value)}\n"
        )


def _escaped(help: str) -> str:
    return help.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str) -> str:
    # A lone half of a surrogate pair could not be encoded, and would cost all the others.
    value = value.encode("utf-8", "replace").decode("utf-8")
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
