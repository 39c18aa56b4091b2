# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the modules that handle a whole node."""

from __future__ import annotations

import typing as t

from ...preflight.files import CNI_CONF_DIR
from ...state.phase import Phase
from ..module_call import ModuleSpec

SUBSETS = ["preflight", "packages", "state", "engine", "generations", "generation"]
SUBSETS += ["blocks", "ipam", "devices", "routes", "workloads", "bgp"]
QUICK = [name for name in SUBSETS if name not in ("preflight", "packages", "generation")]
#: The options of a target.
TARGET: dict[str, t.Any] = {
    "address": {"type": "str", "required": True},
    "name": {"type": "str", "default": ""},
    "size": {"type": "int", "default": 84},
    "pool": {"type": "str", "default": ""},
    "source": {"type": "str", "default": ""},
}
#: The defaults of the parameters that say how targets are probed.
ONE_ROUND: t.Mapping[str, t.Any] = {
    "seconds": 0, "count": 3, "interval": 200, "timeout": 1000, "attempts": 1, "tos": 0, "source": "",
    "endpoint": False, "secret": None,
}  # fmt: skip
#: The options by which the action makes targets those of a fleet.
_OF_FLEET: t.Mapping[str, t.Any] = {
    "endpoint": {"type": "bool", "default": ONE_ROUND["endpoint"]},
    "secret": {"type": "str", "no_log": True},
}
#: The options of a state that a host has in a phase: the state itself, or what the action makes it from.
_STATE_IN_PHASE: t.Mapping[str, t.Any] = {
    "state": {"type": "dict"},
    "fleet": {"type": "str"},
    "observed": {"type": "str"},
    "phase": {"type": "str", "choices": [str(phase) for phase in Phase], "default": str(Phase.CONVERGE)},
}

#: {name of a module: what it accepts}
SPECS: t.Mapping[str, ModuleSpec] = {
    "bgp_session_info": ModuleSpec(argument_spec={"neighbor": {"type": "str"}}),
    "convergence_info": ModuleSpec(
        argument_spec={
            **_STATE_IN_PHASE,
            "timeout": {"type": "int", "default": 60},
            "fail": {"type": "bool", "default": True},
        },
    ),
    "drain": ModuleSpec(argument_spec={"who": {"type": "str", "default": "ansible"}}),
    "node": ModuleSpec(
        argument_spec={
            **_STATE_IN_PHASE,
            "pool": {"type": "str"},
            "mode": {"type": "str", "choices": ["ipip", "ipip-crosssubnet", "vxlan", "vxlan-crosssubnet", "direct"]},
            "by_phase": {"type": "bool", "default": False},
            "bird_config": {"type": "str"},
            "request": {"type": "str", "no_log": True},
            "files": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "path": {"type": "str", "required": True},
                    "content": {"type": "str"},
                    "src": {"type": "str"},
                    "mode": {"type": "str", "default": "0644"},
                    "last": {"type": "bool", "default": False},
                },
            },
            "units": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "name": {"type": "str", "required": True},
                    "enabled": {"type": "bool"},
                    "started": {"type": "bool"},
                    "masked": {"type": "bool", "default": False},
                    "bgp": {"type": "bool"},
                },
            },
            "who": {"type": "str", "default": "ansible"},
            "generations_kept": {"type": "int", "default": 10},
            "lock_timeout": {"type": "int", "default": 60},
            "confirm_timeout": {"type": "int", "default": 0},
            "settle": {"type": "bool", "default": False},
            "look": {"type": "bool", "default": False},
            "sample": {"type": "int", "default": 0},
            "whole_files": {"type": "bool", "default": False},
            "foresee": {"type": "bool", "default": False},
            "collect_warnings": {"type": "bool", "default": False},
        },
        required_together=[("pool", "mode")],
    ),
    "node_confirm": ModuleSpec(
        argument_spec={
            "change": {"type": "str"},
            "same_connection": {"type": "bool", "default": False},
            "generations_kept": {"type": "int", "default": 10},
            "lock_timeout": {"type": "int", "default": 60},
        }
    ),
    "node_info": ModuleSpec(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": SUBSETS, "default": QUICK},
            "generation": {"type": "int"},
            "policy": {"type": "bool", "default": True},
            "bgp_passwords": {"type": "str", "no_log": True},
            "cni_conf_dir": {"type": "path", "default": CNI_CONF_DIR},
        },
    ),
    "node_status_info": ModuleSpec(argument_spec={}),
    "probe": ModuleSpec(
        argument_spec={
            "targets": {
                "type": "list",
                "elements": "dict",
                "options": TARGET,
            },
            "fleet": {"type": "str"},
            "observed": {"type": "str"},
            "proof": {"type": "bool", "default": False},
            "sample": {"type": "int", "default": 0},
            "seconds": {"type": "int", "default": ONE_ROUND["seconds"]},
            "watch": {"type": "str", "choices": ["start", "collect", "stop"]},
            "limit": {"type": "int", "default": 600},
            "count": {"type": "int", "default": ONE_ROUND["count"]},
            "interval": {"type": "int", "default": ONE_ROUND["interval"]},
            "timeout": {"type": "int", "default": ONE_ROUND["timeout"]},
            "attempts": {"type": "int", "default": ONE_ROUND["attempts"]},
            "tos": {"type": "int", "default": ONE_ROUND["tos"]},
            "source": {"type": "str", "default": ONE_ROUND["source"]},
            **_OF_FLEET,
        },
        required_one_of=[("targets", "fleet", "watch")],
    ),
    "remote_endpoints": ModuleSpec(
        argument_spec={
            "exchange": {"type": "str"},
            "told": {"type": "dict"},
            "nodes": {"type": "list", "elements": "str"},
            "who": {"type": "str", "default": "ansible"},
            "lock_timeout": {"type": "int", "default": 60},
        },
        required_together=[("told", "nodes")],
        required_one_of=[("exchange", "told")],
        mutually_exclusive=[("exchange", "told")],
    ),
    "remote_endpoints_info": ModuleSpec(argument_spec={}),
    "soak": ModuleSpec(
        argument_spec={
            "state": {"type": "dict"},
            "targets": {"type": "list", "elements": "dict", "options": TARGET, "default": []},
            "fleet": {"type": "str"},
            "observed": {"type": "str"},
            "sample": {"type": "int", "default": 0},
            "timeout": {"type": "int", "default": 60},
            "seconds": {"type": "int", "default": 10},
            **_OF_FLEET,
        },
    ),
    "teardown": ModuleSpec(
        argument_spec={
            "who": {"type": "str", "default": "ansible"},
            "lock_timeout": {"type": "int", "default": 60},
            "force": {"type": "bool", "default": False},
        },
    ),
    "workload": ModuleSpec(
        argument_spec={
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "netns": {"type": "str"},
            "pid": {"type": "int"},
            "peer_interface": {"type": "str", "default": "eth0"},
            "address": {"type": "str"},
            "address6": {"type": "str"},
            "families": {"type": "list", "elements": "int", "choices": [4, 6], "default": []},
            "pools": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "mac": {"type": "str"},
            "mtu": {"type": "int"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        mutually_exclusive=[("netns", "pid")],
    ),
    "workload_info": ModuleSpec(
        argument_spec={"name": {"type": "str"}, "namespace": {"type": "str"}, "selector": {"type": "str"}},
    ),
}
