# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that stored times never lie in the future, nor less far back than they really are."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.clock import (
    Epoch,
    SteadyClock,
    boot_id,
    boottime,
)
from hypothesis import given
from hypothesis import strategies as st


def test_this_machine_has_a_clock_and_a_boot():
    first = boottime()
    assert 0 < first <= boottime()
    assert len(boot_id()) == 36
    assert boot_id() == boot_id()


@given(
    boots=st.lists(
        st.tuples(st.integers(0, 100), st.lists(st.integers(0, 50), min_size=1, max_size=4), st.booleans()), max_size=5
    )
)
def test_the_clock_never_runs_ahead_or_goes_backwards_over_any_boots(boots):
    """The clock never counts more time than passed, and never goes back, over any row of boots.

    A boot is (seconds until the agent starts, pauses in seconds before each reading of the clock, whether the agent
    restarts before the last pause).
    """
    epoch, latest, true_latest, true = None, 0.0, 0.0, 1000.0
    for number, (up, pauses, again) in enumerate(boots, start=1):
        true += 5  # the machine is off for 5 seconds
        booted = true
        true += up
        clock = SteadyClock(lambda: true - booted, lambda: f"boot-{number}")  # noqa: B023  used up in this turn
        epoch = clock.resume(epoch, latest)
        assert epoch.boot == f"boot-{number}"
        for position, pause in enumerate(pauses):
            if again and position == len(pauses) - 1:
                clock = SteadyClock(lambda: true - booted, lambda: f"boot-{number}")  # noqa: B023
                assert clock.resume(epoch, latest) == epoch
            true += pause
            now = clock()
            assert latest <= now
            assert now - latest <= true - true_latest
            latest, true_latest = now, true
        assert clock() == latest


def test_the_clock_holds_still_when_its_source_goes_backwards():
    seconds = 100.0
    clock = SteadyClock(lambda: seconds, lambda: "boot")
    assert clock.resume(None, 0.0) == Epoch("boot", 0.0)
    assert clock() == 100.0
    seconds = 40.0
    assert clock() == 100.0
    thawed = SteadyClock(lambda: seconds, lambda: "boot")
    assert thawed.resume(Epoch("boot", 0.0), 100.0) == Epoch("boot", 60.0)
    seconds = 41.0
    assert thawed() == 101.0
