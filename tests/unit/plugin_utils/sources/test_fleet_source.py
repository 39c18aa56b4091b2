# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets from the inventory, the lockfile and the nodes' copies: runs, limited runs, mode changes and returns."""

from __future__ import annotations

import dataclasses
import ipaddress
import pathlib
import pickle
import typing as t
from types import MappingProxyType

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.node_info import Journal
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.observed_nodes import (
    ObservedNodes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import pool_modes
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.plan_run import FleetRun, plan_run
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_source, lockfile_store

from tests.unit.fleet import fleets
from tests.unit.fleet.fleets import ADDRESSES6, LAB, pool, workload

REFLECTORS = {"rr1": "10.10.1.251/24", "rr2": "10.10.2.252/24"}


class Controller:
    """An inventory folder, and the states (`stored`) and allocation journals (`given`) of the nodes by name."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.lockfile = folder / ".calico.lock.yml"
        self.stored: dict[str, t.Optional[NodeState]] = {}
        self.given: dict[str, Journal] = {}

    def compile(
        self,
        *pools: t.Mapping[str, t.Any],
        limit: t.Optional[t.Sequence[str]] = None,
        down: t.Sequence[str] = (),
        options: t.Mapping[str, t.Any] = {},
        asked: t.Optional[t.Mapping[str, t.Any]] = MappingProxyType({}),
        members: t.Mapping[str, t.Mapping[str, t.Any]] = {},
        **rest: t.Any,
    ) -> FleetRun:
        hosts = fleets.hosts(*pools, **rest)
        names = [host.name for host in hosts]
        play = list(limit) if limit is not None else names
        task_vars = {
            "groups": {
                "calico_nodes": [host.name for host in hosts if host.workload_node],
                "calico_rr": [host.name for host in hosts if host.reflector],
                "calico_etcd": list(members),
            },
            "hostvars": {**members, **{host.name: host.variables for host in hosts}},
            "inventory_dir": str(self.folder),
            "ansible_play_hosts_all": play,
        }
        observed = {name: self.stored.get(name) for name in play if name not in down}
        given = {name: found for name, found in self.given.items() if name in observed}
        request = fleet_source.request(task_vars, nodes_asked=asked is not None, **options)
        found = fleet_source.read(task_vars, request)
        answers = ObservedNodes(**{"states": observed, "journals": given, **(asked or {})})
        return plan_run(found.hosts, found.documents, found.lockfile, answers, request)

    def run(self, *pools: t.Mapping[str, t.Any], **rest: t.Any) -> FleetRun:
        """Compile, write the lockfile, let the nodes of the run store their states, and return what was compiled.

        The nodes of a run are those of `limit`, by default all, without those in `down`. Raise FleetError if the
        inventory is refused; then nothing is written or stored.
        """
        compiled = self.compile(*pools, **rest)
        lockfile_store.write(compiled.lockfile, compiled.fleet.allocation)
        for name in rest.get("limit") or compiled.fleet.nodes:
            if name not in rest.get("down", ()):
                self.stored[name] = compiled.targets.phase(name, self.stored.get(name), Phase.CONVERGE)
        return compiled


@pytest.fixture
def controller(tmp_path: pathlib.Path) -> Controller:
    return Controller(tmp_path)


def test_a_second_run_finds_nothing_to_change(controller: Controller) -> None:
    first = controller.run(pool("ipip"))
    assert (first.before, first.change, first.modes) == ("", False, {"default": "ipip"})
    text = controller.lockfile.read_text()
    second = controller.run(pool("ipip"))
    assert second.before == second.after == text == controller.lockfile.read_text()
    assert second.fleet.digest == first.fleet.digest
    assert second.notices == ()


def test_workloads_are_kept_from_members_of_etcd(controller: Controller) -> None:
    """From those that are nodes and those that are not, by all addresses, unless the inventory allows it."""
    members = {"node1": {}, "etcd1": {"calico_etcd_address": "192.0.2.8"}}
    own = {"node1": {"calico_etcd_address": "192.0.2.1"}}
    members = {name: {**found, **own.get(name, {})} for name, found in members.items()}
    kept = controller.compile(pool("ipip"), members=members, own=own).fleet
    assert kept.settings.etcd_members == tuple(sorted(["192.0.2.1", "192.0.2.8", LAB["node1"].partition("/")[0]]))
    allowed = controller.compile(pool("ipip"), members=members, own=own, allow_etcd_from_workloads=True).fleet
    assert allowed.settings.etcd_members == ()


def test_a_limited_run_plans_the_same_blocks(controller: Controller, tmp_path: pathlib.Path) -> None:
    full = controller.run(pool("ipip"))
    limited = controller.compile(pool("ipip"), limit=["node2"])
    assert limited.after == full.after
    assert limited.fleet.digest == full.fleet.digest
    (tmp_path / "new").mkdir()
    fresh = Controller(tmp_path / "new")
    with pytest.raises(FleetError, match=r"is missing, and node1, node3, node4, which may have blocks already"):
        fresh.compile(pool("ipip"), limit=["node2"])


def test_a_node_that_is_down_keeps_its_blocks(controller: Controller) -> None:
    full = controller.run(pool("ipip"))
    assert controller.compile(pool("ipip"), down=["node3"]).after == full.after


def test_a_lost_lockfile_is_rebuilt_from_the_nodes(controller: Controller) -> None:
    full = controller.run(pool("ipip"))
    controller.lockfile.unlink()
    rebuilt = controller.run(pool("ipip"))
    assert rebuilt.fleet.allocation.nodes == full.fleet.allocation.nodes
    assert len(rebuilt.notices) == 1
    assert "was missing and is rebuilt from the copies of 4 nodes (generation 1)." in rebuilt.notices[0]


def test_ad_hoc_the_lockfile_has_to_be_there(controller: Controller) -> None:
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("ipip"), asked=None)
    assert str(caught.value) == (
        f"lockfile {controller.lockfile} does not exist. "
        "Run playbooks/site.yml first: it plans the blocks and writes this file."
    )
    full = controller.run(pool("ipip"))
    assert controller.compile(pool("ipip"), asked=None).after == full.after


# --- both IP versions -----------------------------------------------------------------------------------------------


SIX = "fd00:10:244::/64"


@pytest.mark.parametrize("mode", ["direct", "vxlan", "vxlan-crosssubnet"])
def test_a_second_run_of_both_ip_versions_finds_nothing_to_change(controller: Controller, mode: str) -> None:
    pools = pool("ipip"), pool(mode, "six", SIX)
    first = controller.run(*pools, own=ADDRESSES6)
    assert (first.change, first.modes) == (False, {"default": "ipip", "six": mode})
    second = controller.run(*pools, own=ADDRESSES6)
    assert second.before == second.after == first.after
    assert (second.change, second.notices) == (False, ())
    assert 'workloads6:\n      w1: "fd00:' in first.after
    controller.lockfile.unlink()
    rebuilt = controller.compile(*pools, own=ADDRESSES6)
    assert rebuilt.fleet.allocation.nodes == first.fleet.allocation.nodes


def test_ipv6_that_joins_with_a_tunnel_goes_through_the_phases_and_without_one_does_not(
    controller: Controller,
) -> None:
    controller.run(pool("ipip"))
    direct, tunnel = (pool(mode, "six", SIX) for mode in ("direct", "vxlan"))
    assert controller.compile(pool("ipip"), direct, own=ADDRESSES6).change is False
    assert controller.compile(pool("ipip"), tunnel, own=ADDRESSES6).change is True


def test_an_ipv6_pool_is_switched_as_others_are(controller: Controller) -> None:
    pools = pool("ipip"), pool("vxlan", "six", SIX)
    controller.run(*pools, own=ADDRESSES6)
    compiled = controller.compile(*pools, own=ADDRESSES6, options={"pool": "six", "mode": "direct"})
    assert (compiled.change, compiled.modes) == (True, {"default": "ipip", "six": "direct"})
    with pytest.raises(FleetError) as caught:
        controller.compile(*pools, own=ADDRESSES6, options={"pool": "six", "mode": "ipip-crosssubnet"})
    assert str(caught.value) == (
        "mode ipip-crosssubnet is not possible for pool six, which is IPv6: IPIP carries IPv4 only. "
        "Choose direct, vxlan or vxlan-crosssubnet."
    )


# --- addresses of agents --------------------------------------------------------------------------------------------


def test_a_block_that_the_agent_opened_is_planned_open_with_a_new_spare_one(controller: Controller) -> None:
    first = controller.run(pool("ipip"))
    part = first.fleet.allocation.nodes["node1"]
    opened = part.spare_blocks[0]
    controller.given["node1"] = Journal((opened.cidr.partition("/")[0],), (opened.cidr,))
    second = controller.run(pool("ipip"))
    assert second.notices == (f"node1 has opened its spare block {opened.cidr}.",)
    after = second.fleet.allocation.nodes["node1"]
    assert after.blocks == (*part.blocks, opened)
    assert len(after.spare_blocks) == 1 and opened not in after.spare_blocks
    assert second.fleet.allocation.generation > first.fleet.allocation.generation
    for name in ("node2", "node3", "node4"):
        assert second.fleet.allocation.nodes[name] == first.fleet.allocation.nodes[name]
        assert opened.cidr in [route.destination for route in second.targets.state(name).bird_routes]
    third = controller.run(pool("ipip"))
    assert (third.after, third.notices) == (second.after, ())


def test_a_workload_of_the_inventory_gets_no_address_that_the_agent_gave_away(controller: Controller) -> None:
    first = controller.run(pool(), workloads=[])
    block = first.fleet.allocation.nodes["node1"].blocks[0].cidr
    free = block.partition("/")[0]
    controller.given["node1"] = Journal((free,))
    second = controller.run(pool(), workloads=[workload("w1", "node1")])
    assert second.fleet.allocation.nodes["node1"].workloads["w1"] != free
    plain = controller.compile(pool(), workloads=[workload("w2", "node1")], asked={"journals": {}})
    assert plain.fleet.allocation.nodes["node1"].workloads["w2"] == free


def test_a_lost_lockfile_is_rebuilt_with_the_blocks_that_agents_opened(controller: Controller) -> None:
    first = controller.run(pool("ipip"))
    opened = first.fleet.allocation.nodes["node1"].spare_blocks[0]
    controller.given["node1"] = Journal((), (opened.cidr,))
    controller.lockfile.unlink()
    rebuilt = controller.compile(pool("ipip"))
    assert opened in rebuilt.fleet.allocation.nodes["node1"].blocks


# --- In these tests an answer does not fit, another node contradicts it, or it cannot be read -------------------------


def test_a_node_whose_answer_does_not_fit_is_left_out_of_the_plan_alone(controller: Controller) -> None:
    """A node whose answer conflicts is left out alone.

    It has assigned an address that the inventory declares, so a person has to decide.
    """
    first = controller.run(pool(), workloads=[])
    address = str(ipaddress.ip_network(first.fleet.allocation.nodes["node1"].blocks[0].cidr)[7])
    controller.given["node1"] = Journal((address,))
    declared = [workload("w", "node1", address=address), workload("v", "node2")]
    compiled = controller.compile(pool(), workloads=declared)
    words = (
        "what node1 says that it has does not fit, and nothing is changed on it: calico_workloads[0] w declares "
        f"address {address}, which is reserved for a workload that runs on node1. Choose another address, or remove it "
        "to have one chosen."
    )
    assert (compiled.notices, {name: str(error) for name, error in compiled.targets.refused.items()}) == (
        (words,),
        {"node1": words},
    )
    assert "v" in compiled.fleet.allocation.nodes["node2"].workloads
    honest = controller.compile(pool(), workloads=declared, asked={"journals": {}})
    assert compiled.fleet.allocation.nodes == honest.fleet.allocation.nodes


def test_an_inventory_that_cannot_be_planned_is_refused_whatever_nodes_say(controller: Controller) -> None:
    first = controller.run(pool(), workloads=[])
    own, others = (first.fleet.allocation.nodes[name].blocks[0].cidr for name in ("node1", "node2"))
    controller.given["node1"] = Journal((str(ipaddress.ip_network(own)[7]),))
    theirs = str(ipaddress.ip_network(others)[7])
    with pytest.raises(FleetError, match=f"but block {others} belongs to node2"):
        controller.compile(pool(), workloads=[workload("w", "node1", address=theirs)])


def test_a_node_says_nothing_of_addresses_that_are_not_its_own(controller: Controller) -> None:
    first = controller.run(pool())
    others = first.fleet.allocation.nodes["node2"]
    address = str(ipaddress.ip_network(others.blocks[0].cidr)[7])
    controller.given["node1"] = Journal((address,), (others.spare_blocks[0].cidr,))
    second = controller.compile(pool())
    assert second.after == first.after
    assert second.notices == (
        f"node1: address {address} of its journal is left out: it lies in none of the node's blocks.",
        f"node1: block {others.spare_blocks[0].cidr} of its journal is left out: it is none of the node's.",
    )


def test_a_return_takes_the_lockfile_mode_where_nodes_disagree(
    controller: Controller,
) -> None:
    controller.run(pool("ipip"))
    assert controller.stored["node3"] is not None
    lie = tuple(dataclasses.replace(one, encapsulation="VXLAN") for one in controller.stored["node3"].pools)
    controller.stored["node3"] = dataclasses.replace(controller.stored["node3"], pools=lie, bird=None)
    back = controller.compile(pool("vxlan"), options={"as_observed": True})
    assert back.modes == {"default": "ipip"}


def test_a_node_that_cannot_be_read_takes_no_part_where_there_is_a_lockfile(controller: Controller) -> None:
    first = controller.run(pool("ipip"))
    refused = {"node3": FleetError("stored state of node3", None, "cannot be read: x.", "Look.")}
    compiled = controller.compile(pool("ipip"), down=["node3"], asked={"refused": refused})
    assert (compiled.after, compiled.notices) == (first.after, ("stored state of node3 cannot be read: x. Look.",))
    assert dict(pickle.loads(pickle.dumps(compiled.targets)).refused).keys() == {"node3"}
    controller.lockfile.unlink()
    with pytest.raises(FleetError, match="stored state of node3 cannot be read: x"):
        controller.compile(pool("ipip"), down=["node3"], asked={"refused": refused})


# --- modes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", pool_modes.MODES)
def test_a_mode_of_the_command_line_goes_over_the_inventorys(controller: Controller, mode: str) -> None:
    controller.run(pool("ipip"), pool("direct", "other", "10.245.0.0/16"))
    compiled = controller.compile(
        pool("ipip"), pool("direct", "other", "10.245.0.0/16"), options={"pool": "default", "mode": mode}
    )
    assert compiled.modes == {"default": mode, "other": "direct"}
    assert compiled.change is (mode != "ipip")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "defualt", "mode": "ipip"}, "pool defualt is not a pool of this inventory. Choose one of default."),
        (
            {"pool": "default", "mode": "gre"},
            "mode gre is not a mode. Choose one of ipip, ipip-crosssubnet, vxlan, vxlan-crosssubnet, direct.",
        ),
    ],
)
def test_bad_modes_of_the_command_line(controller: Controller, options: dict[str, str], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("ipip"), options=options)
    assert str(caught.value) == message


def test_without_bgp_only_vxlan_can_be_switched_to(controller: Controller) -> None:
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("vxlan"), bgp_enabled=False, options={"pool": "default", "mode": "direct"})
    assert str(caught.value) == (
        "mode direct needs BGP, but calico_bgp_enabled is false. Choose vxlan or vxlan-crosssubnet, or enable BGP."
    )


@pytest.mark.parametrize("phase", ["converge", "prepare", "links", "flip"])
def test_a_return_goes_to_what_live_packets_take(controller: Controller, phase: str) -> None:
    """A return goes to the mode of the live packets, whatever the inventory and wherever the change stopped."""
    controller.run(pool("ipip-crosssubnet"))
    target = controller.compile(pool("vxlan"), underlay_mtu=1400)
    for name, state in controller.stored.items():
        controller.stored[name] = target.targets.phase(name, state, phase) if phase != Phase.CONVERGE else state
    back = controller.compile(pool("vxlan"), underlay_mtu=1400, options={"as_observed": True})
    assert back.modes == {"default": "vxlan" if phase == "flip" else "ipip-crosssubnet"}
    if phase == "converge":
        assert back.fleet.settings.underlay_mtu == 1500
        assert back.change is False


@pytest.mark.parametrize("phase", ["converge", "prepare", "links", "flip"])
def test_a_return_without_bgp_goes_to_what_live_packets_take(controller: Controller, phase: str) -> None:
    """Without BGP the lockfile has the mode of the live packets of a change that stopped before the flip."""
    controller.run(pool("vxlan"), bgp_enabled=False)
    target = controller.compile(pool("vxlan-crosssubnet"), bgp_enabled=False)
    for name, state in controller.stored.items():
        controller.stored[name] = target.targets.phase(name, state, phase) if phase != Phase.CONVERGE else state
    back = controller.compile(pool("vxlan-crosssubnet"), bgp_enabled=False, options={"as_observed": True})
    assert back.modes == {"default": "vxlan-crosssubnet" if phase == "flip" else "vxlan"}


def test_nodes_that_disagree_have_no_live_mode(controller: Controller) -> None:
    controller.run(pool("ipip"))
    target = controller.compile(pool("vxlan"))
    found = [t.cast(NodeState, state) for state in controller.stored.values()]
    found[0] = target.targets.phase(found[0].node, found[0], Phase.FLIP)
    assert pool_modes.live_modes(found) == {}
    assert pool_modes.live_modes(found[1:]) == {"default": "IPIP"}
    assert pool_modes.live_modes([]) == {}


# --- In these tests nodes are new during a change, or only some nodes report the change -------------------------------

FIVE = {**LAB, "node5": "10.10.2.15/24"}


def test_a_new_node_joins_first_and_the_mode_changes_in_the_next_run(controller: Controller) -> None:
    controller.run(pool("ipip"))
    joined = controller.run(pool("vxlan"), nodes=FIVE)
    assert (joined.change, joined.modes) == (False, {"default": "ipip"})
    assert joined.notices == ("node5 is new and joined the fleet in the modes that it runs. Run again to change them.",)
    assert "node5" in joined.fleet.allocation.nodes
    again = controller.compile(pool("vxlan"), nodes=FIVE)
    assert (again.change, again.modes, again.notices) == (True, {"default": "vxlan"}, ())


def test_a_switch_waits_for_new_nodes(controller: Controller) -> None:
    controller.run(pool("ipip"))
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("ipip"), nodes=FIVE, options={"pool": "default", "mode": "vxlan"})
    assert str(caught.value) == (
        "calico_ip_pools asks for a change of mode or MTU, and node5 is not running yet. Run playbooks/site.yml first, "
        "so that they join the fleet as it is, or leave them out of group calico_nodes. Nothing was changed."
    )


def test_new_nodes_wait_for_a_change_that_was_stopped(controller: Controller) -> None:
    controller.run(pool("ipip"))
    target = controller.compile(pool("vxlan"))
    for name in ("node1", "node2"):
        controller.stored[name] = target.targets.phase(name, controller.stored[name], Phase.PREPARE)
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("vxlan"), nodes=FIVE)
    assert str(caught.value) == STOPPED.format(what="mode or MTU", nodes="node1 and node2")
    assert controller.compile(pool("vxlan")).change is True


def test_one_node_in_a_change_keeps_no_new_node_out(controller: Controller) -> None:
    controller.run(pool("ipip"))
    target = controller.compile(pool("vxlan"))
    controller.stored["node1"] = target.targets.phase("node1", controller.stored["node1"], Phase.PREPARE)
    joined = controller.compile(pool("vxlan"), nodes=FIVE)
    assert (joined.change, joined.modes, joined.alone) == (False, {"default": "ipip"}, ("node1",))


ALONE = (
    "{} in a change of mode, MTU, sessions or addresses, and the other nodes are not: brought to the plan without "
    "phases."
)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_change_of_all_takes_more_than_the_word_of_half_of_the_nodes(controller: Controller, count: int) -> None:
    """If at most half of the nodes report another mode, MTU or phase, they change alone, without phases for all.

    If more do, all go through phases.
    """
    controller.run(pool("ipip"))
    other = controller.compile(pool("vxlan"))
    names = list(LAB)[:count]
    for name in names:
        for state in (
            dataclasses.replace(other.targets.state(name), ipam=controller.stored[name].ipam),
            other.targets.phase(name, controller.stored[name], Phase.FLIP),
            dataclasses.replace(controller.stored[name], underlay_mtu=9000),
        ):
            controller.stored[name] = state
            if name != names[-1]:
                break
            found = controller.compile(pool("ipip"), down=["node4"] if count == 1 else [])
            assert found.change is (count > 2)
            says = f"{pool_modes.some(names)} {'says that it is' if count == 1 else 'say that they are'}"
            assert (ALONE.format(says) in found.notices) is (count <= 2)
            assert found.alone == (tuple(names) if count <= 2 else ())
            assert found.fleet.allocation.encapsulations == {"default": "IPIP"}


@pytest.mark.parametrize("phase", ["prepare", "flip"])
def test_a_change_that_one_node_alone_did_not_end_ends_there_without_phases(controller: Controller, phase: str) -> None:
    """Backup routes that one node still has from an earlier change are no reason for phases of all nodes.

    The node stopped in `phase`. The others are as before the change (prepare) or after it (flip).
    """
    before, after = {"bgp_as_number": 64512}, {"bgp_as_number": 64600}
    controller.run(pool("vxlan"), **before)
    target = controller.compile(pool("vxlan"), **after)
    last = target.targets.phase("node1", controller.stored["node1"], Phase(phase))
    assert last.bird is not None and last.bird.backups
    there = after if phase == "flip" else before
    if phase == "flip":
        controller.run(pool("vxlan"), **after)
    controller.stored["node1"] = last
    found = controller.compile(pool("vxlan"), **there)
    assert (found.change, found.targets.hold, found.alone) == (False, False, ("node1",))
    assert found.targets.phase("node1", last, Phase.CONVERGE).bird.backups == ()


def test_the_mtu_of_one_node_is_not_that_of_all(controller: Controller) -> None:
    controller.run(pool("ipip"), underlay_mtu=9000)
    controller.stored["node4"] = dataclasses.replace(controller.stored["node4"], underlay_mtu=1280)
    found = controller.compile(pool("ipip"), underlay_mtu=1500, options={"as_observed": True})
    assert found.fleet.settings.underlay_mtu == 9000


STOPPED = (
    "plan has to end a change of {what} first, which an earlier run left half-way on {nodes}, and node5 is not running "
    "yet. Take it out of the inventory for one run of playbooks/site.yml, which ends that change, and put back for the "
    "next. Nothing was changed."
)


@pytest.mark.parametrize("phase", ["prepare", "links", "flip"])
def test_new_nodes_wait_for_a_change_of_topology_that_was_stopped(controller: Controller, phase: str) -> None:
    other = {"bgp_as_number": 64600}
    controller.run(pool("vxlan"))
    target = controller.compile(pool("vxlan"), **other)
    assert target.impact.hold
    for name in ("node1", "node2", "node3", "node4"):
        controller.stored[name] = target.targets.phase(name, controller.stored[name], phase)
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("vxlan"), **other, nodes=FIVE)
    assert str(caught.value) == STOPPED.format(what="BGP sessions", nodes="node1, node2, node3 and 1 more")
    # A change of mode is refused while the change of BGP sessions is pending.
    with pytest.raises(FleetError, match="a change of mode or MTU first"):
        controller.compile(pool("direct"), **other, nodes=FIVE)
    # The remedy in the message works: a run without node5 ends the pending change.
    assert controller.run(pool("vxlan"), **other).targets.hold
    ended = controller.compile(pool("vxlan"), **other, nodes=FIVE)
    assert (ended.change, ended.fresh) == (False, ("node5",))


def test_a_change_of_mode_and_sessions_that_stopped_in_the_flip_is_named_after_the_mode(controller: Controller) -> None:
    """Nodes that disagree on a pool's mode are in a change of mode, also if they have backup routes."""
    other = {"bgp_as_number": 64600}
    controller.run(pool("ipip"))
    target = controller.compile(pool("vxlan"), **other)
    for index, name in enumerate(("node1", "node2", "node3", "node4")):
        phase = Phase.FLIP if index < 2 else Phase.LINKS
        controller.stored[name] = target.targets.phase(name, controller.stored[name], phase)
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("vxlan"), **other, nodes=FIVE)
    assert str(caught.value) == STOPPED.format(what="mode or MTU", nodes="node1, node2, node3 and 1 more")


# --- In these tests a change is pending for new nodes, or the lockfile remembers modes --------------------------------

PENDING = (
    "calico_ip_pools[0] asks for mode direct of pool default, and {others} it in mode ipip; node5 would not reach "
    "them. Run playbooks/site.yml without --limit: it takes node5 into the fleet as it is, and the run after changes "
    "the mode of all nodes (or playbooks/switch_pool_mode.yml does). Or put mode ipip back into the inventory. "
    "Nothing was changed."
)
FOUR = "node1, node2, node3 and 1 more still run"


def remembered(controller: Controller) -> t.Mapping[str, str]:
    plan = lockfile_store.read(str(controller.lockfile))
    assert plan is not None
    return plan.encapsulations


def test_a_run_limited_to_a_new_node_stops_while_a_change_is_pending(controller: Controller) -> None:
    controller.run(pool("ipip"))
    assert remembered(controller) == {"default": "IPIP"}
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("direct"), nodes=FIVE, limit=["node5"])
    assert str(caught.value) == PENDING.format(others=FOUR)
    joined = controller.compile(pool("ipip"), nodes=FIVE, limit=["node5"])
    assert (joined.change, joined.modes) == (False, {"default": "ipip"})


def test_a_mode_of_the_command_line_stops_it_too(controller: Controller) -> None:
    controller.run(pool("ipip"), nodes={name: LAB[name] for name in ("node1", "node2")}, workloads=[])
    with pytest.raises(FleetError) as caught:
        controller.compile(
            pool("ipip"), nodes=FIVE, limit=["node5"], workloads=[], options={"pool": "default", "mode": "direct"}
        )
    message = PENDING.format(others="node1 and node2 still run").replace("calico_ip_pools[0]", "mode")
    assert str(caught.value) == message


def test_so_does_a_run_that_reaches_the_new_node_only(controller: Controller) -> None:
    controller.run(pool("ipip"))
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("direct"), nodes=FIVE, down=list(LAB))
    assert str(caught.value) == PENDING.format(others=FOUR)


def test_ad_hoc_as_well(controller: Controller) -> None:
    controller.run(pool("ipip"))
    with pytest.raises(FleetError) as caught:
        controller.compile(pool("direct"), nodes=FIVE, limit=["node5"], asked=None)
    assert str(caught.value) == PENDING.format(others=FOUR)


def test_a_new_node_beside_one_that_runs_joins_in_its_modes(controller: Controller) -> None:
    controller.run(pool("ipip"))
    joined = controller.compile(pool("direct"), nodes=FIVE, limit=["node1", "node5"])
    assert (joined.change, joined.modes) == (False, {"default": "ipip"})


def test_a_lockfile_that_does_not_remember_modes_is_read_and_learns_them(controller: Controller) -> None:
    controller.run(pool("ipip"))
    text = controller.lockfile.read_text()
    controller.lockfile.write_text(text.replace(", encapsulation: IPIP", ""))
    assert remembered(controller) == {}
    limited = controller.compile(pool("direct"), nodes=FIVE, limit=["node5"])  # node5 is new: no node reports its mode
    assert ", encapsulation:" not in limited.after
    assert controller.compile(pool("ipip"), limit=["node1"]).after == text


def test_reverting_the_lockfile_changes_nothing_on_a_fleet_that_runs(controller: Controller) -> None:
    controller.run(pool("ipip"))
    text = controller.lockfile.read_text()
    controller.lockfile.write_text(text.replace("encapsulation: IPIP", "encapsulation: VXLAN"))
    for limit in (None, ["node2"]):
        again = controller.compile(pool("ipip"), limit=limit)
        assert (again.change, again.modes, again.after) == (False, {"default": "ipip"}, text)
        assert again.targets.state("node2") == controller.stored["node2"]


def test_the_lockfile_gets_the_new_mode_at_the_end_of_a_change(controller: Controller) -> None:
    first = controller.run(pool("ipip"))
    pending = controller.compile(pool("direct"))
    assert pending.change
    assert pending.after == first.after  # the lockfile keeps the old mode and its generation
    assert pending.targets.encapsulations == {"default": "None"}
    assert lockfile_store.remember(pending.targets.lockfile, pending.targets.encapsulations) is True
    assert lockfile_store.remember(pending.targets.lockfile, pending.targets.encapsulations) is False
    assert remembered(controller) == {"default": "None"}
    for name in LAB:
        controller.stored[name] = pending.targets.phase(name, controller.stored[name], Phase.RETIRE)
    after = controller.compile(pool("direct"))
    assert (after.change, after.before) == (False, after.after)
    assert controller.compile(pool("direct"), nodes=FIVE, limit=["node5"]).change is False


def test_a_fleet_that_runs_nothing_yet_is_remembered_as_it_will_be(controller: Controller) -> None:
    """A fleet without any state has the modes of the present inventory, even if a first run was stopped before."""
    controller.run(pool("ipip"))
    controller.stored.clear()
    assert "encapsulation: None" in controller.compile(pool("direct")).after
    added = controller.run(pool("direct"), pool("vxlan", "more", "10.245.0.0/16"))
    assert added.fleet.allocation.encapsulations == {"default": "None", "more": "VXLAN"}


# --- the rest -------------------------------------------------------------------------------------------------------


def test_phases_of_a_change_come_from_the_targets(controller: Controller) -> None:
    controller.run(pool("ipip"))
    before = controller.stored["node1"]
    compiled = controller.compile(pool("vxlan"))
    target = compiled.targets.state("node1")
    for phase in PHASES:
        assert compiled.targets.phase("node1", before, phase) == transition.phase_state(before, target, phase)


def test_a_change_of_topology_has_phases_with_backup_routes(controller: Controller) -> None:
    """Another topology goes through phases with backup routes, and new reflectors take part in them."""
    controller.run(pool())
    before = dict(controller.stored)
    compiled = controller.compile(pool(), reflectors=REFLECTORS)
    assert (compiled.change, compiled.impact.hold, compiled.fresh) == (True, True, ("rr1", "rr2"))
    assert len(compiled.impact.resets) == 6
    prepared = {name: compiled.targets.phase(name, before.get(name), Phase.PREPARE) for name in compiled.fleet.nodes}
    for name in LAB:
        assert prepared[name].bird.peers == before[name].bird.peers  # type: ignore[union-attr]
        assert len(prepared[name].bird.backups) == 3  # type: ignore[union-attr]
    assert len(prepared["rr1"].bird.peers) == 5  # type: ignore[union-attr]
    # A new node needs no phases if the sessions between the other nodes stay.
    more = controller.compile(pool(), nodes={**LAB, "node9": "10.10.1.19/24"})
    assert (more.change, more.impact.hold, more.fresh) == (False, False, ("node9",))


def test_the_way_back_is_to_the_sessions_that_were(controller: Controller) -> None:
    controller.run(pool())
    before = controller.stored["node1"]
    forth = controller.compile(pool("vxlan"), reflectors=REFLECTORS)
    flipped = forth.targets.phase("node1", before, Phase.FLIP)
    # The run reverts to the states that it observed at its beginning; new reflectors had none.
    back = controller.compile(pool("vxlan"), reflectors=REFLECTORS, options={"as_observed": True, "hold": True})
    assert (back.change, back.targets.hold) == (False, True)
    prepared = back.targets.phase("node1", flipped, Phase.PREPARE)
    assert prepared.bird is not None and before is not None and before.bird is not None
    assert [peer.kind for peer in prepared.bird.peers] == ["reflector", "reflector"]
    assert len(prepared.bird.backups) == 3
    returned = back.targets.phase("node1", prepared, Phase.RETIRE)
    assert returned.bird is not None
    assert returned.bird.peers == before.bird.peers
    assert returned.bird.backups == ()
    assert [entry.encapsulation for entry in returned.pools] == ["None"]
    assert {route.destination for route in returned.bird_routes} == {r.destination for r in before.bird_routes}


def test_a_new_value_of_a_password_is_a_change(controller: Controller) -> None:
    reference = {"secretKeyRef": {"name": "bgp", "key": "mesh"}}
    secrets: dict[str, t.Any] = {"bgp_secrets": {"bgp": {"mesh": "old"}}, "bgp_mesh_password": reference}
    controller.run(pool(), **secrets)
    assert controller.compile(pool(), **secrets).change is False
    found = controller.compile(pool(), **secrets, asked={"passwords": {"node1": ("bgp:mesh",)}})
    assert (len(found.impact.resets), found.change, found.targets.hold) == (3, True, True)


def test_a_lockfile_elsewhere(controller: Controller, tmp_path: pathlib.Path) -> None:
    (tmp_path / "plans").mkdir()
    elsewhere = str(tmp_path / "plans" / "prod.yml")
    controller.run(pool("ipip"), lockfile=elsewhere)
    assert pathlib.Path(elsewhere).read_text().startswith("# Who owns which block")
    assert not controller.lockfile.exists()


@pytest.mark.parametrize(("written", "rebuilt"), [(True, True), ("yes", True), (False, False), ("false", False)])
def test_rebuilding_without_all_copies_has_to_be_asked_for(
    controller: Controller, written: t.Any, rebuilt: bool
) -> None:
    controller.run(pool("ipip"))
    controller.lockfile.unlink()
    if rebuilt:
        found = controller.compile(pool("ipip"), down=["node4"], rebuild_lockfile=written)
        assert "This was done without the copies of node4." in found.notices
    else:
        with pytest.raises(FleetError, match=r"is missing, node1, node2, node3 have blocks already, and node4 could"):
            controller.compile(pool("ipip"), down=["node4"], rebuild_lockfile=written)


def test_warnings_of_the_planner_are_passed_on(controller: Controller) -> None:
    found = controller.compile(pool("direct", cidr="10.244.0.0/24"), workloads=[workload("w", "node1")])
    assert found.notices == (
        "IP pool default has too few blocks left to give node1, node2, node3, node4 1 spare block each. "
        "Add a pool before they run out.",
    )
