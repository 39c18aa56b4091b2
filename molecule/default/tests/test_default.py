# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mesh of four nodes in two subnets that peer with their router too; one pool over VXLAN, one routed directly."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Fleet, Pool
from tests.lab.suite_converged import *  # noqa: F403
from tests.lab.suite_converged import NAMES
from tests.lab.topology import NODES

POOLS = (
    Pool("overlay", "10.244.0.0/17", "vxlan", nat_outgoing=True),
    Pool("plain", "10.244.128.0/17", "direct", block_size=28),
)
WORKLOADS = {
    "web-1": ("node1", "overlay"),
    "web-2": ("node2", "overlay"),
    "web-3": ("node3", "overlay"),
    "db-1": ("node1", "plain"),
    "db-2": ("node2", "plain"),
    "db-4": ("node4", "plain"),
}
EXTERNAL = {name: [NODES[name].gateway] for name in NAMES}


def test_the_router_was_told_of_blocks_alone(fleet: Fleet, lab: BaseLab) -> None:
    shown = lab.router_exec(["birdc", "-s", "/run/bird/bird.ctl", "show", "route"]).stdout
    told = {cidr for cidr in re.findall(r"^(\S+/\d+)", shown, re.MULTILINE) if cidr.startswith("10.244.")}
    blocks = {block for node in fleet.nodes.values() for block in node.blocks}
    assert told == blocks


def test_the_runs_proved_each_pool_between_all_nodes() -> None:
    """Each run probes both pools from each node to each of the three others, and leaves no path out."""
    printed = Path(os.environ["ANSIBLE_LOG_PATH"]).read_text("utf-8")
    ends = re.findall(r"converged  (.*) · [^·]+$", printed, re.MULTILINE)
    assert set(ends) == {"4/4 nodes · 10/10 sessions Established · 24/24 paths answer · 0 lost of 72 probes"}
    assert "not tried" not in printed
