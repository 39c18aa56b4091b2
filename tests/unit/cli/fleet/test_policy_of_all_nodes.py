# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`policy explain` on a node whose agent has read the datastore: it knows the workloads of all nodes."""

from __future__ import annotations

import os

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys, snapshot
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import PublishedEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import KeyValue
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror, Position
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import WORKLOAD_ENDPOINT, Endpoint

from tests.unit.cli.commands.test_policy_explain import settle
from tests.unit.cli.conftest import Node


def follow(node: Node) -> None:
    """Write the copy of a datastore in which node2 and node3 have each published a workload."""
    values = {}
    for name, network, workload in (("node2", "10.244.50", "job"), ("node3", "10.244.70", "report")):
        endpoint = Endpoint(
            WORKLOAD_ENDPOINT, f"default/{workload}", name, f"cali{workload}", (f"{network}.7",), (("app", workload),),
            ("projectcalico-default-allow",), namespace="default",
        )  # fmt: skip
        values[keys.blocks_key(name)] = documents.encode_blocks([f"{network}.0/24"])
        values[keys.complete_key(name)] = documents.COMPLETE
        values[keys.endpoint_key(name, endpoint.interface)] = documents.encode_endpoint(PublishedEndpoint(endpoint))
    mirror = Mirror()
    mirror.list_part([KeyValue(key, value, 3) for key, value in values.items()], True)
    for dummy in mirror.list_end(Position(7, 3, 3)):
        pass
    path = os.path.join(node.machine.store, snapshot.FILE)
    snapshot.write(path, snapshot.parts(mirror, 1_795_000_000.0))


def test_workloads_of_two_other_nodes(node: Node) -> None:
    settle(node)
    assert node.run("policy", "explain", "--from", "job", "--to", "report", "--port", "80/tcp")[0] == 2
    follow(node)
    status, out, err = node.run("policy", "explain", "--from", "job", "--to", "report", "--port", "80/tcp")
    assert status in (0, 1) and "not through node1: from default/job to default/report" in out, (out, err)
    assert "known  default/job: on node2, as the datastore had it" in out
    status, out, err = node.run("policy", "explain", "--from", "job", "--to", "other", "--port", "80/tcp")
    assert (status, out) == (2, "") and "Other nodes' workloads are those that the datastore has." in err
