# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the writer that sends a state to the agent: which of the agent's problems fail a run."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.errors import AgentSilent, NotTakenOver
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.write.writer import Through
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.fakes.kernel import FakeKernel

WEB = AttachedWorkload("default/web", "web", interface="cali1", addresses=("10.0.0.2", "fd00::2"))


class Agent:
    """An agent that answers each call with these problems."""

    def __init__(self, *problems):
        self._problems = problems

    def call(self, _method, **_params):
        return {"problems": list(self._problems)}


class SilentAtTheEnd:
    """An agent that makes additions, and does not answer when it is asked for removals."""

    def call(self, _method, **params):
        if params["removals"]:
            raise TimeoutError("the agent has not answered within 35 s.")
        return {"problems": []}


@pytest.fixture
def machine(tmp_path):
    Endpoints(str(tmp_path)).save(WEB)
    return Machine(FakeKernel(), workloads=str(tmp_path))


@pytest.mark.parametrize(
    "problem",
    [
        "workload default/web: another device is in the way",
        "route 10.0.0.2/32: Network is down",
        "route fd00::2/128: Network is down",
        "sysctl net.ipv6.conf.cali1.forwarding: No such file or directory",
    ],
)
def test_problems_of_workloads_that_the_agent_attached_fail_no_run(machine, problem):
    Through(machine, Agent(problem)).resync()


@pytest.mark.parametrize(
    "problem",
    [
        "workload default/db: another device is in the way",
        "route 10.0.0.3/32: Network is down",
        "route fd00::2/64: Network is down",
        "sysctl net.ipv6.conf.cali2.forwarding: No such file or directory",
    ],
)
def test_other_problems_fail_the_run(machine, problem):
    with pytest.raises(NotTakenOver) as caught:
        Through(machine, Agent(problem, "workload default/web: another device is in the way")).resync()
    assert str(caught.value) == problem


def test_an_agent_that_falls_silent_in_a_change_does_not_count_as_one_that_changed_nothing(machine):
    told = []
    with pytest.raises(AgentSilent) as caught:
        Through(machine, SilentAtTheEnd()).apply(NodeState("node1", "10.0.0.1/24"), None, lambda: told.append("bird"))
    assert told == ["bird"]
    assert str(caught.value) == (
        "the agent has not answered within 35 s. Look at it (journalctl -u calico-agent), restart it (systemctl "
        "restart calico-agent: running workloads do not notice), then run again: what was begun is completed then."
    )
