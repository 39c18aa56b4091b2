# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The costs of BGP in a fleet, as a table: one row for all nodes with the same costs."""

from __future__ import annotations

import dataclasses
import typing as t

from ...cli.commands import scale
from ...cli.defaults import REFLECTORS
from ...cli.render import tables
from ...fleet.bgp_load import REFLECTOR, Alike, FleetLoad
from ...fleet.lint.network import counted, listed

HEADING = ("NODES", "ROLE", "SESSIONS", "PATHS", "ROUTES", "START", "BLOCK", "MIB", "WHICH")


def document(found: FleetLoad) -> dict[str, t.Any]:
    """Return the costs as a dict for programs.

    The keys are sessions, blocks, told_at_start (routes announced when the whole fleet starts), nodes and uniform.
    `nodes` has a dict for each group of nodes with the same costs: the keys nodes (names), role, the fields of Load,
    told_of_a_block, and memory in MiB. `uniform` has two dicts with the fields of scale.Row, for as many nodes that are
    all alike, in a mesh and behind two reflectors. It is empty for fewer than two nodes; reflectors without workloads
    do not count.
    """
    return {
        "sessions": found.sessions,
        "blocks": sum(found.blocks),
        "told_at_start": found.told_at_start,
        "nodes": [
            {
                "nodes": list(group.nodes),
                "role": group.role,
                **dataclasses.asdict(group.load),
                "told_of_a_block": group.told_of_a_block,
                "memory": scale.mebibytes(group.memory),
            }
            for group in found.alike
        ],
        "uniform": [one._asdict() for one in _uniform(found)],
    }


def text(found: FleetLoad) -> list[str]:
    """Return the table, a line of totals, and for two nodes or more a table of a uniform fleet of the same size."""
    lines = tables.columns(HEADING, (_row(group) for group in found.alike)).splitlines()
    nodes = sum(len(group.nodes) for group in found.alike)
    counts = (nodes, "node"), (found.sessions, "session"), (sum(found.blocks), "block")
    lines.append(f"in all: {', '.join(counted(count, word) for count, word in counts)}")
    uniform = _uniform(found)
    if uniform:
        alone = ", IPv4 alone" if all(found.blocks) else ""
        lines += ["", f"as many nodes that are all alike{alone}, in a mesh and behind two more hosts that reflect:"]
        lines += scale.table(uniform).splitlines()
    return lines


def _row(group: Alike) -> tuple[str, ...]:
    told = "-" if group.told_of_a_block is None else str(group.told_of_a_block)
    load = group.load
    counts = (load.sessions, load.paths, load.routes, load.sent)
    return (
        *(str(len(group.nodes)), group.role, *map(str, counts), told),
        *(str(scale.mebibytes(group.memory)), listed(group.nodes, 3)),
    )


def _uniform(found: FleetLoad) -> list[scale.Row]:
    nodes = sum(len(group.nodes) for group in found.alike if group.role != REFLECTOR)
    if nodes < 2:
        return []
    blocks = max(1, round((found.blocks[0] or found.blocks[1]) / nodes))
    return [scale.row(nodes, count, blocks) for count in (0, REFLECTORS)]
