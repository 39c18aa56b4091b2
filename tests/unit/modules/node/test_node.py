# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the node module: a whole node in one call, in check mode too, stored, and completed when interrupted."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import (
    node_info as node_info_answers,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle, carried_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    probe_endpoint,
    with_probe_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    UNDERLAY,
    UNDERLAY_GATEWAY,
    Block,
    Hook,
    IpSet,
    IptablesTable,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    RoutingRule,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)
from ansible_collections.baremetal.host_routing.plugins.modules import node, node_info

from tests.fakes.forged_engine import forged, whole_engine
from tests.fakes.kernel import FakeKernel
from tests.unit.bird.conftest import FakeBird

SOURCE = str(pathlib.Path(bundle.__file__).resolve().parents[2])
WORKLOAD = VethEndpoint("web-1", "cali0123456789a", "10.244.3.1", 1480, "pool", netns="web-1")
BIRD = Bird(
    "10.10.1.11",
    "10.10.1.11",
    64512,
    "10.10.1.0/24",
    blocks=("10.244.3.0/26",),
    peers=(BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2"),),
)
STATE = NodeState(
    "node1",
    "10.10.1.11/24",
    plan="7f3a91c0ffee",
    pools=(Pool("pool", "10.244.0.0/16", 26, "IPIP", True),),
    ipam=NodeIpam(
        4, (Block("10.244.3.0/26", "pool"),), tunnels={"ipip": "10.244.3.0"}, workloads={"web-1": "10.244.3.1"}
    ),
    devices=(TunnelDevice("tunl0", "ipip", 1480, "10.10.1.11", "10.244.3.0"),),
    workloads=(WORKLOAD,),
    routes=(Route("10.244.3.0/26", "blackhole"), Route("10.244.3.1/32", device="cali0123456789a")),
    sysctls=(Sysctl("net/ipv4/ip_forward", "1"), Sysctl(f"net/ipv4/conf/{UNDERLAY}/rp_filter", "2")),
    ipsets=(IpSet("cali40all-hosts-net", "hash:net", ("10.10.1.11", "10.10.1.12")),),
    iptables=(IptablesTable("filter", {"cali-INPUT": ("-p 4 -j DROP",)}, (Hook("INPUT", "-j cali-INPUT"),)),),
    bird_routes=(BirdRoute("10.244.7.0/26", "10.10.1.12", "tunl0", True, "node2", next_hop="10.10.1.12"),),
    bird=BIRD,
)
UNIT = {"path": "/etc/systemd/system/calico-bird.service", "content": "[Unit]\n", "mode": "0644"}
PARAMS = {"state": STATE.to_dict(), "bird_config": "router id 10.10.1.11;\n", "files": [UNIT], "who": "me@here"}


def params(state=STATE, **changes):
    return {**PARAMS, "state": state.to_dict(), **changes}


def test_check_do_check_do(host):
    planned, done = host.four_times(node, **PARAMS)
    for answer in (planned, done):
        assert (answer["sessions_reset"], answer["routes_withdrawn"], answer["units_changed"]) == (0, 0, True)
    assert planned["generation"] is None
    assert done["generation"] == 1
    assert planned["plan"] == done["plan"]
    assert host.kernel.link("tunl0").up and host.kernel.link("cali0123456789a").up
    assert {route[0] for route in host.kernel.routes(protocol=179)} == {"10.244.3.0/26", "10.244.3.1/32"}
    assert (host.folder / "root/etc/systemd/system/calico-bird.service").read_text() == "[Unit]\n"
    assert (host.folder / "bird.cfg").read_text() == "router id 10.10.1.11;\n"


def test_the_plan_as_people_read_it(host):
    answer = host.run(node, check=True, diff=True, whole_files=True, **PARAMS)
    head, *lines = answer["diff"]["prepared"].splitlines()
    assert head == "node1  14 changes                                          plan 7f3a91c0ffee"
    shown = "\n".join(lines)
    assert "\n  + route    10.244.3.0/26" in shown and "own block" in shown
    assert "via 10.10.1.12 dev tunl0 onlink    proto bird" in shown
    assert "+router id 10.10.1.11;" in lines  # the unified diff of bird.cfg
    assert answer["plan"] == [line[2:] for line in lines[: len(answer["plan"])]]
    assert len(answer["plan"]) == len(answer["changes"]) == 14
    bird = [change for change in answer["changes"] if change["by"] == "bird"]
    assert [(change["action"], change["subject"]) for change in bird] == [("+", "10.244.7.0/26")]


def test_the_contents_of_new_files_are_left_out_and_those_of_changed_ones_are_not(host):
    """New files are a number in the plan, with their sizes and digests in the data."""
    answer = host.run(node, check=True, diff=True, **PARAMS)
    lines = answer["diff"]["prepared"].splitlines()
    new = [change for change in answer["changes"] if "digest" in change]
    assert [(change["kind"], change["action"]) for change in new] == [("file", "+")] * len(new)
    assert lines[0] == "node1  14 changes                                          plan 7f3a91c0ffee"
    assert lines[-1] == f"  + file     {len(new)} new file{'' if len(new) == 1 else 's'}"
    assert not [line for line in lines if line.startswith(("+", "@", "---"))]
    assert not [change["subject"] for change in new if change["subject"] in answer["diff"]["prepared"]]
    unit = next(change for change in new if change["subject"].endswith("calico-bird.service"))
    assert (unit["size"], unit["digest"]) == (len("[Unit]\n"), hashlib.sha256(b"[Unit]\n").hexdigest()[:16])
    host.run(node, **PARAMS)
    changed = {**PARAMS, "bird_config": "router id 10.10.1.12;\n"}
    assert "+router id 10.10.1.12;" in host.run(node, check=True, diff=True, **changed)["diff"]["prepared"].splitlines()


def test_a_steady_node_says_nothing_of_a_peer_that_is_down(host):
    host.run(node, **PARAMS)
    host.machine.bird_answers = lambda socket: True
    again = host.run(node, diff=True, **PARAMS)
    assert (again["changed"], again["plan"]) == (False, [])


@pytest.mark.parametrize("answers", [True, False])
def test_a_block_that_another_node_opened_is_no_change(host, answers):
    host.run(node, **PARAMS)
    opened = RouteAttributes(device="eth0", gateway="10.10.1.12", protocol=12)
    assert host.kernel.route_batch([RouteOperation("add", "10.244.9.64/26", opened)]) == []
    host.machine.bird_answers = lambda socket: answers
    answer = host.run(node, check=True, **PARAMS)
    assert "10.244.9.64/26" not in [change["subject"] for change in answer["changes"]]


def test_a_route_that_bird_will_write_is_listed_in_the_changes(host):
    host.run(node, **PARAMS)
    host.machine.bird_answers = lambda socket: True
    more = BirdRoute("10.244.9.0/26", "10.10.1.13", "tunl0", True, "node3", next_hop="10.10.1.13")
    state = dataclasses.replace(STATE, bird_routes=(*STATE.bird_routes, more))
    answer = host.run(node, check=True, **params(state))
    assert [change["subject"] for change in answer["changes"] if change["by"] == "bird"] == ["10.244.9.0/26"]


def test_node_info_returns_the_stored_state(host):
    host.run(node, **PARAMS)
    info = host.run(node_info, gather=["state", "generations", "blocks", "workloads", "devices", "routes", "bgp"])
    assert NodeState.from_dict(info["state"]) == STATE
    assert info["complete"] is True
    (generation,) = info["generations"]
    assert (generation["n"], generation["who"], generation["plan"]) == (1, "me@here", "7f3a91c0ffee")
    assert info["blocks"] == [{"cidr": "10.244.3.0/26", "pool": "pool", "spare": False}]
    assert [(w["name"], w["up"]) for w in info["workloads"]] == [("web-1", True)]
    assert [device["name"] for device in info["devices"]] == ["cali0123456789a", "tunl0"]
    assert {route["destination"]: route["protocol"] for route in info["routes"]} == {
        "10.244.3.0/26": "calico",
        "10.244.3.1/32": "calico",
    }
    assert info["bgp"]["running"] is False
    whole = host.run(node_info, gather=["generation"], generation=1)
    assert NodeState.from_dict(whole["generation"]["state"]) == STATE


def test_node_info_tells_what_the_node_gave_away_by_itself(host):
    assert host.run(node_info, gather=["ipam"])["ipam"] == {"allocated": {}, "opened": []}
    host.run(node, **PARAMS)
    given = [host.attach(f"db-{number}") for number in range(2)]
    assert host.run(node_info, gather=["ipam"])["ipam"] == {
        "allocated": {given[0].addresses[0]: "default/db-0", given[1].addresses[0]: "default/db-1"},
        "opened": ["10.244.3.0/26"],
    }
    journal = host.folder / "calico" / "ipam" / "allocations"
    journal.write_bytes(b"nonsense\n" + journal.read_bytes())
    failed = host.run(node_info, gather=["ipam"])
    assert failed["failed"] is True and str(journal) in failed["msg"]


def test_node_info_on_a_host_that_has_nothing(host):
    before = host.snapshot()
    info = host.run(node_info)
    assert (info["state"], info["engine_digest"], info["generations"], info["routes"]) == (None, None, [], [])
    assert host.run(node_info, gather=["preflight"])["preflight"]["addresses"] == {"eth0": ["10.10.1.11/24"]}
    assert host.run(node_info, gather=["packages"])["missing_packages"][0] == "bird2"
    failed = host.run(node_info, gather=["generation"], generation=3)
    assert failed["msg"] == "generation 3 is not stored on this node. It has: none. Choose one of these."
    assert host.snapshot() == before


def test_node_info_without_root_says_that_root_alone_may_read_the_generations(host, monkeypatch):
    host.run(node, **PARAMS)
    generations, listed = str(host.folder / "calico" / "generations"), os.listdir

    def refused(path="."):
        if path == generations:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return listed(path)

    monkeypatch.setattr(os, "listdir", refused)
    failed = host.run(node_info, gather=["generations"])
    assert (failed["failed"], failed["msg"]) == (
        True,
        f"{generations} may be read by root alone. Become root, then run again.",
    )


class TestGenerations:
    def test_a_new_plan_of_the_same_state_is_recorded_and_is_no_change(self, host):
        host.run(node, **PARAMS)
        host.machine.bird_answers = lambda socket: True
        answer = host.run(node, **params(dataclasses.replace(STATE, plan="other")))
        assert (answer["changed"], answer["plan"], answer["generation"]) == (False, [], 2)
        assert host.run(node_info, gather=["state"])["state"]["plan"] == "other"

    def test_steps_of_a_change_are_stored_but_not_recorded(self, host):
        host.run(node, **PARAMS)
        step = dataclasses.replace(STATE, phase=Phase.PREPARE, rules=(RoutingRule(0xCA11, 179, 179),))
        assert host.run(node, **params(step))["generation"] is None
        info = host.run(node_info, gather=["state", "generations"])
        assert (info["state"]["phase"], len(info["generations"])) == ("prepare", 1)

    def test_going_back_restores_the_kernel(self, host):
        host.run(node, **PARAMS)
        before = host.run(node_info, gather=["routes", "workloads"])
        host.run(node, **params(dataclasses.replace(STATE, routes=STATE.routes[:1], workloads=(), plan="p2")))
        old = host.run(node_info, gather=["generation"], generation=1)["generation"]
        answer = host.run(node, state=old["state"], bird_config=old["bird_config"])
        assert (answer["changed"], answer["generation"]) == (True, 3)
        assert host.run(node_info, gather=["routes", "workloads"]) == before

    def test_only_as_many_as_asked_are_kept(self, host):
        for number in range(4):
            host.run(node, generations_kept=2, **params(dataclasses.replace(STATE, plan=str(number))))
        assert [entry["n"] for entry in host.run(node_info, gather=["generations"])["generations"]] == [3, 4]


class TestFiles:
    def test_without_the_option_they_stay(self, host):
        host.run(node, **PARAMS)
        answer = host.run(node, **params(files=None))
        assert (answer["changed"], answer["units_changed"]) == (False, False)
        assert (host.folder / "root/etc/systemd/system/calico-bird.service").exists()

    def test_one_that_is_no_longer_asked_for_goes(self, host):
        host.run(node, **PARAMS)
        answer = host.run(node, **params(files=[]))
        assert (answer["changed"], answer["units_changed"]) == (True, True)
        assert not (host.folder / "root/etc/systemd/system/calico-bird.service").exists()

    def test_one_goes_as_another_comes(self, host):
        host.run(node, **PARAMS)
        other = {**UNIT, "path": "/etc/systemd/system/other.service", "content": "[Service]\n"}
        third = {**other, "path": "/etc/systemd/system/third.service"}
        planned = host.run(node, check=True, **params(files=[other, third]))
        units = host.folder / "root/etc/systemd/system"
        subjects = [
            (change["action"], change["subject"]) for change in planned["changes"] if ".service" in change["subject"]
        ]
        assert subjects == [
            ("-", str(units / "calico-bird.service")),
            ("+", str(units / "other.service")),
            ("+", str(units / "third.service")),
        ]
        host.run(node, **params(files=[other, third]))
        assert sorted(path.name for path in units.iterdir() if path.is_file()) == ["other.service", "third.service"]
        assert (units / "other.service").read_text() == "[Service]\n"

    def test_one_that_somebody_changed_is_put_right(self, host):
        host.run(node, **PARAMS)
        (host.folder / "root/etc/systemd/system/calico-bird.service").write_text("mine\n")
        answer = host.run(node, diff=True, **PARAMS)
        assert answer["changed"] is True
        assert "-mine" in answer["diff"]["prepared"]
        assert answer["generation"] is None


class TestCutShort:
    """Tests of a run that is killed at any point or that fails: the next run or the boot completes what it began."""

    def points(self, host):
        """Make a first run; return the numbers of the writes to the kernel that it made, from 0."""
        seen = []
        host.kernel.watch(lambda kernel: seen.append(len(seen)))
        host.run(node, **PARAMS)
        host.kernel.watch(None)
        return seen

    def test_at_every_write_and_completed_by_the_boot_unit(self, host, tmp_path, monkeypatch):
        total = len(self.points(host))
        assert total > 10
        wanted = host.kernel.snapshot()
        for point in range(total):
            folder = tmp_path / f"run{point}"
            folder.mkdir()
            other = type(host)(folder, FakeKernel())
            other.stdout = host.stdout
            monkeypatch.setattr(machine, "here", lambda agent=None, other=other: other.using(agent))
            left = [point]

            def die(kernel, left=left):
                if left[0] == 0:
                    raise KeyboardInterrupt  # like a kill, it is caught nowhere
                left[0] -= 1

            other.kernel.watch(die)
            with pytest.raises(KeyboardInterrupt), node_arguments(PARAMS):
                node.main()
            other.kernel.watch(None)
            stored = Store(other.machine.store).load()
            assert stored.complete is False
            assert command.main(["apply"], other.machine) == 0
            assert other.kernel.snapshot() == wanted
            assert Store(other.machine.store).load().complete is True
            assert other.run(node, **PARAMS)["changed"] is False
            assert (other.folder / "bird.cfg").exists()

    def test_a_refusing_kernel_is_reported_and_the_next_run_completes(self, host):
        host.kernel.fail_next("link_add", errno.EBUSY, "tunl0")
        answer = host.run(node, **PARAMS)
        assert answer["failed"] is True
        assert answer["msg"].startswith("device tunl0: ")
        info = host.run(node_info, gather=["state", "generations"])
        assert (info["complete"], info["generations"]) == (False, [])
        again = host.run(node, **PARAMS)
        assert (again["changed"], again["generation"]) == (True, 1)

    def test_an_incomplete_state_is_completed_even_if_nothing_differs_any_more(self, host):
        host.run(node, **PARAMS)
        store = Store(host.machine.store)
        store.save(dataclasses.replace(store.load(), complete=False))
        assert host.run(node, **PARAMS)["changed"] is False
        assert store.load().complete is True


def node_arguments(params):
    from ansible.module_utils.testing import patch_module_args

    return patch_module_args({**params, "_ansible_check_mode": False})


class TestRefusals:
    def test_a_foreign_route_stops_the_run_before_any_change(self, host):
        foreign = RouteOperation("add", "10.244.3.0/26", RouteAttributes(device="eth0", scope=253))
        host.kernel.route_batch([foreign])
        before = host.snapshot()
        planned = host.run(node, check=True, **PARAMS)
        assert planned["plan"][0].startswith("! route    10.244.3.0/26")
        answer = host.run(node, **PARAMS)
        assert answer["msg"] == (
            "A route that is not ours has this destination already: 10.244.3.0/26 dev eth0 proto boot. It was not "
            "touched. Delete it (ip route del 10.244.3.0/26 proto 3) or stop what writes it, then run again."
        )
        assert host.snapshot() == before

    def test_a_configuration_that_bird_cannot_read_stops_the_run_before_anything_is_changed(self, host):
        bird = pathlib.Path(host.machine.bird_program)
        bird.write_text('#!/bin/sh\necho "bird: $3:1:1 syntax error, unexpected ROUTER" >&2\nexit 1\n')
        before = host.snapshot()
        for check in (True, False):
            answer = host.run(node, check=check, **PARAMS)
            assert "BIRD cannot read its new configuration" in answer["msg"]
            assert host.snapshot() == before
        bird.unlink()  # BIRD is not installed yet, and the plan can be made all the same
        assert host.run(node, check=True, **PARAMS)["changed"] is True

    def test_a_snippet_that_bird_cannot_read_stops_the_run_before_anything_is_changed(self, host, monkeypatch):
        host.run(node, **PARAMS)
        monkeypatch.setattr(configuration, "unread", lambda *_: True)
        snippet = host.folder / "bird.d" / "mine.conf"
        snippet.parent.mkdir()
        snippet.write_text("protocol static {\n  rote;\n}\n")
        bird = pathlib.Path(host.machine.bird_program)
        bird.write_text(
            f'#!/bin/sh\necho "bird: {snippet}:2:3 syntax error, unexpected CF_SYM_UNDEFINED" >&2\nexit 1\n'
        )
        before = host.snapshot()
        for check in (True, False):
            assert host.run(node, check=check, **PARAMS)["msg"] == (
                "BIRD cannot read a snippet of its configuration: syntax error, unexpected CF_SYM_UNDEFINED. It stands "
                f"in {snippet}, line 2 (`rote;`). The configuration in force was left as it is; correct that file, or "
                "take it away, and run again."
            )
            assert host.snapshot() == before

    def test_a_node_address_on_no_interface_is_refused(self, host):
        answer = host.run(node, **params(dataclasses.replace(STATE, address="10.10.1.99/24")))
        assert answer["msg"] == (
            "No network interface of node1 has its address 10.10.1.99. It is taken from calico_node_address "
            "(10.10.1.99/24). eth0 has 10.10.1.11/24 instead. Correct that variable, or give the host this address "
            "(ip address), then run again."
        )

    def test_a_state_of_another_release(self, host):
        answer = host.run(node, **{**PARAMS, "state": {**STATE.to_dict(), "version": 9}})
        assert answer["msg"] == "NodeState version 9 is not 1, the one that this release reads"

    def test_a_call_without_a_state_is_refused(self, host):
        answer = host.run(node, bird_config="x")
        assert answer["msg"] == "state is missing. It is worked out by the module's action, on the controller."


def test_a_configuration_that_bird_has_not_read_yet_is_a_change(host, monkeypatch):
    host.run(node, **PARAMS)
    monkeypatch.setattr(configuration, "unread", lambda *_: True)
    for check in (True, False):
        answer = host.run(node, check=check, **PARAMS)
        assert answer["changed"] is True
        (line,) = [line for line in answer["plan"] if line.startswith("~ bird")]
        assert line.endswith("bird.cfg  read before  ->  and its snippets as they are now    soft reload")


def test_phases_are_planned_in_check_mode_only(host):
    host.run(node, **PARAMS)
    host.machine.bird_answers = lambda socket: True
    step = dataclasses.replace(STATE, phase=Phase.PREPARE, rules=(RoutingRule(0xCA11, 179, 179),))
    steps = [
        {"phase": "prepare", "state": step.to_dict(), "bird_config": "router id 10.10.1.11;\n# held\n"},
        {"phase": "retire", "state": STATE.to_dict(), "bird_config": PARAMS["bird_config"]},
    ]
    before = host.snapshot()
    target = params(dataclasses.replace(STATE, routes=STATE.routes[1:]))
    answer = host.run(node, check=True, diff=True, phases=steps, **target)
    assert host.snapshot() == before
    assert [entry["phase"] for entry in answer["phases"]] == ["prepare", "retire"]
    prepare, retire = ([(c["action"], c["kind"]) for c in entry["changes"]] for entry in answer["phases"])
    assert prepare == [("~", "bird"), ("~", "file"), ("+", "rule")]
    assert retire == [("-", "rule"), ("~", "bird"), ("~", "file")]
    told = answer["diff"]["prepared"].splitlines()
    assert (told[0], told[4]) == ("node1  prepare  3 changes", "node1  retire   3 changes")
    assert [line.strip() for line in told[1:4]] == answer["phases"][0]["plan"]
    assert told[8].startswith("node1  2 changes      ")
    assert "phases" not in host.run(node, phases=steps, **PARAMS)
    assert host.snapshot() == before


def test_gateways_that_only_the_node_knows_are_filled_in(host):
    probe = Route("10.244.7.0/26", gateway=UNDERLAY_GATEWAY.format("10.10.2.12"), table=179)
    near = Route("10.244.8.0/26", gateway=UNDERLAY_GATEWAY.format("10.10.1.12"), table=179)
    state = dataclasses.replace(STATE, phase=Phase.PREPARE, routes=(*STATE.routes, probe, near))
    host.run(node, **params(state))
    found = {destination: attributes.gateway for destination, attributes in host.kernel.routes(table=179)}
    assert found == {"10.244.7.0/26": "10.10.1.1", "10.244.8.0/26": "10.10.1.12"}
    assert host.run(node, **params(state))["changed"] is False


def test_sessions_and_withdrawn_routes_are_counted(host):
    host.run(node, **PARAMS)
    other = dataclasses.replace(STATE, bird=dataclasses.replace(BIRD, as_number=64513, blocks=()), routes=())
    answer = host.run(node, check=True, **params(other))
    assert (answer["sessions_reset"], answer["routes_withdrawn"]) == (1, 2)
    probe = Route("10.244.7.0/26", gateway="10.10.1.12", table=179)
    host.run(node, **params(dataclasses.replace(STATE, phase=Phase.PREPARE, routes=(*STATE.routes, probe))))
    answer = host.run(node, **PARAMS)
    assert "10.244.7.0/26" in [change["subject"] for change in answer["changes"] if change["kind"] == "route"]
    assert answer["routes_withdrawn"] == 0
    filters = dataclasses.replace(STATE, bird=dataclasses.replace(BIRD, pools=()))
    answer = host.run(node, check=True, **params(filters))
    assert (answer["sessions_reset"], answer["routes_withdrawn"]) == (0, 0)


def test_probe_endpoint_is_shown_and_its_routes_count_as_no_withdrawn_ones(host):
    """A check shows the endpoint that a first run adds. A state without it removes it, which withdraws no route."""
    host.run(node, **PARAMS)
    probed = with_probe_endpoint(STATE, probe_endpoint(["10.244.3.60"], STATE.pools))
    answer = host.run(node, check=True, **params(probed))
    added = {(change["action"], change["kind"], change["subject"]) for change in answer["changes"]}
    assert {("+", "workload", "caliprobe"), ("+", "route", "10.244.3.60/32")} <= added
    assert {action for action, kind, _subject in added if kind != "file"} == {"+"}
    host.run(node, **params(probed))
    assert host.run(node, **params(probed))["changed"] is False
    answer = host.run(node, **PARAMS)
    assert ("-", "route", "10.244.3.60/32") in {
        (one["action"], one["kind"], one["subject"]) for one in answer["changes"]
    }
    assert answer["routes_withdrawn"] == 0
    assert host.kernel.link("caliprobe") is None


@pytest.mark.parametrize(("name", "expected"), [("node2", []), ("node7", ["restart Mesh_10_10_1_12"])])
def test_a_session_restarts_whose_address_is_another_nodes_now(host, name, expected):
    """BIRD's configuration is the same, so BIRD alone would keep the session with the node before."""
    host.run(node, **PARAMS)
    (peer,) = BIRD.peers
    other = dataclasses.replace(BIRD, peers=(dataclasses.replace(peer, node=name),))
    daemon = FakeBird(host.machine.bird_socket)
    daemon.answers = {
        "configure": [[b"0003 Reconfigured\n"]],
        "restart": [[b"0012 Mesh_10_10_1_12: restarted\n"]],
        "show": [[b"0000 \n"]],
    }
    try:
        answer = host.run(node, **params(dataclasses.replace(STATE, plan="another", bird=other)))
    finally:
        daemon.close()
    assert [asked for asked in daemon.asked if asked.startswith("restart")] == expected
    assert answer["sessions_reset"] == len(expected)


def test_the_engine_arrives_with_the_state(host):
    digest = bundle.bundle_digest(SOURCE)
    planned = host.run(node, check=True, engine_digest=digest, **PARAMS)
    assert any(change["note"] == "engine of the boot unit" for change in planned["changes"])
    file = host.folder / "packed"
    packed = whole_engine()
    file.write_bytes(packed.data)
    host.run(node, engine_digest=digest, engine=str(file), engine_sha256=packed.sha256, **PARAMS)
    assert host.run(node_info, gather=["engine"])["engine_digest"] == digest
    assert os.path.exists(os.path.join(host.machine.engine, "current", "__main__.py"))
    assert host.run(node, engine_digest=digest, **PARAMS)["changed"] is False


def test_an_engine_that_came_with_the_call_is_installed_but_in_check_mode(host, monkeypatch):
    packed, digest = whole_engine(), bundle.bundle_digest(SOURCE)
    monkeypatch.setattr(carried_start, "arrived", packed)
    host.run(node, check=True, engine_digest=digest, **PARAMS)
    assert not os.path.exists(host.machine.engine)
    host.run(node, **PARAMS)
    assert not os.path.exists(host.machine.engine)
    host.run(node, engine_digest=digest, **PARAMS)
    assert host.run(node_info, gather=["engine"])["engine_digest"] == digest


def test_the_engine_before_is_used_again_by_a_call_that_brings_none(host, monkeypatch):
    """A module that ran by the node's previous engine, as after a return, makes that engine the one in use."""
    packed, digest = whole_engine(), bundle.bundle_digest(SOURCE)
    bundle.install(packed, digest, host.machine.engine)
    other = pathlib.Path(host.machine.engine) / ("0" * 16)
    other.mkdir()
    (other / "__main__.py").write_text("")
    current = pathlib.Path(host.machine.engine) / "current"
    current.unlink()
    current.symlink_to(other.name)
    planned = host.run(node, check=True, engine_digest=digest, **PARAMS)
    assert any(change["note"] == "engine of the boot unit" for change in planned["changes"])
    assert os.readlink(current) == other.name
    host.run(node, engine_digest=digest, **PARAMS)
    assert os.readlink(current) == digest
    assert host.run(node, engine_digest=digest, **PARAMS)["changed"] is False


def test_an_engine_that_was_exchanged_on_the_node_is_refused(host):
    packed, digest = whole_engine(), bundle.bundle_digest(SOURCE)
    file = host.folder / "packed"
    other = forged(packed, byte_code={"host_routing/__init__.py": b"x"})
    file.write_bytes(other.data)
    answer = host.run(node, engine_digest=digest, engine=str(file), engine_sha256=packed.sha256, **PARAMS)
    assert answer["failed"] and answer["msg"] == (
        f"the engine that arrived is {other.sha256} and should be {packed.sha256}. It was damaged on the way here. Run "
        "again; if it happens twice, look at the disk of the node and of the controller."
    )
    assert not os.path.exists(host.machine.engine)


def test_rules_of_ours_are_known_by_the_comment_that_the_preflight_tells_from_a_real_calicos(host):
    host.run(node, **PARAMS)
    saved = host.kernel.run(["iptables-save"]).output
    assert iptables.COMMENT in saved and '"cali:' not in saved


def test_node_info_returns_the_policy_as_one_text_or_leaves_it_out(host):
    policy = PolicyState(settings=PolicySettings(nflog_group=0))
    state = dataclasses.replace(STATE, policy=policy)
    assert "msg" not in host.run(node, **{**PARAMS, "state": state.to_wire()})
    answer = host.run(node_info, gather=["state", "generation"], generation=1)
    for found in (answer["state"], answer["generation"]["state"]):
        assert isinstance(found["policy"], str) and NodeState.from_dict(found) == state
    without = host.run(node_info, gather=["state"], policy=False)["state"]
    assert NodeState.from_dict(without) == dataclasses.replace(state, policy=None)
    # The controller does not read the policy.
    assert node_info_answers.state("node1", answer) == node_info_answers.state("node1", {"state": without})
