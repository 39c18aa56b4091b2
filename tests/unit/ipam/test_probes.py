# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of probe endpoints in a plan: what all others leave free, and nobody's loss."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.inputs import (
    NodeEntry,
    PoolRange,
    WorkloadRequest,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.plan import plan

#: One block of four addresses: .0 to .3.
POOL = PoolRange("main", "10.0.0.0/30", 30)
OTHER = PoolRange("other", "10.0.1.0/29", 30, automatic=False)
WANTED = {"node1": ("main", "other")}


def run(
    previous: t.Optional[AllocationPlan] = None,
    workloads: int = 0,
    declared: t.Sequence[str] = (),
    pools: t.Sequence[PoolRange] = (POOL,),
    **more: t.Any,
) -> AllocationPlan:
    """Return the plan of node1 with so many workloads, and with one for each of the `declared` addresses."""
    requests = [WorkloadRequest(f"web-{number}", "node1") for number in range(workloads)]
    requests += [WorkloadRequest(f"db-{address}", "node1", None, address) for address in declared]
    return plan(pools, [NodeEntry("node1")], previous, workloads=requests, **{"probes": WANTED, **more})


def probes(found: AllocationPlan) -> dict[str, str]:
    return dict(found.nodes["node1"].probes)


def test_it_is_the_highest_address_and_stays() -> None:
    first = run()
    assert probes(first) == {"main": "10.0.0.3"}
    again = run(first, 2)
    assert probes(again) == {"main": "10.0.0.3"}
    assert run(again, 2) == again


def test_a_workload_that_fills_the_block_gets_the_address_in_the_same_plan() -> None:
    three = run(run(), 3)
    assert probes(three) == {"main": "10.0.0.3"}
    four = run(three, 4)
    assert four.nodes["node1"].workloads["web-3"] == "10.0.0.3"
    assert probes(four) == {}
    assert probes(run(four, 3)) == {"main": "10.0.0.3"}


def test_it_stays_on_its_address_when_a_higher_one_is_free_again() -> None:
    low = run(run(declared=["10.0.0.3"]), declared=["10.0.0.3"])
    assert probes(low) == {"main": "10.0.0.2"}
    assert probes(run(low)) == {"main": "10.0.0.2"}


@pytest.mark.parametrize(
    "claim",
    [
        {"declared": ["10.0.0.3"]},
        {"allocated": {"node1": ["10.0.0.3"]}},
        {"reservations": ["10.0.0.3/32"]},
        {"workloads": 3, "allocated": {"node1": ["10.0.0.3"]}},
    ],
)
def test_it_moves_away_from_every_other_claim(claim: dict[str, t.Any]) -> None:
    left = {} if claim.get("workloads") else {"main": "10.0.0.2"}
    found = run(run(), **claim)
    assert probes(found) == left
    assert found.warnings == run().warnings


def test_a_tunnel_that_needs_an_address_gets_the_last_one() -> None:
    found = run(run(run(), 3), 3, tunnels={"node1": {"ipip": ["main"]}})
    assert found.nodes["node1"].tunnels == {"ipip": "10.0.0.3"}
    assert probes(found) == {}


def test_no_block_is_opened_for_it_and_the_next_open_block_is_looked_at() -> None:
    """The first block is full of what the agent gave away; a spare one is there, and stays spare until it is opened."""
    pool = dataclasses.replace(POOL, cidr="10.0.0.0/28")
    first = run(pools=[pool])
    (block,), (spare,) = first.nodes["node1"].blocks, first.nodes["node1"].spare_blocks
    base = block.cidr.partition("/")[0].rpartition(".")[2]
    full = {"allocated": {"node1": [f"10.0.0.{int(base) + number}" for number in range(4)]}}
    found = run(first, pools=[pool], **full)
    assert (found.nodes["node1"].blocks, found.nodes["node1"].spare_blocks) == ((block,), (spare,))
    assert probes(found) == {}
    opened = run(found, pools=[pool], opened={"node1": [spare.cidr]}, **full)
    assert probes(opened)["main"].startswith("10.0.0.")
    assert opened.nodes["node1"].blocks == (block, spare)


def test_an_address_that_is_given_up_in_the_same_plan_is_the_last_choice() -> None:
    before = run(declared=["10.0.0.3"], probes={})
    assert probes(run(before)) == {"main": "10.0.0.2"}
    full = run(declared=["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"])
    one_less = run(full, declared=["10.0.0.0", "10.0.0.1", "10.0.0.2"])
    assert probes(one_less) == {"main": "10.0.0.3"}


def test_a_manual_pool_has_one_where_the_node_has_a_block() -> None:
    assert probes(run(pools=[POOL, OTHER])) == {"main": "10.0.0.3"}
    found = run(pools=[POOL, OTHER], declared=["10.0.1.1"])
    assert probes(found) == {"main": "10.0.0.3", "other": "10.0.1.3"}


@pytest.mark.parametrize(
    "without",
    [
        {"pools": [dataclasses.replace(POOL, allowed_uses=("Tunnel",))]},
        {"probes": {}},
        {"probes": {"node1": ("other",)}},
        {"probes": {"node2": ("main",)}},
    ],
)
def test_it_ends_with_the_pool_and_with_the_switch(without: dict[str, t.Any]) -> None:
    found = run(run(), **without)
    assert probes(found) == {}
    assert run(found, **without) == found


def test_a_disabled_pool_is_proven_for_the_workloads_that_still_use_it() -> None:
    disabled = [dataclasses.replace(POOL, disabled=True)]
    assert probes(run(run(probes={}), pools=disabled)) == {"main": "10.0.0.3"}
    assert probes(run(run(), pools=disabled)) == {"main": "10.0.0.3"}


def test_blocks_of_one_address_are_left_to_workloads() -> None:
    assert probes(run(pools=[dataclasses.replace(POOL, block_size=32)])) == {}


def test_it_keeps_no_block_of_a_pool_that_leaves_the_node() -> None:
    gone = dataclasses.replace(POOL, selects=lambda labels: False)
    found = run(run(), pools=[gone])
    assert found.nodes["node1"].blocks == ()
    assert [entry.cidr for entry in found.quarantine] == ["10.0.0.0/30"]
    assert probes(found) == {}
    assert probes(run(run(workloads=1), 1, pools=[gone])) == {"main": "10.0.0.3"}


def test_the_blocks_of_a_removed_node_are_free_of_its_probe_endpoint() -> None:
    """Released, they go to another node, whose probe endpoint gets its own address there."""
    found = plan([POOL], [NodeEntry("node2")], run(), released=["node1"], probes={"node2": ("main",)})
    assert found.quarantine == ()
    assert found.nodes["node2"].probes == {"main": "10.0.0.3"}
