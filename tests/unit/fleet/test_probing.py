# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths a node probes: to each node that has blocks, and none where it has no part in forwarding."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler, probing
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.probing import Path

from . import fleets


def paths(fleet, name: str, sample: int = 0) -> list[Path]:
    owners = {other: fleet.ipam_of(other) for other, node in fleet.nodes.items() if node.workload_node}
    return probing.paths(compiler.node_state(fleet, name), owners, sample)


@pytest.mark.parametrize(
    ("mode", "size"), [("ipip", 1480), ("vxlan", 1450), ("vxlan-crosssubnet", 1450), ("direct", 1500)]
)
def test_a_node_probes_each_other_one_at_full_size(mode: str, size: int) -> None:
    fleet = fleets.build(fleets.pool(mode))
    found = paths(fleet, "node1")
    assert [path.node for path in found] == ["node2", "node3", "node4"]
    assert {path.size for path in found} == {size}
    for path in found:
        ipam = fleet.ipam_of(path.node)
        assert path.address in (ipam.tunnels or ipam.workloads).values()


def test_a_pure_reflector_probes_nothing() -> None:
    fleet = fleets.build(fleets.pool("vxlan"), reflectors={"rr1": "10.10.1.21/24"})
    assert paths(fleet, "rr1") == []
    assert len(paths(fleet, "node1")) == 3


def test_a_sample_has_its_size_and_is_not_the_same_everywhere() -> None:
    fleet = fleets.build(fleets.pool("vxlan"))
    samples = {name: [path.node for path in paths(fleet, name, sample=2)] for name in fleet.nodes}
    assert {len(sample) for sample in samples.values()} == {2}
    assert len({tuple(sample) for sample in samples.values()}) > 1
