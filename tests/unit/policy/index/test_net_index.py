# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of values by network gives what a look at each network gives."""

from __future__ import annotations

import ipaddress
import random

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import cidr
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.net_index import NetIndex


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_contains_an_address_in_order(seed: int) -> None:
    rng = random.Random(seed)

    def address() -> str:
        if rng.random() < 0.5:
            return f"10.{rng.randrange(2)}.{rng.randrange(4)}.{rng.randrange(256)}"
        return str(ipaddress.ip_address((0xFD00 << 112) + rng.randrange(1 << 10)))

    nets = []
    for _number in range(60):
        one = address()
        length = rng.choice((0, 8, 15, 24, 30, 32) if ":" not in one else (0, 8, 64, 119, 127, 128))
        nets.append(str(ipaddress.ip_network(f"{one}/{length}", strict=False)))
    index = NetIndex(enumerate_values(nets))
    for _number in range(200):
        one = address()
        assert index.of(one) == [place for place, net in enumerate(nets) if cidr(net).contains(cidr(one))], one


def enumerate_values(nets: list[str]) -> list[tuple[str, int]]:
    return [(net, place) for place, net in enumerate(nets)]


def test_an_empty_one_finds_nothing() -> None:
    assert NetIndex[str]([]).of("10.0.0.1") == []
