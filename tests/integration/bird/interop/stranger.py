# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BIRD that no inventory configures: it announces given prefixes, and accepts everything."""

from __future__ import annotations

import typing as t

from tests.integration.bird.network import Node


def neighbor(name: str, address: str, as_number: int, own_as: int, options: str = "") -> str:
    """Return BIRD's text of a session with `address` that imports and exports all routes of its IP version.

    `as_number` is the AS number of that end, `own_as` that of this BIRD. `options` are further statements of the
    session, each with its ";".
    """
    family = 6 if ":" in address else 4
    return (
        f"protocol bgp {name} {{ local as {own_as}; neighbor {address} as {as_number}; {options}"
        f" connect delay time 1; ipv{family} {{ import all; export all; }}; }}\n"
    )


def configuration(node: Node, says: t.Sequence[str], *sessions: str, direct: bool = False) -> str:
    """Return the text of the configuration of a BIRD on `node`.

    `says` are the prefixes to announce, one or more of one IP version. `sessions` are texts of `neighbor`. With
    `direct` BIRD announces eth0's subnet as well.
    """
    family = 6 if ":" in says[0] else 4
    routes = " ".join(f"route {prefix} blackhole;" for prefix in says)
    own = f'protocol direct {{ ipv{family}; interface "eth0"; }}\n' if direct else ""
    return (
        f"router id {node.address};\nprotocol device {{}}\n{own}"
        f"protocol static {{ ipv{family}; {routes} }}\n{''.join(sessions)}"
    )
