# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to release an address that must not be released: each is refused with the way that there is."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeIpam, VethEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer

from tests.unit.agent.api.refusal import refused
from tests.unit.agent.node_under_test import STATE, Node
from tests.unit.agent.virtual_time import run

PLANNED = dataclasses.replace(
    STATE,
    ipam=dataclasses.replace(
        STATE.ipam,
        tunnels={"ipip": "10.244.1.0"},
        workloads={"db": "10.244.1.2"},
        probes={"default-pool": "10.244.1.3"},
    ),
    workloads=(VethEndpoint("db", "cali1", "10.244.1.2", 1400, "default-pool", "prod"),),
)
OWN = "is the node's own, for a tunnel or its probe endpoint. It stays with the node."


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (
            "10.244.1.2",
            "belongs to workload prod/db of the inventory. Remove it from calico_workloads or calico_node_workloads "
            "there, and run playbooks/site.yml.",
        ),
        ("10.244.1.0", OWN),
        ("10.244.1.3", OWN),
        ("10.244.1.5", "is not allocated on this node. See `calicoctl ipam show`."),
    ],
)
def test_a_planned_address_is_not_released(tmp_path: pathlib.Path, address: str, says: str) -> None:
    async def scenario() -> None:
        methods = Methods(await Node(tmp_path, PLANNED).start())
        _code, message = await refused(methods.ipam_release({"address": address}, Peer(1, 0, 0)))
        assert message == f"address {address} {says}"

    assert isinstance(PLANNED.ipam, NodeIpam)
    run(scenario())


def test_a_text_that_is_no_address_is_shown_as_one_short_line(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        methods = Methods(await Node(tmp_path, PLANNED).start())
        _code, message = await refused(methods.ipam_release({"address": "x\n\x1b[2J" + "y" * 4000}, Peer(1, 0, 0)))
        assert message.startswith("address x\\n\\x1b[2Jyyy") and len(message) < 200

    run(scenario())
