# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of workloads: Calico's cases for one node with strict affinity, and every refusal."""

from __future__ import annotations

import itertools
import json
import pathlib

import netaddr
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import BlockGrant
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import (
    AddressTaken,
    Allocation,
    Allocations,
    Assigned,
    Contradiction,
    HandleTaken,
    NoAddress,
    NoSuchPool,
    NotInBlocks,
    Opened,
    PoolUse,
    Released,
    Usage,
)

CASES = json.loads((pathlib.Path(__file__).parent.parent / "cases" / "ipam_cases.json").read_text(encoding="utf-8"))
A, B, C = (BlockGrant(f"10.0.0.{first}/30", "p") for first in (0, 4, 8))
D, E = BlockGrant("10.0.0.12/32", "p"), BlockGrant("10.0.0.13/32", "p")
M = BlockGrant("10.1.0.0/31", "manual")
POOLS = {
    "p": PoolUse("10.0.0.0/24"),
    "manual": PoolUse("10.1.0.0/24", assignment_mode="Manual"),
    "tunnels": PoolUse("10.2.0.0/24", allowed_uses=("Tunnel",)),
    "off": PoolUse("10.3.0.0/24", disabled=True),
}


def granted(blocks=(A,), spares=(), reserved=None, reservations=(), pools=POOLS, probes=None):
    allocations = Allocations()
    assert allocations.grant(blocks, spares, reserved or {}, reservations, pools, probes) == []
    return allocations


def take(allocations, count, now=0.0, **wishes):
    return [allocations.assign(f"h{number}", {}, now, **wishes).address for number in range(count)]


# --- Calico's cases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES["auto_assign"], ids=lambda case: case["name"])
@pytest.mark.parametrize("version", [4, 6])
def test_a_host_that_owns_its_blocks_gets_as_many_as_in_calico(case, version):
    request = case["request"]
    wanted = request.get(f"num{version}", 0)
    if request.get("use", "Workload") != "Workload" or not wanted:
        return  # tunnels' addresses are planned, see test_plan; or none are asked for
    pools, blocks = {}, []
    for pool in case["pools"]:
        network = netaddr.IPNetwork(pool["cidr"])
        pools[pool["cidr"]] = PoolUse(
            pool["cidr"], allowed_uses=tuple(pool.get("allowed_uses", ("Workload", "Tunnel")))
        )
        if network.version == version and "Workload" in pools[pool["cidr"]].allowed_uses:
            limit = request.get("max_blocks", 256)
            blocks += [
                BlockGrant(str(cidr), pool["cidr"])
                for cidr in itertools.islice(network.subnet(pool["block_size"]), limit)
            ]
    allocations = granted(blocks[:1], blocks[1:], pools=pools)
    asked = (request["pool"],) if "pool" in request else ()
    if case.get("error") == "ErrNoQualifiedPool":
        with pytest.raises(NoSuchPool if asked else NoAddress):
            take(allocations, 1, pools=asked, version=version)
        return
    expected = case[f"num_ips{version}"]
    found = take(allocations, expected, pools=asked, version=version)
    assert len(set(found)) == expected
    if expected < wanted:
        with pytest.raises(NoAddress):
            allocations.assign("one more", {}, 0.0, pools=asked, version=version)


@pytest.mark.parametrize("case", CASES["assign_ip"], ids=lambda case: case["ip"])
def test_a_specific_address(case):
    blocks = [BlockGrant(cidr, "p") for cidr in case["pools"]]
    allocations = granted(blocks, pools={})
    if case.get("after_first"):
        allocations.assign("first", {}, 0.0, address=case["ip"])
    if case.get("ok"):
        assert allocations.assign("h", {}, 0.0, address=case["ip"]).address == case["ip"]
    else:
        with pytest.raises(AddressTaken if "already" in case["error"] else NotInBlocks):
            allocations.assign("h", {}, 0.0, address=case["ip"])


@pytest.mark.parametrize("case", CASES["count_pool_space"], ids=lambda case: case["name"])
def test_reservations_are_counted_as_in_calico(case):
    allocations = granted([BlockGrant(case["pool"], "p")], reservations=case["reservations"], pools={})
    (usage,) = allocations.usage(0.0)
    assert (usage.size, usage.reserved) == (case["capacity"], case["reserved"])
    assert usage.free == case["capacity"] - case["reserved"]


@pytest.mark.parametrize("case", CASES["addr_filter"])
def test_reservations_hold_what_lies_in_them(case):
    def chosen(address):
        allocations = granted([BlockGrant(f"{address}/32", "p")], reservations=case["filter"], pools={})
        return allocations.usage(0.0)[0].free

    assert [chosen(address) for address in case["ip_match"]] == [0] * len(case["ip_match"])
    assert [chosen(address) for address in case["ip_no_match"]] == [1] * len(case["ip_no_match"])


@pytest.mark.parametrize("case", CASES["block_math"], ids=lambda case: case["cidr"])
def test_ordinals_of_a_block_are_given_from_the_first_one_up(case):
    allocations = granted([BlockGrant(case["cidr"], "p")], pools={})
    found = take(allocations, case["num_addresses"], version=6 if ":" in case["cidr"] else 4)
    assert [found[entry["ord"]] for entry in case["ordinals"]] == [entry["ip"] for entry in case["ordinals"]]


def test_a_released_handle_can_be_released_again():
    allocations = granted()
    allocations.assign("h", {}, 0.0)
    assert [held.address for held in allocations.release("h", 1.0)] == ["10.0.0.0"]
    assert allocations.release("h", 1.0) == []
    assert allocations.release("never heard of", 1.0) == []


# --- These tests are about order, handles, choice of blocks and pools, and usage ------------------------------------


def test_the_longest_free_address_comes_first_and_rests_before():
    allocations = granted()
    assert take(allocations, 3) == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
    allocations.release("h1", 10.0)
    allocations.release("h0", 20.0)
    assert allocations.assign("x", {}, 39.9).address == "10.0.0.3"
    with pytest.raises(NoAddress):
        allocations.assign("y", {}, 39.9)
    assert allocations.assign("y", {}, 40.0).address == "10.0.0.1"
    assert allocations.assign("z", {}, 50.0).address == "10.0.0.0"


def test_a_handle_has_one_address_however_often_it_asks():
    allocations = granted([A, M])
    first = allocations.assign("h", {"pod": "a"}, 0.0)
    assert allocations.assign("h", {"pod": "b"}, 5.0, pools=("manual",)) is first
    assert allocations.assign("h", {}, 5.0, address="10.0.0.0") is first
    assert allocations.by_handle("h") is allocations.by_address("10.0.0.0") is first
    assert first == Allocation("10.0.0.0", "h", {"pod": "a"}, "p", "10.0.0.0/30")
    assert len(allocations.take_events()) == 1


def test_a_handle_may_have_one_address_of_each_family():
    allocations = granted([A, BlockGrant("fd00::/126", "six")], pools={})
    assert allocations.assign("h", {}, 0.0).address == "10.0.0.0"
    assert allocations.assign("h", {}, 0.0, version=6).address == "fd00::"
    assert allocations.assign("h", {}, 0.0, address="fd00::0") == allocations.by_address("fd00:0::")
    assert [held.address for held in allocations.release("h", 1.0)] == ["10.0.0.0", "fd00::"]
    assert allocations.all() == []


def test_a_pool_that_only_blocks_tell_of_has_their_version():
    allocations = granted([A, BlockGrant("fd00::/126", "six")], pools={})
    assert (allocations.versions(["p"]), allocations.versions(["six"])) == ((4,), (6,))
    assert allocations.of_version(["p", "six"], 6) == ["six"]
    assert allocations.versions() == (4, 6)


def test_spares_are_opened_in_their_order_and_only_when_open_blocks_are_full():
    allocations = granted([A], [C, B], reservations=["10.0.0.8/31"])
    assert take(allocations, 4)[-1] == "10.0.0.3"
    assert allocations.opened == ()
    assert allocations.assign("fifth", {}, 0.0).address == "10.0.0.10"
    assert allocations.opened == ("10.0.0.8/30",)
    assert [type(event) for event in allocations.take_events()] == [Assigned] * 4 + [Opened, Assigned]


def test_a_spare_without_an_address_to_choose_stays_closed():
    allocations = granted([A], [B, C], reservations=["10.0.0.4/30"])
    assert take(allocations, 5)[-1] == "10.0.0.8"
    assert allocations.opened == ("10.0.0.8/30",)


def test_spares_of_several_pools_are_opened_by_the_pools_names_or_as_they_were_asked_for():
    z, a = BlockGrant("10.0.9.0/31", "z"), BlockGrant("10.0.8.0/31", "a")
    assert granted([], [z, a], pools={}).assign("h", {}, 0.0).pool == "a"
    assert granted([], [z, a], pools={}).assign("h", {}, 0.0, pools=("z", "a")).pool == "z"


def test_a_specific_address_opens_its_spare_block():
    allocations = granted([A], [B, C])
    assert allocations.assign("h", {}, 0.0, address="10.0.0.9").block == "10.0.0.8/30"
    assert allocations.opened == ("10.0.0.8/30",)


def test_one_who_asks_by_name_gets_reserved_and_resting_addresses():
    allocations = granted([A], reservations=["10.0.0.1/32"])
    assert allocations.assign("h", {}, 0.0, address="10.0.0.1").address == "10.0.0.1"
    allocations.release("h", 1.0)
    assert allocations.assign("again", {}, 2.0, address="10.0.0.1").address == "10.0.0.1"
    assert allocations.usage(60.0) == [Usage("10.0.0.0/30", "p", 4, 1, 1, 3, False, 0)]


@pytest.mark.parametrize(
    ("asked", "address"),
    [("10.1.0.0/24", "10.1.0.0"), ("10.1.0.9/24", "10.1.0.0"), ("FD00:0::/64", "fd00::"), ("fd00::7/64", "fd00::")],
)
def test_a_pool_may_be_named_by_its_cidr_in_any_spelling(asked, address):
    pools = {**POOLS, "six": PoolUse("fd00::/64")}
    allocations = granted([A, BlockGrant("10.1.0.0/30", "manual"), BlockGrant("fd00::/126", "six")], pools=pools)
    version = allocations.versions([asked])[0]
    assert allocations.of_version([asked], version) == ["six" if version == 6 else "manual"]
    assert allocations.assign("a", {}, 0.0, pools=(asked,), version=version).address == address


def test_manual_pools_are_for_those_who_ask():
    allocations = granted([M, A])
    assert allocations.assign("a", {}, 0.0).pool == "p"
    assert allocations.assign("b", {}, 0.0, pools=("10.1.0.0/24",)).address == "10.1.0.0"
    assert allocations.assign("c", {}, 0.0, address="10.1.0.1").pool == "manual"


def test_usage_tells_everything_apart():
    allocations = granted([A, B], [C], {"10.0.0.0": "this node's ipip tunnel"}, ["10.0.0.4/31"])
    assert take(allocations, 4) == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.6"]
    allocations.release("h2", 5.0)
    assert allocations.usage(6.0) == [
        Usage("10.0.0.0/30", "p", 4, 3, 0, 0, False, 1),
        Usage("10.0.0.4/30", "p", 4, 1, 2, 1, False, 0),
        Usage("10.0.0.8/30", "p", 4, 0, 0, 4, True, 0),
    ]
    assert allocations.usage(35.0)[0] == Usage("10.0.0.0/30", "p", 4, 3, 0, 1, False, 0)


# --- These tests are about refusals, and releases that still rest ---------------------------------------------------


@pytest.mark.parametrize(
    ("grant", "taken", "wishes", "kind", "code", "text"),
    [
        (
            {},
            4,
            {},
            NoAddress,
            "no_address",
            "the only block of pool p on this node is full (4 addresses). Delete workloads that are not needed, or run "
            "site.yml, which grants this node more blocks (calico_spare_blocks).",
        ),
        (
            {"blocks": (A, B), "spares": (C,)},
            12,
            {},
            NoAddress,
            "no_address",
            "all 3 blocks of pool p on this node are full (12 addresses). Delete workloads that are not needed, or run "
            "site.yml, which grants this node more blocks (calico_spare_blocks).",
        ),
        (
            {"blocks": (D,)},
            1,
            {},
            NoAddress,
            "no_address",
            "the only block of pool p on this node is full (1 address). Delete workloads that are not needed, or run "
            "site.yml, which grants this node more blocks (calico_spare_blocks).",
        ),
        (
            {"blocks": (D, E)},
            2,
            {},
            NoAddress,
            "no_address",
            "all 2 blocks of pool p on this node are full (2 addresses). Delete workloads that are not needed, or run "
            "site.yml, which grants this node more blocks (calico_spare_blocks).",
        ),
        (
            {"blocks": ()},
            0,
            {},
            NoAddress,
            "no_address",
            "this node has no block from which addresses are chosen. Run site.yml, which grants it spare blocks of the "
            "pools that select it (calico_ip_pools, calico_spare_blocks).",
        ),
        (
            {},
            0,
            {"version": 6},
            NoAddress,
            "no_address",
            "this node has no IPv6 block from which addresses are chosen. Run site.yml, which grants it spare blocks "
            "of the pools that select it (calico_ip_pools, calico_spare_blocks).",
        ),
        (
            {},
            0,
            {"pools": ("manual",)},
            NoAddress,
            "no_address",
            "this node has no block of pool manual. Ask for another pool, or run site.yml, which grants spare blocks "
            "of the pools that select a node (calico_ip_pools, calico_spare_blocks).",
        ),
        (
            {},
            0,
            {"pools": ("off",)},
            NoSuchPool,
            "invalid_params",
            "pool off does not exist or is disabled. Ask for one of these: manual, p, tunnels.",
        ),
        (
            {},
            0,
            {"pools": ("10.9.0.0/16",)},
            NoSuchPool,
            "invalid_params",
            "pool 10.9.0.0/16 does not exist or is disabled. Ask for one of these: manual, p, tunnels.",
        ),
        (
            {},
            0,
            {"pools": ("tunnels",)},
            NoSuchPool,
            "invalid_params",
            "pool tunnels gives no addresses to workloads: its allowedUses lack Workload. Ask for another pool, or add "
            "it to allowedUses of the pool in calico_ip_pools and run site.yml.",
        ),
        (
            {},
            1,
            {"address": "10.0.0.0"},
            AddressTaken,
            "conflict",
            "10.0.0.0 belongs to h0. Ask for another address, or for none to get a free one.",
        ),
        (
            {"reserved": {"10.0.0.0": "this node's ipip tunnel"}},
            0,
            {"address": "10.0.0.0"},
            AddressTaken,
            "conflict",
            "10.0.0.0 belongs to this node's ipip tunnel. Ask for another address, or for none to get a free one.",
        ),
        (
            {"probes": {"p": "10.0.0.3"}},
            0,
            {"address": "10.0.0.3"},
            AddressTaken,
            "conflict",
            "10.0.0.3 belongs to this node's probe endpoint in pool p. Ask for another address, or for none to get a "
            "free one; or add the pool to calico_unprobed_pools and run site.yml.",
        ),
        (
            {"spares": (B,)},
            0,
            {"address": "10.0.0.8"},
            NotInBlocks,
            "invalid_params",
            "10.0.0.8 lies in none of this node's blocks (10.0.0.0/30, 10.0.0.4/30). A node gives only addresses of "
            "its own blocks. Ask for one of these, or for none to get a free one.",
        ),
        (
            {},
            0,
            {"address": "10.0.0.1", "pools": ("manual",)},
            NotInBlocks,
            "invalid_params",
            "10.0.0.1 lies in none of this node's blocks of pool manual (there are none). A node gives only addresses "
            "of its own blocks. Ask for one of these, or for none to get a free one.",
        ),
        (
            {"blocks": (BlockGrant("10.3.0.0/30", "off"),)},
            0,
            {"address": "10.3.0.1"},
            NoSuchPool,
            "invalid_params",
            "pool off does not exist or is disabled. Ask for one of these: manual, p, tunnels.",
        ),
        (
            {},
            0,
            {"address": "10.0.0.01"},
            NotInBlocks,
            "invalid_params",
            "'10.0.0.01' is not an IP address. Ask for one like 10.244.3.7, or for none to get a free one.",
        ),
    ],
)
def test_refusals_say_why_and_what_to_do(grant, taken, wishes, kind, code, text):
    allocations = granted(**grant)
    take(allocations, taken)
    before, usage = allocations.all(), allocations.usage(0.0)
    allocations.take_events()
    with pytest.raises(kind) as error:
        allocations.assign("new", {}, 0.0, **wishes)
    assert (str(error.value), error.value.code) == (text, code)
    assert (allocations.all(), allocations.usage(0.0), allocations.take_events()) == (before, usage, [])


def test_a_full_node_may_give_the_address_that_rests_longest():
    allocations = granted([A, BlockGrant("10.1.0.0/30", "manual")])
    take(allocations, 3)
    allocations.assign("m", {}, 0.0, address="10.1.0.1")
    for number, handle in enumerate(("m", "h1", "h0")):
        allocations.release(handle, 10.0 + number)
    # A free one comes first.
    assert allocations.assign("x", {}, 20.0, resting=True).address == "10.0.0.3"
    with pytest.raises(NoAddress):
        allocations.assign("y", {}, 20.0)
    for handle, address in (("y", "10.0.0.1"), ("z", "10.0.0.0")):
        assert allocations.assign(handle, {}, 20.0, resting=True).address == address
    with pytest.raises(NoAddress):
        allocations.assign("last", {}, 20.0, resting=True)
    # What was given meanwhile is not given again when its cooldown ends.
    with pytest.raises(NoAddress):
        allocations.assign("last", {}, 60.0)


def test_a_full_node_says_how_many_addresses_only_rest():
    allocations = granted()
    take(allocations, 4)
    allocations.release("h2", 10.0)
    with pytest.raises(NoAddress) as error:
        allocations.assign("new", {}, 39.3)
    assert str(error.value) == (
        "the only block of pool p on this node is full (4 addresses, 1 of them released less than 30 seconds ago). "
        "Try again in 1 s. Else delete workloads that are not needed, or run site.yml, which grants this node more "
        "blocks (calico_spare_blocks)."
    )


def test_a_stored_release_rests_from_its_own_time_on_before_any_request_tells_the_time():
    """A release at 0.0 that was replayed rests for the cooldown: a monotonic clock begins near 0 at the host's boot."""
    allocations = Allocations(cooldown=1.0)
    allocations.replay([Assigned(Allocation("10.0.0.12", "h", {}, "p", D.cidr)), Released("10.0.0.12", 0.0)])
    allocations.grant((D,), (), {}, (), POOLS)
    with pytest.raises(NoAddress, match="1 of them released less than 1 seconds ago"):
        allocations.assign("new", {}, 0.5)
    assert allocations.assign("new", {}, 1.0).address == "10.0.0.12"


def test_a_handle_cannot_have_two_addresses():
    allocations = granted()
    allocations.assign("h", {}, 0.0)
    with pytest.raises(HandleTaken) as error:
        allocations.assign("h", {}, 0.0, address="10.0.0.3")
    assert str(error.value) == (
        "h has 10.0.0.0 already, so it cannot have 10.0.0.3. Delete it first, or use another name."
    )
    assert error.value.code == "conflict"


# --- another grant --------------------------------------------------------------------------------------------------


def test_a_withdrawn_block_in_use_stays_and_is_reported():
    allocations = granted([A, B])
    take(allocations, 5)
    assert allocations.grant([A], [], {}, (), POOLS) == [
        "block 10.0.0.4/30 of pool p is not this node's any more, but workloads have addresses of it: 10.0.0.4 by h4. "
        "They keep them. Delete these workloads, or bring back the lockfile that grants the block to this node, then "
        "run site.yml."
    ]
    assert allocations.by_handle("h4").address == "10.0.0.4"
    assert allocations.usage(0.0)[1] == Usage("10.0.0.4/30", "p", 4, 1, 0, 0, False)
    with pytest.raises(NotInBlocks):
        allocations.assign("x", {}, 0.0, address="10.0.0.5")
    allocations.release("h4", 1.0)
    assert allocations.grant([A], [], {}, (), POOLS) == []
    assert [usage.cidr for usage in allocations.usage(1.0)] == ["10.0.0.0/30"]


def test_a_probe_endpoints_address_is_given_to_no_workload():
    allocations = granted([A], [B], probes={"p": "10.0.0.3"})
    assert allocations.usage(0.0)[0] == Usage("10.0.0.0/30", "p", 4, 1, 0, 3, False, 0)
    assert take(allocations, 4) == ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.4"]


def test_a_workload_keeps_an_address_that_is_planned_for_the_probe_endpoint():
    allocations = granted()
    take(allocations, 1)
    assert allocations.grant([A], [], {}, (), POOLS, {"p": "10.0.0.0"}) == [
        "10.0.0.0 is planned for this node's probe endpoint in pool p, but h0 has it, which stays so. Run site.yml, "
        "which plans another address for the endpoint."
    ]
    assert allocations.by_address("10.0.0.0").handle == "h0"


def test_an_allocated_address_planned_for_another_is_reported():
    allocations = granted()
    take(allocations, 1)
    assert allocations.grant([A], [], {"10.0.0.0": "inventory workload web-1"}, (), POOLS) == [
        "10.0.0.0 is planned for inventory workload web-1, but h0 has it: only one can be reached. Delete that "
        "workload, or plan another address, then run site.yml."
    ]
    assert allocations.by_handle("h0").address == "10.0.0.0"


def test_an_opened_spare_that_the_plan_gives_for_good_is_an_open_block():
    allocations = granted([A], [B])
    take(allocations, 5)
    assert allocations.grant([A, B], [C], {}, (), POOLS) == []
    assert allocations.opened == ()
    assert take(allocations, 9)[-1] == "10.0.0.8"
    assert allocations.opened == ("10.0.0.8/30",)


def test_a_spare_block_with_a_live_address_is_open_whatever_was_written_down():
    """A spare block with an allocated address is open, also after an older lockfile was restored."""
    allocations = granted([A, B])
    take(allocations, 5)
    allocations.take_events()
    allocations.grant([A], [B], {}, (), POOLS)
    assert allocations.opened == ("10.0.0.4/30",)
    assert allocations.take_events() == [Opened("10.0.0.4/30")]


def test_blocks_that_are_cut_anew_take_over_who_lives_in_them():
    allocations = granted()
    take(allocations, 2)
    assert allocations.grant([BlockGrant("10.0.0.0/29", "q")], [], {}, (), {}) == []
    assert allocations.all() == [
        Allocation("10.0.0.0", "h0", {}, "q", "10.0.0.0/29"),
        Allocation("10.0.0.1", "h1", {}, "q", "10.0.0.0/29"),
    ]
    assert allocations.by_handle("h1") is allocations.by_address("10.0.0.1")
    allocations.release("h1", 0.0)
    assert take(allocations, 7)[1:] == [f"10.0.0.{last}" for last in range(2, 8)]


def test_reservations_that_are_lifted_give_their_addresses_back_in_their_place():
    allocations = granted(reservations=["10.0.0.0/31"])
    assert take(allocations, 1) == ["10.0.0.2"]
    allocations.grant([A], [], {}, (), POOLS)
    assert take(allocations, 3)[1:] == ["10.0.0.0", "10.0.0.1"]


def test_before_anything_is_granted_nothing_is_given_and_everything_may_be_open():
    allocations = Allocations()
    allocations.replay([Opened("10.0.0.8/30"), Assigned(Allocation("10.0.0.5", "h", {}, "p", "10.0.0.4/30"))])
    assert allocations.opened == ("10.0.0.8/30", "10.0.0.4/30")
    with pytest.raises(NoAddress):
        allocations.assign("x", {}, 0.0)
    assert allocations.release("h", 0.0)[0].address == "10.0.0.5"


# --- events ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "text"),
    [
        (
            [Assigned(Allocation("10.0.0.5", handle, {}, "p", "10.0.0.4/30")) for handle in "ab"],
            "10.0.0.5 is given to two",
        ),
        ([Released("10.0.0.256", 0.0)], "'10.0.0.256' is not an IP address"),
    ],
)
def test_events_that_cannot_have_happened_are_refused(events, text):
    with pytest.raises(Contradiction) as error:
        Allocations().replay(events)
    assert str(error.value) == text


# --- These tests are about snapshots, and a repeated reservation ----------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "now", "kept"), [((B,), 39.0, True), ((B,), 40.0, False), ((A,), 40.0, True), (None, 40.0, True)]
)
def test_a_release_is_forgotten_after_its_cooldown_if_its_block_is_no_longer_granted(blocks, now, kept):
    """A release inside a granted block is kept, because addresses are reused in the order of their releases.

    All are kept before the first grant (`blocks` is None).
    """
    released = Released("10.0.0.0", 10.0)
    allocations = Allocations(cooldown=30.0)
    allocations.replay([Assigned(Allocation("10.0.0.0", "h", {}, "p", A.cidr)), released])
    if blocks is not None:
        allocations.grant(blocks, (), {}, (), POOLS)
    allocations.usage(now)
    assert allocations.snapshot() == [released] * kept


def test_a_reservation_that_is_listed_twice_counts_once():
    (usage,) = granted([A], reservations=["10.0.0.1/32", "10.0.0.1/32", "10.0.0.2/31", "10.0.0.2/32"]).usage(0.0)
    assert (usage.reserved, usage.free) == (3, 1)
