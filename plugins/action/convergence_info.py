# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.state_action import StateAction


def _with(state: NodeState, hosts: t.Collection[str]) -> NodeState:
    """Return the state with only what can converge while only `hosts` take part.

    Sessions with and routes of a host that is down, or left out by --limit, are removed. So is policy, which is in
    force before the node module returns.
    """
    state = dataclasses.replace(state, policy=None)
    if state.bird is None:
        return state
    peers = tuple(peer for peer in state.bird.peers if not peer.node or peer.node in hosts)
    routes = tuple(route for route in state.bird_routes if route.node in hosts)
    return dataclasses.replace(state, bird=dataclasses.replace(state.bird, peers=peers), bird_routes=routes)


class ActionModule(StateAction):
    """Fill in the sessions and routes to wait for; see the module of this name.

    The result also has `external_sessions`, the number of expected sessions with routers outside the fleet.
    """

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        args = dict(self._task.args)
        if "state" not in args:
            own = {name: args.pop(name, None) for name in ("fleet", "observed")}
            phase = self.phase_of(args)
            try:
                state = self.host_state(task_vars, own["fleet"], own["observed"], phase)
                args["state"] = _with(state, set(task_vars.get("ansible_play_hosts", ()))).to_dict()
            except FleetError as error:
                result.update(failed=True, msg=str(error))
                return result
        peers = (args["state"].get("bird") or {}).get("peers", ())
        result.update(
            self._execute_module(
                module_name="baremetal.host_routing.convergence_info", module_args=args, task_vars=task_vars
            )
        )
        result["external_sessions"] = sum(1 for peer in peers if not peer.get("node"))
        return result
