# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""STATUS: whether an ADD could be served now."""

from __future__ import annotations

from .errors import LIMITED, UNAVAILABLE, CniError
from .port import Agent


async def status(agent: Agent) -> None:
    """Raises CniError 50 where no workload can be added, 51 where those that exist suffer as well, or AgentError."""
    readiness = await agent.readiness()
    if readiness.limited:
        raise CniError(
            LIMITED,
            "the network is not ready, and existing containers may have limited connectivity",
            "; ".join((*readiness.limited, *readiness.unable)),
        )
    if readiness.unable:
        raise CniError(UNAVAILABLE, "no container can be attached now", "; ".join(readiness.unable))
