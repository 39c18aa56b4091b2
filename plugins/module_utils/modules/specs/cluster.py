# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the modules that handle a member of an etcd cluster."""

from __future__ import annotations

import typing as t

from ..module_call import ModuleSpec

OPERATIONS = ("add", "defragment", "disarm", "promote", "remove", "revoke", "secure", "snapshot", "wait")

#: {name of a module: what it accepts}
SPECS: t.Mapping[str, ModuleSpec] = {
    "etcd_member_info": ModuleSpec(
        argument_spec={
            "url": {"type": "str", "required": True},
            "gate_url": {"type": "str"},
            "username": {"type": "str"},
            "password": {"type": "str", "no_log": True},
        }
    ),
    "etcd_operation": ModuleSpec(
        argument_spec={
            "url": {"type": "str", "required": True},
            "operation": {"type": "str", "required": True, "choices": list(OPERATIONS)},
            "username": {"type": "str"},
            "password": {"type": "str", "no_log": True},
            "peer_url": {"type": "str"},
            "member_id": {"type": "str"},
            "user": {"type": "str"},
            "path": {"type": "path"},
            "votes": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 60},
        },
        required_if=[
            ("operation", "add", ("peer_url",)),
            ("operation", "promote", ("peer_url",)),
            ("operation", "remove", ("member_id",)),
            ("operation", "revoke", ("user",)),
            ("operation", "snapshot", ("path",)),
        ],
    ),
}
