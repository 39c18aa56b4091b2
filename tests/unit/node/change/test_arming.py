# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the arming of commit-confirm: what is stored before a change, and what is returned."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import arming
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.plan import plan_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import (
    Confirm,
    Unconfirmed,
    UnconfirmedStore,
    Uptime,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Sysctl

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import underlay

NOW = 1000.0


def state(plan: str) -> NodeState:
    return NodeState("node1", "10.10.1.11/24", plan=plan * 12, sysctls=(Sysctl("net/ipv4/ip_forward", "1"),))


@pytest.fixture
def machine(tmp_path):
    """A machine with an engine and a stored state."""
    kernel = FakeKernel()
    underlay(kernel)
    engine = tmp_path / "engine"
    (engine / "0123456789abcdef").mkdir(parents=True)
    (engine / "0123456789abcdef/__main__.py").touch()
    (engine / "current").symlink_to("0123456789abcdef")
    made = Machine(
        kernel,
        root=str(tmp_path / "root"),
        store=str(tmp_path / "calico"),
        engine=str(engine),
        bird_config=str(tmp_path / "bird.cfg"),
        bird_socket=str(tmp_path / "bird.ctl"),
        netstat=str(tmp_path / "netstat"),
        workloads=str(tmp_path / "run/workloads"),
        ipam=str(tmp_path / "calico/ipam"),
        cni_deleted=str(tmp_path / "calico/cni/deleted"),
        agent_socket=str(tmp_path / "run/agent.sock"),
        writer_lock=str(tmp_path / "run/writer.lock"),
        sessions=lambda: (),
        uptime=lambda: Uptime("boot-1", NOW),
        start_detached=lambda command: None,
    )
    Store(made.store).save(Stored(state("a")))
    return made


def arm(machine, change, within=60.0):
    return arming.arm(machine, plan_change(machine, Stored(state("b"))), Confirm(change, within))


def test_the_time_runs_from_the_change_and_what_is_returned_has_no_deadline_yet(machine):
    armed = arm(machine, "1st")
    assert (armed.boot, armed.deadline, armed.within) == ("", 0.0, 60.0)
    stored = UnconfirmedStore(machine.store).load()
    assert (stored.boot, stored.deadline) == ("boot-1", NOW + 60.0)
    assert stored.previous.state == state("a")


@pytest.mark.parametrize("waiting_before", [False, True])
def test_a_process_that_cannot_be_started_leaves_what_waited_before(machine, waiting_before):
    """The change is not made, so that neither the deadline nor a boot may revert it."""
    store = UnconfirmedStore(machine.store)
    if waiting_before:
        arm(machine, "1st")
    else:
        store.record_revert(
            Unconfirmed(("0th",), Stored(state("a")), "p", "boot-0", 0.0, 1.0, bgp=False).reverted("late")
        )
    before, news = store.load(), store.last_revert()

    def refused(command):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    machine.start_detached = refused
    with pytest.raises(OSError, match="Resource temporarily unavailable"):
        arm(machine, "2nd", within=5.0)
    assert (store.load(), store.last_revert()) == (before, news)
    assert store.any() is waiting_before


def test_changes_reverted_together_keep_the_names_of_the_latest_twenty(machine):
    for number in range(19):
        arm(machine, f"change {number}")
    assert UnconfirmedStore(machine.store).load().changes == tuple(f"change {number}" for number in range(19))
    for number in range(19, 23):
        arm(machine, f"change {number}")
    waiting = UnconfirmedStore(machine.store).load()
    assert waiting.changes == tuple(f"change {number}" for number in range(3, 23))
    assert (waiting.change, waiting.previous.state) == ("change 22", state("a"))
