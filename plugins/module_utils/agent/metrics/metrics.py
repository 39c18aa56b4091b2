# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters, gauges and histograms, and the registry that collects them, without dependencies.

`text` writes a registry in Prometheus's text format, version 0.0.4 (prometheus.io, "Exposition formats").

A metric takes its label values as arguments, in the order of its labels:

    registry = Registry()
    errors = registry.counter("calico_agent_errors", "What failed.", ["kind"])
    errors.add("route")
    registry.gauge("calico_agent_workloads", "Workloads on this node.").set(value=12)

Nothing here is safe for threads: code in a thread has to pass its values to the event loop.
"""

from __future__ import annotations

import bisect
import math
import re
import typing as t

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Default bucket bounds in seconds, from 1 ms, which one netlink message takes, to 30 s, when callers stop waiting
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED = {"le", "quantile"}

Labels = tuple[str, ...]


class Sample(t.NamedTuple):
    """One line of the exposition; `suffix` is appended to the metric's name."""

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Metric:
    """The base of all kinds of metrics. `labels` are the names of its labels.

    Making one raises ValueError for a name or label that Prometheus does not accept (data model, v2), for the labels
    `le` and `quantile`, and for a label that is given twice. Methods that take label values raise ValueError if their
    number is wrong.
    """

    kind = ""

    def __init__(self, name: str, help: str, labels: t.Sequence[str] = ()) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for a metric")
        for label in labels:
            if not _LABEL.fullmatch(label) or label in _RESERVED:
                raise ValueError(f"{label!r} is not a name for a label of {name}")
        if len(set(labels)) != len(labels):
            raise ValueError(f"{name} has a label twice")
        self.name = name
        self.help = help
        self.labels = tuple(labels)

    def samples(self) -> t.Iterator[Sample]:
        """Yield the lines of the metric's present values, sorted by label values. Subclasses implement this."""
        raise NotImplementedError

    def _key(self, values: t.Sequence[str]) -> Labels:
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {len(values)} of them")
        return tuple(map(str, values))

    def _named(self, key: Labels) -> tuple[tuple[str, str], ...]:
        return tuple(zip(self.labels, key))


class Counter(Metric):
    """A metric that only grows. Its name in the exposition ends in _total. Without labels it begins as 0."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: t.Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *values: str, amount: float = 1.0) -> None:
        """Increase the counter of these label values by `amount`. Raise ValueError if that is negative."""
        if amount < 0:
            raise ValueError(f"{self.name} only grows")
        key = self._key(values)
        self._values[key] = self._values.get(key, 0.0) + amount

    def declare(self, *values: str) -> None:
        """Set the counter of these label values to 0 if it has no value, so that its first event is seen as a rise."""
        self._values.setdefault(self._key(values), 0.0)

    def value(self, *values: str) -> float:
        """Return the counter of these label values, 0 if it has no value."""
        return self._values.get(self._key(values), 0.0)

    def samples(self) -> t.Iterator[Sample]:
        for key, value in sorted(self._values.items()):
            yield Sample("_total", self._named(key), value)


class Gauge(Metric):
    """A metric that goes up and down. Without a value it has no sample."""

    kind = "gauge"

    def __init__(self, name: str, help: str, labels: t.Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._values: dict[Labels, float] = {}

    def set(self, *values: str, value: float) -> None:
        self._values[self._key(values)] = value

    def replace(self, values: t.Mapping[t.Sequence[str], float]) -> None:
        """Replace all values by a mapping from label values to value; other labels disappear."""
        self._values = {self._key(key): value for key, value in values.items()}

    def value(self, *values: str) -> t.Optional[float]:
        """Return the gauge of these label values, or None if it has no value."""
        return self._values.get(self._key(values))

    def samples(self) -> t.Iterator[Sample]:
        for key, value in sorted(self._values.items()):
            yield Sample("", self._named(key), value)


class Histogram(Metric):
    """A metric that counts how many observed values were at most as large as each bound.

    `buckets` are the rising upper bounds; infinity is added. Making one raises ValueError if they do not rise.
    """

    kind = "histogram"

    def __init__(
        self, name: str, help: str, labels: t.Sequence[str] = (), buckets: t.Sequence[float] = SECONDS
    ) -> None:
        super().__init__(name, help, labels)
        if not buckets or list(buckets) != sorted(set(buckets)):
            raise ValueError(f"the buckets of {name} do not rise")
        self._bounds = tuple(float(bound) for bound in buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, *values: str, value: float) -> None:
        """Count `value` in the histogram of these label values."""
        key = self._key(values)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(self._bounds) + 1)
        counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + value

    def set_counts(self, *values: str, counts: t.Sequence[int], total: float) -> None:
        """Replace the histogram of these label values by one that was counted elsewhere with the same bounds.

        `counts` has one number for each bound, and one for values above the last. `total` is the sum of all values.
        Raise ValueError for another number of counts.
        """
        if len(counts) != len(self._bounds) + 1:
            raise ValueError(f"{self.name} has {len(self._bounds) + 1} buckets, not {len(counts)}")
        key = self._key(values)
        self._counts[key], self._sums[key] = list(counts), total

    def count(self, *values: str) -> int:
        """Return the number of observed values for these label values, 0 if there are none."""
        return sum(self._counts.get(self._key(values), ()))

    def samples(self) -> t.Iterator[Sample]:
        for key, counts in sorted(self._counts.items()):
            named = self._named(key)
            total = 0
            for bound, count in zip((*self._bounds, float("inf")), counts):
                total += count
                yield Sample("_bucket", (*named, ("le", "+Inf" if bound == float("inf") else repr(bound))), total)
            yield Sample("_sum", named, self._sums[key])
            yield Sample("_count", named, total)


_M = t.TypeVar("_M", bound=Metric)


class Registry:
    """A collection of metrics, in the order of their making. A name that is taken or not valid raises ValueError."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._refreshers: list[t.Callable[[], None]] = []

    def counter(self, name: str, help: str, labels: t.Sequence[str] = ()) -> Counter:
        return self._register(Counter(name, help, labels))

    def gauge(self, name: str, help: str, labels: t.Sequence[str] = ()) -> Gauge:
        return self._register(Gauge(name, help, labels))

    def histogram(
        self, name: str, help: str, labels: t.Sequence[str] = (), buckets: t.Sequence[float] = SECONDS
    ) -> Histogram:
        return self._register(Histogram(name, help, labels, buckets))

    def refresh_with(self, refresh: t.Callable[[], None]) -> None:
        """Register a function to be called before each reading, for values that are cheaper to look up than to keep."""
        self._refreshers.append(refresh)

    def metrics(self) -> t.Iterator[Metric]:
        """Call the functions of `refresh_with`, then yield all metrics. An error of such a function is raised."""
        for refresh in self._refreshers:
            refresh()
        yield from self._metrics.values()

    def _register(self, metric: _M) -> _M:
        if metric.name in self._metrics:
            raise ValueError(f"there is a metric {metric.name} already")
        self._metrics[metric.name] = metric
        return metric


def text(registry: Registry) -> str:
    """Return a registry in Prometheus's text format, refreshed; metrics without values have only HELP and TYPE."""
    return "".join(line for metric in registry.metrics() for line in _lines(metric))


def _lines(metric: Metric) -> t.Iterator[str]:
    # In the text format 0.0.4 the HELP and TYPE of a counter have the name of its samples, which ends in _total.
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
    # A lone half of a surrogate pair becomes "?": it cannot be encoded, and would make the whole page fail.
    value = value.encode("utf-8", "replace").decode("utf-8")
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
