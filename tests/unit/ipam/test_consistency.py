# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`ipam check` prints lines like Calico's, and counts every difference between records and node once."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import Allocation
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.consistency import Grants, check

PLANNED = {"10.65.79.0": "ipip-tunnel-addr-node1", "10.65.79.1": "inventory workload web-1"}
GRANTS = Grants(
    "node1",
    {"default": "10.65.0.0/16"},
    [("10.65.79.0/26", "default", False), ("10.65.80.0/26", "default", False), ("10.65.81.0/26", "default", True)],
    PLANNED,
)
TUNNELS = {"ipip-tunnel-addr-node1": "10.65.79.0"}


def held(address, handle, block="10.65.79.0/26", **attributes):
    return Allocation(address, handle, attributes, "default", block)


BOOKS = [held("10.65.79.2", "net.a.eth0"), held("10.65.79.10", "net.b.eth0", namespace="ns", node="node1")]
USED = {"inventory workload web-1": ["10.65.79.1"], "net.a.eth0": ["10.65.79.2"], "net.b.eth0": ["10.65.79.10"]}

CLEAN = """\
Checking IPAM for inconsistencies...

Loading all IPAM blocks...
Found 2 IPAM blocks.
 IPAM block 10.65.79.0/26 affinity=host:node1:
 IPAM block 10.65.80.0/26 affinity=host:node1:
IPAM blocks record 4 allocations.

Loading all IPAM pools...
  10.65.0.0/16
Found 1 active IP pools.

Loading all nodes.
Found 1 node tunnel IPs.

Loading all workload endpoints.
Found 3 workload IPs.
Workloads and nodes are using 4 IPs.

Loading all handles
Looking for top (up to 20) nodes by allocations...
  node1 has 4 allocations
Node with most allocations has 4; median is 4

Scanning for IPs that are allocated but not actually in use...
Found 0 IPs that are allocated in IPAM but not actually in use.
Scanning for IPs that are in use by a workload or node but not allocated in IPAM...
Found 0 in-use IPs that are not in active IP pools.
Found 0 in-use IPs that are in active IP pools but have no corresponding IPAM allocation.
Scanning for IPs that are in use by another than they were allocated to, or by several...
Found 0 IPs in use by another than IPAM says.
Found 0 IPs in use in several places.

Scanning for IPAM handles with no matching IPs...
Found 0 handles with no matching IPs (and 4 handles with matches).
Scanning for IPs with missing handle...
Found 0 handles mentioned in blocks with no matching handle resource.
Validating IPAMBlock structures...
Found 0 invalid IPAMBlocks.
Check complete; found 0 problems."""


def test_a_node_in_order():
    report = check(BOOKS, USED, TUNNELS, GRANTS, ())
    assert "\n".join(report.lines) == CLEAN
    assert report.problems == 0


@pytest.mark.parametrize(
    ("books", "used", "tunnels", "grants", "lines"),
    [
        (
            BOOKS,
            {key: USED[key] for key in list(USED)[:1]},
            TUNNELS,
            GRANTS,
            [
                "  10.65.79.2 leaked; attrs handle_id=net.a.eth0",
                "  10.65.79.10 leaked; attrs handle_id=net.b.eth0 namespace=ns node=node1",
                "Found 2 IPs that are allocated in IPAM but not actually in use.",
            ],
        ),
        (
            BOOKS,
            USED,
            {},
            GRANTS,
            [
                "  10.65.79.0 planned for ipip-tunnel-addr-node1, which does not have it",
                "Found 1 IPs that are allocated in IPAM but not actually in use.",
            ],
        ),
        (
            BOOKS,
            {**USED, "net.c.eth0": ["192.168.0.9"], "net.d.eth0": ["10.65.80.7"]},
            TUNNELS,
            GRANTS,
            [
                "  192.168.0.9 in use by net.c.eth0, not in any active IP pool",
                "Found 1 in-use IPs that are not in active IP pools.",
                "  10.65.80.7 in use by net.d.eth0, not allocated",
                "Found 1 in-use IPs that are in active IP pools but have no corresponding IPAM allocation.",
            ],
        ),
        (
            BOOKS,
            {**USED, "net.b.eth0": [], "net.e.eth0": ["10.65.79.10"]},
            TUNNELS,
            GRANTS,
            [
                "  10.65.79.10 in use by net.e.eth0, allocated to net.b.eth0",
                "Found 1 IPs in use by another than IPAM says.",
            ],
        ),
        (
            BOOKS,
            {**USED, "net.e.eth0": ["10.65.79.10"]},
            TUNNELS,
            GRANTS,
            ["  10.65.79.10 in use by net.b.eth0, net.e.eth0", "Found 1 IPs in use in several places."],
        ),
        (
            [*BOOKS, held("10.65.81.3", "net.c.eth0", "10.65.81.0/26"), held("10.65.79.0", "net.d.eth0")],
            {**USED, "net.c.eth0": ["10.65.81.3"]},
            TUNNELS,
            Grants(
                "node1",
                GRANTS.pools,
                [*GRANTS.blocks, ("10.65.79.0/28", "default", False), ("10.66.0.0/26", "default", False)],
                PLANNED,
            ),
            [
                "  block 10.66.0.0/26 lies outside of pool default (10.65.0.0/16)",
                "  blocks 10.65.79.0/26 and 10.65.79.0/28 overlap",
                "  10.65.81.3 of net.c.eth0 lies in no open block of this node",
                "  10.65.79.0 is planned for ipip-tunnel-addr-node1 and allocated to net.d.eth0",
                "Found 4 invalid IPAMBlocks.",
            ],
        ),
        (
            [],
            {},
            TUNNELS,
            GRANTS._replace(blocks=[], planned={"10.65.79.0": "ipip-tunnel-addr-node1"}),
            [
                "  10.65.79.0 of ipip-tunnel-addr-node1 lies in no open block of this node",
                "Found 1 invalid IPAMBlocks.",
            ],
        ),
    ],
)
def test_each_kind_of_problem_is_printed_and_counted(books, used, tunnels, grants, lines):
    report = check(books, used, tunnels, grants, ())
    found = [line for line in report.lines if line in lines]
    assert found == lines
    problems = [line for line in lines if line.startswith("  ")]
    assert report.problems == len(problems)
    assert report.lines[-1] == f"Check complete; found {len(problems)} problems."


def test_a_report_is_json():
    report = check([*BOOKS, held("10.65.79.3", "net.x.eth0")], {**USED, "y": ["10.65.79.2"]}, TUNNELS, GRANTS, ())
    data = json.loads(json.dumps(report.to_dict()))
    assert data["problems"] == 2
    assert data["lines"] == list(report.lines)
    assert data["leaked"] == [
        {
            "address": "10.65.79.3",
            "handle": "net.x.eth0",
            "attributes": {},
            "pool": "default",
            "block": "10.65.79.0/26",
        }
    ]
    assert data["duplicate"] == [{"address": "10.65.79.2", "users": ["net.a.eth0", "y"]}]


def test_an_address_of_another_family_lies_in_no_pool():
    report = check([], {"six": ["fd00::1"]}, {}, GRANTS._replace(planned={}), ())
    assert report.outside == (("fd00::1", "six"),)


def test_the_probe_endpoints_addresses_are_counted_and_missed() -> None:
    """A planned one that it lacks, one that is not planned and one of a workload are problems of their own."""
    planned = {**PLANNED, "10.65.79.62": "probe-addr-node1-six", "10.65.79.63": "probe-addr-node1-default"}
    grants = GRANTS._replace(planned=planned)
    probes = [(handle, address) for address, handle in planned.items() if handle.startswith("probe")]
    report = check(BOOKS, USED, TUNNELS, grants, probes)
    assert report.problems == 0
    assert [line for line in report.lines if "probe" in line] == ["Found 2 probe endpoint IPs."]
    wrong = [*probes[1:], ("probe-addr-node1", "10.65.79.2"), ("probe-addr-node1", "10.65.79.61")]
    found = check(BOOKS, USED, TUNNELS, grants, wrong)
    assert found.unused == (("10.65.79.62", "probe-addr-node1-six"),)
    assert found.missing == (("10.65.79.61", "probe-addr-node1"),)
    assert found.duplicate == (("10.65.79.2", ("net.a.eth0", "probe-addr-node1")),)
