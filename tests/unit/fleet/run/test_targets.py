# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of a run: what they say about all nodes."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets

from tests.unit.fleet import fleets, probe_addresses


def test_nodes_are_named_by_all_their_addresses_also_in_a_return() -> None:
    """Routers and nodes report losses from any of these addresses."""
    fleet = fleets.build(fleets.pool("ipip"))
    names = Targets(fleet).names()
    states = probe_addresses.states(fleet)
    for name, state in states.items():
        for address in (state.address.partition("/")[0], *state.ipam.tunnels.values()):
            assert names[address] == name
    returned = Targets(states=states).names()
    assert returned.items() >= names.items()
    assert all(returned[address] == name for name, state in states.items() for address in state.ipam.probes.values())
