# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that metrics are counted correctly and written in Prometheus's format, with any text in labels."""

from __future__ import annotations

import math
import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics import metrics
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry
from hypothesis import given, settings
from hypothesis import strategies as st

# A sample's line as the documentation of Prometheus's text format defines it.
LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')
ESCAPE = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}

Read = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str) -> Read:
    found: Read = {}
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            continue
        match = LINE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        key = tuple(
            (label, re.sub(r'\\["\\n]', lambda escape: ESCAPE[escape.group()], content))
            for label, content in LABEL.findall(labels or "")
        )
        assert (name, key) not in found
        found[name, key] = float(value)
    return found


def test_metrics_are_written_in_the_prometheus_text_format() -> None:
    registry = Registry()
    errors = registry.counter("calico_errors", 'What failed:\n"\\".', ["kind"])
    registry.gauge("calico_unknown", "Nothing yet.")
    seconds = registry.histogram("calico_seconds", "How long.", buckets=(0.1, 1))
    errors.add("b", amount=2)
    errors.add("a")
    for value in (0.05, 0.1, 0.5, 7):
        seconds.observe(value=value)
    assert metrics.text(registry) == (
        '# HELP calico_errors_total What failed:\\n"\\\\".\n'
        "# TYPE calico_errors_total counter\n"
        'calico_errors_total{kind="a"} 1\n'
        'calico_errors_total{kind="b"} 2\n'
        "# HELP calico_unknown Nothing yet.\n"
        "# TYPE calico_unknown gauge\n"
        "# HELP calico_seconds How long.\n"
        "# TYPE calico_seconds histogram\n"
        'calico_seconds_bucket{le="0.1"} 2\n'
        'calico_seconds_bucket{le="1.0"} 3\n'
        'calico_seconds_bucket{le="+Inf"} 4\n'
        "calico_seconds_sum 7.65\n"
        "calico_seconds_count 4\n"
    )


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.tuples(st.text(st.characters()), st.text()), st.floats()))
def test_labels_and_values_are_read_back(values: dict[tuple[str, str], float]) -> None:
    registry = Registry()
    gauge = registry.gauge("calico_x", "x", ["a", "b"])
    for (first, second), value in values.items():
        gauge.set(first, second, value=value)
    text = metrics.text(registry).encode("utf-8").decode("utf-8")
    kept = {
        tuple((name, content.encode("utf-8", "replace").decode()) for name, content in zip("ab", key)): value
        for key, value in values.items()
    }
    if len(kept) == len(values):  # else two keys differ only in lone surrogates, which are all written as `?`
        for labels, value in kept.items():
            shown = read(text)["calico_x", labels]
            assert shown == value or (math.isnan(shown) and math.isnan(value))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-10, 10)),
    st.lists(st.floats(-9, 9), min_size=1, unique=True).map(sorted),
)
def test_a_histogram_counts_what_is_at_most_each_bound(values: list[float], bounds: list[float]) -> None:
    registry = Registry()
    histogram = registry.histogram("calico_h", "h", buckets=bounds)
    for value in values:
        histogram.observe(value=value)
    assert histogram.count() == len(values)
    if values:
        found = read(metrics.text(registry))
        for bound in bounds:
            counted = found["calico_h_bucket", (("le", repr(float(bound))),)]
            assert counted == sum(value <= bound for value in values)
        assert found["calico_h_bucket", (("le", "+Inf"),)] == found["calico_h_count", ()] == len(values)
        assert found["calico_h_sum", ()] == pytest.approx(sum(values))


def test_a_counter_is_there_from_the_beginning() -> None:
    registry = Registry()
    registry.counter("calico_a", "a")
    labelled = registry.counter("calico_b", "b", ["kind"])
    labelled.declare("x")
    labelled.add("x")
    labelled.declare("x")
    assert read(metrics.text(registry)) == {("calico_a_total", ()): 0, ("calico_b_total", (("kind", "x"),)): 1}
    assert labelled.value("x") == 1 and labelled.value("y") == 0


def test_a_gauge_can_be_replaced_and_taken_back() -> None:
    registry = Registry()
    gauge = registry.gauge("calico_g", "g", ["pool"])
    gauge.set("a", value=1)
    gauge.replace({("b",): 2})
    assert gauge.value("a") is None and gauge.value("b") == 2


def test_refresh_callbacks_run_at_each_read() -> None:
    registry = Registry()
    gauge = registry.gauge("calico_g", "g")
    registry.refresh_with(lambda: gauge.set(value=(gauge.value() or 0) + 1))
    metrics.text(registry)
    assert "calico_g 2\n" in metrics.text(registry)


def test_invalid_names_labels_buckets_and_amounts_raise_value_error() -> None:
    registry = Registry()
    counter = registry.counter("calico_a", "a", ["kind"])
    for mistake in (
        lambda: registry.gauge("calico_a", "a"),
        lambda: registry.gauge("calico-b", "b"),
        lambda: registry.gauge("calico_b", "b", ["le"]),
        lambda: registry.gauge("calico_b", "b", ["__name"]),
        lambda: registry.gauge("calico_b", "b", ["x", "x"]),
        lambda: registry.histogram("calico_b", "b", buckets=[2, 1]),
        lambda: registry.histogram("calico_b", "b", buckets=[]),
        counter.add,
        lambda: counter.add("a", "b"),
        lambda: counter.add("a", amount=-1),
    ):
        with pytest.raises(ValueError):
            mistake()
