# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses, blocks and the walk: Calico's vectors, with netaddr as the oracle of the arithmetic."""

from __future__ import annotations

import itertools
import json
import pathlib

import netaddr
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import (
    canonical_address,
    canonical_cidr,
    format_address,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.block_walk import (
    BlockSpace,
    FreeBlocks,
    fnv1_32,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CASES = pathlib.Path(__file__).parent.parent / "cases"
ORDER = json.loads((CASES / "block_order_cases.json").read_text(encoding="utf-8"))["cases"]
IPAM = json.loads((CASES / "ipam_cases.json").read_text(encoding="utf-8"))


def ids(case: dict) -> str:
    return f"{case['pool']}-{case['host']}"


@pytest.mark.parametrize("case", ORDER, ids=ids)
def test_the_seed_is_the_hash_that_calico_takes(case: dict) -> None:
    assert fnv1_32(case["host"].encode()) == case["fnv32_of_host"]


@pytest.mark.parametrize("case", ORDER, ids=ids)
def test_a_pool_has_as_many_blocks_as_in_calico_and_numbers_them_alike(case: dict) -> None:
    space = BlockSpace(case["pool"], case["block_size"])
    start = int(case["start_index"])
    assert space.count == int(case["num_blocks"])
    found = [space.cidr((start + step) % space.count) for step in range(len(case["first_blocks"]))]
    assert found == case["first_blocks"]


@pytest.mark.parametrize("case", ORDER, ids=ids)
def test_the_walk_has_the_properties_of_calicos(case: dict) -> None:
    space = BlockSpace(case["pool"], case["block_size"])
    start = space.start(case["host"])
    first = list(itertools.islice(space.walk(case["host"]), 2000))
    assert first == list(itertools.islice(BlockSpace(case["pool"], case["block_size"]).walk(case["host"]), 2000))
    assert first == [(start + step) % space.count for step in range(min(2000, space.count))]
    if space.count <= 2000:
        assert sorted(first) == list(range(space.count))


def test_hosts_with_names_alike_start_far_apart() -> None:
    space = BlockSpace("10.0.0.0/8", 26)
    starts = sorted(space.start(f"node{number}") for number in range(1000))
    near = sum(1 for one, other in zip(starts, starts[1:]) if other - one < 2)
    assert near < 20  # pairs with equal or adjacent first blocks, of 262,144 blocks; all 999 if they started in a row


@pytest.mark.parametrize(
    ("host", "seed", "first_output"),
    [("node-2iya42o", 0, 16294208416658607535), ("node-oe0ctdp", 1234567, 6457827717110365317)],
)
def test_a_host_starts_at_what_splitmix64_makes_of_its_hash(host: str, seed: int, first_output: int) -> None:
    """In a pool of 2**64 blocks the start is the first output of splitmix64.c, seeded with the FNV-1 hash."""
    assert fnv1_32(host.encode()) == seed
    assert BlockSpace("fd00::/64", 128).start(host) == first_output


@pytest.mark.parametrize("case", IPAM["block_math"], ids=lambda case: case["cidr"])
def test_addresses_of_a_block(case: dict) -> None:
    version, first, prefix = canonical_cidr(case["cidr"])
    space = BlockSpace(case["cidr"], prefix)
    assert space.size == case["num_addresses"]
    for ordinal in case["ordinals"]:
        assert format_address(version, first + ordinal["ord"]) == ordinal["ip"]


@pytest.mark.parametrize("case", IPAM["block_for_ip"], ids=lambda case: case["ip"])
def test_the_block_of_an_address(case: dict) -> None:
    version, address = canonical_address(case["ip"])
    space = BlockSpace("0.0.0.0/0" if version == 4 else "::/0", case["block_size"])
    assert space.cidr(space.index_at(address)) == case["block"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_ipv4_text_agrees_with_netaddr(value: int, prefix: int) -> None:
    network = netaddr.IPNetwork((value, prefix)).cidr
    assert format_address(4, value) == str(netaddr.IPAddress(value, 4))
    assert canonical_address(str(netaddr.IPAddress(value, 4))) == (4, value)
    assert canonical_cidr(str(network)) == (4, network.first, prefix)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**128 - 1), st.integers(0, 128))
def test_ipv6_text_agrees_with_netaddr(value: int, prefix: int) -> None:
    network = netaddr.IPNetwork(f"{netaddr.IPAddress(value, 6)}/{prefix}").cidr
    assert canonical_address(format_address(6, value)) == (6, value)
    assert canonical_cidr(str(network)) == (6, network.first, prefix)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.integers(8, 28), st.integers(0, 12), st.integers(0))
def test_blocks_agree_with_netaddr(value: int, prefix: int, more: int, pick: int) -> None:
    block_size = min(prefix + more, 32)
    pool = netaddr.IPNetwork((value, prefix)).cidr
    space = BlockSpace(str(pool), block_size)
    index = pick % space.count
    expected = next(itertools.islice(pool.subnet(block_size), index, None))
    assert space.count == 2 ** (block_size - prefix)
    assert space.cidr(index) == str(expected)
    assert space.index_of(str(expected)) == space.index_at(expected.last) == index
    assert space.contains(4, pool.last)
    assert not space.contains(4, pool.last + 1)
    assert not space.contains(6, pool.first)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.01",
        "10.0.0.-1",
        "10.0.0.1 ",
        "10.0.0.1.2",
        "\u0661.0.0.1",
        "x::1",
        "1::%eth0",
    ],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an IP address|has a zone|invalid|Only hex digits"):
        canonical_address(text)


@pytest.mark.parametrize(
    "text", ["10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.1/24", "10.0.0.0/\u00b2", "::/129"]
)
def test_an_invalid_cidr_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"prefix"):
        canonical_cidr(text)


@pytest.mark.parametrize(("pool", "size"), [("10.0.0.0/24", 23), ("10.0.0.0/24", 33), ("10.0.0.1/24", 26)])
def test_blocks_that_do_not_fit_are_refused(pool: str, size: int) -> None:
    with pytest.raises(ValueError, match=r"cannot be cut|behind its prefix"):
        BlockSpace(pool, size)


@pytest.mark.parametrize("cidr", ["10.0.1.0/26", "10.0.0.0/27", "10.0.0.32/26"])
def test_a_cidr_that_is_no_block_of_the_pool_is_refused(cidr: str) -> None:
    with pytest.raises(ValueError, match=r"not a block of this pool|behind its prefix"):
        BlockSpace("10.0.0.0/24", 26).index_of(cidr)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.integers(0, 31), st.text("abc", min_size=1, max_size=3)), max_size=60))
def test_the_search_finds_what_the_walk_finds(steps: list) -> None:
    """FreeBlocks finds the same first free block of a host as a walk over all blocks.

    Of `steps`, a number takes the block with that index, and a text is a host that takes its first free block.
    """
    space = BlockSpace("10.0.0.0/27", 32)
    free, taken = FreeBlocks(space), set()
    for step in steps:
        if isinstance(step, int):
            index = step
        else:
            index = free.first(step)
            assert index == next((number for number in space.walk(step) if number not in taken), None)
        if index is not None and index not in taken:
            assert index in free
            free.take(index)
            taken.add(index)
        assert [number for number in range(space.count) if number in free] == sorted(set(range(space.count)) - taken)


def test_an_ipv6_pool_of_any_size_is_searched_at_once() -> None:
    space = BlockSpace("fd80:24e2:f998:72d6::/64", 122)
    free = FreeBlocks(space)
    for _ in range(1000):
        index = free.first("node1")
        free.take(index)
    assert index == (space.start("node1") + 999) % space.count
