# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the per-host actions share: finding out which state the host is meant to have in this phase."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_state import NodeState

from . import bgp_secrets, shared_targets, targets


class StateAction(ActionBase):
    """Base of actions that send one host's NodeState to a module. `answered`: what the host said, if it was asked."""

    answered: t.Mapping[str, t.Any] = {}

    def host_state(
        self,
        task_vars: dict[str, t.Any],
        fleet: t.Optional[str],
        observed: t.Optional[str],
        phase: str,
        pool: t.Optional[str] = None,
        mode: t.Optional[str] = None,
    ) -> NodeState:
        """The state of `phase` for this host; see host_states."""
        return self.host_states(task_vars, fleet, observed, lambda dummy: (phase,), pool, mode)[0][1]

    def host_states(
        self,
        task_vars: dict[str, t.Any],
        fleet: t.Optional[str],
        observed: t.Optional[str],
        phases: t.Callable[[targets.Targets], t.Sequence[str]],
        pool: t.Optional[str] = None,
        mode: t.Optional[str] = None,
    ) -> list[tuple[str, NodeState]]:
        """(phase, its state) for this host, of the `phases` of the targets.

        `fleet` is the folder that the fleet action made, None in an ad-hoc run: the first host of the task compiles the
        fleet then, for all of them.
        `observed` is the variable with this host's node_info result, None to ask the host now. Raises FleetError.
        """
        host = task_vars["inventory_hostname"]
        answer = task_vars.get(observed) if observed else self.ask_node(task_vars)
        current = targets.observed_state(answer)
        if fleet:
            found = targets.load(fleet)
        else:
            found = shared_targets.of_task(task_vars, str(self._task._uuid), host, current, pool, mode)
        try:
            return [(phase, found.phase(host, current, phase)) for phase in phases(found)]
        except KeyError:
            raise FleetError(
                f"host {host}", None, "is in neither group calico_nodes nor calico_rr.", "Put it into one of them."
            ) from None

    def ask_node(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        answer = self._execute_module(
            module_name="baremetal.host_routing.node_info",
            module_args={
                "gather": ["state", "engine"],
                "policy": False,
                "bgp_passwords": bgp_secrets.packed(task_vars),
            },
            task_vars=task_vars,
        )
        if answer.get("failed"):
            raise FleetError(f"host {task_vars['inventory_hostname']}", None, str(answer.get("msg")), "")
        self.answered = answer
        return t.cast("dict[str, t.Any]", answer)
