# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DEL: succeeds for everything that is gone already (specification, section 2, "DEL")."""

from __future__ import annotations

from ..protocol import NOT_FOUND, AgentError
from . import identity
from .environment import Attachment
from .port import Agent


async def delete(agent: Agent, network: str, attachment: Attachment) -> bool:
    """Whether there was something. Raises AgentError where it could not be written down: the runtime asks again."""
    present = identity.find(agent, network, attachment)
    if present is None:
        return False
    try:
        return await agent.delete(present.id)
    except AgentError as error:
        if error.code == NOT_FOUND:
            return False
        raise
