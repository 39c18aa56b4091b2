# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner by example: what stays, what is granted, what goes to quarantine, and the words of every refusal."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import pathlib
import time
import timeit
import typing as t

import netaddr
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    NodeAllocations,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.block_walk import BlockSpace
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.errors import PlanError
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.inputs import (
    NodeEntry,
    PoolRange,
    WorkloadRequest,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.plan import plan

CASES = json.loads((pathlib.Path(__file__).parent.parent / "cases" / "ipam_cases.json").read_text(encoding="utf-8"))

POOL = PoolRange("main", "10.244.0.0/24", 26)
OTHER = PoolRange("other", "10.245.0.0/24", 26)


def nodes(*names: str, **labels: str) -> list[NodeEntry]:
    return [NodeEntry(name, labels) for name in names]


def rack(pool: PoolRange, name: str) -> PoolRange:
    return dataclasses.replace(pool, selects=lambda labels: labels.get("rack") == name)


def blocks(found: AllocationPlan, node: str) -> list[str]:
    return [grant.cidr for grant in found.nodes[node].blocks]


def spares(found: AllocationPlan, node: str) -> list[str]:
    return [grant.cidr for grant in found.nodes[node].spare_blocks]


def refused(*args: t.Any, **kwargs: t.Any) -> str:
    with pytest.raises(PlanError) as caught:
        plan(*args, **kwargs)
    return str(caught.value)


# Grants


def test_a_new_fleet_gets_an_open_and_a_spare_block_each_where_the_walks_begin() -> None:
    found = plan([PoolRange("main", "10.244.0.0/16", 26)], nodes("node1", "node2"))
    space = BlockSpace("10.244.0.0/16", 26)
    for name in ("node1", "node2"):
        walk = space.walk(name)
        assert blocks(found, name) == [space.cidr(next(walk))]
        assert spares(found, name) == [space.cidr(next(walk))]
    assert found.generation == 1
    assert found.quarantine == found.warnings == ()


def test_a_fleet_without_pools_gets_nothing() -> None:
    assert plan([], nodes("node1"), tunnels={"node1": {"ipip": ()}}).nodes == {"node1": NodeAllocations()}


def test_addresses_come_from_the_bottom_of_the_block_tunnels_first() -> None:
    found = plan(
        [POOL, OTHER],
        nodes("node1"),
        workloads=[
            WorkloadRequest("b", "node1"),
            WorkloadRequest("a", "node1"),
            WorkloadRequest("c", "node1", "other"),
        ],
        tunnels={"node1": {"vxlan": ["other"], "ipip": ["main"]}},
    )
    main, other = (cidr[: cidr.index("/")] for cidr in blocks(found, "node1"))
    assert found.nodes["node1"].tunnels == {"ipip": main, "vxlan": other}
    stem, last = main.rsplit(".", 1)
    assert found.nodes["node1"].workloads == {
        "a": f"{stem}.{int(last) + 1}",
        "b": f"{stem}.{int(last) + 2}",
        "c": f"{other.rsplit('.', 1)[0]}.{int(other.rsplit('.', 1)[1]) + 1}",
    }


def test_a_tunnel_of_an_encapsulation_that_no_pool_of_the_node_has_gets_an_address_of_any_of_its_blocks() -> None:
    pools = [rack(POOL, "a"), rack(OTHER, "b")]
    entries = [*nodes("node1", rack="a"), *nodes("node2", rack="b"), *nodes("node3", rack="c")]
    needs = {"ipip": ["main"], "vxlan": ["other"]}
    found = plan(pools, entries, tunnels={entry.name: needs for entry in entries})
    assert found.nodes["node1"].tunnels["vxlan"].startswith("10.244.0.")
    assert found.nodes["node2"].tunnels["ipip"].startswith("10.245.0.")
    assert found.nodes["node3"] == NodeAllocations()


def test_a_tunnel_opens_a_block_of_its_pool_before_it_takes_an_address_of_another() -> None:
    pools = [PoolRange("main", "10.244.0.0/28", 32), OTHER]
    full = [WorkloadRequest("w", "node1", address="10.244.0.3")]
    found = plan(pools, nodes("node1"), workloads=full, tunnels={"node1": {"ipip": ["main"]}})
    assert found.nodes["node1"].tunnels["ipip"].startswith("10.244.0.")


def test_workloads_open_the_spare_block_before_a_new_one() -> None:
    pool = PoolRange("main", "10.244.0.0/24", 30)
    before = plan([pool], nodes("node1", "node2"))
    after = plan(
        [pool], nodes("node1", "node2"), before, workloads=[WorkloadRequest(f"w{n}", "node1") for n in range(5)]
    )
    assert blocks(after, "node1") == blocks(before, "node1") + spares(before, "node1")
    assert len(spares(after, "node1")) == 1
    assert after.generation == before.generation + 1


def test_blocks_of_one_address() -> None:
    pool = PoolRange("main", "10.244.0.0/28", 32)
    wanted = [WorkloadRequest(f"w{n}", "node1") for n in range(3)]
    found = plan([pool], nodes("node1"), workloads=wanted, tunnels={"node1": {"vxlan": ["main"]}})
    held = {*found.nodes["node1"].tunnels.values(), *found.nodes["node1"].workloads.values()}
    assert {f"{address}/32" for address in held} == set(blocks(found, "node1"))
    assert len(held) == 4


def test_spare_blocks_go_round_and_warn_when_they_run_out() -> None:
    found = plan([POOL], nodes("node1", "node2", "node3"), spare_blocks=2)
    assert [len(spares(found, name)) for name in ("node1", "node2", "node3")] == [1, 0, 0]
    assert found.warnings == (
        "IP pool main has too few blocks left to give node1, node2, node3 2 spare blocks each. "
        "Add a pool before they run out.",
    )


def test_a_pool_for_tunnels_alone_has_no_spare_blocks_and_no_workloads() -> None:
    pools = [dataclasses.replace(POOL, name="a-tunnels", allowed_uses=("Tunnel",)), OTHER]
    found = plan(
        pools, nodes("node1"), workloads=[WorkloadRequest("w", "node1")], tunnels={"node1": {"ipip": ["other"]}}
    )
    assert [grant.pool for grant in found.nodes["node1"].blocks] == ["a-tunnels", "other"]
    assert [grant.pool for grant in found.nodes["node1"].spare_blocks] == ["other"]
    assert found.nodes["node1"].workloads["w"].startswith("10.245.0.")


def test_a_manual_pool_gives_only_what_is_asked_for() -> None:
    manual = dataclasses.replace(POOL, automatic=False)
    assert plan([manual], nodes("node1")).nodes["node1"] == NodeAllocations()
    found = plan(
        [manual, OTHER],
        nodes("node1"),
        workloads=[WorkloadRequest("w", "node1", "main"), WorkloadRequest("v", "node1")],
    )
    assert found.nodes["node1"].workloads["w"].startswith("10.244.0.")
    assert found.nodes["node1"].workloads["v"].startswith("10.245.0.")


def test_a_declared_address_opens_the_free_block_that_it_lies_in() -> None:
    found = plan([POOL], nodes("node1"), workloads=[WorkloadRequest("w", "node1", address="10.244.0.200")])
    assert blocks(found, "node1") == ["10.244.0.192/26"]
    assert found.nodes["node1"].workloads == {"w": "10.244.0.200"}


def test_declared_addresses_come_before_everybody_elses_blocks() -> None:
    """On a new fleet, no other node's walk takes the block that a declared address needs."""
    for number in range(4):
        address = f"10.244.0.{number * 64 + 9}"
        found = plan(
            [POOL],
            nodes("node1", "node2", "node3", "node4"),
            workloads=[WorkloadRequest("w", "node4", address=address)],
        )
        assert found.nodes["node4"].workloads == {"w": address}


def test_ipv6_pools() -> None:
    pool = PoolRange("a-six", "fd00::/64", 122)
    found = plan(
        [pool, POOL], nodes("node1"), workloads=[WorkloadRequest("w", "node1"), WorkloadRequest("s", "node1", "a-six")]
    )
    assert found.nodes["node1"].workloads["w"].startswith("10.244.0.")
    assert found.nodes["node1"].workloads6["s"].startswith("fd00::")


def test_a_workload_has_one_address_of_each_ip_version() -> None:
    pools = [PoolRange("six", "fd00::/64", 122), POOL]
    both = [WorkloadRequest("w", "node1"), WorkloadRequest("w", "node1", version=6)]
    found = plan(pools, nodes("node1"), workloads=both, tunnels={"node1": {"vxlan": ["main"], "vxlan6": ["six"]}})
    part = found.nodes["node1"]
    assert sorted(part.tunnels) == ["vxlan", "vxlan6"]
    assert part.tunnels["vxlan6"] in part.blocks[1].cidr.replace("/122", "")  # the first address of its block
    assert ":" not in part.workloads["w"]
    assert ":" in part.workloads6["w"]
    assert plan(pools, nodes("node1"), found, workloads=both, tunnels={"node1": {}}) == found
    fewer = plan(pools, nodes("node1"), found, workloads=both[:1], tunnels={"node1": {}}).nodes["node1"]
    assert (fewer.workloads, fewer.workloads6) == (part.workloads, {})


def test_an_ipv6_tunnel_has_no_address_of_an_ipv4_pool() -> None:
    found = plan([POOL], nodes("node1"), tunnels={"node1": {"vxlan6": ["six"]}})
    assert found.nodes["node1"].tunnels == {}


def test_most_of_a_large_ipv6_pool_may_be_reserved() -> None:
    """Three quarters of a large IPv6 pool may be reserved: its 2**58 blocks are not checked one after the other."""
    pool = PoolRange("six", "fd00::/64", 122)
    found = plan([pool], nodes(*(f"node{n}" for n in range(8))), reservations=["fd00::/65", "fd00:0:0:0:8000::/66"])
    quarter = ipaddress.IPv6Network("fd00:0:0:0:c000::/66")
    granted = [grant.cidr for part in found.nodes.values() for grant in (*part.blocks, *part.spare_blocks)]
    assert len(granted) == 16
    assert all(ipaddress.IPv6Network(cidr).subnet_of(quarter) for cidr in granted)


@pytest.mark.parametrize(
    "case", CASES["determine_pools"], ids=lambda case: "-".join(str(value) for value in case.values())
)
def test_which_pools_serve_a_workload_as_in_calico(case: dict) -> None:
    """The pools that serve a workload are Calico's, except that a requested pool has to select the node."""
    pools = []
    for number in (1, 2):
        matches = selectors.parse(case[f"sel{number}"] or "all()").matches
        pools.append(
            PoolRange(f"p{number}", f"10.{number}.0.0/24", disabled=not case[f"pool{number}_enabled"], selects=matches)
        )
    requested = [name for name in ("p1", "p2") if case[f"request_pool{name[1]}"]]
    ignores_selector = bool(requested) and not pools[int(requested[0][1]) - 1].selects({"foo": "bar"})
    request = WorkloadRequest("w", "node1", requested[0] if requested else None)
    if case["error"] or not case["expect"] or ignores_selector:
        refused(pools, nodes("node1", foo="bar"), workloads=[request])
        return
    found = plan(pools, nodes("node1", foo="bar"), workloads=[request])
    address = found.nodes["node1"].workloads["w"]
    assert f"p{address.split('.')[1]}" == case["expect"][0]


# Grants that stay, change or go


def test_nothing_moves_when_nodes_join() -> None:
    pool = PoolRange("main", "10.244.0.0/16", 26)
    before = plan([pool], nodes("node5"), workloads=[WorkloadRequest("w", "node5")])
    after = plan([pool], nodes(*(f"node{n}" for n in range(50))), before, workloads=[WorkloadRequest("w", "node5")])
    assert after.nodes["node5"] == before.nodes["node5"]


def test_a_workload_keeps_its_address_and_a_new_one_does_not_get_one_just_given_up() -> None:
    first = [WorkloadRequest(name, "node1") for name in ("a", "b", "c")]
    before = plan([POOL], nodes("node1"), workloads=first)
    second = [WorkloadRequest(name, "node1") for name in ("aa", "b", "c")]
    after = plan([POOL], nodes("node1"), before, workloads=second)
    old, new = before.nodes["node1"].workloads, after.nodes["node1"].workloads
    assert (new["b"], new["c"]) == (old["b"], old["c"])
    assert new["aa"] not in old.values()
    third = plan([POOL], nodes("node1"), after, workloads=[*second, WorkloadRequest("d", "node1")])
    assert third.nodes["node1"].workloads["d"] == old["a"]


def test_addresses_just_given_up_are_given_again_before_another_block_is_opened() -> None:
    pool = PoolRange("main", "10.244.0.0/24", 30)
    before = plan([pool], nodes("node1"), workloads=[WorkloadRequest(name, "node1") for name in "abcd"])
    after = plan([pool], nodes("node1"), before, workloads=[WorkloadRequest(name, "node1") for name in "bdxyz"])
    old, new = before.nodes["node1"].workloads, after.nodes["node1"].workloads
    assert new == {"b": old["b"], "d": old["d"], "x": old["a"], "y": old["c"], "z": new["z"]}
    assert blocks(after, "node1") == blocks(before, "node1") + spares(before, "node1")
    assert f"{new['z']}/30" == blocks(after, "node1")[1]


def test_a_workload_that_moves_gets_an_address_of_its_new_node() -> None:
    before = plan([POOL], nodes("node1", "node2"), workloads=[WorkloadRequest("w", "node1")])
    after = plan([POOL], nodes("node1", "node2"), before, workloads=[WorkloadRequest("w", "node2")])
    assert after.nodes["node1"].workloads == {}
    assert after.nodes["node2"].workloads["w"] != before.nodes["node1"].workloads["w"]


def test_a_tunnel_address_stays_when_it_is_not_needed_for_a_while() -> None:
    needs = {"node1": {"ipip": ["main"]}}
    before = plan([POOL], nodes("node1"), tunnels=needs)
    between = plan([POOL], nodes("node1"), before, tunnels={"node1": {"vxlan": ["main"]}})
    assert between.nodes["node1"].tunnels["ipip"] == before.nodes["node1"].tunnels["ipip"]
    assert between.nodes["node1"].tunnels["vxlan"] != between.nodes["node1"].tunnels["ipip"]


def test_a_disabled_pool_keeps_its_blocks_and_gives_no_more() -> None:
    before = plan([POOL], nodes("node1"))
    disabled = dataclasses.replace(POOL, disabled=True)
    after = plan(
        [disabled, OTHER], nodes("node1", "node2"), before, workloads=[WorkloadRequest("w", "node1")], spare_blocks=2
    )
    assert blocks(after, "node1")[0] == blocks(before, "node1")[0]
    assert after.nodes["node1"].workloads["w"].startswith("10.245.0.")
    assert {grant.pool for grant in after.nodes["node2"].blocks} == {"other"}
    assert [grant.pool for grant in after.nodes["node1"].spare_blocks].count("main") == 1


def test_a_pool_that_leaves_a_node_takes_its_empty_blocks_and_warns_of_the_others() -> None:
    workloads = [WorkloadRequest("w", "node1", "main")]
    before = plan([POOL, OTHER], nodes("node1", "node2"), workloads=workloads)
    sticky = [WorkloadRequest("w", "node1")]
    after = plan([rack(POOL, "a"), OTHER], nodes("node1", "node2"), before, workloads=sticky)
    assert after.nodes["node1"].workloads == before.nodes["node1"].workloads
    assert [grant.pool for grant in after.nodes["node1"].blocks] == ["main", "other"]
    assert [grant.pool for grant in after.nodes["node2"].blocks] == ["other"]
    assert {(entry.cidr, entry.node, entry.spare) for entry in after.quarantine} == {
        (spares(before, "node1")[0], "node1", True),
        (blocks(before, "node2")[0], "node2", False),
        (spares(before, "node2")[0], "node2", True),
    }
    assert after.warnings == (
        "IP pool main no longer selects node1; blocks with workloads or tunnel addresses stay until those are gone.",
    )
    again = plan([POOL, OTHER], nodes("node1", "node2"), after, workloads=sticky)
    assert sorted(blocks(again, "node2")) == sorted(blocks(before, "node2"))
    assert again.quarantine == ()


def test_fewer_spare_blocks_go_to_quarantine_and_come_back() -> None:
    before = plan([POOL], nodes("node1"), spare_blocks=3)
    fewer = plan([POOL], nodes("node1"), before, spare_blocks=1)
    assert spares(fewer, "node1") == spares(before, "node1")[:1]
    assert {entry.cidr for entry in fewer.quarantine} == set(spares(before, "node1")[1:])
    again = plan([POOL], nodes("node1"), fewer, spare_blocks=3)
    assert sorted(spares(again, "node1")) == sorted(spares(before, "node1"))
    assert again.quarantine == ()


@pytest.mark.parametrize("name", [f"node{number}" for number in range(6)])
def test_own_spare_blocks_come_back_from_the_bottom(name: str) -> None:
    before = plan([POOL], nodes(name), spare_blocks=3)
    ordered = sorted(spares(before, name), key=netaddr.IPNetwork)
    none = plan([POOL], nodes(name), before, spare_blocks=0)
    assert spares(plan([POOL], nodes(name), none, spare_blocks=2), name) == ordered[:2]
    workloads = [WorkloadRequest(f"w{n}", name) for n in range(65)]
    assert blocks(plan([POOL], nodes(name), before, spare_blocks=0, workloads=workloads), name)[1] == ordered[0]


def test_a_declared_address_takes_a_spare_block_back_that_was_set_aside() -> None:
    before = plan([POOL], nodes("node1"), spare_blocks=3)
    aside = sorted(spares(before, "node1")[1:], key=netaddr.IPNetwork)
    inside = aside[0].replace("/26", "")
    workloads = [
        WorkloadRequest("w", "node1", address=inside),
        *(WorkloadRequest(f"w{n}", "node1") for n in range(150)),
    ]
    after = plan([POOL], nodes("node1"), before, spare_blocks=1, workloads=workloads)
    assert after.nodes["node1"].workloads["w"] == inside
    assert blocks(after, "node1") == [blocks(before, "node1")[0], aside[0], spares(before, "node1")[0]]
    assert spares(after, "node1") == [aside[1]]
    assert after.quarantine == ()


# Quarantine


@pytest.mark.parametrize("spare_blocks", [0, 1])
def test_blocks_of_a_removed_node_stay_in_quarantine(spare_blocks: int) -> None:
    pool = PoolRange("main", "10.244.0.0/24", 27)
    before = plan([pool], nodes("node1", "node2"), spare_blocks=spare_blocks)
    after = plan([pool], nodes("node1", "node3"), before)
    lost = {*blocks(before, "node2"), *spares(before, "node2")}
    assert {entry.cidr for entry in after.quarantine} == lost
    assert not lost & {*blocks(after, "node3"), *spares(after, "node3")}
    assert after.warnings == (
        "The blocks of node2, no longer in the inventory, are in quarantine. When the hosts are gone for "
        "good, run once with "
        "their names in calico_release_blocks; a host that returns gets its blocks back.",
    )
    assert all(entry.generation == after.generation for entry in after.quarantine)


def full() -> AllocationPlan:
    return plan([POOL], nodes("node1", "node2", "node3", "node4"), spare_blocks=0)


def test_quarantine_is_released_by_name_or_by_range() -> None:
    entries = nodes("node1", "node2", "node3", "node5")
    removed = plan([POOL], entries[:3], full(), spare_blocks=0)
    text = refused([POOL], entries, removed, spare_blocks=0)
    assert text.startswith(
        "calico_ip_pools main (10.244.0.0/24, blockSize 26) has too few blocks: 4 nodes need at least one "
        "each, and node5 gets "
        "none. It has 4; 3 are in use, 0 are spare and 1 are in quarantine. "
    )
    for released in ("node4", blocks(full(), "node4")[0], "10.244.0.0/16"):
        found = plan([POOL], entries, removed, spare_blocks=0, released=[released])
        assert blocks(found, "node5") == blocks(full(), "node4")
        assert found.warnings == (f"Released from quarantine: {blocks(full(), 'node4')[0]}.",)


def test_a_release_that_matches_nothing_causes_a_warning() -> None:
    found = plan(
        [POOL], nodes("node1"), full(), spare_blocks=0, released=["node9", "10.9.0.0/16", "node2", "node3", "node4"]
    )
    assert "calico_release_blocks: nothing is in quarantine for 10.9.0.0/16, node9." in found.warnings


def test_a_node_can_be_removed_and_released_in_one_run() -> None:
    found = plan([POOL], nodes("node1", "node2", "node3", "node5"), full(), spare_blocks=0, released=["node4"])
    assert blocks(found, "node5") == blocks(full(), "node4")


def test_a_node_that_returns_gets_its_blocks_back() -> None:
    names = ("node1", "node2")
    before = plan([POOL], nodes(*names), workloads=[WorkloadRequest("w", "node2")])
    away = plan([POOL], nodes("node1"), before)
    back = plan([POOL], nodes(*names), away, workloads=[WorkloadRequest("w", "node2")])
    assert back.nodes == before.nodes
    assert back.quarantine == ()
    assert back.generation == before.generation + 2


def test_flapping_does_not_grow() -> None:
    found = plan([POOL], nodes("node1", "node2"))
    first = found.nodes
    for _ in range(3):
        found = plan([POOL], nodes("node1"), found)
        found = plan([POOL], nodes("node1", "node2"), found)
    assert found.nodes == first


def test_quarantined_addresses_of_a_pool_that_is_gone_are_not_given_out_under_another_name() -> None:
    away = plan([POOL], [], full())
    renamed = PoolRange("renamed", "10.244.0.0/23", 25)
    found = plan([renamed], nodes("node8", "node9"), away)
    assert {*blocks(found, "node8"), *blocks(found, "node9")} == {"10.244.1.0/25", "10.244.1.128/25"}
    assert "has too few blocks" in refused([renamed], nodes("node7", "node8", "node9"), away)
    assert found.pools["main"].cidr == "10.244.0.0/24"
    assert found.quarantine == away.quarantine


def test_a_pool_is_retired_by_disabling_it_and_selecting_no_node() -> None:
    needs = {"node1": {"ipip": ["main", "other"]}}
    before = plan([POOL], nodes("node1"), tunnels={"node1": {"ipip": ["main"]}})
    leaving = dataclasses.replace(POOL, disabled=True, selects=lambda labels: False)
    between = plan([leaving, OTHER], nodes("node1"), before, tunnels=needs)
    assert between.nodes["node1"].tunnels["ipip"].startswith("10.245.0.")
    assert {grant.pool for grant in between.nodes["node1"].blocks} == {"other"}
    after = plan([OTHER], nodes("node1"), between, tunnels={"node1": {"ipip": ["other"]}})
    assert after.nodes == between.nodes
    freed = plan([OTHER], nodes("node1"), after, tunnels={"node1": {"ipip": ["other"]}}, released=["node1"])
    assert freed.quarantine == ()
    assert set(freed.pools) == {"other"}


# Refusals, with their whole text


def one(**fields: t.Any) -> list[WorkloadRequest]:
    return [WorkloadRequest(**{"name": "w", "node": "node1", **fields})]


TWO = nodes("node1", "node2")
SEEN = plan([POOL], TWO, tunnels={"node1": {"ipip": ["main"]}})
OWN, FOREIGN = (blocks(SEEN, name)[0] for name in ("node1", "node2"))
TUNNEL = SEEN.nodes["node1"].tunnels["ipip"]
INSIDE = FOREIGN[: FOREIGN.index("/")]
GONE = plan([POOL], nodes("node1"), SEEN)

REFUSALS = {
    "unknown node": (
        [POOL], None, one(node="node9"),
        "calico_workloads w is on node9, which is not a node of this inventory. "
        "Correct the node's name, or add the host to the group calico_nodes.",
    ),
    "unknown pool": (
        [OTHER, POOL], None, one(pool="mian"),
        "calico_workloads w asks for pool mian, which does not exist. Choose one of calico_ip_pools: main, other.",
    ),
    "name twice": (
        [POOL], None, [*one(), *one(node="node2")],
        "calico_workloads w is the name of two workloads, on node1 and on node2. "
        "Give every workload of the fleet a name of its own.",
    ),
    "address twice": (
        [POOL], None, [*one(address="10.244.0.9"), WorkloadRequest("v", "node1", address="10.244.0.9")],
        "calico_workloads w declares address 10.244.0.9, which workload v declares as well. "
        "Give each workload an address of its own.",
    ),
    "bad address": (
        [POOL], None, one(address="10.244.0.9/32"),
        "calico_workloads w has no valid address: '10.244.0.9/32' is not an IP address. "
        "Write an IP address without a prefix length.",
    ),
    "address in no pool": (
        [POOL], None, one(address="10.9.0.9"),
        "calico_workloads w declares address 10.9.0.9, which lies in no IP pool. "
        "Choose an address of a pool that selects node1, or remove it to have one chosen.",
    ),
    "address in another pool": (
        [POOL, OTHER], None, one(address="10.244.0.9", pool="other"),
        "calico_workloads w asks for pool other, but its address 10.244.0.9 lies in pool main. "
        "Remove one of the two, or make them agree.",
    ),
    "address of another node": (
        [POOL], SEEN, one(address=INSIDE),
        f"calico_workloads w on node1 declares address {INSIDE}, but block {FOREIGN} belongs to node2. "
        "Move the workload to node2, or choose an address of a block of node1.",
    ),
    "address of a tunnel": (
        [POOL], SEEN, one(address=TUNNEL),
        f"calico_workloads w declares address {TUNNEL}, which is reserved for the ipip tunnel of node1. "
        "Choose another address, or remove it to have one chosen.",
    ),
    "pool does not select the node": (
        [rack(POOL, "a")], None, one(pool="main"),
        "calico_workloads w cannot be placed: it asks for pool main, whose nodeSelector does not select node1. "
        "Choose another pool, or correct its nodeSelector or the node's labels.",
    ),
    "address in a pool that does not select the node": (
        [rack(POOL, "a")], None, one(address="10.244.0.9"),
        "calico_workloads w cannot be placed: its address 10.244.0.9 lies in pool main, whose "
        "nodeSelector does not select "
        "node1. Choose another pool, or correct its nodeSelector or the node's labels.",
    ),
    "pool disabled": (
        [dataclasses.replace(POOL, disabled=True)], None, one(pool="main"),
        "calico_workloads w cannot be placed: it asks for pool main, which is disabled. "
        "Enable the pool or choose another one.",
    ),
    "pool not for workloads": (
        [dataclasses.replace(POOL, allowed_uses=("Tunnel",))], None, one(pool="main"),
        "calico_workloads w cannot be placed: it asks for pool main, whose allowedUses lack Workload. "
        "Choose another pool, or add Workload to its allowedUses.",
    ),
    "no pool": (
        [], None, one(),
        "calico_workloads w is on node1, which no enabled IP pool for workloads selects. "
        "Correct the nodeSelector of a pool or the labels of node1.",
    ),
    "pool changed": (
        [PoolRange("main", "10.244.0.0/23", 26)], SEEN, [],
        "calico_ip_pools main was 10.244.0.0/24 with blockSize 26 and is now 10.244.0.0/23 with blockSize "
        "26, but node1, "
        "node2 still have blocks of it. "
        "A pool in use keeps its cidr and blockSize: put the old values back and add a second pool with the new ones.",
    ),
    "block size changed": (
        [PoolRange("main", "10.244.0.0/24", 27)], dataclasses.replace(SEEN, pools={}), [],
        f"calico_ip_pools main was the pool of block {OWN} and is now 10.244.0.0/24 with blockSize 27, but "
        "node1 still has "
        "blocks of it. "
        "A pool in use keeps its cidr and blockSize: put the old values back and add a second pool with the new ones.",
    ),
    "pool gone": (
        [OTHER], SEEN, [],
        "calico_ip_pools main is no longer there, but node1, node2 still have blocks of it. "
        'Put it back with disabled: true and nodeSelector: "!all()", move its workloads, run once, then remove it.',
    ),
    "pools overlap": (
        [POOL, PoolRange("wide", "10.244.0.0/16", 26)], None, [],
        "calico_ip_pools wide (10.244.0.0/16) overlaps pool main (10.244.0.0/24). Give every pool "
        "addresses of its own.",
    ),
    "two pools of one name": (
        [POOL, dataclasses.replace(OTHER, name="main")], None, [],
        "calico_ip_pools main is the name of two pools. Give every pool a name of its own.",
    ),
    "bad pool": (
        [PoolRange("main", "10.244.0.0/24", 23)], None, [],
        "calico_ip_pools main has no valid cidr and blockSize: blocks of /23 cannot be cut from 10.244.0.0/24. "
        "Correct them; blockSize is the prefix length of a block, from the pool's own up to 32 (IPv6: 128).",
    ),
    "pool too small": (
        [PoolRange("main", "10.244.0.0/26", 26)], None, [],
        "calico_ip_pools main (10.244.0.0/26, blockSize 26) has too few blocks: 2 nodes need at least one "
        "each, and node2 "
        "gets none. It has 1; 1 are in use, 0 are spare and 0 are in quarantine. "
        "Add a pool, or choose a larger cidr or smaller blocks while it is new; lower "
        "calico_spare_blocks; or release blocks "
        "in quarantine with calico_release_blocks.",
    ),
    "too many workloads": (
        [PoolRange("main", "10.244.0.0/30", 31)], None, [WorkloadRequest(f"w{n}", "node1") for n in range(3)],
        "calico_ip_pools main (10.244.0.0/30, blockSize 31) has too few blocks: node1 needs one more for workload w2. "
        "It has 2; 2 are in use, 0 are spare and 0 are in quarantine. "
        "Add a pool, or choose a larger cidr or smaller blocks while it is new; lower "
        "calico_spare_blocks; or release blocks "
        "in quarantine with calico_release_blocks.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_an_impossible_plan_is_refused_with_its_reason(name: str) -> None:
    pools, previous, workloads, text = REFUSALS[name]
    assert refused(pools, TWO, previous, workloads=workloads) == text


def test_an_address_of_a_block_in_quarantine_is_refused() -> None:
    assert refused([POOL], nodes("node1"), GONE, workloads=one(address=INSIDE)) == (
        f"calico_workloads w on node1 declares address {INSIDE}, but its block {FOREIGN} is in quarantine, "
        "kept for node2. "
        f"Choose another address, or release the block with calico_release_blocks: [{FOREIGN}]."
    )


def test_an_address_that_was_given_to_another_workload_is_refused() -> None:
    before = plan([POOL], nodes("node1"), workloads=[WorkloadRequest("a", "node1")])
    address = before.nodes["node1"].workloads["a"]
    workloads = [WorkloadRequest("a", "node1"), WorkloadRequest("b", "node1", address=address)]
    assert refused([POOL], nodes("node1"), before, workloads=workloads) == (
        f"calico_workloads b declares address {address}, which workload a already has. "
        "Choose another address, or declare another one for a."
    )


def test_a_node_named_twice_is_refused() -> None:
    assert refused([POOL], nodes("node1", "node1")) == (
        "inventory node1 is the name of two nodes. Give every node a name of its own."
    )


def test_a_tunnel_without_a_pool_for_it_is_refused() -> None:
    pool = dataclasses.replace(POOL, allowed_uses=("Workload",))
    assert refused([pool], nodes("node1"), tunnels={"node1": {"vxlan": ["main"]}}) == (
        "calico_ip_pools has no enabled pool that selects node1 and allows the use Tunnel, but node1 "
        "needs an address for its "
        "vxlan tunnel. Add Tunnel to allowedUses of such a pool."
    )


def test_a_tunnel_that_finds_no_block_names_the_first_of_its_pools() -> None:
    pools = [PoolRange("first", "10.240.0.0/31", 31), PoolRange("second", "10.241.0.0/31", 31)]
    taken = [
        WorkloadRequest(f"w{pool}-{last}", "node1", address=f"10.{pool}.0.{last}")
        for pool in (240, 241)
        for last in (0, 1)
    ]
    text = refused(pools, nodes("node1"), workloads=taken, tunnels={"node1": {"vxlan": ["first", "second"]}})
    assert text.startswith(
        "calico_ip_pools first (10.240.0.0/31, blockSize 31) has too few blocks: node1 needs an address for its vxlan "
        "tunnel. It has 1; "
    )


@pytest.mark.parametrize("spare", [False, True])
def test_a_block_of_two_nodes_in_the_lockfile_is_refused(spare: bool) -> None:
    before = plan([POOL], nodes("node1", "node2"))
    theirs = before.nodes["node2"].blocks
    mine = before.nodes["node1"]
    twice = dataclasses.replace(
        mine, **({"spare_blocks": theirs} if spare else {"blocks": (*mine.blocks, *theirs)})
    )  # fmt: skip
    text = refused([POOL], nodes("node1", "node2"), dataclasses.replace(before, nodes={**before.nodes, "node1": twice}))
    assert text == (
        f"lockfile {theirs[0].cidr} is a block of node2 and, in quarantine or in use, of node1. "
        "Restore the lockfile from version control, or correct this entry."
    )


# Duration


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "10.0.0.0/13"], ids=["roomy", "full to the last block"])
def test_time_grows_with_the_fleet_and_not_faster(cidr: str) -> None:
    def seconds(count: int, prefix: int) -> float:
        pool = PoolRange("main", f"{cidr.split('/')[0]}/{prefix}", 26)
        entries = nodes(*(f"node{n}" for n in range(count)))
        workloads = [WorkloadRequest(f"w{n}-{m}", f"node{n}") for n in range(count) for m in range(3)]
        needs = {entry.name: {"ipip": ["main"]} for entry in entries}
        before = plan([pool], entries, workloads=workloads, tunnels=needs)
        run = lambda: plan([pool], entries, before, workloads=workloads, tunnels=needs)  # noqa: E731
        return min(timeit.repeat(run, timer=time.process_time, number=1, repeat=3))

    roomy = cidr.endswith("/8")
    small, large = seconds(128, 8 if roomy else 18), seconds(2048, 8 if roomy else 14)
    assert large < small * 16 * 3
    assert large < 2


# Reservations, what agents assigned or opened, released IPv6 blocks, and neighbouring pools


def test_nothing_is_chosen_out_of_a_reservation_and_what_is_declared_there_is_given() -> None:
    workloads = [WorkloadRequest("a", "node1"), WorkloadRequest("b", "node1", address="10.244.0.9")]
    reserved = ["10.244.0.0/25", "10.244.0.128/26", "10.244.0.192/29"]
    found = plan([POOL], nodes("node1"), workloads=workloads, tunnels=TUNNELS, reservations=reserved, spare_blocks=0)
    assert blocks(found, "node1") == ["10.244.0.0/26", "10.244.0.192/26"]
    assert found.nodes["node1"].workloads == {"a": "10.244.0.201", "b": "10.244.0.9"}
    assert found.nodes["node1"].tunnels == {"ipip": "10.244.0.200"}


TUNNELS = {"node1": {"ipip": ["main"]}}


def test_an_assigned_address_is_kept_when_reserved_later() -> None:
    before = plan([POOL], nodes("node1"), workloads=[WorkloadRequest("a", "node1")], tunnels=TUNNELS)
    after = plan(
        [POOL], nodes("node1"), before, workloads=[WorkloadRequest("a", "node1")], tunnels=TUNNELS,
        reservations=["10.244.0.0/24"],
    )  # fmt: skip
    assert after == before


def test_a_reserved_address_that_its_workload_gives_up_goes_to_no_other() -> None:
    pool = PoolRange("main", "10.244.0.0/30", 31)
    settings = {"reservations": ["10.244.0.1/32"], "spare_blocks": 0}
    kept = WorkloadRequest("kept", "node1", address="10.244.0.0")
    before = plan(
        [pool], nodes("node1"), workloads=[kept, WorkloadRequest("old", "node1", address="10.244.0.1")], **settings
    )
    after = plan([pool], nodes("node1"), before, workloads=[kept, WorkloadRequest("new", "node1")], **settings)
    assert after.nodes["node1"].workloads == {"kept": "10.244.0.0", "new": "10.244.0.2"}


def test_a_pool_that_is_reserved_as_a_whole_has_nothing_to_give() -> None:
    assert refused([POOL], nodes("node1"), reservations=["10.244.0.0/24"]) == (
        "calico_ip_pools main (10.244.0.0/24, blockSize 26) has too few blocks: 1 nodes need at least one each, and "
        "node1 gets none. It has 4; 0 are in use, 0 are spare and 0 are in quarantine. Add a pool, or choose "
        "a larger cidr or smaller blocks while it is new; lower calico_spare_blocks; or release blocks in quarantine "
        "with calico_release_blocks; or reserve less with calico_ip_reservations."
    )


def test_a_reservation_that_is_no_cidr_is_refused() -> None:
    assert refused([POOL], nodes("node1"), reservations=["10.244.0.1/24"]) == (
        "calico_ip_reservations cannot be read: '10.244.0.1/24' has bits set behind its prefix. "
        "Write CIDRs, for example 10.244.0.0/28."
    )


def test_an_address_allocated_by_the_agent_is_not_planned() -> None:
    before = plan([POOL], nodes("node1"))
    (block,) = blocks(before, "node1")
    given = [str(address) for address in netaddr.IPNetwork(block)][:3]
    found = plan([POOL], nodes("node1"), before, workloads=[WorkloadRequest("a", "node1")], allocated={"node1": given})
    assert found.nodes["node1"].workloads == {"a": str(netaddr.IPNetwork(block)[3])}


def test_a_planned_address_that_the_agent_allocated_is_replaced() -> None:
    wanted = [WorkloadRequest("a", "node1")]
    before = plan([POOL], nodes("node1"), workloads=wanted, tunnels=TUNNELS)
    part = before.nodes["node1"]
    given = [part.tunnels["ipip"], part.workloads["a"]]
    found = plan([POOL], nodes("node1"), before, workloads=wanted, tunnels=TUNNELS, allocated={"node1": given})
    assert not {*found.nodes["node1"].tunnels.values(), *found.nodes["node1"].workloads.values()} & set(given)
    assert found.warnings == (
        f"{given[0]}, planned for the ipip tunnel of node1, was given to a workload there meanwhile, so that the ipip "
        "tunnel of node1 gets another address.",
        f"{given[1]}, planned for workload a, was given to a workload there meanwhile, so that workload a gets another "
        "address.",
    )


def test_a_declared_address_that_the_agent_gave_away_is_refused() -> None:
    before = plan([POOL], nodes("node1"))
    address = str(netaddr.IPNetwork(blocks(before, "node1")[0])[5])
    wanted = [WorkloadRequest("a", "node1", address=address)]
    assert refused([POOL], nodes("node1"), before, workloads=wanted, allocated={"node1": [address]}) == (
        f"calico_workloads a declares address {address}, which is reserved for a workload that runs on node1. "
        "Choose another address, or remove it to have one chosen."
    )


def test_a_block_out_of_which_the_agent_gave_addresses_stays_when_its_pool_leaves_the_node() -> None:
    pools = [rack(POOL, "a"), OTHER]
    before = plan(pools, nodes("node1", rack="a"))
    kept = str(netaddr.IPNetwork(blocks(before, "node1")[0])[5])
    moved = plan(pools, nodes("node1", rack="b"), before, allocated={"node1": [kept]})
    assert blocks(moved, "node1") == blocks(before, "node1")
    assert blocks(plan(pools, nodes("node1", rack="b"), before), "node1") == blocks(before, "node1")[1:]


def test_an_opened_block_is_open_and_the_node_gets_a_new_spare_one() -> None:
    before = plan([POOL], nodes("node1"))
    after = plan([POOL], nodes("node1"), before, opened={"node1": spares(before, "node1")})
    assert blocks(after, "node1") == blocks(before, "node1") + spares(before, "node1")
    assert len(spares(after, "node1")) == 1
    assert after.generation == before.generation + 1
    assert plan([POOL], nodes("node1"), after, opened={"node1": spares(before, "node1")}) == after


@pytest.mark.parametrize("released", ["fd00::/112", "fd00::/64", "fd00::/16", "::/0"])
def test_ipv6_blocks_are_released_by_any_range_around_them(released: str) -> None:
    """A range of IPv6 frees the blocks of a removed node inside it, and one of IPv4 frees none of them."""
    six = PoolRange("six", "fd00::/120", 122)
    before = plan([six], nodes("node1", "node2"), spare_blocks=0)
    removed = plan([six], nodes("node1"), before, spare_blocks=0)
    (block,) = blocks(before, "node2")
    assert [entry.cidr for entry in removed.quarantine] == [block]
    kept = plan([six], nodes("node1"), removed, spare_blocks=0, released=["0.0.0.0/0", "fd01::/16"])
    assert [entry.cidr for entry in kept.quarantine] == [block]
    found = plan([six], nodes("node1"), removed, spare_blocks=0, released=[released])
    assert found.quarantine == ()


def test_pools_may_be_neighbours() -> None:
    """A pool may begin where another ends, and overlaps it if it begins one block earlier."""
    neighbour = PoolRange("next", "10.244.1.0/24", 26)
    found = plan([POOL, neighbour], nodes("node1"), spare_blocks=0)
    assert set(found.pools) == {"main", "next"}
    with pytest.raises(PlanError, match=r"overlaps pool main \(10\.244\.0\.0/24\)"):
        plan([POOL, PoolRange("next", "10.244.0.192/26", 26)], nodes("node1"), spare_blocks=0)
