# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of commit-confirm: changes that are confirmed, that are not, and that are interrupted."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import file
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.live_reader import ReadDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import renumbering
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import apply, auto_revert, command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host.ssh_session import SshSession
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import live_policy, lock
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.live_policy import StoredLivePolicy
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import (
    Confirm,
    UnconfirmedStore,
    Uptime,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Policy, PolicyRule
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.live_policy import resolve
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import NO_POLICY
from ansible_collections.baremetal.host_routing.plugins.modules import node, node_confirm, node_status_info

from tests.unit.fleet.fleets import build, pool, states
from tests.unit.modules.agent_in_process import AgentInProcess

SSH = SshSession("10.10.1.1", 51444, "10.10.1.11", 22)
ANOTHER = SshSession("10.10.1.1", 51446, "10.10.1.11", 22)
NO_SSH = [
    {"kind": "HostEndpoint", "name": "node1-eth0", "node": "node1", "interfaceName": "eth0", "labels": {"host": "yes"}},
    {
        "kind": "GlobalNetworkPolicy",
        "name": "no-ssh",
        "selector": "host == 'yes'",
        "ingress": [{"action": "Deny", "protocol": "TCP", "destination": {"ports": [22]}}, {"action": "Allow"}],
        "egress": [{"action": "Allow"}],
    },
]
OWN = {"kind": "GlobalNetworkPolicy", "name": "own", "selector": "all()", "ingress": [{"action": "Allow"}]}
BLOCK = Policy("block", order=-1.0, ingress=(PolicyRule("Deny"),))
WORKLOADS = [{"name": "web", "node": "node1"}, {"name": "db", "node": "node1"}]


def state(workloads=1, policies=(), plan="a", **variables):
    fleet = build(
        pool("direct"),
        nodes={"node1": "10.10.1.11/24"},
        workloads=WORKLOADS[:workloads],
        policies=list(policies),
        bgp_enabled=True,
        **variables,
    )
    return dataclasses.replace(states(fleet)["node1"], plan=plan * 12)


def locked_out(plan="b"):
    return state(policies=NO_SSH, plan=plan, failsafe_inbound_host_ports=[])


def change(host, made, name="1st", within=60, config="router id 10.10.1.11;\n", **more):
    params = {"confirm_timeout": within, "change": name, "files": [], **more}
    return host.run(node, state=made.to_dict(), bird_config=config, **params)


def confirm(host, name, session=ANOTHER):
    host.sessions = (session,) if session else ()
    return host.run(node_confirm, change=name)


def pass_time(host, seconds):
    host.uptime = host.uptime._replace(seconds=host.uptime.seconds + seconds)


def wait(host, name):
    """Run the detached process's wait for the change `name`, in which time passes as it sleeps.

    It ends when the change is confirmed, replaced by another, or reverted. Return a list of what it logged.
    """
    said = []
    auto_revert.wait(host.machine, name, sleep=lambda seconds: pass_time(host, seconds), say=said.append)
    return said


def generations(host):
    return [(entry.n, entry.plan) for entry in Store(host.machine.store).generations()]


def as_it_is(host):
    """Return (kernel, files, state, whether it is complete), without the records about changes and their times.

    The first two are those of Host.snapshot, and the state is the stored NodeState.
    """
    kernel, files = host.snapshot()
    ignored = ("calico/state.json", "calico/went-back.json", "calico/unconfirmed.json")
    stored = Store(host.machine.store).load()
    return kernel, {name: text for name, text in files.items() if name not in ignored}, stored.state, stored.complete


@pytest.fixture
def host(host):
    host.has_engine()
    host.sessions = (SSH,)
    return host


@pytest.fixture
def settled(host):
    """A host with one confirmed state."""
    host.run(node, state=state().to_dict(), bird_config="router id 10.10.1.11;\n", files=[])
    return host


def test_a_change_that_is_confirmed_stays(settled):
    before = as_it_is(settled)
    answer = change(settled, state(2, plan="b"))
    assert (answer["unconfirmed"], answer["generation"]) == ("1st", None)
    start = os.path.join(settled.machine.engine, "start")
    assert settled.detached == [[sys.executable, "-I", start, "wait", "1st"]]
    assert generations(settled) == [(1, "a" * 12)], "it is no generation before it is confirmed"
    assert confirm(settled, "1st") == {"changed": True, "outcome": "confirmed", "news": "", "generation": 2}
    assert generations(settled) == [(1, "a" * 12), (2, "b" * 12)]
    pass_time(settled, 1000)
    assert wait(settled, "1st") == []
    assert as_it_is(settled) != before
    assert not UnconfirmedStore(settled.machine.store).any()


def test_live_documents_stay_in_force_while_a_change_waits_and_after_it_is_reverted(host):
    first, second = (state(2, [OWN], plan, live_policy=True) for plan in "ab")
    host.run(node, state=first.to_dict(), bird_config="router id 10.10.1.11;\n", files=[])
    without = as_it_is(host)[0]
    documents = {DocumentKey("GlobalNetworkPolicy", "", "block"): ReadDocument(BLOCK, live_documents.pack(BLOCK))}
    resolved = resolve(first.policy.policy_set, [BLOCK])
    live_policy.save(host.machine.store, StoredLivePolicy(resolved, documents, 1, 1))
    host.run(node, state=first.to_dict(), bird_config="router id 10.10.1.11;\n", files=[])
    before = as_it_is(host)
    assert before[0] != without
    change(host, dataclasses.replace(second, policy=dataclasses.replace(second.policy, policy_set=NO_POLICY)))
    assert as_it_is(host)[0] not in (before[0], without)
    assert wait(host, "1st")
    assert as_it_is(host) == before


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_a_clock_that_is_set_neither_confirms_nor_reverts(settled, monkeypatch, ahead):
    """The wall clock changes by an hour while a change waits; the deadline is in seconds since the boot."""
    true = time.time
    change(settled, state(2, plan="b"))
    monkeypatch.setattr(time, "time", lambda: true() + ahead)
    found = UnconfirmedStore(settled.machine.store).load()
    assert found.left(settled.uptime) == 60
    assert confirm(settled, "1st")["outcome"] == "confirmed"
    change(settled, state(1, plan="c"), name="2nd")
    monkeypatch.setattr(time, "time", true)
    pass_time(settled, 59)
    assert UnconfirmedStore(settled.machine.store).load().left(settled.uptime) == 1
    assert len(wait(settled, "2nd")) == 2
    assert Store(settled.machine.store).load().state.plan == "b" * 12


def test_an_unconfirmed_change_is_reverted_at_its_deadline(settled):
    before = as_it_is(settled)
    change(settled, state(2, plan="b"), config="router id 10.10.1.99;\n")
    assert as_it_is(settled) != before
    assert wait(settled, "1st") == [
        "the change to plan bbbbbbbbbbbb was not confirmed within 60 s: going back",
        f"went back by itself at {UnconfirmedStore(settled.machine.store).unseen_revert().when} from plan bbbbbbbbbbbb "
        "to plan aaaaaaaaaaaa: it was not confirmed within 60 s.",
    ]
    assert as_it_is(settled) == before
    assert settled.kernel.violations == []
    assert generations(settled) == [(1, "a" * 12)], "what was gone back from can be returned to by nobody"
    late = confirm(settled, "1st")
    assert (late["changed"], late["outcome"]) == (False, "went_back")
    assert late["news"].startswith("went back by itself at ")


def test_a_change_is_not_reverted_before_its_deadline(settled):
    change(settled, state(2, plan="b"), within=10)
    after = as_it_is(settled)
    slept = []

    def sleep(seconds):
        assert as_it_is(settled) == after
        slept.append(seconds)
        pass_time(settled, seconds)

    auto_revert.wait(settled.machine, "1st", sleep=sleep, say=lambda text: None)
    assert sum(slept) == 10.0
    assert as_it_is(settled) != after


def test_the_time_begins_when_the_change_is_made(settled, monkeypatch):
    """The time to confirm begins when the change is complete, however long it took to make."""
    write = file.apply

    def slow(*arguments):
        pass_time(settled, 100)
        return write(*arguments)

    monkeypatch.setattr(file, "apply", slow)
    change(settled, state(2, plan="b"), within=10)
    assert UnconfirmedStore(settled.machine.store).load().left(settled.uptime) == 10.0


def test_the_same_connection_proves_nothing(settled):
    change(settled, state(2, plan="b"))
    answer = confirm(settled, "1st", SSH)
    assert (answer["changed"], answer["outcome"]) == (False, "same_connection")
    assert UnconfirmedStore(settled.machine.store).any()
    assert confirm(settled, "1st", None)["outcome"] == "confirmed", "a connection that is no SSH's is a new one"
    settled.sessions = (SSH,)
    change(settled, state(plan="c"), "2nd")
    assert settled.run(node_confirm, change="2nd", same_connection=True)["outcome"] == "confirmed"


def test_a_run_that_changes_nothing_waits_for_nothing(settled):
    answer = change(settled, state())
    assert (answer["changed"], answer["unconfirmed"], settled.detached) == (False, "", [])
    assert not UnconfirmedStore(settled.machine.store).any()


def test_a_run_that_only_repairs_waits_for_no_confirmation(settled):
    settled.kernel.sysctl_write("net/ipv4/ip_forward", "0")
    answer = change(settled, state())
    assert (answer["changed"], answer["unconfirmed"], settled.detached) == (True, "", [])


def test_check_mode_arms_nothing(settled):
    before = settled.snapshot()
    answer = settled.run(node, check=True, state=locked_out().to_dict(), confirm_timeout=60, change="1st")
    assert (answer["changed"], answer["unconfirmed"]) == (True, "")
    assert (settled.snapshot(), settled.detached) == (before, [])


def test_a_reboot_is_no_confirmation(settled):
    """After a reboot, the boot unit restores the state from before an unconfirmed change."""
    before = as_it_is(settled)
    change(settled, state(2, plan="b"), config="router id 10.10.1.99;\n")
    settled.uptime = Uptime("boot-2", 5.0)
    assert command.main(["apply"], settled.machine) == 0
    assert as_it_is(settled) == before
    news = UnconfirmedStore(settled.machine.store).unseen_revert()
    assert news.reason == "the host was restarted before it was confirmed"
    assert f"node1 {news.sentence}\n" in settled.stdout().out
    assert confirm(settled, "1st")["outcome"] == "went_back"


def test_a_restart_of_the_boot_unit_reverts_nothing_before_the_deadline(settled):
    """A restart of calico-node-state before the deadline reverts nothing."""
    change(settled, state(2, plan="b"))
    after = as_it_is(settled)
    assert command.main(["apply"], settled.machine) == 0
    assert as_it_is(settled) == after
    assert generations(settled) == [(1, "a" * 12)]
    assert confirm(settled, "1st")["outcome"] == "confirmed"


def test_two_unconfirmed_changes_are_reverted_together(settled):
    before = as_it_is(settled)
    change(settled, state(2, plan="b"), "1st")
    change(settled, state(2, plan="c"), "2nd", config="router id 10.10.1.99;\n")
    assert confirm(settled, "1st")["outcome"] == "replaced"
    assert wait(settled, "1st") == [], "the process of the first leaves it to that of the second"
    assert len(wait(settled, "2nd")) == 2
    assert as_it_is(settled) == before
    assert confirm(settled, "1st")["outcome"] == confirm(settled, "2nd")["outcome"] == "went_back"


def test_a_run_that_finds_nothing_to_change_confirms_what_waits(settled):
    """A second run, after the first run's controller was killed, learns which change waits, and confirms it."""
    change(settled, state(2, plan="b"), "1st")
    answer = change(settled, state(2, plan="b"), "2nd")
    assert (answer["changed"], answer["unconfirmed"]) == (False, "1st")
    assert confirm(settled, "1st")["generation"] == 2


def test_a_run_without_confirmation_ends_the_wait_of_an_earlier_change(settled):
    change(settled, state(2, plan="b"), "1st")
    answer = change(settled, state(0, plan="c"), "2nd", within=0)
    assert (answer["unconfirmed"], answer["generation"]) == ("", 2)
    assert wait(settled, "1st") == []


def test_a_change_whose_run_is_killed_is_reverted(settled, monkeypatch):
    """A change whose run is killed in the middle is reverted after the original deadline."""
    before = as_it_is(settled)

    def killed(*arguments, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(configuration, "apply", killed)
        with pytest.raises(KeyboardInterrupt):
            settled_target = Stored(state(2, plan="b"), "router id 10.10.1.99;\n", ())
            apply.bring_to(settled.machine, settled_target, confirm=Confirm("1st", 60))
    assert not Store(settled.machine.store).load().complete
    wait(settled, "1st")
    assert as_it_is(settled) == before


def test_one_that_fails_says_which_change_waits(settled, monkeypatch):
    def refused(*arguments):
        raise ApplyError(Change("file", "+", "/x"), "No space left on device.")

    monkeypatch.setattr(file, "apply", refused)
    answer = change(settled, state(2, plan="b"))
    assert answer["failed"] and answer["unconfirmed"] == "1st"
    assert confirm(settled, "1st") == {"changed": True, "outcome": "confirmed", "news": "", "generation": None}
    assert generations(settled) == [(1, "a" * 12)], "what was not applied completely is no generation"


def test_a_revert_on_a_new_node_removes_its_policy_alone(host):
    """A node without an earlier state loses its policy, and its workloads keep their network."""
    change(host, locked_out(), "1st")
    assert Store(host.machine.store).load().state.policy is not None
    wait(host, "1st")
    stored = Store(host.machine.store).load()
    assert stored.state == dataclasses.replace(locked_out(), policy=None)
    assert stored.complete
    assert [route for route, dummy in host.kernel.routes(protocol=179)] == sorted(
        route.destination for route in stored.state.routes
    )


def test_without_policy_a_node_that_had_nothing_has_nothing_to_go_back_to(host):
    answer = change(host, state(), "1st")
    assert (answer["unconfirmed"], answer["generation"], host.detached) == ("", 1, [])


def test_without_an_engine_nothing_is_changed(settled):
    os.unlink(os.path.join(settled.machine.engine, "current"))
    before = settled.snapshot()
    answer = change(settled, state(2, plan="b"))
    assert answer["msg"] == (
        f"there is no engine in {settled.machine.engine} that could go back from this change. Nothing was changed. "
        "Give the module's options files or observed, with which it brings one, or confirm_timeout: 0."
    )
    assert settled.snapshot() == before


def test_a_failed_revert_is_retried(settled, monkeypatch):
    before = as_it_is(settled)
    change(settled, state(2, plan="b"))
    real, failures = auto_revert.plan_change, ["The kernel is busy.", "It still is."]

    def plan(*arguments, **named):
        if failures:
            raise lock.LockError(failures.pop(0))
        return real(*arguments, **named)

    monkeypatch.setattr(auto_revert, "plan_change", plan)
    said = wait(settled, "1st")
    assert [line for line in said if line.startswith("attempt")] == [
        "attempt 1 of 20 to go back failed: The kernel is busy.",
        "attempt 2 of 20 to go back failed: It still is.",
    ]
    assert as_it_is(settled) == before


def test_a_revert_that_keeps_failing_is_reported_and_stored_as_incomplete(settled, monkeypatch):
    change(settled, state(2, plan="b"))

    def plan(*arguments, **named):
        raise lock.LockError("The kernel is broken.")

    with monkeypatch.context() as patch:
        patch.setattr(auto_revert, "plan_change", plan)
        said = wait(settled, "1st")
    assert said[-1].endswith("within 60 s. Not everything could be restored: The kernel is broken.")
    stored = Store(settled.machine.store).load()
    assert (stored.state, stored.complete) == (state(), False)


def test_two_processes_that_wait_for_one_change_revert_it_once(settled):
    """A slow systemd may start the process that waits a second time: the process that is second does nothing."""
    change(settled, state(2, plan="b"))
    pass_time(settled, 1000)
    said = []
    uptime = settled.machine.uptime

    def other_first():
        settled.machine.uptime = uptime
        said.extend(wait(settled, "1st"))
        return uptime()

    settled.machine.uptime = other_first
    assert (wait(settled, "1st"), len(said)) == ([], 2)
    assert Store(settled.machine.store).load().state == state()


def test_the_next_plan_and_the_status_say_that_the_node_went_back(settled):
    change(settled, locked_out())
    pending = settled.run(node_status_info)["problems"]
    assert (
        "the change to plan bbbbbbbbbbbb is not confirmed: the node goes back to plan aaaaaaaaaaaa in 60 s." in pending
    )
    wait(settled, "1st")
    news = UnconfirmedStore(settled.machine.store).unseen_revert()
    assert news.sentence == (
        f"went back by itself at {news.when} from plan bbbbbbbbbbbb to plan aaaaaaaaaaaa: it was not confirmed within "
        "60 s. Cut by the change: a new connection like ssh from 10.10.1.1 to 10.10.1.11 port 22 would be cut by "
        "no-ssh#1 (ingress, HostEndpoint node1-eth0)."
    )
    assert news.sentence in settled.run(node_status_info)["problems"]
    steady = settled.run(node, check=True, state=state().to_dict())
    assert (steady["changed"], steady["plan"]) == (False, [f"= state    plan aaaaaaaaaaaa    {news.sentence}"])
    assert f"node1 {news.sentence}" in str(steady["warnings"])
    assert f"node1 {news.sentence}" in str(settled.run(node, state=state().to_dict(), confirm_timeout=60)["warnings"])
    assert settled.run(node, check=True, state=state().to_dict())["plan"] == [], "it was told"
    assert confirm(settled, "1st")["outcome"] == "went_back"
    assert news.sentence not in settled.run(node_status_info)["problems"]


def test_the_plan_names_the_connection_that_would_be_cut(settled):
    for check in (True, False):
        answer = settled.run(node, check=check, diff=True, state=locked_out().to_dict())
        assert answer["plan"][0] == (
            "! session  ssh from 10.10.1.1 to 10.10.1.11 port 22    a new connection would be cut by no-ssh#1 "
            "(ingress, HostEndpoint node1-eth0)"
        )
        sentence = (
            "a new connection like ssh from 10.10.1.1 to 10.10.1.11 port 22 would be cut by no-ssh#1 (ingress, "
            "HostEndpoint node1-eth0)"
        )
        assert answer["cut"] == [sentence]
        assert f"node1: {sentence}. Connections that stand go on." in str(answer["warnings"])
        assert answer["changed"]


def test_the_plan_names_a_connection_whose_answers_would_be_dropped(settled):
    """A policy with doNotTrack that lets SSH in needs a rule for the answers, which are not tracked."""
    untracked = {
        **NO_SSH[1],
        "doNotTrack": True,
        "applyOnForward": True,
        "ingress": [{"action": "Allow"}],
        "egress": [],
    }
    made = state(policies=[NO_SSH[0], untracked], failsafe_inbound_host_ports=[])
    answer = settled.run(node, check=True, state=made.to_dict())
    assert answer["cut"] == [
        "a new connection like ssh from 10.10.1.1 to 10.10.1.11 port 22 would be cut by default (the answer to a flow "
        "that is not tracked is an invalid packet) (egress, HostEndpoint node1-eth0, for the answer)"
    ]


def test_the_sixth_and_later_connections_are_one_sentence(settled):
    """Five connections are named. The others are counted in one line, and in one sentence wherever they are named."""
    settled.sessions = tuple(SSH._replace(client=f"10.10.1.{number}") for number in range(1, 8))
    by = "by no-ssh#1 (ingress, HostEndpoint node1-eth0)"
    answer = change(settled, locked_out())
    more = f"new connections like 2 more would be cut, the first of them {by}"
    assert " ".join(answer["plan"][5].split()) == f"! session more sessions {more}"
    assert answer["cut"] == [
        *(
            f"a new connection like ssh from 10.10.1.{number} to 10.10.1.11 port 22 would be cut {by}"
            for number in range(1, 6)
        ),
        more,
    ]
    assert f"node1: {more}. Connections that stand go on." in str(answer["warnings"])
    wait(settled, "1st")
    assert UnconfirmedStore(settled.machine.store).unseen_revert().sentence.endswith(f"; {more}.")


@pytest.mark.parametrize("with_agent", [True, False])
def test_a_connection_from_an_attached_workload_is_judged_by_the_workloads_policy(settled, with_agent):
    """An attached workload has its policy in the check, whether an agent or this process plans."""
    made = settled.attach("db-1")
    settled.sessions = (SSH._replace(client=made.addresses[0]),)
    with AgentInProcess(settled) if with_agent else contextlib.nullcontext():
        answer = settled.run(node, check=True, state=state(policies=NO_SSH).to_dict())
    assert answer["cut"] == [
        f"a new connection like ssh from {made.addresses[0]} to 10.10.1.11 port 22 would be cut by default "
        "(defaultEndpointToHostAction is Drop) (ingress, host node1)"
    ]


def test_failsafes_keep_the_connection(settled):
    answer = settled.run(node, check=True, state=state(policies=NO_SSH).to_dict())
    assert answer["cut"] == []


def test_confirming_where_nothing_waits(settled):
    answer = settled.run(node_confirm)
    assert answer == {"changed": False, "outcome": "nothing", "news": "", "generation": None}
    change(settled, state(2, plan="b"))
    settled.sessions = ()
    planned = settled.run(node_confirm, check=True)
    assert (planned["changed"], planned["outcome"]) == (True, "confirmed")
    assert UnconfirmedStore(settled.machine.store).any()
    assert settled.run(node_confirm)["generation"] == 2


def test_an_unreadable_unconfirmed_json_is_an_error_but_not_at_boot(settled):
    path = os.path.join(settled.machine.store, "unconfirmed.json")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write('{"changes": []}')
    answer = change(settled, state(2, plan="b"))
    assert answer["msg"] == (
        f"{path} cannot be read: changes is a list of 0, not a list of 1 to 131072. It was damaged or written by"
        " another release. See that the node is as it should be, remove the file, then run again."
    )
    assert command.main(["apply"], settled.machine) == 0, "it keeps no node from starting"


def at(address, plan="a", peer="10.10.1.12/24"):
    """Return the state of node1 with this address, in a fleet of two nodes."""
    fleet = build(pool("vxlan"), nodes={"node1": address, "node2": peer}, workloads=WORKLOADS[:1])
    return dataclasses.replace(states(fleet)["node1"], plan=plan * 12)


def test_a_host_with_another_address_returns_to_the_earlier_state_with_the_new_address(host):
    """The host no longer has the earlier address, so the node could not return to it. Its policy and plan it can."""
    before, after = at("10.10.1.11/24"), at("10.10.1.62/24", "b", peer="10.10.1.72/24")
    host.run(node, state=before.to_dict(), bird_config="router id 10.10.1.11;\n", files=[])
    (old,) = (one for one in host.kernel.addresses() if one.address == "10.10.1.11")
    host.kernel.address_add(old._replace(address="10.10.1.62"))
    host.kernel.address_delete(old)
    returned = renumbering.returned(before, after)
    previous = {"state": returned.to_dict(), "bird_config": "router id 10.10.1.62;\n"}
    change(host, after, config="router id 10.10.1.62; # b\n", previous=previous)
    assert wait(host, "1st")[0] == "the change to plan bbbbbbbbbbbb was not confirmed within 60 s: going back"
    stored = Store(host.machine.store).load()
    assert stored.state == returned and stored.complete
    assert stored.bird_config == "router id 10.10.1.62;\n"
    assert (stored.state.plan, stored.state.address) == ("a" * 12, "10.10.1.62/24")
    assert host.kernel.link("vxlan.calico").local == "10.10.1.62"
    assert {entry.destination for entry in host.kernel.fdb("vxlan.calico")} == {"10.10.1.72"}


def test_a_host_returns_to_an_earlier_state_with_another_nodes_new_address(host):
    """Otherwise it would not accept the other node's packets, which may come from its new address alone."""
    before, after = at("10.10.1.11/24"), at("10.10.1.11/24", "b", peer="10.10.1.72/24")
    host.run(node, state=before.to_dict(), bird_config="router id 10.10.1.11;\n", files=[])
    returned = renumbering.returned(before, after)
    previous = {"state": returned.to_dict(), "bird_config": "router id 10.10.1.11;\n"}
    change(host, after, config="router id 10.10.1.11; # b\n", previous=previous)
    wait(host, "1st")
    stored = Store(host.machine.store).load().state
    assert stored == returned and stored.plan == "a" * 12
    assert {entry.destination for entry in host.kernel.fdb("vxlan.calico")} == {"10.10.1.72"}


def test_what_is_returned_to_keeps_its_address_while_that_stays(settled):
    """What came along for another address is not used if the node's address is the same."""
    before = as_it_is(settled)
    other = dataclasses.replace(state(plan="c"), underlay_mtu=1400)
    change(settled, state(2, plan="b"), previous={"state": other.to_dict(), "bird_config": "router id 10.10.1.77;\n"})
    wait(settled, "1st")
    assert as_it_is(settled) == before


def foresee(host, made):
    before = as_it_is(host)
    answer = host.run(node, check=True, state=made.to_dict(), foresee=True)
    assert as_it_is(host) == before
    return answer


def test_a_lockout_is_foreseen_once(settled):
    """A session is named that the new policy denies, unless the policy in force denies it as well."""
    settled.sessions = (SSH, ANOTHER, SSH._replace(client="10.10.1.2"))
    by = "no-ssh#1 (ingress, HostEndpoint node1-eth0)"
    lockout = [{"session": f"ssh from 10.10.1.{last} to 10.10.1.11 port 22", "by": by} for last in (1, 2)]
    assert foresee(settled, state(2, plan="b")) == {"changed": False, "foreseen": []}
    assert foresee(settled, locked_out()) == {"changed": False, "foreseen": lockout}
    change(settled, locked_out())
    assert foresee(settled, locked_out())["foreseen"] == lockout, "the change may still be reverted"
    confirm(settled, "1st")
    settled.sessions = (SSH,)
    assert foresee(settled, locked_out())["foreseen"] == []
    assert foresee(settled, locked_out("c"))["foreseen"] == []


def test_a_host_without_a_state_foresees_a_lockout(host):
    assert len(host.run(node, check=True, state=locked_out().to_dict(), foresee=True)["foreseen"]) == 1
    host.sessions = ()
    assert host.run(node, check=True, state=locked_out().to_dict(), foresee=True)["foreseen"] == []


def test_at_most_five_sessions_are_foreseen(settled):
    settled.sessions = tuple(SSH._replace(client=f"10.10.1.{number}") for number in range(1, 8))
    assert len(foresee(settled, locked_out())["foreseen"]) == 5
