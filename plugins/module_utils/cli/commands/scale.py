# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl scale`: the costs of BGP in fleets of several sizes, as a mesh and behind route reflectors.

All nodes of such a fleet are alike. With -i INVENTORY it is the fleet of that inventory
(report/lines/load_lines.py). docs/explanation/scaling.md explains the columns.
"""

from __future__ import annotations

import argparse
import ipaddress
import sys
import typing as t

from ...bgp.load import MEASURED
from ...bgp.peer_definition import Unasked
from ...bgp.simulation import Simulation
from ...bgp.speaker import Speaker
from .. import inventory_playbook
from ..defaults import BLOCKS, REFLECTORS
from ..errors import DONE, UsageError
from ..render import structured
from ..render.tables import columns

SIZES = (100, 200, 500, 1000, 2000, 5000)
LARGEST = 20000
_FIRST = int(ipaddress.ip_address("10.0.0.1"))


class Row(t.NamedTuple):
    """The costs of one fleet of `nodes` and its reflectors. Columns about reflectors are None in a mesh.

    `topology` is "mesh", or the number of reflectors as in "2 reflectors". `sessions` and `paths` are those of a node;
    paths are the routes that peers announced and that it keeps. `fleet_sessions` are those of the fleet, each counted
    once. `told_at_start` is the number of routes announced in the whole fleet when all start from nothing; a route
    counts once for each session. `told_of_a_block` is the number of UPDATE messages for one new block. `memory` of a
    node's BIRD and `reflector_memory` are in MiB.
    """

    nodes: int
    topology: str
    sessions: int
    reflector_sessions: t.Optional[int]
    fleet_sessions: int
    paths: int
    reflector_paths: t.Optional[int]
    told_at_start: int
    told_of_a_block: int
    memory: float
    reflector_memory: t.Optional[float]


HEADING = (
    *("NODES", "TOPOLOGY", "SESSIONS", "RR-SESSIONS", "ALL-SESSIONS", "PATHS", "RR-PATHS"),
    *("START", "BLOCK", "MIB", "RR-MIB"),
)


def run(arguments: argparse.Namespace, dummy: t.Any) -> int:
    reflectors, blocks = arguments.reflectors, arguments.blocks
    if arguments.inventory:
        if arguments.sizes or reflectors is not None or blocks is not None:
            raise UsageError("NODES, --reflectors and --blocks stand in an inventory (-i INVENTORY). Leave them out.")
        answer = inventory_playbook.ask("scale.yml", arguments.inventory, {}, arguments.vault_password_file)
        inventory_playbook.show(answer, arguments.output)
        return DONE
    sizes = arguments.sizes or SIZES
    reflectors = REFLECTORS if reflectors is None else reflectors
    blocks = BLOCKS if blocks is None else blocks
    for name, value, least, most in (
        *(("NODES", size, 2, LARGEST) for size in sizes),
        ("--reflectors", reflectors, 1, 100),
        ("--blocks", blocks, 1, 1000),
    ):
        if not least <= value <= most:
            raise UsageError(f"{name} {value} is out of range. Choose a number from {least} to {most}.")
    rows = [row(size, count, blocks) for size in sizes for count in (0, reflectors)]
    if not structured.written(arguments.output, [one._asdict() for one in rows]):
        sys.stdout.write(table(rows))
    return DONE


def table(rows: t.Iterable[Row]) -> str:
    return columns(HEADING, (["-" if cell is None else str(cell) for cell in one] for one in rows))


def row(nodes: int, reflectors: int, blocks: int) -> Row:
    """Return the costs of a fleet of `nodes` with `blocks` each, plus `reflectors`; 0 reflectors make it a mesh."""
    speakers = [
        Speaker(f"n{index}", 64512, str(ipaddress.ip_address(_FIRST + index)), **_reflecting(index >= nodes))
        for index in range(nodes + reflectors)
    ]
    announced = {speaker.name: blocks for speaker in speakers[:nodes]}
    simulation = Simulation(speakers, [], Unasked(mesh=not reflectors), announced)
    node = simulation.load("n0")
    reflector = simulation.load(f"n{nodes}") if reflectors else None
    return Row(
        nodes,
        f"{reflectors} reflector{'' if reflectors == 1 else 's'}" if reflectors else "mesh",
        node.sessions,
        reflector.sessions if reflector else None,
        simulation.sessions(),
        node.paths,
        reflector.paths if reflector else None,
        nodes * node.sent + (reflectors * reflector.sent if reflector else 0),
        simulation.announcements("n0"),
        mebibytes(MEASURED.of(node)),
        mebibytes(MEASURED.of(reflector)) if reflector else None,
    )


def _reflecting(reflector: bool) -> dict[str, t.Any]:
    return {"cluster_id": "244.0.0.1", "reflector": True} if reflector else {}


def mebibytes(kibibytes: int) -> float:
    return round(kibibytes / 1024, 1)
