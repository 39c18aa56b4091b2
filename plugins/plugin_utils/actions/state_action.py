# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of the per-host actions: finding the state that the host must have in a phase."""

from __future__ import annotations

import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import observed_nodes
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import directions
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import convergence
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import probe_paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.probe_paths import (
    ProbePath,
    ProbePlan,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase

from ..sources import bgp_secrets, shared_targets, targets
from .guarded_action import GuardedAction


class StateAction(GuardedAction):
    """The base of actions that send one host's NodeState to a module.

    `answered` is the host's answer to node_info, empty if it was not asked. `targets` are those of the run, once a
    state was found in them, and `current` is the host's stored state at that time, None without one.
    """

    answered: t.Mapping[str, t.Any] = {}
    current: t.Optional[NodeState] = None
    targets: t.Optional[Targets] = None

    @staticmethod
    def external_sessions(state: t.Mapping[str, t.Any]) -> int:
        """Return the number of sessions with routers outside the fleet in a NodeState as plain data, 0 without BGP."""
        return sum(1 for peer in (state.get("bird") or {}).get("peers", ()) if not peer.get("node"))

    @staticmethod
    def without_absent(state: NodeState, task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the state as plain data without its policy and what needs a host that failed or is not in the play."""
        return convergence.without(state, convergence.absent(state, task_vars.get("ansible_play_hosts", ()))).to_dict()

    @staticmethod
    def plan_probes(
        state: NodeState, fleet: t.Optional[str], sample: int, proof: bool = False
    ) -> tuple[ProbePlan, str]:
        """Return what the host with `state` probes, and the run's secret in hexadecimal digits.

        `fleet` is the folder of the run's targets, None without one. All tasks of a run choose the same sample of
        paths; `sample` and `proof` are those of probe_paths.plan.
        """
        secret = targets.probe_secret(fleet)
        return probe_paths.plan(state, sample=sample, turn=targets.probe_turn(secret), proof=proof), secret.hex()

    @staticmethod
    def probed(paths: t.Iterable[ProbePath]) -> list[dict[str, t.Any]]:
        """Return the option `targets` of the modules that probe: a dict for each path, whose size is in bytes."""
        return [
            {
                "name": path.node,
                "address": path.address,
                "size": path.size,
                "pool": path.pool,
                "source": path.source,
            }
            for path in paths
        ]

    def ask_to_probe(self, module: str, args: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """Run a module that probes, and return its answer, with the field `window` in place of the node's `clock`.

        The window says by this controller's clock when the node sent probes and heard those of others. It is missing if
        the module failed or its clock is impossible.
        """
        before = time.monotonic()
        answer = self._execute_module(
            module_name=f"baremetal.host_routing.{module}", module_args=args, task_vars=task_vars
        )
        window = directions.window(answer.pop("clock", None), before, time.monotonic())
        return {**answer, "window": window} if window is not None else answer

    @staticmethod
    def phase_of(args: dict[str, t.Any]) -> Phase:
        """Remove a task's `phase` from its arguments and return it or converge. Raise AnsibleActionFail if unknown."""
        try:
            return Phase.from_text(args.pop("phase", None) or Phase.CONVERGE)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error

    def host_state(
        self,
        task_vars: dict[str, t.Any],
        fleet: t.Optional[str],
        observed: t.Optional[str],
        phase: Phase,
        pool: t.Optional[str] = None,
        mode: t.Optional[str] = None,
    ) -> NodeState:
        """Return the state of this host in `phase`, and keep the targets in `targets`; see `host_states`."""
        return self.host_states(task_vars, fleet, observed, lambda dummy: (phase,), pool, mode)[0][1]

    def host_states(
        self,
        task_vars: dict[str, t.Any],
        fleet: t.Optional[str],
        observed: t.Optional[str],
        phases: t.Callable[[Targets], t.Sequence[Phase]],
        pool: t.Optional[str] = None,
        mode: t.Optional[str] = None,
    ) -> list[tuple[Phase, NodeState]]:
        """Return a list of (phase, state of this host in it), for the phases that `phases` selects from the targets.

        `fleet` is the folder that the fleet action made, None in an ad-hoc run: then the first host of the task
        compiles the fleet for all of them, with `pool` in the mode `mode` if they are given. `observed` is the variable
        with this host's node_info result, None to ask the host; without such a variable the host counts as one without
        a state. The targets are kept in `targets`. Raise FleetError if the host is refused, is not in the fleet, or has
        an unreadable state, or if asking it or compiling fails. Raise AnsibleError if the host has to be asked and
        cannot be reached, OSError if targets cannot be read or stored.
        """
        host = task_vars["inventory_hostname"]
        answer = task_vars.get(observed) if observed else self.ask_node(task_vars)
        found = targets.load(fleet) if fleet else None
        if found is not None and host in found.refused:
            raise found.refused[host]
        current = observed_nodes.state(host, answer)
        if found is None:
            found = shared_targets.of_task(task_vars, str(self._task._uuid), host, current, pool, mode)
        if host not in (found.states if found.fleet is None else found.fleet.nodes):
            raise FleetError(
                f"host {host}", None, "is in neither group calico_nodes nor calico_rr.", "Put it into one of them."
            )
        self.targets, self.current = found, current
        try:
            return [(phase, found.phase(host, current, phase)) for phase in phases(found)]
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            why = Unreadable("", "a state from which no way leads to another one")
            raise observed_nodes.unreadable(host, why) from error

    def ask_node(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return this host's answer to node_info about its state (without policy) and engine; keep it in `answered`.

        Raise FleetError if it fails or calico_bgp_secrets is invalid. Other errors are those of `_execute_module`.
        """
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
        return answer
