# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A helper for refusals of the agent."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError


async def refused(awaitable) -> tuple[str, str]:
    """Await a call that must raise AgentError; return the error's code and message. Fail the test if it succeeds."""
    with pytest.raises(AgentError) as caught:
        await awaitable
    return caught.value.code, caught.value.message
