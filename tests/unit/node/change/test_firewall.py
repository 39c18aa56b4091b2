# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the firewall at boot: which state's rules are written, and when no rule is written."""

from __future__ import annotations

import types

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import boot, firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import (
    Unconfirmed,
    UnconfirmedStore,
    Uptime,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Hook,
    IptablesTable,
    NodeState,
    Route,
)

from tests.fakes.kernel import FakeKernel

ARMED_AT, WITHIN = 1000.0, 60.0


def state(rule: str) -> NodeState:
    """Return a state with one rule in cali-INPUT, and one route, of a node whose address no interface has yet."""
    table = IptablesTable("filter", {"cali-INPUT": (rule,)}, (Hook("INPUT", "-j cali-INPUT"),))
    return NodeState("node1", "10.10.1.11/24", iptables=(table,), routes=(Route("10.244.3.0/26", "blackhole"),))


OLD, NEW = state("-p 4 -j DROP"), state("-p 41 -j DROP")


@pytest.fixture
def machine(tmp_path):
    """A machine at boot: its kernel has only the interface lo, and its uptime is that at which a change was armed."""
    (tmp_path / "run").mkdir()
    return Machine(
        FakeKernel(),
        root=str(tmp_path / "root"),
        store=str(tmp_path / "calico"),
        lock=str(tmp_path / "run/node.lock"),
        writer_lock=str(tmp_path / "run/writer.lock"),
        agent_socket=str(tmp_path / "run/agent.sock"),
        workloads=str(tmp_path / "run/workloads"),
        ipam=str(tmp_path / "calico/ipam"),
        boot_wait=0.0,
        uptime=lambda: Uptime("boot-1", ARMED_AT),
    )


def rules(machine):
    """Return a list of the rules of cali-INPUT in table filter as iptables-save writes them, cut before comments."""
    saved = machine.kernel.run(["iptables-save", "-t", "filter"]).output
    return [line.partition(" -m comment")[0] for line in saved.splitlines() if line.startswith("-A cali-INPUT")]


def files(tmp_path):
    return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"}


def store_unconfirmed_change(machine):
    Store(machine.store).save(Stored(NEW))
    UnconfirmedStore(machine.store).save(
        Unconfirmed(("1st",), Stored(OLD), "b" * 12, "boot-1", ARMED_AT + WITHIN, WITHIN, False)
    )


def test_a_node_without_a_stored_state_gets_no_rule(machine):
    with pytest.raises(firewall.NothingStored):
        firewall.restore(machine)
    assert rules(machine) == []


def test_the_rules_come_without_routes_and_the_plan_names_them(machine):
    Store(machine.store).save(Stored(NEW))
    plan = firewall.restore(machine)
    assert plan.changed
    assert rules(machine) == ["-A cali-INPUT -p 41 -j DROP"]
    assert dict(machine.kernel.routes(protocol=179)) == {}
    assert not firewall.restore(machine).changed


@pytest.mark.parametrize(
    ("uptime", "protocol"),
    [
        (Uptime("boot-1", ARMED_AT + WITHIN - 1), 41),
        (Uptime("boot-1", ARMED_AT + WITHIN), 4),
        (Uptime("boot-2", 3.0), 4),
    ],
    ids=["still waiting", "at the deadline", "after a reboot"],
)
def test_rules_of_a_change_that_was_not_confirmed_in_time_are_those_from_before_it(machine, tmp_path, uptime, protocol):
    store_unconfirmed_change(machine)
    before = files(tmp_path)
    machine.uptime = lambda: uptime
    firewall.restore(machine)
    assert rules(machine) == [f"-A cali-INPUT -p {protocol} -j DROP"]
    assert files(tmp_path) == before, "the revert itself is left to boot.restore"


def test_a_running_agent_keeps_its_firewall(machine):
    Store(machine.store).save(Stored(NEW))
    machine.agent = lambda _path: object()
    with pytest.raises(firewall.AgentWrites):
        firewall.restore(machine)
    assert rules(machine) == []


@pytest.mark.parametrize("held", ["lock", "writer_lock"])
def test_a_node_that_another_process_changes_for_ten_seconds_stays_as_it_is(machine, monkeypatch, held):
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds))
    Store(machine.store).save(Stored(NEW))
    with lock.held("module node", path=getattr(machine, held)):
        monkeypatch.setattr(lock, "time", clock)
        with pytest.raises(lock.LockError, match=r"changed by module node .* within 10 seconds"):
            firewall.restore(machine)
    assert 10 <= now[0] < 10.1
    assert rules(machine) == []


def test_a_refused_lock_names_the_boot_firewall_as_its_holder(machine, monkeypatch):
    Store(machine.store).save(Stored(NEW))
    heard = []

    def ask(_kernel, _plan):
        for path in (machine.lock, machine.writer_lock):
            with pytest.raises(lock.LockError) as refusal, lock.held("me", 0, path):
                pass
            heard.append(str(refusal.value))

    monkeypatch.setattr(firewall, "apply_node", ask)
    firewall.restore(machine)
    assert [text.startswith("this node is being changed by boot firewall (pid ") for text in heard] == [True, True]


def test_the_full_restore_afterwards_finds_the_rules_in_place(machine):
    store_unconfirmed_change(machine)
    machine.uptime = lambda: Uptime("boot-2", 3.0)
    firewall.restore(machine)
    written = rules(machine)
    machine.kernel.link_add(NewLink("eth0", "bridge", 1500))
    machine.kernel.address_add(InterfaceAddress("eth0", "10.10.1.11", 24))
    boot.restore(machine)
    assert rules(machine) == written
    assert Store(machine.store).load().state == OLD
