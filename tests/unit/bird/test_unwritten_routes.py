# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that a BIRD gets when the kernel lacks routes through tunnels."""

from __future__ import annotations

import itertools
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import unwritten_routes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import CommandRefused

from tests.unit.bird.test_kernel_sync import kernel, said

BLOCK, BLOCK6, AWAY = "10.244.2.0/26", "fd00:10:244::/122", "10.244.9.0/26"
LACKING = {BLOCK: "vxlan.calico", BLOCK6: "vxlan-v6.calico", AWAY: "vxlan.calico"}
RELOADS = ["reload out kernel4", "reload out kernel6"]


@pytest.fixture
def learned(bird):
    """A BIRD 2 that has two of three routes, and has noticed both devices."""
    for block in (BLOCK, BLOCK6):
        found = f"1007-Table master4:\n {block}        unicast [Mesh 18:22:55.566] * (100) [i]\n0000 \n"
        bird.answers[f"show route {block} primary"] = [[found.encode()]]
    bird.answers[f"show route {AWAY} primary"] = [[b"8001 Network not found\n"]]
    known = b"2005-Interface  State  IPv4 address       IPv6 address\n1005-lo up 127.0.0.1/8 ::1/128\n"
    both = known + b" vxlan.calico up 10.244.1.1/32\n vxlan-v6.calico up\n0000 \n"
    bird.answers["show interfaces summary"] = [[known + b"0000 \n"], [both]]
    bird.answers["show protocols all"] = [said(kernel("kernel4", "UP", 3), kernel("kernel6", "UP", 3))]
    bird.answers["reload"] = [[b"0008 kernel: reloading\n"]]
    return bird


def reloads(bird):
    return [command for command in bird.asked if command.startswith("reload")]


def offer(bird, *missing):
    answers = itertools.chain(missing[:-1], itertools.repeat(missing[-1]))
    return unwritten_routes.offer_again(lambda: next(answers), bird.path, sleep=lambda seconds: None)


def test_routes_that_bird_has_are_offered_once_it_has_noticed_their_devices(learned):
    assert offer(learned, LACKING) == (BLOCK, BLOCK6)
    assert reloads(learned) == RELOADS
    assert learned.asked.count("show interfaces summary") == 2


def test_only_the_ip_version_of_missing_routes_is_offered(learned):
    assert offer(learned, {BLOCK: "vxlan.calico"}) == (BLOCK,)
    assert reloads(learned) == RELOADS[:1]


@pytest.mark.parametrize("missing", [[{}], [{AWAY: "vxlan.calico"}], [LACKING, LACKING, {AWAY: "vxlan.calico"}]])
def test_nothing_is_offered_that_bird_lacks_or_writes_by_itself(learned, missing):
    assert offer(learned, *missing) == ()
    assert reloads(learned) == []


def test_bird_3_retries_by_itself(learned):
    learned.greeting = b"0001 BIRD 3.4.0 ready.\n"
    assert offer(learned, LACKING) == ()
    assert learned.asked == []


def test_no_bird_is_no_error_and_a_refusal_is_one(learned, tmp_path: pathlib.Path):
    assert unwritten_routes.offer_again(lambda: LACKING, str(tmp_path / "none.ctl")) == ()
    learned.answers[f"show route {BLOCK} primary"] = [[b"8002 Access denied\n"]]
    with pytest.raises(CommandRefused, match="8002: Access denied"):
        offer(learned, LACKING)
