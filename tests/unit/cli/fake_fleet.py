# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet's etcd in memory, with users that have the rights of nodes, and a node that finds the way to it."""

from __future__ import annotations

import json
import os
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import datastore_source
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import PublishedEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import encoded
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.rights import permissions
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import WORKLOAD_ENDPOINT, Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.details import NONE, EndpointDetails

from tests.fakes.etcd import FakeEtcd
from tests.unit.cli.conftest import Node

BLOCKS = {
    "node1": ("10.244.3.0/26", "10.244.9.64/26"),
    "node2": ("10.244.4.0/26",),
    "node3": ("10.244.5.0/26", "10.245.0.16/28"),
}


class FakeFleet:
    """The datastore of node1 to node3, all of whose workloads are published.

    `publish` adds a workload, and `put` writes anything as a node might. `read_as` is the user of calicoctl.
    """

    def __init__(self, node: Node) -> None:
        self.etcd = FakeEtcd()
        self._node = node
        self._settings = node.folder / "root" / "etc" / "calico" / "datastore.json"
        self._settings.parent.mkdir(parents=True, exist_ok=True)
        for name, blocks in BLOCKS.items():
            self.etcd.put(keys.blocks_key(name), documents.encode_blocks(blocks))
            self.etcd.put(keys.complete_key(name), documents.COMPLETE)
        self.etcd.users, self.etcd.granted = {"node1": "secret", "root": "secret"}, {"node1": {"node1"}}
        rights = permissions("node1")
        self.etcd.roles = {"node1": {(encoded(one.keys.start), encoded(one.keys.end)): one.kind for one in rights}}
        self.read_as("node1")

    def read_as(self, user: str) -> None:
        wanted = {"endpoints": ["https://10.10.1.11:2379"], "user": user, "password": "secret"}
        self._settings.write_text(json.dumps(wanted))

    def leave(self) -> None:
        """Let the node have no way to the datastore."""
        self._settings.unlink()

    def publish(
        self,
        node: str,
        name: str,
        *addresses: str,
        labels: t.Optional[dict[str, str]] = None,
        planned: bool = False,
        interface: str = "",
        profiles: tuple[str, ...] = (),
        details: EndpointDetails = NONE,
    ) -> None:
        namespace, slash, own = name.partition("/")
        name = name if slash else f"default/{name}"
        interface = interface or f"cali{node[-1]}{own or namespace}"[:15]
        endpoint = Endpoint(
            WORKLOAD_ENDPOINT,
            name,
            node,
            interface,
            addresses,
            tuple(sorted((labels or {}).items())),
            profiles,
            namespace=name.partition("/")[0],
        )
        document = documents.encode_endpoint(PublishedEndpoint(endpoint, planned, details))
        self.etcd.put(keys.endpoint_key(node, interface), document)

    def publish_many(self, nodes: int, each: int) -> None:
        """Let further nodes, node1000 and so on, publish so many workloads each, without labels."""
        values: list[tuple[bytes, t.Optional[bytes]]] = []
        for index in range(nodes):
            name, network = f"node{1000 + index}", f"10.{200 + index // 250}.{index % 250}"
            values.append((keys.blocks_key(name).encode(), documents.encode_blocks([f"{network}.0/24"])))
            values.append((keys.complete_key(name).encode(), documents.COMPLETE))
            for number in range(each):
                own = Endpoint(
                    WORKLOAD_ENDPOINT, f"default/w{number}", name, f"cali{number}", (f"{network}.{number}",),
                    namespace="default",
                )  # fmt: skip
                document = documents.encode_endpoint(PublishedEndpoint(own))
                values.append((keys.endpoint_key(name, own.interface).encode(), document))
        self.etcd._apply(values)

    @property
    def asked(self) -> int:
        """The number of calls of all members."""
        return sum(len(member.calls) for member in self.etcd.members.values())


def fleet_of(node: Node, patch: pytest.MonkeyPatch, seconds: float = 1.0) -> FakeFleet:
    """Return a fleet's datastore that calicoctl finds on `node`; a call takes at most `seconds`."""
    made = FakeFleet(node)

    def connect(found: DatastoreSettings) -> EtcdClient:
        return EtcdClient(made.etcd.members, Credentials(found.user, found.password), seconds=seconds, jitter=0.0)

    patch.setattr(datastore_source, "connect", connect)
    for name in list(os.environ):
        if name.removeprefix("CALICO_").startswith(("ETCD_", "DATASTORE_")):
            patch.delenv(name)
    return made


def publish_workloads(fleet: FakeFleet) -> None:
    """Let node2 and node3 publish workloads, and node1 one that it does not have."""
    fleet.publish("node1", "gone", "10.244.3.9")
    fleet.publish("node2", "db-2", "10.244.4.1", labels={"app": "db"}, planned=True)
    fleet.publish("node3", "web-2", "10.244.5.1", labels={"app": "web"})
    fleet.publish("node3", "prod/cart", "10.244.5.2", "10.245.0.17", labels={"app": "cart"})
