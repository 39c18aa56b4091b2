# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the shipped alerts and dashboard use existing metrics. Prometheus itself tests what they do."""

from __future__ import annotations

import json
import re
import typing as t

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.instruments import (
    FREE_RATIO_WARNING,
    Instruments,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry

from tests.conftest import ROOT

MONITORING = ROOT / "roles" / "calico_node" / "files" / "monitoring"
RULES = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def metrics() -> dict[str, tuple[str, ...]]:
    """Return a mapping from the name of each series to the names of its labels, `le` of buckets included."""
    return {
        metric.name + suffix: (*metric.labels, *(("le",) if suffix == "_bucket" else ()))
        for metric in Instruments(Registry()).registry.metrics()
        for suffix in SUFFIXES[metric.kind]
    }


def selectors(expression: str) -> t.Iterator[tuple[str, set[str]]]:
    """Yield (metric, names of labels in its selector) for each use of a calico_ or process_ metric in a PromQL text."""
    for name, labels in re.findall(r"\b((?:calico|process)_\w+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r'(\w+)\s*[=!]~?\s*"', labels))


def test_every_metric_and_label_that_is_asked_for_exists() -> None:
    known = metrics()
    unknown = [
        (name, labels)
        for expression in [*EXPRESSIONS, *(rule["expr"] for rule in RULES)]
        for name, labels in selectors(expression)
        if name not in known or not labels <= {*known[name], "instance", "job"}
    ]
    assert unknown == []


def test_every_metric_is_shown() -> None:
    """Each metric is in one of EXPRESSIONS. A histogram counts if any of its series is."""
    shown = {name for expression in EXPRESSIONS for name, dummy in selectors(expression)}
    hidden = [
        metric.name
        for metric in Instruments(Registry()).registry.metrics()
        if not any(metric.name + suffix in shown for suffix in SUFFIXES[metric.kind])
    ]
    assert hidden == []


def test_the_warning_on_addresses() -> None:
    rule = next(rule for rule in RULES if rule["alert"] == "CalicoAddressesRunOut")
    assert rule["expr"] == f"calico_ipam_pool_free_ratio < {FREE_RATIO_WARNING}"


def test_every_alert_says_where_and_what_to_do_and_has_a_case() -> None:
    cases = yaml.safe_load((ROOT / "tests/integration/agent/metrics/alerts_test.yml").read_text("utf-8"))["tests"]
    checked = [check for case in cases for check in case["alert_rule_test"]]
    fires = {check["alertname"] for check in checked if check.get("exp_alerts")}
    quiet = {check["alertname"] for check in checked if not check.get("exp_alerts")}
    assert fires == quiet == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert "$labels.instance" in rule["annotations"]["summary"] or "by (engine)" in rule["expr"]


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and all(x < 24 for x, dummy in cells)
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
