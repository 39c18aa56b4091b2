# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Token buckets, for one and for many."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.buckets import Bucket, Buckets


def test_a_bucket_fills_at_its_rate_up_to_its_burst() -> None:
    bucket = Bucket(10.0, 2.0, 100.0)
    assert bucket.wait(10.0, 100.0) == bucket.wait(50.0, 100.0) == 0.0
    bucket.take(14.0)
    assert [bucket.wait(amount, 101.0) for amount in (0.0, 1.0, 10.0, 50.0)] == [1.0, 1.5, 6.0, 6.0]
    assert bucket.wait(0.0, 99.0) == 1.0  # A clock that goes back takes nothing.
    assert bucket.wait(10.0, 1000.0) == 0.0
    bucket.take(10.0)
    assert bucket.wait(1.0, 1000.0) == 0.5


def test_each_key_has_a_bucket_and_their_number_is_bounded() -> None:
    buckets = Buckets(2.0, 1.0)
    for number in range(100_000):
        assert buckets.take(str(number), 0.0) == 0.0
    assert len(buckets._of) <= 8192
    assert [buckets.take("last", 0.0) for dummy in range(3)] == [0.0, 0.0, 1.0]
    assert buckets.take("last", 0.5) == 0.5
