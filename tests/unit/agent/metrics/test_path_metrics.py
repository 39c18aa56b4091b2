# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of the paths that the agent watches."""

from __future__ import annotations

import asyncio

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent_metrics import refresh_paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics import metrics
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.instruments import Instruments
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry

from tests.unit.agent.watch.test_path_watcher import Scene


def test_paths_in_figures() -> None:
    """Counts by pool and state, round-trip times, and the paths that are down by name; none while none are watched."""

    async def scenario() -> None:
        scene, measured = Scene(), Instruments(Registry())
        refresh_paths(measured, scene.watcher)
        assert (measured.paths_watched.value(), measured.paths.value("web", "up")) == (0, None)
        await scene.pass_seconds(20)
        refresh_paths(measured, scene.watcher)
        assert (measured.paths_watched.value(), measured.paths.value("web", "up")) == (1, 1)
        assert measured.path_round_trips.count("web") >= 3
        scene.opened[0].answers = False
        await scene.pass_seconds(20)
        refresh_paths(measured, scene.watcher)
        assert [measured.paths.value("web", state) for state in ("up", "down", "untested", "node_down")] == [0, 1, 0, 0]
        assert (measured.path_down.value("web", "node2", "", "no answer") or 0) > 5
        assert measured.path_fragments.value() == 0
        for scene.watcher.reassembled in (3, 5):
            refresh_paths(measured, scene.watcher)
        assert measured.path_fragments.value() == 5
        assert 'calico_agent_path_round_trip_seconds_bucket{pool="web",le="0.0025"}' in metrics.text(measured.registry)

    asyncio.run(scenario())


def test_counts_of_another_number_of_buckets_are_refused() -> None:
    """A histogram takes counts for its own buckets only."""
    with pytest.raises(ValueError, match="has 14 buckets, not 2"):
        Instruments(Registry()).path_round_trips.set_counts("web", counts=[1, 2], total=0.5)
