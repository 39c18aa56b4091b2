# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that agents attached, for questions to an inventory: looked up in the datastore where they are needed."""

from __future__ import annotations

import pathlib
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import NoVerdict
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow import flow_sweep
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_question import Asked
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import (
    access,
    attached_workloads,
    cluster_calls,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.access import FleetDatastore
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_source
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.inventory_network import known_network

from tests.unit.cli.conftest import Node
from tests.unit.cli.fake_fleet import FakeFleet
from tests.unit.fleet.fleets import build, pool, workload

DB = {
    "kind": "NetworkPolicy",
    "name": "db",
    "selector": "app == 'db'",
    "ingress": [
        {"action": "Allow", "protocol": "TCP", "source": {"selector": "app == 'web'"}, "destination": {"ports": [5432]}}
    ],
}
FLEET = build(
    pool("ipip-crosssubnet", natOutgoing=True),
    workloads=[workload("db", "node3", labels={"app": "db"}), workload("web", "node1", labels={"app": "web"})],
    policies=[DB],
)
BLOCKS = {name: [block.cidr for block in FLEET.ipam_of(name).blocks] for name in ("node1", "node2", "node3")}


def address(node: str, number: int) -> str:
    """Return the address with this last byte in the first block of a node."""
    return f"{BLOCKS[node][0].rpartition('.')[0]}.{int(BLOCKS[node][0].rpartition('.')[2].partition('/')[0]) + number}"


@pytest.fixture
def etcd(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    """The datastore of FLEET. Agents have attached `web`, a name of the inventory, and `job` on node2."""
    made = FakeFleet(Node(tmp_path, capsys.readouterr))
    for node, blocks in BLOCKS.items():
        made.etcd.put(keys.blocks_key(node), documents.encode_blocks(blocks))
    allow = ("projectcalico-default-allow",)
    made.publish("node2", "web", address("node2", 30), labels={"app": "web"}, interface="cali30", profiles=allow)
    made.publish("node2", "job", address("node2", 31), labels={"app": "job"}, interface="cali31")
    made.publish("node2", "old", address("node2", 32), planned=True, interface="cali32")
    datastore = FleetDatastore(("https://10.10.1.11:2379",), "", "", "", None)
    monkeypatch.setattr(access, "of", lambda *dummies: datastore)
    monkeypatch.setattr(access, "operator", lambda dummy: Credentials("root", "secret"))
    monkeypatch.setattr(inventory_source, "hosts", lambda dummy: ())
    monkeypatch.setattr(
        cluster_calls,
        "connect",
        lambda dummy, user: EtcdClient(made.etcd.members, user, seconds=1.0, jitter=0.0),
    )
    return made


def explained(line: str) -> str:
    asked = Asked(*line.split())
    known, notices = attached_workloads.of_question(known_network(FLEET), asked, {})
    return "\n".join(flow_sweep.answer(known, asked, notices).lines())


def test_ends_that_the_inventory_knows_need_no_datastore(etcd: FakeFleet) -> None:
    assert explained("web db 5432/tcp").startswith("ALLOW")
    assert explained("192.0.2.1 db 5432/tcp").startswith("DENY")
    assert explained("node1 db 5432/tcp")
    assert etcd.asked == 0


def test_a_workload_that_an_agent_attached(etcd: FakeFleet) -> None:
    """It is found by name and by address, with its labels, and the answer says how it is known."""
    for end in ("job", "default/job", address("node2", 31)):
        said = explained(f"{end} db 5432/tcp")
        assert said.startswith("DENY") and "default/job: on node2, as the datastore has it" in said, said
    said = explained(f"{address('node2', 30)} db 5432/tcp")
    assert said.startswith("ALLOW") and "default/web on node2" in said
    assert explained("web db 5432/tcp").count("node2") == 0


def test_what_the_inventory_no_longer_has_is_not_known(etcd: FakeFleet) -> None:
    with pytest.raises(NoVerdict, match="It also has the workloads that agents attached, as the datastore has them"):
        explained("old db 5432/tcp")


def test_a_datastore_that_is_away_is_a_note(etcd: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for member in etcd.etcd.members.values():
        member.up = False
    said = explained(f"{address('node2', 31)} db 5432/tcp")
    assert "note   the datastore, which has the workloads that agents attached, is not read: no member" in said
    with pytest.raises(NoVerdict, match="The datastore, which has the workloads that agents attached, is not read: no"):
        explained("job db 5432/tcp")

    def refused(dummy: object) -> Credentials:
        raise FleetError("calico_etcd_password", None, "is not set.", "Set it.")

    monkeypatch.setattr(access, "operator", refused)
    assert "is not read: calico_etcd_password" in explained(f"{address('node2', 31)} db 5432/tcp")
    monkeypatch.setattr(access, "of", lambda *dummies: None)
    assert "datastore" not in explained(f"{address('node2', 31)} db 5432/tcp")


def test_hostile_nodes_take_no_name_or_address_of_others(etcd: FakeFleet) -> None:
    """A node cannot pose as a workload of the inventory, of another node or with text for the terminal."""
    etcd.publish("node2", "db", address("node3", 0), labels={"app": "web"}, interface="cali33")
    etcd.publish("node2", "posing", address("node3", 40), labels={"app": "web"}, interface="cali34")
    etcd.etcd.put(keys.endpoint_key("node2", "cali35"), b'{"name": "default/\\u001b[2J"}')
    assert explained(f"{address('node3', 40)} db 5432/tcp").startswith("DENY")
    with pytest.raises(NoVerdict):
        explained("posing db 5432/tcp")
    said = explained("job db 5432/tcp")
    assert "\x1b" not in said and "note   /host-routing/v1/endpoints/node2/cali33 of the datastore is left out" in said


def test_ten_thousand_workloads_are_known_within_seconds(etcd: FakeFleet) -> None:
    etcd.publish_many(200, 50)
    began = time.process_time()
    assert explained("job db 5432/tcp").startswith("DENY")
    assert time.process_time() - began < 10
