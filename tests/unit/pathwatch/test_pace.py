# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the watch's pace, payload and round-trip times."""

from __future__ import annotations

import math

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch import payload, schedule
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.payload import Payload
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.round_trips import BOUNDS, RoundTrips
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("counts", "seconds"),
    [
        ([1], [5]),
        ([50, 50], [10, 10]),
        ([20, 20], [5, 5]),
        ([250, 50], [30, 30]),  # all 300 in one round
        ([1000], [100]),
        ([5990, 10], [620, 30]),  # the small pool is tried wholly in each round of 30 seconds
        ([999] * 6, [600] * 6),
        ([0, 5], [0, 5]),
    ],
)
def test_time_within_which_each_path_of_a_pool_is_tried(counts: list[int], seconds: list[int]) -> None:
    """The stated time follows from the formula in the documentation."""
    assert [schedule.tried_within(*pair) for pair in zip(counts, schedule.rates(counts))] == seconds


@given(st.lists(st.integers(0, 6000), max_size=8))
def test_no_pool_is_forgotten(counts: list[int]) -> None:
    """The rates are at most ten probes a second together, and no pool with paths gets none."""
    rates = schedule.rates(counts)
    assert sum(rates) <= schedule.PACKETS + 1e-6
    assert all(bool(rate) == bool(count) for rate, count in zip(rates, counts))


@given(st.binary(min_size=8, max_size=8), st.integers(0, 2**32 - 1), st.floats(allow_nan=False), st.binary())
def test_a_payload_is_read_as_it_was_written(session: bytes, number: int, now: float, padding: bytes) -> None:
    """Decoding returns what was encoded, whatever follows it."""
    sent = Payload(session, number, now, b"abcd", 7)
    assert payload.decode(payload.encode(sent) + padding) == sent


@given(st.binary(max_size=80))
def test_other_bytes_are_no_payload(data: bytes) -> None:
    """Bytes that do not begin as a payload are none, and neither is one of a later version."""
    assert payload.decode(data) is None or data[:5] == b"CALW\x01"
    later = bytearray(payload.encode(Payload(bytes(8), 1, 1.0)))
    later[4] = 2
    assert payload.decode(bytes(later)) is None


def test_round_trips_are_counted_in_buckets() -> None:
    """A time is counted in the bucket of its bound; times that cannot be are left out or cut."""
    times = RoundTrips()
    for seconds in (0.0001, 0.00011, 1.0, 1.1, 1e9, -1.0, math.nan):
        times.add(seconds)
    assert list(times.counts) == [1, 1, *[0] * (len(BOUNDS) - 3), 1, 2]
    assert times.total == pytest.approx(0.00021 + 2.1 + 10.0)
