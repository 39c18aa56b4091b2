# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run planned and decided from values alone. tests/unit/plugin_utils/sources/test_fleet_source.py has the cases."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

import netaddr
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.node_info import Journal
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.observed_nodes import (
    DeniedSession,
    ObservedNodes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.decision import (
    Approval,
    cannot_take_part,
    decide,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.impact import ImpactLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.plan_run import FleetRun, plan_run
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.request import Lockfile, RunRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase

from tests.unit.fleet import fleets
from tests.unit.fleet.fleets import LAB, pool

NONE = Lockfile("/plans/lock.yml", None)
FRESH = ObservedNodes(dict.fromkeys(LAB))


def after(run: FleetRun) -> tuple[Lockfile, ObservedNodes]:
    """Return the lockfile and the nodes' answers once the run is done."""
    states = {name: run.targets.phase(name, None, Phase.CONVERGE) for name in LAB}
    return Lockfile(run.lockfile, run.fleet.allocation), ObservedNodes({**states})


def changed_session(**variables: t.Any) -> tuple[list[Host], Lockfile, ObservedNodes]:
    """Return the hosts of an inventory with another AS number, and the lockfile and answers of before."""
    first = plan_run(fleets.hosts(pool("ipip"), workloads=[]), [], NONE, FRESH, RunRequest())
    return fleets.hosts(pool("ipip"), workloads=[], bgp_as_number=64999, **variables), *after(first)


def test_equal_values_give_an_equal_plan_and_stay_as_they_are() -> None:
    hosts = fleets.hosts(pool("ipip"))
    before = copy.deepcopy((hosts, NONE, FRESH))
    first, again = (plan_run(hosts, [], NONE, FRESH, RunRequest()) for dummy in range(2))
    assert (first.after, first.fleet.digest) == (again.after, again.fleet.digest) and first.before == ""
    assert (hosts, NONE, FRESH) == before
    lockfile, answers = after(first)
    second = plan_run(hosts, [], lockfile, answers, RunRequest())
    assert second.before == second.after == first.after and not second.change and second.notices == ()


def test_a_probe_endpoint_moves_away_from_what_an_agent_gave_away() -> None:
    """The node's own address changes, everybody knows the new one, and no word is lost about it."""
    hosts = fleets.hosts(pool("ipip"))
    first = plan_run(hosts, [], NONE, FRESH, RunRequest())
    lockfile, answers = after(first)
    taken = first.fleet.ipam_of("node2").probes["default"]
    answers.journals["node2"] = Journal((taken,))
    second = plan_run(hosts, [], lockfile, answers, RunRequest())
    now = second.fleet.ipam_of("node2")
    assert now.probes == {"default": str(netaddr.IPAddress(taken) - 1)}
    assert dataclasses.replace(now, generation=1, probes={}) == dataclasses.replace(
        first.fleet.ipam_of("node2"), probes={}
    )
    known = {member.name: member.probes for member in second.targets.state("node1").nodes}
    assert known == {name: tuple(second.fleet.ipam_of(name).probes.values()) for name in LAB}
    assert second.notices == ()


def test_an_error_names_the_file_and_the_line() -> None:
    hosts = fleets.hosts(pool("ipip"))
    first = dataclasses.replace(hosts[0], origins={"calico_ip_pools[0]": "/inventory/all.yml:7"})
    wrong = {**first.variables, "calico_ip_pools": [pool("ipip", blockSize=33)]}
    hosts = [dataclasses.replace(host, variables=wrong | {"calico_node_address": LAB[host.name]}) for host in hosts]
    hosts[0] = dataclasses.replace(hosts[0], origins=first.origins)
    with pytest.raises(FleetError) as caught:
        plan_run(hosts, [], NONE, FRESH, RunRequest())
    assert caught.value.origin == "/inventory/all.yml:7"


def test_without_a_question_to_the_nodes_the_lockfile_has_to_exist() -> None:
    hosts, asked = fleets.hosts(pool("ipip")), RunRequest(nodes_asked=False)
    with pytest.raises(FleetError) as caught:
        plan_run(hosts, [], NONE, ObservedNodes(), asked)
    assert str(caught.value) == (
        "lockfile /plans/lock.yml does not exist. Run playbooks/site.yml first: it plans the blocks and writes this "
        "file."
    )
    new = plan_run(hosts, [], NONE, ObservedNodes(), dataclasses.replace(asked, may_be_new=True))
    assert plan_run(hosts, [], Lockfile(NONE.path, new.fleet.allocation), ObservedNodes(), asked).after == new.after


def test_a_run_beyond_its_limits_needs_the_approval_of_this_plan() -> None:
    hosts, lockfile, answers = changed_session()
    limits = ImpactLimits(session_resets=0)

    def decided(given: str, enforced: bool) -> t.Any:
        return decide(hosts, [], lockfile, answers, RunRequest(), Approval(limits, given, enforced))

    with pytest.raises(FleetError, match="needs approval") as caught:
        decided("", True)
    needed = str(caught.value.value)
    with pytest.raises(FleetError, match=r"What was approved, 123456789abc, is another plan\."):
        decided("123456789abc", True)
    assert decided(needed, True).refusals == ()
    (refusal,) = decided("", False).refusals
    assert str(refusal) == str(caught.value)
    assert decide(hosts, [], lockfile, answers, RunRequest(), Approval()).approval == needed


def test_a_node_that_alone_says_what_would_stop_the_run_is_left_out() -> None:
    hosts = fleets.hosts(pool("ipip"), workloads=[])
    lockfile, answers = after(plan_run(hosts, [], NONE, FRESH, RunRequest()))
    state = answers.states["node2"]
    assert state is not None
    answers.states["node2"] = dataclasses.replace(state, bird=None)
    decision = decide(hosts, [], lockfile, answers, RunRequest(), Approval())
    assert set(decision.run.targets.refused) == {"node2"} == set(answers.states) - set(decision.answers.states)
    assert str(decision.answers.refused["node2"]) == (
        "stored state of node2 says that it runs without BGP, unlike the other nodes. "
        "Remove /var/lib/calico/state.json on the node if its workloads may be planned anew."
    )


MOVED = {**LAB, "node2": "10.10.1.62/24"}
BOTH = dict.fromkeys(LAB, frozenset[str]()) | {"node2": frozenset(["10.10.1.12", "10.10.1.62"])}


def moved(mode: str, **variables: t.Any) -> tuple[list[Host], Lockfile, ObservedNodes]:
    """Return the hosts of an inventory in which node2 has another address, and the lockfile and answers of before."""
    first = plan_run(fleets.hosts(pool(mode), workloads=[], **variables), [], NONE, FRESH, RunRequest())
    return fleets.hosts(pool(mode), workloads=[], nodes=MOVED, **variables), *after(first)


@pytest.mark.parametrize(("mode", "bgp"), [("ipip", True), ("direct", True), ("vxlan", True), ("vxlan", False)])
def test_another_address_of_a_host_takes_all_nodes_through_phases(mode: str, bgp: bool) -> None:
    hosts, lockfile, answers = moved(mode, bgp_enabled=bgp)
    run = plan_run(hosts, [], lockfile, answers, RunRequest())
    assert (run.change, run.fleet_change, run.targets.hold, run.alone) == (True, True, bgp, ())
    assert not plan_run(hosts, [], *after(run), RunRequest()).change


@pytest.mark.parametrize("bgp", [True, False])
def test_the_plan_names_hosts_with_their_addresses_of_before_and_now(bgp: bool) -> None:
    hosts, lockfile, answers = moved("vxlan", bgp_enabled=bgp)
    run = plan_run(hosts, [], lockfile, answers, RunRequest())
    assert run.impact.moved == ("node2 10.10.1.12 -> 10.10.1.62",) and run.targets.moved
    lines = run.impact.lines
    assert lines[0] == "addresses node2 10.10.1.12 -> 10.10.1.62"
    assert len(lines) == (2 if bgp else 1)
    again = plan_run(hosts, [], *after(run), RunRequest())
    assert (again.impact.lines, again.targets.moved) == ([], False)


def test_each_ip_version_has_its_own_address() -> None:
    six = {name: {"calico_node_address_ipv6": f"fd00:10:10:1::{n}/64"} for n, name in enumerate(LAB, 1)}
    pools = [pool("vxlan"), pool("vxlan", "six", "fd00:10:244::/48", blockSize=122)]
    first = plan_run(fleets.hosts(*pools, workloads=[], own=six), [], NONE, FRESH, RunRequest())
    six["node3"] = {"calico_node_address_ipv6": "fd00:10:10:1::63/64"}
    hosts = fleets.hosts(*pools, workloads=[], nodes=MOVED, own=six)
    run = plan_run(hosts, [], *after(first), RunRequest())
    assert run.impact.moved == (
        "node2 10.10.1.12 -> 10.10.1.62",
        "node3 fd00:10:10:1::3 -> fd00:10:10:1::63",
    )


def test_a_host_with_another_address_is_not_changed_while_another_node_is_down() -> None:
    for bgp in (True, False):
        hosts, lockfile, answers = moved("vxlan", bgp_enabled=bgp)
        answers = answers.without({"node4": FleetError("node4", None, "is down.", "Start it.")})
        run = plan_run(hosts, [], lockfile, answers, RunRequest())
        with pytest.raises(FleetError) as caught:
            cannot_take_part(run, answers)
        assert str(caught.value) == (
            "plan gives a node another address (node2 10.10.1.12 -> 10.10.1.62), and node4 cannot take part in it. All "
            "nodes go through it in step: run it without --limit, and bring back or remove nodes that are down. "
            "Nothing was changed."
        )


@pytest.mark.parametrize("bgp", [True, False])
def test_a_new_node_joins_while_another_host_gets_its_new_address(bgp: bool) -> None:
    """The modes stay, so that no second run is needed for them, and none is announced."""
    hosts, lockfile, answers = moved("vxlan", bgp_enabled=bgp)
    nodes = {**MOVED, "node5": "10.10.1.15/24"}
    hosts = fleets.hosts(pool("vxlan"), workloads=[], nodes=nodes, bgp_enabled=bgp)
    answers.states["node5"] = None
    run = plan_run(hosts, [], lockfile, answers, RunRequest())
    assert (run.change, run.fresh, run.notices, run.targets.moved) == (True, ("node5",), (), True)


def test_a_host_that_alone_says_that_it_had_another_address_changes_nothing_else() -> None:
    """All other nodes already know the address that the inventory has, so one node cannot start their change."""
    hosts = fleets.hosts(pool("vxlan"), workloads=[], bgp_enabled=False)
    lockfile, answers = after(plan_run(hosts, [], NONE, FRESH, RunRequest()))
    state = answers.states["node2"]
    assert state is not None
    answers.states["node2"] = dataclasses.replace(state, address="10.10.1.77/24")
    run = plan_run(hosts, [], lockfile, answers, RunRequest())
    assert (run.change, run.alone) == (False, ())


def test_an_earlier_address_is_accepted_until_the_host_no_longer_has_it() -> None:
    """While the host has both, IPIP may leave with the earlier one. VXLAN has the device's own."""
    hosts, lockfile, answers = moved("ipip")
    answers = dataclasses.replace(answers, addresses=BOTH)
    first = plan_run(hosts, [], lockfile, answers, RunRequest())
    assert first.fleet.earlier_addresses == ("10.10.1.12",)
    assert first.notices == (
        "node2 still has its earlier address 10.10.1.12, and IPIP may leave with it: all nodes accept that. Remove it "
        "from the host, and run again.",
    )
    for name in LAB:
        (hosts_set, *dummy) = first.targets.state(name).ipsets
        assert "10.10.1.12" in hosts_set.members and "10.10.1.62" in hosts_set.members
    lockfile, answers = after(first)
    again = plan_run(hosts, [], lockfile, dataclasses.replace(answers, addresses=BOTH), RunRequest())
    assert again.fleet.digest == first.fleet.digest and not again.change
    last = plan_run(hosts, [], lockfile, answers, RunRequest())
    assert last.fleet.earlier_addresses == () and last.fleet.digest != first.fleet.digest
    assert plan_run(hosts, [], lockfile, answers, RunRequest()).notices == ()


def test_no_host_can_have_an_address_accepted_that_it_never_had() -> None:
    """Neither by what it says of its interfaces, nor by its stored state."""
    hosts, lockfile, answers = moved("ipip")
    state = answers.states["node2"]
    assert state is not None
    (hosts_set, *others) = state.ipsets
    members = (*hosts_set.members, "192.0.2.66")
    answers.states["node2"] = dataclasses.replace(
        state, ipsets=(dataclasses.replace(hosts_set, members=members), *others)
    )
    claimed = dict.fromkeys(LAB, frozenset[str]()) | {"node2": frozenset(["192.0.2.66", "10.10.1.11"])}
    run = plan_run(hosts, [], lockfile, dataclasses.replace(answers, addresses=claimed), RunRequest())
    assert run.fleet.earlier_addresses == ()


TOR = [{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "all()"}]


def test_a_run_that_takes_the_last_router_from_a_pool_without_a_tunnel_asks() -> None:
    def inventory(**variables: t.Any) -> list[Host]:
        return fleets.hosts(pool("direct"), workloads=[], **variables)

    lockfile, answers = after(plan_run(inventory(bgp_peers=TOR), [], NONE, FRESH, RunRequest()))
    limits = ImpactLimits()
    refused = Approval(limits)
    with pytest.raises(FleetError) as caught:
        decide(inventory(), [], lockfile, answers, RunRequest(), refused)
    checked = decide(inventory(), [], lockfile, answers, RunRequest(), dataclasses.replace(refused, enforced=False))
    expected = (
        f"plan {checked.approval} needs approval: it would cut 8 paths between subnets in pool default (to node1 from "
        "node3 and 1 other node, to node2 from node3 and 1 other node, to node3 from node1 and 1 other node and 1 "
        "more), because no router outside the fleet learns the blocks of these nodes any more. Look at it with --check "
        f"--diff. If it is what you want, run it with -e approve={checked.approval}. Nothing was changed."
    )
    assert [str(one) for one in checked.refusals] == [str(caught.value)] == [expected]
    approved = Approval(limits, checked.approval)
    assert len(decide(inventory(), [], lockfile, answers, RunRequest(), approved).found.cut) == 4
    # Routers that know the pool otherwise go on forwarding, and the same inventory again cuts nothing.
    known = inventory(pools_known_to_routers=["default"])
    assert decide(known, [], lockfile, answers, RunRequest(), refused).found.cut == ()
    assert decide(inventory(bgp_peers=TOR), [], lockfile, answers, RunRequest(), refused).found.cut == ()


def test_one_node_that_says_that_it_had_a_router_does_not_stop_the_run() -> None:
    def inventory(**variables: t.Any) -> list[Host]:
        return fleets.hosts(pool("direct"), workloads=[], **variables)

    lockfile, answers = after(plan_run(inventory(), [], NONE, FRESH, RunRequest()))
    dummy, others = after(plan_run(inventory(bgp_peers=TOR), [], NONE, FRESH, RunRequest()))
    lying = ObservedNodes({**answers.states, "node1": others.states["node1"]})
    decision = decide(inventory(), [], lockfile, lying, RunRequest(), Approval(ImpactLimits()))
    assert list(decision.answers.refused) == ["node1"] and decision.found.cut == ()


def denied(*nodes: str, by: str = "hosts#1") -> dict[str, tuple[DeniedSession, ...]]:
    return {
        node: (
            DeniedSession(
                f"ssh from 10.10.9.9 to {LAB[node][:-3]} port 22", f"{by} (ingress, HostEndpoint {node}-all)"
            ),
            DeniedSession(
                f"ssh from 10.10.9.8 to {LAB[node][:-3]} port 22", f"{by} (ingress, HostEndpoint {node}-all)"
            ),
        )
        for node in nodes
    }


def test_a_run_that_denies_ssh_to_hosts_needs_approval_and_tries_one_first() -> None:
    """The refusal names hosts, what denies SSH, and the approval, which stays valid when sessions come and go."""
    hosts = fleets.hosts(pool("ipip"), workloads=[])
    lockfile, answers = after(plan_run(hosts, [], NONE, FRESH, RunRequest()))
    asked = dataclasses.replace(answers, denied=denied(*sorted(LAB, reverse=True)))

    def decided(told: ObservedNodes, given: str = "", enforced: bool = True) -> t.Any:
        return decide(hosts, [], lockfile, told, RunRequest(), Approval(ImpactLimits(), given, enforced))

    with pytest.raises(FleetError) as caught:
        decided(asked)
    checked = decided(asked, enforced=False)
    expected = (
        f"plan {checked.approval} needs approval: it would deny new SSH connections to 4 hosts (node1, node2, node3, "
        "node4): hosts#1 (ingress, HostEndpoint node1-all) denies ssh from 10.10.9.9 to 10.10.1.11 port 22. Look at it "
        f"with --check --diff. If it is what you want, run it with -e approve={checked.approval}: then node1 goes "
        "first, alone, and the others follow when a new connection has reached it. Nothing was changed."
    )
    assert [str(one) for one in checked.refusals] == [str(caught.value)] == [expected]
    fewer = dataclasses.replace(answers, denied={node: found[1:] for node, found in asked.denied.items()})
    assert decided(fewer, checked.approval).found.first == "node1"
    with pytest.raises(FleetError, match=f"What was approved, {checked.approval}, is another plan"):
        decided(dataclasses.replace(answers, denied=denied(*LAB, by="others#2")), checked.approval)
    assert decided(answers).found.first == "" != checked.approval != decided(answers).approval
    # A return to earlier states has no limits.
    assert decide(hosts, [], lockfile, asked, RunRequest(), Approval()).found.lockouts == ()


def test_a_host_that_alone_would_deny_ssh_is_left_out() -> None:
    hosts = fleets.hosts(pool("ipip"), workloads=[])
    lockfile, answers = after(plan_run(hosts, [], NONE, FRESH, RunRequest()))
    asked = dataclasses.replace(answers, denied=denied("node3"))
    approval = decide(hosts, [], lockfile, asked, RunRequest(), Approval(ImpactLimits(), enforced=False)).approval
    decision = decide(hosts, [], lockfile, asked, RunRequest(), Approval(ImpactLimits()))
    assert {node: str(error) for node, error in decision.answers.refused.items()} == {
        "node3": f"plan {approval} needs approval because of what node3 alone says: it would deny new SSH connections "
        "to node3: hosts#1 (ingress, HostEndpoint node3-all) denies ssh from 10.10.9.9 to 10.10.2.13 port 22. Look at "
        f"it with --check --diff. If it is what you want, run it with -e approve={approval}: then node3 goes first, "
        "alone, and the others follow when a new connection has reached it. Nothing was changed on node3."
    }
    assert decision.found.lockouts == ()


def test_no_host_is_tried_first_in_phases() -> None:
    """A run in phases changes all nodes in step, so it is refused with the approval, too."""
    hosts = fleets.hosts(pool("vxlan"), workloads=[])
    lockfile, answers = after(plan_run(fleets.hosts(pool("ipip"), workloads=[]), [], NONE, FRESH, RunRequest()))
    asked = dataclasses.replace(answers, denied=denied(*LAB))
    with pytest.raises(FleetError) as caught:
        decide(hosts, [], lockfile, asked, RunRequest(), Approval(ImpactLimits()))
    assert str(caught.value) == (
        "plan would deny new SSH connections to 4 hosts (node1, node2, node3, node4): hosts#1 (ingress, HostEndpoint "
        "node1-all) denies ssh from 10.10.9.9 to 10.10.1.11 port 22, and changes all nodes in phases, so that none of "
        "these can be tried first. Change policy in a run of its own, before or after what needs phases. Nothing was "
        "changed."
    )
