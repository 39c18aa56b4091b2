# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the node module and connections that a new policy denies: the plan names them, and any writer ends them."""

from __future__ import annotations

import dataclasses
import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Connection
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Entity,
    Flow,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.unit.modules.agent_in_process import AgentInProcess
from tests.unit.modules.node.test_node import STATE, params

HTTP = PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(PortRange(80, 80),)))
POLICY = PolicyState(
    policy_set(policies=[Policy("web", ingress=(HTTP,))], profiles=[allow_all()]),
    settings=PolicySettings(cut_denied_flows=True),
)
GUARDED = dataclasses.replace(STATE, plan="b", policy=POLICY)


def connection(port, address="10.244.3.1"):
    flow = Flow(6, "192.0.2.9", address, 40000 + port, port)
    return Connection(flow, flow, b"%d" % port, b"%d" % port)


@pytest.fixture
def connected(host):
    """A node without policy whose workload has connections to its ports 80, 21 and 23."""
    host.run(node, **params())
    host.kernel.machine.tracked = [connection(80), connection(21), connection(23)]
    return host


def cut(host):
    """Return a list of the tracked connections that have a mark, which means cut, as copies (Connection) with mark 0.

    The kernel's own keep their mark.
    """
    return [one._replace(mark=0) for one in host.kernel.machine.tracked if one.mark]


def planned(host, state):
    answer = host.run(node, check=True, diff=True, **params(state))
    return [" ".join(line.split()) for line in answer["plan"] if " flows " in line]


def test_without_an_agent(connected):
    assert planned(connected, GUARDED) == ["! flows 2 connections that are now denied will be cut"]
    assert cut(connected) == []
    answer = connected.run(node, **params(GUARDED))
    assert answer["changed"] and cut(connected) == [connection(21), connection(23)]
    # A second run with the same policy does nothing to connections.
    connected.kernel.machine.tracked = [connection(23)]
    assert planned(connected, GUARDED) == []
    assert connected.run(node, **params(GUARDED))["changed"] is False
    assert cut(connected) == []


def test_a_kernel_that_does_not_cut_them_fails_the_run_and_the_next_one_tries_again(connected):
    connected.kernel.fail_next("connections_mark", errno.ENOBUFS)
    answer = connected.run(node, **params(GUARDED))
    assert answer["msg"] == (
        "Connections that policy denies go on, because the kernel refused to cut them: mark 2 tracked connections: No"
        " buffer space available. calico_policy_cut_denied_flows wants them cut. Run again. If it stays, look at dmesg"
        " and at the connections (conntrack -L), and end the programs that hold them."
    )
    assert cut(connected) == []
    connected.run(node, **params(GUARDED))
    assert cut(connected) == [connection(21), connection(23)]


def test_with_an_agent(connected):
    with AgentInProcess(connected):
        connected.kernel.machine.tracked.pop()
        assert planned(connected, GUARDED) == ["! flows 1 connection that is now denied will be cut"]
        connected.run(node, **params(GUARDED))
        assert cut(connected) == [connection(21)]


def test_workloads_that_came_between_runs_are_judged_as_well(connected):
    made = connected.attach("db-1")
    connected.kernel.machine.tracked = [connection(23, made.addresses[0])]
    assert planned(connected, GUARDED) == ["! flows 1 connection that is now denied will be cut"]
    connected.run(node, **params(GUARDED))
    assert cut(connected) == [connection(23, made.addresses[0])]


def test_only_if_it_is_wanted(connected):
    settings = dataclasses.replace(POLICY, settings=PolicySettings())
    state = dataclasses.replace(GUARDED, policy=settings)
    assert planned(connected, state) == []
    connected.run(node, **params(state))
    assert cut(connected) == []
