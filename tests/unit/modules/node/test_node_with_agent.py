# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the node module beside an agent, and beside workloads that an agent attached: one writer at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import hashlib
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile import pace
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import units
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, Route
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import running_agent
from ansible_collections.baremetal.host_routing.plugins.modules import node, route

from tests.fakes.forged_engine import whole_engine
from tests.unit.fleet.fleets import build, pool, states
from tests.unit.modules.agent_in_process import AgentInProcess
from tests.unit.modules.harness import Host
from tests.unit.modules.node.test_node import PARAMS, STATE, WORKLOAD, params
from tests.unit.node.systemctl import Systemctl

SPARE = "10.244.9.64/26"
IPAM = dataclasses.replace(STATE.ipam, spare_blocks=(Block(SPARE, "pool"),))
MORE = dataclasses.replace(STATE, plan="p2", routes=(*STATE.routes, Route("10.244.3.64/26", "blackhole")))
REMEDY = (
    "Look at it (journalctl -u calico-agent), restart it (systemctl restart calico-agent: running workloads do not "
    "notice), then run again: what was begun is completed then."
)


@pytest.fixture
def agent(host):
    with AgentInProcess(host) as found:
        yield found


def reached(host, workload):
    """Return whether the workload's interface exists, and the kernel has our route to the workload's first address."""
    routes = dict(host.kernel.routes(protocol=179))
    return f"{workload.addresses[0]}/32" in routes and host.kernel.link(workload.interface) is not None


# --- without an agent -----------------------------------------------------------------------------------------------


def test_workloads_that_an_agent_left_stay(host):
    host.run(node, **params(dataclasses.replace(STATE, ipam=IPAM)))
    made = host.attach("db-1")
    again = host.run(node, **params(dataclasses.replace(STATE, ipam=IPAM)))
    assert again["changed"] is False
    host.run(node, **params(dataclasses.replace(MORE, ipam=IPAM)))
    host.run(node, **params(dataclasses.replace(STATE, ipam=IPAM, workloads=(), routes=STATE.routes[:1])))
    assert reached(host, made)


def test_a_block_that_an_agent_opened_stays_open(host):
    host.run(node, **params(dataclasses.replace(STATE, ipam=IPAM)))
    made = host.attach("db-1", address="10.244.9.65")
    host.run(node, **params(dataclasses.replace(STATE, ipam=IPAM)))
    assert dict(host.kernel.routes(protocol=179))[SPARE].type == "blackhole"
    assert reached(host, made)


def test_a_lost_link_of_an_attached_workload_is_restored(host):
    host.run(node, **PARAMS)
    made = host.attach("db-1")
    host.kernel.link_delete(made.interface)
    _planned, done = host.four_times(node, **PARAMS)
    assert {change["kind"] for change in done["changes"]} == {"workload", "sysctl", "route"}
    assert reached(host, made)


def test_nothing_is_removed_where_records_cannot_be_read(host):
    host.run(node, **PARAMS)
    made = host.attach("db-1")
    (host.folder / "run" / "workloads" / "broken.json").write_text("{")
    before = host.snapshot()
    failed = host.run(node, **PARAMS)
    assert failed["failed"] is True and "broken.json" in failed["msg"]
    assert host.snapshot() == before and reached(host, made)


def test_a_planned_address_that_is_already_in_use_stops_the_run(host):
    host.run(
        node, **params(dataclasses.replace(STATE, ipam=dataclasses.replace(STATE.ipam, workloads={}), workloads=()))
    )
    host.attach("db-1", address=STATE.workloads[0].address)
    before = host.snapshot()
    text = (
        "10.244.3.1, planned for workload default/web-1 of node1, was given to workload default/db-1 there meanwhile. "
        "Run playbooks/site.yml: it plans another address."
    )
    assert host.run(node, **PARAMS)["msg"] == text
    first = host.run(node, check=True, **PARAMS)["changes"][0]
    assert (first["action"], first["note"]) == ("!", text)
    assert host.snapshot() == before


@pytest.mark.parametrize("with_agent", [True, False])
def test_a_workload_of_the_node_whose_owner_broke_it_holds_up_nothing(host, with_agent):
    host.run(node, **PARAMS)
    made = host.attach("db-1")
    inside = host.kernel.inside("db-1")
    inside.link_add(NewLink("dummy0", "bridge", 1500))
    inside.link_set("dummy0", up=True)
    (default,) = [found for found in inside.routes(table=254) if found[0] == "0.0.0.0/0"]
    theirs = RouteAttributes(device="dummy0", protocol=4, scope=253)
    operations = [RouteOperation("delete", *default), RouteOperation("add", default[0], theirs)]
    assert inside.route_batch(operations) == []
    with AgentInProcess(host) if with_agent else contextlib.nullcontext():
        answer = host.run(node, **params(MORE))
    assert answer["changed"] is True
    (kept,) = answer["kept"]
    assert kept.startswith(
        "default/db-1 Inside network namespace db-1 there is a route default through dummy0 already."
    )
    assert "10.244.3.64/26" in dict(host.kernel.routes(protocol=179))
    assert reached(host, made)


@pytest.mark.parametrize("with_agent", [True, False])
@pytest.mark.parametrize("of", ["agent", "inventory"])
@pytest.mark.parametrize("how", ["address", "device"])
def test_faults_inside_a_namespace_are_warnings_and_block_nothing_else(host, with_agent, of, how):
    """The module reloads BIRD, adds and removes objects, and reports the workload's problem as a note and a warning.

    The owner of a workload prevents the repair of its address, or replaces its interface by another one.
    """
    host.run(node, **params(MORE))
    made = host.attach("db-1") if of == "agent" else WORKLOAD
    inside = host.kernel.inside(made.name)
    if how == "device":
        inside.link_delete("eth0")
        inside.link_add(NewLink("eth0", "bridge", 1500))
        problem = (
            f"Inside network namespace {made.name} there is a device eth0 already, which is not this workload's. It was"
            " not touched. Give the workload another endpoint name or another namespace, then run again."
        )
    else:
        (address,) = inside.addresses("eth0")
        inside.address_delete(address)
        for _attempt in range(100):
            host.kernel.fail_next("address_add", errno.ENOBUFS, address.address)
        problem = (
            f"Inside network namespace {made.name}, its pair {made.interface} - eth0 could not be set up at: add"
            f" address {address.address}/32 to eth0. The kernel said: No buffer space available. What runs there may be"
            " the cause. Its existing parts are kept; put that right, then run again to have it completed."
        )
    other = dataclasses.replace(STATE, plan="p3", routes=(*STATE.routes, Route("10.244.3.128/26", "blackhole")))
    with AgentInProcess(host) if with_agent else contextlib.nullcontext():
        answer = host.run(node, **params(other, bird_config="router id 10.10.1.12;\n"))
    assert answer.get("msg") is None
    assert answer["kept"] == [f"default/{made.name} {problem}"]
    assert answer["warnings"] == [f"node1: default/{made.name}: {problem}"]
    routes = dict(host.kernel.routes(protocol=179))
    assert "10.244.3.128/26" in routes and "10.244.3.64/26" not in routes
    assert (host.folder / "bird.cfg").read_text() == "router id 10.10.1.12;\n"


# --- with one -------------------------------------------------------------------------------------------------------


def test_check_do_check_do(host, agent):
    planned, done = host.four_times(node, **PARAMS)
    assert planned["plan"] == done["plan"]
    assert agent.asked == ["plan", "plan", "additions", "removals", "plan", "plan"]
    assert agent.state == STATE
    assert (host.folder / "bird.cfg").read_text() == PARAMS["bird_config"]
    assert Store(host.machine.store).load().complete


def test_answers_and_results_are_the_same_with_and_without_an_agent(host, tmp_path, capsys, monkeypatch):
    other = Host(tmp_path / "other", type(host.kernel)())
    other.stdout = capsys.readouterr
    with AgentInProcess(host):
        answers = [host.run(node, diff=True, **PARAMS)]
    host.attach("db-1")  # as an agent attached it that has ended since
    with AgentInProcess(host):
        answers += [host.run(node, check=check, diff=True, **params(MORE)) for check in (True, False, False)]
    monkeypatch.setattr(machine, "here", lambda agent=None: other.using(agent))
    alone = [other.run(node, diff=True, **PARAMS)]
    other.attach("db-1")
    alone += [other.run(node, check=check, diff=True, **params(MORE)) for check in (True, False, False)]
    without_paths = [str(answer).replace(str(tmp_path / "other"), str(host.folder)) for answer in alone]
    assert [str(answer) for answer in answers] == without_paths
    assert host.kernel.snapshot() == other.kernel.snapshot()


def test_bird_is_configured_between_additions_and_removals(host, agent, monkeypatch):
    host.run(node, **PARAMS)
    agent.asked.clear()

    def told(*dummy, **more):
        agent.asked.append("bird")

    monkeypatch.setattr(configuration, "apply", told)
    host.run(node, **params(MORE))
    assert agent.asked == ["plan", "additions", "bird", "removals"]


def test_a_new_plan_of_the_same_state_reaches_the_agent(host, agent):
    host.run(node, **PARAMS)
    host.run(node, **params(dataclasses.replace(STATE, plan="other")))
    assert agent.state.plan == "other"


def test_a_change_that_failed_in_the_agent_is_completed_by_the_next_run(host, agent, monkeypatch):
    for name in ("FIRST_RETRY", "LAST_RETRY"):  # the agent must not retry by itself in between
        monkeypatch.setattr(pace, name, 60.0)
    host.run(node, **PARAMS)
    host.kernel.fail_next("route_batch", errno.ENOBUFS, "10.244.3.64/26")
    failed = host.run(node, **params(MORE))
    assert failed["failed"] is True and failed["msg"].startswith("route 10.244.3.64/26: ")
    assert not Store(host.machine.store).load().complete
    assert host.run(node, **params(MORE))["changed"] is True
    assert Store(host.machine.store).load().complete


def test_a_hung_agent_fails_the_run_and_nothing_is_changed(host, monkeypatch):
    host.machine.agent = functools.partial(running_agent.connect, greeting=0.05)
    monkeypatch.setattr(machine, "here", lambda agent: host.machine)
    with AgentInProcess(host, silent=True):
        before = host.snapshot()
        for check in (True, False):
            assert host.run(node, check=check, **PARAMS)["msg"] == (
                f"the agent has not answered within 0.05 s. Its socket is {host.machine.agent_socket}. What was asked "
                "for may still happen; ask again, which does no harm. `journalctl -u calico-agent` says what keeps it. "
                f"{REMEDY}"
            )
        assert host.snapshot() == before


def test_an_agent_that_does_not_listen_fails_the_run_without_changes(host):
    host.machine.agent_patience = 0.01
    before = host.snapshot()
    with lock.held("calico-agent", 0, host.machine.writer_lock):
        assert host.run(node, **PARAMS)["msg"] == (
            f"The agent of this node holds {host.machine.writer_lock}, but nobody answers at "
            f"{host.machine.agent_socket}. {REMEDY}"
        )
        assert host.snapshot() == before
        assert host.run(node, check=True, **PARAMS)["changed"] is True  # check mode needs no lock


def test_single_objects_are_the_agents(host, agent):
    host.run(node, **PARAMS)
    arguments = {"destination": "10.244.3.64/26", "type": "blackhole"}
    before = host.snapshot()
    assert host.run(route, **arguments)["msg"] == (
        "The agent of this node runs, and it alone writes here: it would take this back. Nothing was changed. Put what "
        "you want into the node's inventory and run playbooks/site.yml, use the module baremetal.host_routing.workload "
        "for a workload, or stop the agent (systemctl stop calico-agent) for as long as this is to last."
    )
    assert host.snapshot() == before
    assert host.run(route, check=True, **arguments)["changed"] is True


# --- starting it anew, and stopping it ------------------------------------------------------------------------------

AGENT = {"name": "calico-agent.service", "enabled": True, "started": True}
SETTINGS = {"path": "/etc/calico/agent.json", "content": '{"metrics_port": 9091}\n'}
RUNNING = hashlib.sha256(SETTINGS["content"].encode()).hexdigest()[:16]


@pytest.fixture
def systemctl(host):
    fake = Systemctl(host.folder / "systemd")
    host.machine.systemctl = str(fake.program)
    fake.have("calico-agent.service.enabled", "calico-agent.service.started")
    return fake


class Restarting(AgentInProcess):
    """An agent that reports another engine and other settings once systemd has restarted it."""

    def __init__(self, host, engine, settings):
        super().__init__(host)
        self.mark = host.folder / "systemd" / "calico-agent.service.restarted"
        self.later = (engine, settings)

    async def _version(self, params, peer):
        if self.mark.exists():
            self.engine, self.settings = self.later
        return await super()._version(params, peer)


def lines(answer):
    return [" ".join(line.split()) for line in answer["plan"] if line[2:].startswith("unit ")]


def test_an_agent_of_another_engine_is_restarted_before_it_gets_requests(host, systemctl):
    source = str(pathlib.Path(bundle.__file__).resolve().parents[2])
    new = bundle.bundle_digest(source)
    # A run that is killed after it installed the engine leaves the node like this.
    bundle.install(whole_engine(), new, host.machine.engine)
    with Restarting(host, new, RUNNING) as agent:
        agent.settings = RUNNING
        planned, done = host.four_times(
            node, **{**PARAMS, "files": [*PARAMS["files"], SETTINGS]}, units=[AGENT], engine_digest=new
        )
        assert (
            lines(planned)
            == lines(done)
            == ["~ unit calico-agent.service started -> started anew it runs another engine"]
        )
        assert agent.asked == ["plan", "additions", "removals", "plan", "plan"]


@pytest.mark.parametrize("units", [[AGENT], None])
def test_an_agent_with_other_settings_is_started_anew(host, systemctl, units):
    with Restarting(host, "", RUNNING):
        files = [*PARAMS["files"], SETTINGS]
        planned, _done = host.four_times(node, **{**PARAMS, "files": files}, units=units)
        assert lines(planned) == ["~ unit calico-agent.service started -> started anew it runs with other settings"]


def test_an_agent_that_is_switched_off_is_stopped_first(host, systemctl, monkeypatch):
    """An agent that the run stops is no writer any more: the module writes."""
    with AgentInProcess(host) as agent:
        host.run(node, **PARAMS)
        agent.asked.clear()
        original = units.apply

        def stopped(changes, *rest):
            original(changes, *rest)
            agent.stop()

        monkeypatch.setattr(units, "apply", stopped)
        off = {**AGENT, "enabled": False, "started": False}
        answer = host.run(node, **params(MORE), units=[off])
    assert lines(answer) == ["- unit calico-agent.service enabled, started"]
    assert agent.asked == ["plan"]
    assert "10.244.3.64/26" in dict(host.kernel.routes(protocol=179))


# --- at boot --------------------------------------------------------------------------------------------------------


def boot(host, agent=None):
    host.stdout()
    host.machine.agent = agent
    status = command.main(["apply"], host.machine)
    captured = host.stdout()
    return status, captured.out, captured.err


def test_the_boot_unit_asks_an_agent_that_runs(host):
    host.run(node, **PARAMS)
    gone = "10.244.3.0/26"
    with AgentInProcess(host) as agent:
        remove(host, gone)
        status, _out, err = boot(host, running_agent.connect)
        assert (status, err) == (0, "")
        assert agent.asked == ["plan", "resync"]
    assert gone in dict(host.kernel.routes(protocol=179))


def test_after_a_reboot_nothing_of_the_workloads_is_left_and_opened_blocks_are_open(host):
    host.run(node, **params(dataclasses.replace(STATE, ipam=IPAM)))
    made = host.attach("db-1", address="10.244.9.65")
    host.machine.workloads = str(host.folder / "run" / "empty")  # empty, as after a reboot: /run is a tmpfs
    status, _out, err = boot(host)
    assert (status, err) == (0, "")
    assert not reached(host, made)
    assert dict(host.kernel.routes(protocol=179))[SPARE].type == "blackhole"


def test_at_boot_nothing_is_removed_where_it_is_not_known_what_was_given_away(host):
    host.run(node, **PARAMS)
    made = host.attach("db-1")
    (host.folder / "run" / "workloads" / "broken.json").write_text("{")
    remove(host, "10.244.3.0/26")
    status, _out, err = boot(host)
    assert status == 1 and "broken.json" in err
    assert reached(host, made)
    assert "10.244.3.0/26" in dict(host.kernel.routes(protocol=179))


def remove(host, destination):
    attributes = dict(host.kernel.routes(protocol=179))[destination]
    assert host.kernel.route_batch([RouteOperation("delete", destination, attributes)]) == []


def at(address, plan):
    """Return the state of node1 with this address, in a fleet of two nodes."""
    fleet = build(pool("vxlan"), nodes={"node1": address, "node2": "10.10.1.12/24"}, workloads=[])
    return dataclasses.replace(states(fleet)["node1"], plan=plan * 12)


def test_a_host_gets_another_address_while_the_agent_knows_one_that_the_host_no_longer_has(host, agent):
    before, after = at("10.10.1.11/24", "a"), at("10.10.1.62/24", "b")
    host.run(node, **params(before))
    (old,) = (one for one in host.kernel.addresses() if one.address == "10.10.1.11")
    host.kernel.address_add(old._replace(address="10.10.1.62"))
    host.kernel.address_delete(old)
    answer = host.run(node, **params(after))
    assert not answer.get("failed"), answer["msg"]
    assert host.kernel.link("vxlan.calico").local == "10.10.1.62"
    assert host.run(node, **params(after))["changed"] is False
