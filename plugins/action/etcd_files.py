# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime
import os
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import (
    cluster_members,
    etcd_folder,
    gate_sources,
    issued_files,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.issued_files import WantedFiles
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import given_inventory


class ActionModule(GuardedAction):
    """The action etcd_files: it keeps etcd's keys and passwords beside the inventory and returns nothing secret."""

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "ca_cert": {"type": "str", "default": ""},
                "ca_key": {"type": "str", "default": ""},
                "ca_days": {"type": "int", "default": 3650},
                "days": {"type": "int", "default": 365},
                "renew": {"type": "bool", "default": False},
                "show": {"type": "bool", "default": True},
                "target": {"type": "str", "default": ""},
                "revoke": {"type": "str", "default": ""},
                "forget": {"type": "list", "elements": "str", "default": []},
                "succession": {"type": "str", "default": "", "choices": ["", "begin", "finish"]},
            }
        )
        given_inventory.check_parsed(task_vars)
        if args["target"]:
            etcd_folder.make_empty(args["target"])
            return {"changed": True}
        folder = etcd_folder.folder_of(task_vars)
        members = cluster_members.of(task_vars)
        own = _own_authority(args["ca_cert"], args["ca_key"], str(task_vars.get("inventory_dir") or ""))
        nodes = cluster_members.nodes_of(task_vars)
        operators = [one.name for one in cluster_members.operators_of(task_vars, nodes)]
        wanted = WantedFiles(
            members, args["days"], args["ca_days"], own, args["renew"], args["succession"], nodes, operators
        )
        now = datetime.datetime.now(datetime.timezone.utc)
        if args["revoke"]:
            issue = issued_files.revocation(folder, _node_name(args["revoke"]))
        elif args["forget"]:
            issue = issued_files.forgotten(map(_node_name, args["forget"]))
        else:
            issue = issued_files.planned(folder, wanted, now)
        if not self._task.check_mode:
            issued_files.apply(folder, issue)
            for name in args["forget"]:
                folder.remove_operator(name, ())
        days = issued_files.days_left(folder, members, now)
        if args["show"]:
            shown_lines.show([f"{folder.path}/{line}" for line in issue.lines])
            for notice in issue.notices:
                shown_lines.warn(notice)
        return {
            "changed": bool(issue.files),
            "folder": folder.path,
            "members": {host.name: _member(folder, host) for host in members},
            "files": list(issue.files),
            "operators_left": issue.operators_left,
            "users_left": [name for name in issue.operators_left if name not in nodes],
            "days_left": days,
            "gate": gate_sources.packed(),
        }


def _node_name(text: str) -> str:
    """Return the name of a node. Raise FleetError for a text that is none."""
    if not keys.is_node(text):
        raise FleetError("node", text, "is not the name of a node.", "Name a node as the inventory has it.")
    return text


def _own_authority(certificate: str, key: str, inventory: str) -> t.Optional[tuple[str, str]]:
    """Return the paths of the user's authority, None for ours. Raise FleetError if one of them is missing."""
    if not certificate and not key:
        return None
    if not certificate or not key:
        names = ("calico_etcd_ca_cert", "calico_etcd_ca_key")
        name, other = names if key else names[::-1]
        remedy = "Set both, or neither for an authority of our own."
        raise FleetError(name, None, f"is not set, but {other} is.", remedy)
    return _path(certificate, inventory), _path(key, inventory)


def _path(path: str, inventory: str) -> str:
    return os.path.abspath(os.path.join(inventory, os.path.expanduser(path)))


def _member(folder: etcd_folder.EtcdFolder, host: cluster_members.EtcdHost) -> dict[str, str]:
    return {
        "address": host.address,
        "client_url": host.client_url,
        "gate_url": host.gate_url,
        "peer_url": host.peer_url,
        "files": folder.where(f"members/{host.name}"),
    }
