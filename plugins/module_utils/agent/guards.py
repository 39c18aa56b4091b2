# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What compiles the node's policy in the agent: a Guard for the policy in force, and one for that which Ansible plans.

A Guard that knows a policy takes milliseconds for a workload more. Compiling a large policy from nothing takes seconds,
for which a thread is, while the loop goes on with the workloads that come and go.
"""

from __future__ import annotations

import typing as t

from ..fleet.guard import Guard
from ..fleet.policy_state import PolicyState

_KEPT = 2


class Guards:
    """Belongs to the loop; what `compiled` is given may run elsewhere."""

    def __init__(self) -> None:
        self._kept: list[tuple[PolicyState, Guard]] = []  # the one used last is last

    def of(self, policy: t.Optional[PolicyState]) -> Guard:
        """The Guard that knows this policy, or a new one."""
        if policy is None:
            return Guard()
        found = self._known(policy) or (policy, Guard())
        self._keep(policy, found[1])
        return found[1]

    async def compiled(
        self,
        policy: t.Optional[PolicyState],
        compiling: t.Callable[[Guard], t.Awaitable[t.Any]],
        anew: bool = False,
    ) -> None:
        """Has `compiling` bring a Guard to a policy that none knows yet; with `anew` to any, in the former one's
        place."""
        if policy is None or (self._known(policy) and not anew):
            return
        guard = Guard()
        await compiling(guard)
        self._kept = [kept for kept in self._kept if kept[0] != policy]
        self._keep(policy, guard)

    def _known(self, policy: PolicyState) -> t.Optional[tuple[PolicyState, Guard]]:
        return next((kept for kept in self._kept if kept[0] is policy or kept[0] == policy), None)

    def _keep(self, policy: PolicyState, guard: Guard) -> None:
        others = [kept for kept in self._kept if kept[1] is not guard and kept[0] != policy]
        self._kept = [*others, (policy, guard)][-_KEPT:]
