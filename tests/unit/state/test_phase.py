# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases as text: in playbooks, in stored states and in messages."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase

STATE = NodeState("node1", "10.10.1.11/24")


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^phase 'flop' is not one of converge, prepare, .*, flip, retire$"):
        Phase.from_text("flop")


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_is_its_text_in_every_format(phase: Phase) -> None:
    text = phase.value
    assert (str(phase), f"{phase}", f"{phase:<9}", json.dumps(phase)) == (text, text, f"{text:<9}", f'"{text}"')
    assert Phase.from_text(text) is phase


@pytest.mark.parametrize("phase", Phase)
def test_a_state_is_stored_with_the_text_and_read_with_the_type(phase: Phase) -> None:
    state = dataclasses.replace(STATE, phase=phase)
    stored = state.to_dict()
    assert type(stored["phase"]) is str
    assert stored["phase"] == phase.value
    assert NodeState.from_dict(stored).phase is phase


@pytest.mark.parametrize("value", ["flop", 5, None, []])
def test_a_state_of_no_known_phase_is_not_read(value: object) -> None:
    with pytest.raises(ValueError, match="Phase"):
        NodeState.from_dict({**STATE.to_dict(), "phase": value})


def test_the_phases_of_a_change_are_all_but_the_rest() -> None:
    assert list(Phase) == [Phase.CONVERGE, *PHASES]
