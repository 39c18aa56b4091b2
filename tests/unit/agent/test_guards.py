# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy is compiled from nothing once, elsewhere, and kept as long as it is the present or the planned one."""

from __future__ import annotations

import asyncio

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.guards import Guards
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.policy_state import (
    PolicySettings,
    PolicyState,
)


def policy(group: int) -> PolicyState:
    return PolicyState(settings=PolicySettings(nflog_group=group))


def compiled(guards, policy_state):
    """The Guards that were brought to it."""
    found = []

    async def compiling(guard):
        found.append(guard)

    asyncio.run(guards.compiled(policy_state, compiling))
    return found


def test_each_policy_once():
    guards = Guards()
    (first,) = compiled(guards, policy(1))
    assert guards.of(policy(1)) is first
    assert compiled(guards, policy(1)) == []
    assert compiled(guards, None) == []


def test_the_one_in_force_stays_while_another_is_planned():
    guards = Guards()
    (present,) = compiled(guards, policy(1))
    (planned,) = compiled(guards, policy(2))
    assert (guards.of(policy(1)), guards.of(policy(2))) == (present, planned)
    guards.of(policy(1))
    compiled(guards, policy(3))
    assert guards.of(policy(1)) is present
    assert guards.of(policy(2)) is not planned


def test_a_policy_that_nobody_compiled_before_has_a_guard_too():
    guards = Guards()
    assert guards.of(policy(1)) is guards.of(policy(1))
    assert guards.of(None) is not guards.of(None)
