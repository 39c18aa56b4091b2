# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of timer alignment: parts that sleep until the next beat wake up at the same moment."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency import timer_alignment
from hypothesis import given, settings
from hypothesis import strategies as st

TIMES = st.floats(0, 1e7)  # seconds of a monotonic clock


@settings(max_examples=100)
@given(TIMES, st.sampled_from([0.5, 1.0, 2.0]))
def test_the_next_beat_is_later_and_within_a_period(now: float, period: float) -> None:
    assert now < timer_alignment.after(now, period) <= now + period


@settings(max_examples=100)
@given(TIMES, TIMES)
def test_all_wait_for_the_same_beat(one: float, other: float) -> None:
    assert (timer_alignment.after(one) == timer_alignment.after(other)) == (int(one) == int(other))
