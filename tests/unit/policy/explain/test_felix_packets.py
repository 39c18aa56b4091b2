# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path of a flow, compared with what arrived under real Felix."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import ALLOWED, Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import Paths

from tests.unit.policy.felix_packets import HOST, FelixWorld, worlds


def test_the_worlds_are_all_there() -> None:
    assert len(worlds()) == 87
    assert {len(world.probes) for world in worlds()} == {385}
    assert sum(len(world.answered) for world in worlds()) == 10486


@pytest.mark.parametrize("world", worlds(), ids=lambda world: world.name)
def test_the_path_allows_what_felix_lets_pass_there_and_back(world: FelixWorld) -> None:
    paths = Paths(Evaluator(world.policy_set(), world.endpoints()), [HOST])
    allowed = {probe for probe in world.probes if paths.of(probe.flow()).action == ALLOWED}
    assert allowed == world.answered
