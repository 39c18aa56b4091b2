# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl ipam`, from the agent, or from the disk if the agent does not run: one address, one table, one verdict."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import ipam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.cli.conftest import POD, STATE, WEB, Node

DOWN = (
    "calicoctl: the agent does not run (nobody listens at NODE/run/agent.sock); this is what the node has on its "
    "disk.\n"
)
ALONE = "calicoctl: this is node1's view alone: without a datastore, a node knows only its own workloads.\n"
SHOWN = """\
+----------+---------------+-----------+------------+--------------+-----------+
| GROUPING |     CIDR      | IPS TOTAL | IPS IN USE | IPS RESERVED | IPS FREE  |
+----------+---------------+-----------+------------+--------------+-----------+
| IP Pool  | 10.244.0.0/16 |       128 | 4 (3%)     | 4 (3%)       | 120 (94%) |
| IP Pool  | 10.245.0.0/24 |         0 | 0 (0%)     | 0 (0%)       | 0 (0%)    |
+----------+---------------+-----------+------------+--------------+-----------+
Counts are of this node's own blocks, 1 open and 1 spare; a node knows only its own.
"""
BLOCKS = """\
+---------------+----------------+-----------+------------+--------------+-----------+
|   GROUPING    |      CIDR      | IPS TOTAL | IPS IN USE | IPS RESERVED | IPS FREE  |
+---------------+----------------+-----------+------------+--------------+-----------+
| IP Pool       | 10.244.0.0/16  |       128 | 4 (3%)     | 4 (3%)       | 120 (94%) |
| Block         | 10.244.3.0/26  |        64 | 4 (6%)     | 4 (6%)       | 56 (88%)  |
| Block (spare) | 10.244.9.64/26 |        64 | 0 (0%)     | 0 (0%)       | 64 (100%) |
| IP Pool       | 10.245.0.0/24  |         0 | 0 (0%)     | 0 (0%)       | 0 (0%)    |
+---------------+----------------+-----------+------------+--------------+-----------+
Counts are of this node's own blocks, 1 open and 1 spare; a node knows only its own.
"""
CONFIGURATION = """\
+--------------------+-------+
|      PROPERTY      | VALUE |
+--------------------+-------+
| StrictAffinity     | true  |
| AutoAllocateBlocks | false |
| MaxBlocksPerHost   |     2 |
| IPCooldownSeconds  |    30 |
+--------------------+-------+
"""


def fill(node: Node, *more: str) -> None:
    """Store the state, the allocations of WEB, POD and the handles `more`, and the records of WEB and POD.

    Raise AllocationError if the node's blocks have no address left.
    """
    node.store()
    books = LocalIpam(node.machine.ipam)
    books.load()
    books.grant(STATE)
    records = Endpoints(node.machine.workloads)
    for workload in (WEB, POD):
        books.assign(workload.id, {"node": "node1", "workload": workload.id})
        records.save(workload)
    for handle in more:
        books.assign(handle, {})
    books.flush()


def serve(node: Node, *more: str) -> None:
    """Write the same as `fill`, and start an agent that answers ipam.show and ipam.check accordingly.

    Raise what `fill` raises.
    """
    fill(node, *more)
    books = LocalIpam(node.machine.ipam)
    books.load()
    books.grant(STATE)
    agent = node.agent()
    agent.answers["ipam.show"] = {
        "usage": [usage._asdict() for usage in books.usage()],
        "allocations": [{**found._asdict(), "attributes": dict(found.attributes)} for found in books.allocations()],
    }
    agent.answers["ipam.check"] = books.check(STATE, [WEB, POD]).to_dict()


@pytest.mark.parametrize(("arguments", "expected"), [([], SHOWN), (["--show-blocks"], BLOCKS)])
def test_ipam_show_prints_pools_and_blocks(node: Node, arguments: list[str], expected: str) -> None:
    serve(node)
    assert node.run("ipam", "show", *arguments) == (0, expected, "")


def test_the_disk_says_what_the_agent_says(node: Node) -> None:
    fill(node)
    before = {path: path.read_bytes() for path in node.folder.rglob("*") if path.is_file()}
    assert node.run("ipam", "show", "--show-blocks") == (0, BLOCKS, DOWN)
    on_disk = node.run("ipam", "check")
    assert {path: path.read_bytes() for path in node.folder.rglob("*") if path.is_file()} == before
    serve(node)
    assert node.run("ipam", "check") == (0, on_disk[1], ALONE)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "10.244.3.2",
            "IP 10.244.3.2 is in use\nHandle ID: default/web-1\nActive Owner Attributes:\n  node: node1\n"
            "  workload: default/web-1\n",
        ),
        ("10.244.3.4", "IP 10.244.3.4 is in use\nHandle ID: lost\nNo Active Owner attributes defined\n"),
        (
            "10.244.3.0",
            "IP 10.244.3.0 is in use\nHandle ID: ipip-tunnel-addr-node1\nActive Owner Attributes:\n  node: node1\n"
            "  type: ipipTunnelAddress\n",
        ),
        (
            "10.244.3.1",
            "IP 10.244.3.1 is in use\nHandle ID: default/db\nActive Owner Attributes:\n  by: inventory\n"
            "  node: node1\n  workload: default/db\n",
        ),
        ("10.244.3.40", "10.244.3.40 is not assigned\n"),
    ],
)
def test_ipam_show_prints_the_owner_of_an_address(node: Node, address: str, expected: str) -> None:
    serve(node, "lost")
    assert node.run("ipam", "show", "--ip", address) == (0, expected, "")


def test_ipam_show_and_check_print_json(node: Node) -> None:
    serve(node)
    found = json.loads(node.run("ipam", "show", "-o", "json")[1])
    assert [block["cidr"] for block in found["usage"]] == ["10.244.3.0/26", "10.244.9.64/26"]
    assert json.loads(node.run("ipam", "show", "--ip", "10.244.3.3", "-o", "json")[1])["handle"] == POD.id
    assert json.loads(node.run("ipam", "show", "--ip", "10.244.3.40", "-o", "json")[1]) is None
    assert json.loads(node.run("ipam", "check", "-o", "json")[1])["problems"] == 0


def test_ipam_show_prints_the_configuration(node: Node) -> None:
    node.store()
    assert node.run("ipam", "show", "--show-configuration") == (0, CONFIGURATION, "")


def test_configuration_has_the_cooldown_of_the_agents_settings(node: Node) -> None:
    node.store()
    path = node.folder / "root" / "etc" / "calico" / "agent.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"cooldown": 300}')
    expected = CONFIGURATION.replace("|    30 |", "|   300 |")
    assert node.run("ipam", "show", "--show-configuration") == (0, expected, "")
    path.write_text('{"cooldown": -1}')
    assert node.run("ipam", "show", "--show-configuration") == (
        1,
        "",
        "calicoctl: NODE/root/etc/calico/agent.json: cooldown is -1, not a number from 0 to 1e+12. "
        "Correct it, then start the agent again.\n",
    )


def test_check_finds_a_leak(node: Node) -> None:
    fill(node, "lost")
    status, out, err = node.run("ipam", "check")
    assert (status, err) == (1, DOWN + ALONE)
    assert out.startswith("Checking IPAM for inconsistencies...\n\nLoading all IPAM blocks...\nFound 1 IPAM blocks.\n")
    assert "  10.244.3.4 leaked; attrs handle_id=lost\n" in out
    assert out.endswith("Check complete; found 1 problems.\n")


def test_release_is_the_agents(node: Node) -> None:
    serve(node, "lost")
    agent = node.agents[-1]
    agent.answers["ipam.release"] = {"released": True}
    expected = "Successfully released IP address 10.244.3.4\n"
    assert node.run("ipam", "release", "--ip", "10.244.3.4") == (0, expected, "")
    assert agent.asked[-1] == ("ipam.release", {"address": "10.244.3.4"})
    agent.answers["ipam.release"] = AgentError("conflict", "10.244.3.2 is that of workload default/web-1. Delete it.")
    expected = "calicoctl: 10.244.3.2 is that of workload default/web-1. Delete it.\n"
    assert node.run("ipam", "release", "--ip", "10.244.3.2") == (1, "", expected)


def test_release_needs_the_agent(node: Node) -> None:
    node.store()
    status, out, err = node.run("ipam", "release", "--ip", "10.244.3.2")
    assert (status, out) == (1, "")
    assert err.startswith("calicoctl: the agent of this node does not answer. Its socket is NODE/run/agent.sock: ")


def test_an_invalid_ip_is_refused(node: Node) -> None:
    node.store()
    error = "calicoctl: --ip 10.244.3 is not an IP address. Write it as 10.244.3.7.\n"
    assert node.run("ipam", "show", "--ip", "10.244.3") == (2, "", error)
    assert node.run("ipam", "release", "--ip", "10.244.3") == (2, "", error)
    zone = "calicoctl: --ip fd00::7%eth0 is not an IP address. Write it as 10.244.3.7.\n"
    assert node.run("ipam", "show", "--ip", "fd00::7%eth0") == (2, "", zone)


def test_blocks_of_a_pool_that_is_gone_are_shown() -> None:
    usage = [{"cidr": "10.9.0.0/26", "pool": "old", "size": 64, "in_use": 3, "reserved": 0, "free": 61, "spare": False}]
    table = ipam.usage_table(usage, {}, blocks=True)
    assert "| IP Pool  |             |        64 | 3 (5%)     | 0 (0%)       | 61 (95%) |\n" in table


def test_ipam_show_names_the_probe_endpoint(node: Node) -> None:
    """The probe endpoint is named as the owner of its address, with an agent and without one."""
    probes = {"default": "10.244.3.63"}
    node.store(dataclasses.replace(STATE, ipam=dataclasses.replace(STATE.ipam, probes=probes)))
    expected = (
        "IP 10.244.3.63 is in use\nHandle ID: probe-addr-node1-default\nActive Owner Attributes:\n  node: node1\n"
        "  pool: default\n  type: probeEndpointAddress\n"
    )
    assert node.run("ipam", "show", "--ip", "10.244.3.63")[:2] == (0, expected)
    block = next(line for line in node.run("ipam", "show", "--show-blocks")[1].splitlines() if "10.244.3.0/26" in line)
    assert block == "| Block         | 10.244.3.0/26  |        64 | 3 (5%)     | 4 (6%)       | 58 (91%)  |"
