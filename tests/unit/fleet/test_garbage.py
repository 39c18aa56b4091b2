# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the pause of the garbage collector while a fleet is compiled, which makes no garbage for it."""

from __future__ import annotations

import gc

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected

from tests.unit.fleet.fleets import build, pool, states


@pytest.mark.parametrize("before", [True, False])
def test_it_is_afterwards_as_it_was_before(before: bool) -> None:
    enabled = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ValueError, match="inside"), uncollected():
            assert not gc.isenabled()
            raise ValueError("inside")
        assert gc.isenabled() is before
    finally:
        (gc.enable if enabled else gc.disable)()


def test_compiling_makes_no_cycles() -> None:
    states(build(pool("vxlan")))  # the first call fills caches
    gc.collect()
    with uncollected():
        states(build(pool("vxlan")))
        assert gc.collect() == 0, "objects that only the collector frees"
