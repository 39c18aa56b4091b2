# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the IP sets of a node's own blocks."""

from __future__ import annotations

import dataclasses

from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, IpSet

BLOCKS = [Block(cidr, "p") for cidr in ("10.244.2.0/26", "fd00::/122", "10.244.1.7/32", "fd00::7/128", "10.0.0.0/3")]


def test_a_block_is_in_the_set_of_its_ip_version() -> None:
    """Each asked IP version has a set, sorted, in which single addresses have no length, as the kernel shows them."""
    four, six = attachment.block_sets(BLOCKS, (6, 4))
    assert four.members == ("10.0.0.0/3", "10.244.1.7", "10.244.2.0/26")
    assert six.members == ("fd00::/122", "fd00::7")
    assert attachment.block_sets(BLOCKS, (6,)) == (six,)
    assert [one.members for one in attachment.block_sets([], (4, 6))] == [(), ()]


def test_opened_blocks_are_added_to_the_sets_that_there_are() -> None:
    """A block of either IP version is added once to its set, and the other sets of a state stay as they are."""
    four, six = attachment.block_sets(BLOCKS[:2], (4, 6))
    other = IpSet("cali40x", "hash:net", ("10.0.0.1",))
    found = attachment.with_blocks([four, other, six], BLOCKS[1:4])
    assert found == (
        dataclasses.replace(four, members=("10.244.1.7", "10.244.2.0/26")),
        other,
        dataclasses.replace(six, members=("fd00::/122", "fd00::7")),
    )
    assert attachment.with_blocks([other], BLOCKS) == (other,)
