# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of what a node answers about its blocks, workloads and addresses, for `ipam check` of all nodes.

The answers are those of the modules node_info and remote_endpoints_info. Root on the node writes them as it likes.
"""

from __future__ import annotations

import typing as t

from ...base import addresses
from ...base.typed_json import Unreadable, by_name, items, open_table, refuse, shown, text
from ...state.answers import limits
from ...state.answers.endpoints import read_endpoints, single_address
from ...state.answers.left_out import LeftOut
from .fleet_check import NodeHolds


def _address(value: t.Any) -> str:
    if single_address(value) is None:
        refuse(value, "a single address")
    return str(value)


def _address_or_none(value: t.Any) -> str:
    return "" if value == "" else _address(value)


def _block(value: t.Any) -> str:
    found = addresses.parse_cidr(value) if isinstance(value, str) and len(value) <= 43 else None
    if found is None or not found.strict or str(found) != value:
        refuse(value, "a block")
    return str(value)


_NODE_INFO = open_table(
    {
        "blocks": items(open_table({"cidr": _block}), limits.BLOCKS),
        "workloads": items(
            open_table(
                {"name": text(limits.NAME, 1), "namespace": text(limits.NAME, 1)},
                {"address": _address_or_none, "address6": _address_or_none},
            ),
            limits.ENDPOINTS,
        ),
        "ipam": open_table({"allocated": by_name(text(), limits.ALLOCATED, _address)}),
    }
)


def read(
    host: str, node: t.Mapping[str, t.Any], endpoints: t.Mapping[str, t.Any]
) -> tuple[NodeHolds, tuple[LeftOut, ...]]:
    """Return what a host holds by its two answers, and the workloads in them that are left out as invalid.

    `node` is the answer of node_info, and `endpoints` that of remote_endpoints_info. Raise Unreadable if they cannot be
    used, also if they are another node's.
    """
    found = _NODE_INFO(node)
    name = endpoints.get("node")
    if name != host:
        raise Unreadable("node", f"{shown(name)}, another one" if name else "empty: the host has no state of a run")
    attached, left_out = read_endpoints(host, endpoints.get("endpoints"), None)
    planned = {
        f"{one['namespace']}/{one['name']}": tuple(filter(None, (one.get("address"), one.get("address6"))))
        for one in found["workloads"]
    }
    holds = NodeHolds(
        tuple(block["cidr"] for block in found["blocks"]),
        {one.name: one.addresses for one in attached},
        planned,
        frozenset(found["ipam"]["allocated"]),
    )
    return holds, left_out
