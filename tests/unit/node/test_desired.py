# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the desired state without an agent: records on the disk say what was attached since the plan."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.live_reader import ReadDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.verdicts import lockout_check
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import (
    RecordsUnreadable,
    as_readable,
    before_network,
    desired,
    interfaces_of,
    of_machine,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host.ssh_session import SshSession
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import (
    IpamUnreadable,
    LocalIpam,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.live_policy import StoredLivePolicy
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    AttachedWorkload,
    with_workloads,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.live_policy import resolve
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Route,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import write_route

A, B, C = (Block(f"10.0.0.{first}/30", "p") for first in (0, 4, 8))
STATE = NodeState(
    "node1",
    "10.10.1.11/24",
    pools=(Pool("p", "10.0.0.0/24", 30, "None"),),
    ipam=NodeIpam(blocks=(A,), spare_blocks=(B, C)),
    routes=(Route(A.cidr, "blackhole"),),
    bird=Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24"),
)


@pytest.fixture
def machine(tmp_path):
    return Machine(FakeKernel(), workloads=str(tmp_path / "workloads"), ipam=str(tmp_path / "ipam"))


def attach(machine, count):
    """Write `count` workloads into the journal and the records, and return them.

    An agent that stopped leaves them like this. The kernel is not changed. Raise AllocationError if the node's blocks
    have fewer free addresses.
    """
    ipam, endpoints = LocalIpam(machine.ipam), Endpoints(machine.workloads)
    ipam.load()
    ipam.grant(STATE)
    workloads = []
    for number in range(count):
        found = ipam.assign(f"default/w{number}", {})
        workloads.append(
            AttachedWorkload(
                found.handle, f"w{number}", interface=f"cali{number}", addresses=(found.address,), pool="p"
            )
        )
        endpoints.save(workloads[-1])
    ipam.flush()
    return workloads


def test_a_fresh_node_must_have_what_was_planned(machine, tmp_path):
    assert of_machine(machine, STATE) == STATE
    assert list(tmp_path.iterdir()) == []


def test_workloads_and_opened_blocks_are_read_from_the_disk(machine):
    workloads = attach(machine, 5)
    found = of_machine(machine, STATE)
    assert found == desired(STATE, workloads, (B.cidr,)) == with_workloads(STATE, workloads, (B.cidr,))
    assert found.ipam.blocks == (A, B)
    assert Route(B.cidr, "blackhole") in found.routes
    assert Route("10.0.0.4/32", device="cali4") in found.routes
    assert Route(C.cidr, "blackhole") not in found.routes


def test_a_record_that_cannot_be_read_stops_everything(machine, tmp_path):
    attach(machine, 1)
    path = tmp_path / "workloads" / "default%2Fw1.json"
    path.write_text("{")
    with pytest.raises(RecordsUnreadable) as error:
        of_machine(machine, STATE)
    assert str(error.value) == (
        f"{path} cannot be read: Expecting property name enclosed in double quotes: line 1 column 2 (char 1). The "
        "workload that it was for is not repaired, and gets no new connections if the node has policy. Delete the "
        "workload and add it again, or remove the file."
    )


def test_allocations_that_cannot_be_read_stop_everything(machine, tmp_path):
    attach(machine, 1)
    (tmp_path / "ipam" / "allocations").write_text("garbage\n")
    with pytest.raises(IpamUnreadable, match="line 1 is not what was written"):
        of_machine(machine, STATE)


def test_interfaces_of_the_host_are_looked_up_where_policy_depends_on_them():
    """If policy depends on them, addresses of both IP versions are read from all devices but workloads' host ends.

    Otherwise none are read.
    """
    kernel = FakeKernel()
    for device in ("eth0", "cali0"):
        kernel.link_add(NewLink(device, "bridge"))
        kernel.address_add(InterfaceAddress(device, "10.10.1.11" if device == "eth0" else "169.254.1.1", 24))
        kernel.address_add(InterfaceAddress(device, "fd00::11" if device == "eth0" else "fd00:1::1", 64))
    by_address = Endpoint("HostEndpoint", "e", "node1", addresses=("10.10.1.11",))
    state = dataclasses.replace(STATE, policy=PolicyState(endpoints=(by_address,)))
    assert interfaces_of(kernel, state)["eth0"] == ["10.10.1.11", "fd00::11"]
    assert "cali0" not in interfaces_of(kernel, state)
    assert interfaces_of(kernel, STATE) == {}


LIVE = Policy("block", selector="all()", types=("Ingress",), ingress=(PolicyRule("Deny"),))
ALLOWED = PolicySettings(live=True)


@pytest.mark.parametrize("what", [of_machine, as_readable, before_network])
def test_live_policy_on_the_disk_is_like_that_of_the_inventory(machine, tmp_path, what):
    """The boot unit and runs without an agent have it in force, also before the network is there."""
    machine.store = str(tmp_path)
    attach(machine, 1)
    host = Endpoint("HostEndpoint", "node1-net", "node1", addresses=("10.10.1.11",))
    own, both = policy_set([], [], [allow_all()]), policy_set([], [LIVE], [allow_all()])
    state = dataclasses.replace(STATE, policy=PolicyState(own, (host,), ALLOWED))
    without = what(machine, state)
    key = DocumentKey("GlobalNetworkPolicy", "", "block")
    documents = {key: ReadDocument(LIVE, live_documents.pack(LIVE))}
    live_policy.save(machine.store, StoredLivePolicy(resolve(own, [LIVE]), documents, 1, 1))
    expected = what(machine, dataclasses.replace(STATE, policy=PolicyState(both, (host,), ALLOWED)))
    found = what(machine, state)
    assert (found.iptables, found.ipsets) == (expected.iptables, expected.ipsets) != (without.iptables, without.ipsets)
    (tmp_path / live_policy.FILE).write_text("rubbish")
    assert what(machine, state).iptables == without.iptables


def test_the_preview_of_sessions_has_live_policy(machine, tmp_path):
    """A run learns which SSH connections its policy would deny together with live documents."""
    machine.store = str(tmp_path)
    machine.sessions = lambda: (SshSession("10.10.1.1", 51444, "10.10.1.11", 22),)
    machine.kernel.link_add(NewLink("eth0", "bridge"))
    machine.kernel.link_set("eth0", up=True)
    machine.kernel.address_add(InterfaceAddress("eth0", "10.10.1.11", 24))
    write_route(machine.kernel, "0.0.0.0/0", RouteAttributes(device="eth0", gateway="10.10.1.254"))
    host = Endpoint("HostEndpoint", "node1-net", "node1", addresses=("10.10.1.11",), profiles=("open",))
    own = policy_set([], [], [dataclasses.replace(allow_all(), name="open")])
    settings = PolicySettings(live=True, failsafe_inbound=(), failsafe_outbound=())
    state = dataclasses.replace(STATE, policy=PolicyState(own, (host,), settings))
    assert lockout_check.newly_denied(machine, state) == []
    documents = {DocumentKey("GlobalNetworkPolicy", "", "block"): ReadDocument(LIVE, live_documents.pack(LIVE))}
    live_policy.save(machine.store, StoredLivePolicy(resolve(own, [LIVE]), documents, 1, 1))
    (found,) = lockout_check.newly_denied(machine, state)
    assert found.by == "block#1 (ingress, HostEndpoint node1-net)"
