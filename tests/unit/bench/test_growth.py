# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slope of memory in bench/growth.py: it shows a leak, and nothing from before the agent is warm."""

from __future__ import annotations

import typing as t

import pytest

from bench.growth import GROUP, SAMPLE, WARM, Counted, slope

BASE = 20 << 20


def samples(memory: t.Callable[[int], float], last: int) -> list[Counted]:
    """Return a sample after each SAMPLE pairs, from 0 to `last`; `memory` maps pairs to bytes."""
    return [Counted(pairs, int(memory(pairs)), 0, {}) for pairs in range(0, last + 1, SAMPLE)]


#: The last sample that a second group needs.
ENOUGH = WARM + (2 * GROUP - 1) * SAMPLE


@pytest.mark.parametrize("last", [ENOUGH, 20_000])
@pytest.mark.parametrize("leak", [0, 8, 100, -3])
def test_the_slope_is_the_leak_of_each_pair(leak: int, last: int) -> None:
    assert slope(samples(lambda pairs: BASE + leak * pairs, last)) == leak


def test_memory_used_before_the_agent_is_warm_is_no_slope() -> None:
    def memory(pairs: int) -> float:
        return BASE + 500 * min(pairs, WARM)

    assert slope(samples(memory, ENOUGH)) == 0


def test_freed_memory_that_the_kernel_has_back_now_and_then_is_no_slope() -> None:
    def memory(pairs: int) -> float:
        return BASE + (200_000 if pairs // SAMPLE % GROUP else 0)

    assert slope(samples(memory, 20_000)) == 0


@pytest.mark.parametrize("last", [0, SAMPLE, WARM, ENOUGH - SAMPLE])
def test_few_samples_have_no_slope(last: int) -> None:
    """A short run shows no slope, since the rise of memory before the agent is warm is not one."""
    assert slope(samples(lambda pairs: BASE + 500 * min(pairs, WARM), last)) is None
