# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""States of a fleet's nodes with chosen addresses of their probe endpoints."""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.unit.fleet import fleets


def states(
    fleet: Fleet, unprobed: t.Container[str] = (), full: t.Container[tuple[str, str]] = ()
) -> dict[str, NodeState]:
    """Return the states of all nodes, each with the last address of its first block of each pool for probes.

    The pools `unprobed` have none, nor has a (node, pool) in `full`.
    """
    compiled = fleets.states(fleet)
    probes: dict[str, dict[str, str]] = {}
    for name, state in compiled.items():
        own = probes.setdefault(name, {})
        for block in state.ipam.blocks:
            if block.pool not in unprobed and (name, block.pool) not in full:
                own.setdefault(block.pool, str(ipaddress.ip_network(block.cidr)[-1]))
    return {
        name: dataclasses.replace(
            state,
            ipam=dataclasses.replace(state.ipam, probes=probes[name]),
            nodes=tuple(
                dataclasses.replace(member, probes=tuple(probes[member.name].values())) for member in state.nodes
            ),
        )
        for name, state in compiled.items()
    }
