# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI command STATUS: whether an ADD can succeed now."""

from __future__ import annotations

import asyncio

from ...base.addresses import family_of
from ...bird import client
from ...bird.errors import BirdError
from ...wire.plugin_errors import LIMITED, UNAVAILABLE, CniError
from .port import CniBackend

_BIRD_PATIENCE = 2.0  # the most seconds to wait for BIRD to accept, and again for its greeting


async def status(agent: CniBackend) -> None:
    """Return None if nothing that is looked at prevents an ADD.

    Then the agent takes workloads, the node has blocks, one of each of their IP versions has a free address, and BIRD
    answers, if the node has it. Raise CniError: LIMITED (51) if BIRD does not answer, so that existing containers may
    suffer too, or UNAVAILABLE (50) if only adding is impossible.
    """
    unable = list(agent.health()) or _without_addresses(agent)
    limited = await _without_routes(agent)
    if limited:
        raise CniError(
            LIMITED,
            "the network is not ready, and existing containers may have limited connectivity",
            "; ".join((*limited, *unable)),
        )
    if unable:
        raise CniError(UNAVAILABLE, "no container can be attached now", "; ".join(unable))


def _without_addresses(agent: CniBackend) -> list[str]:
    usage = agent.node.ipam.usage()
    if not usage:
        return ["this node has no block of addresses. Run site.yml, which grants one"]
    full = []
    for version in (4, 6):
        own = [block for block in usage if family_of(block.cidr) == version]
        if own and not any(block.free for block in own):
            of = "addresses" if len(own) == len(usage) else f"IPv{version} addresses"
            full.append(f"all {len(own)} blocks of {of} of this node are full. Run site.yml, which grants more")
    return full


async def _without_routes(agent: CniBackend) -> list[str]:
    """Return in words why other nodes may not be reachable: a needed BIRD does not answer; [] if it does.

    BIRD has 2 seconds to accept the connection, and 2 for its greeting.
    """
    if agent.node.state is None or agent.node.state.bird is None:
        return []
    path = agent.node.machine.bird_socket
    try:
        await asyncio.to_thread(_ask_bird, path)
    except BirdError:
        return [
            f"BIRD does not answer on {path}: other nodes do not learn of new blocks. See systemctl status calico-bird"
        ]
    return []


def _ask_bird(path: str) -> None:
    with client.BirdClient(path, timeout=_BIRD_PATIENCE):
        pass
