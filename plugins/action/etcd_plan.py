# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import datastore_inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import (
    allowed_clients,
    cluster_members,
    membership,
    seen_hosts,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.membership import ClusterRequest, PlanRefused
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.seen_hosts import SeenHost
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines


class ActionModule(GuardedAction):
    """The action etcd_plan, which turns what all hosts answered to etcd_member_info into ordered steps.

    The task fails, with nothing changed, if a host did not answer or the cluster cannot become what is wanted. A
    revocation leaves hosts out that do not answer.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "seen": {"type": "str", "required": True},
                "upgrade": {"type": "bool", "default": False},
                "clear_alarms": {"type": "bool", "default": False},
                "only": {"type": "str", "default": "", "choices": ["", *membership.ALONE]},
                "changed": {"type": "list", "elements": "str", "default": []},
                "show": {"type": "bool", "default": True},
                "operators": {"type": "list", "elements": "str", "default": []},
                "operators_left": {"type": "list", "elements": "str", "default": []},
            }
        )
        try:
            named = cluster_members.operators_of(task_vars, cluster_members.nodes_of(task_vars))
            read = _reached if args["only"] == membership.REVOKE else _seen
            hosts = [read(host, task_vars, args["seen"]) for host in cluster_members.of(task_vars)]
            request = ClusterRequest(
                args["upgrade"],
                args["clear_alarms"],
                args["only"],
                frozenset(args["changed"]),
                tuple(args["operators_left"]),
            )
            plan = membership.plan(hosts, request)
            operators = allowed_clients.networks("calico_etcd_operator_addresses", args["operators"])
            operators = operators or allowed_clients.answered(seen.controller for seen in hosts)
            operators += allowed_clients.networks(
                datastore_inventory.OPERATORS, [address for one in named for address in one.addresses]
            )
            members = allowed_clients.networks("calico_etcd_address", [seen.host.address for seen in hosts])
            nodes = allowed_clients.networks("calico_node_address", cluster_members.node_addresses(task_vars))
        except (FleetError, PlanRefused) as error:
            return {"failed": True, "msg": str(error)}
        if args["show"]:
            shown_lines.show([f"{step.host:<16} {step.text}" for step in plan.steps])
            for notice in plan.notices:
                shown_lines.warn(notice)
        return {
            "changed": bool(plan.steps) and self._task.check_mode,
            "steps": [dataclasses.asdict(step) for step in plan.steps],
            "notices": list(plan.notices),
            "left_out": list(plan.left_out),
            "fleet_addresses": sorted({str(one.network_address) for one in [*nodes, *members]}),
            "members": allowed_clients.by_version(members),
            "fleet": allowed_clients.by_version([*nodes, *members]),
            "operators": allowed_clients.by_version(operators),
            "via": next((seen.name for seen in hosts if seen.answers), ""),
        }


def _seen(host: cluster_members.EtcdHost, task_vars: t.Mapping[str, t.Any], name: str) -> SeenHost:
    """Return what a host answered. Raise PlanRefused if it did not, or the answer cannot be read."""
    if host.name not in task_vars.get("ansible_play_hosts", ()):
        raise PlanRefused(
            f"{host.name} is in group calico_etcd and not in this run, or it failed. Run the playbook for the whole "
            "group, without --limit. A host that is dead and does not come back is taken out of the group. The cluster "
            "was not changed."
        )
    try:
        return seen_hosts.read(host, task_vars["hostvars"][host.name].get(name))
    except Unreadable as error:
        raise PlanRefused(
            f"The answer of {host.name} cannot be used: {error}. Look at the host. The cluster was not changed."
        ) from None


def _reached(host: cluster_members.EtcdHost, task_vars: t.Mapping[str, t.Any], name: str) -> SeenHost:
    """Return what a host answered; one that did not, or that failed since, is not reached."""
    if host.name in task_vars.get("ansible_play_hosts", ()):
        return seen_hosts.of_run(host, task_vars["hostvars"][host.name].get(name))
    return SeenHost(host, reason="it is not in this run, or it failed and its error stands above", reached=False)
