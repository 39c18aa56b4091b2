# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of how drift is counted."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.drift import Drift


def test_drift_is_counted_for_a_day():
    now = [3600.0 * 100]
    drift = Drift(lambda: now[0])
    drift.count("route")
    now[0] += 3600 * 23
    drift.count("route")
    drift.count("sysctl")
    assert drift.to_dict() == {"total": 3, "day": 3, "kinds": {"route": 2, "sysctl": 1}}
    now[0] += 3600
    assert drift.to_dict() == {"total": 3, "day": 2, "kinds": {"route": 1, "sysctl": 1}}
    now[0] += 3600 * 24
    assert drift.to_dict() == {"total": 3, "day": 0, "kinds": {}}
