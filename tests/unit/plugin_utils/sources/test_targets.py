# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states that hosts read of a compiled fleet, with their policy packed once."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import targets

from tests.unit.fleet.fleets import build, states
from tests.unit.fleet.inventory.test_policy_inventory import FROM_APP, TIERS, WEB


@pytest.fixture(autouse=True)
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))


def test_the_data_sent_to_a_node_equals_its_state() -> None:
    fleet = build(workloads=TIERS, policies=[WEB, FROM_APP], reflectors={"rr": "10.10.1.2/24"})
    folder = targets.save(Targets(fleet))
    for name, whole in states(fleet).items():
        found = targets.load(folder).phase(name, None, Phase.CONVERGE)
        assert (found.policy is None) is (whole.policy is None) is (name == "rr")
        if found.policy is not None:
            assert found.policy.policy_set.policies == () and found.policy.settings == whole.policy.settings
            data = {**found.to_wire(), "policy": targets.load_policy(folder, name)}
            assert NodeState.from_dict(data) == whole


def test_without_policy_nothing_is_kept_of_it() -> None:
    folder = targets.save(Targets(build()))
    assert sorted(os.listdir(folder)) == ["secret", "targets"] and targets.load_live(folder) is None
    assert targets.load_policy(folder, "node1") is None
    assert targets.load(folder).state("node1") == states(build())["node1"]


def test_stored_states_keep_their_policies() -> None:
    """A packed policy is returned for its node, and a node without one has none."""
    folder = targets.save(Targets(states=states(build())), policies={"node1": "packed"})
    assert targets.load_policy(folder, "node1") == "packed" and targets.load_policy(folder, "node2") is None


def test_each_run_has_a_secret_and_a_sample_of_its_own() -> None:
    """All tasks of a run read one secret of 16 bytes and one turn; another run has others."""
    folders = [targets.save(Targets(build())) for dummy in range(2)]
    first, second = (targets.probe_secret(folder) for folder in folders)
    assert first == targets.probe_secret(folders[0]) and len(first) == 16
    assert first != second != targets.probe_secret(None)
    assert targets.probe_turn(first) != targets.probe_turn(second)
