# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of a compiled fleet equals the simulation's, and a new node behind reflectors changes only these.

bench/bgp_scale.py has the sizes at which this matters.
"""

from __future__ import annotations

import contextlib
import pathlib
import typing as t

import pytest

from .bird_fleet import BirdFleet, birds, compiled, differing, simulation
from .debian_bird import Build


@contextlib.contextmanager
def running(nodes: int, reflectors: int, blocks: int, build: Build, folder: pathlib.Path) -> t.Iterator[BirdFleet]:
    fleet = BirdFleet(birds(compiled(nodes, reflectors, blocks)), build, folder)
    try:
        fleet.start()
        fleet.settle()
        yield fleet
    finally:
        fleet.close()


@pytest.mark.parametrize(("nodes", "reflectors", "blocks"), [(5, 0, 3), (5, 2, 3)])
def test_birds_count_what_the_simulation_says(
    nodes: int, reflectors: int, blocks: int, build: Build, tmp_path: pathlib.Path
) -> None:
    with running(nodes, reflectors, blocks, build, tmp_path) as fleet:
        assert differing(fleet, simulation(compiled(nodes, reflectors, blocks))) == []


def test_a_new_node_behind_reflectors_changes_only_the_reflectors(build: Build, tmp_path: pathlib.Path) -> None:
    with running(5, 2, 1, build, tmp_path) as fleet:
        more = compiled(6, 2, previous=compiled(5, 2))
        assert fleet.join(birds(more)) == (["rr0", "rr1"], [])
        assert differing(fleet, simulation(more)) == []


def test_a_new_node_in_a_mesh_changes_every_node(build: Build, tmp_path: pathlib.Path) -> None:
    with running(3, 0, 1, build, tmp_path) as fleet:
        more = compiled(4, previous=compiled(3))
        assert fleet.join(birds(more)) == (["node00000", "node00001", "node00002"], [])
        assert differing(fleet, simulation(more)) == []
