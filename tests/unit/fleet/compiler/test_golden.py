# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of whole NodeStates of small fleets against files that people have checked: golden/<case>/<node>.json.

After an intended change run GOLDEN=write pytest tests/unit/fleet/compiler/test_golden.py, and check the output of
git diff.
"""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.unit.fleet.fleets import ADDRESSES6, LAB, WORKLOADS, build, pool, states, workload

GOLDEN = pathlib.Path(__file__).parent / "golden"


def ipip_crosssubnet() -> Fleet:
    return build(pool("ipip-crosssubnet", natOutgoing=True))


def vxlan_and_direct_with_spare_blocks() -> Fleet:
    return build(
        pool("vxlan"),
        pool("direct", "plain", "10.245.0.0/20", blockSize=28),
        workloads=[*WORKLOADS, workload("db-1", "node1", namespace="prod", pool="plain", address="10.245.1.5")],
        spare_blocks=2,
    )


def vxlan_without_bgp() -> Fleet:
    return build(pool("vxlan", natOutgoing=True), bgp_enabled=False)


def direct_with_reflectors() -> Fleet:
    return build(
        pool("direct", natOutgoing=True),
        reflectors={"rr1": "10.10.1.2/24", "rr2": "10.10.2.2/24"},
        own={name: {"calico_node_labels": {"rack": "a" if name in ("node1", "node2") else "b"}} for name in LAB},
        bgp_peers=[{"name": "router", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "rack == 'a'"}],
    )


def dual_stack() -> Fleet:
    return build(
        pool("ipip-crosssubnet", natOutgoing=True),
        pool("vxlan-crosssubnet", "six", "fd00:10:244::/64", natOutgoing=True),
        own=ADDRESSES6,
        workloads=[*WORKLOADS, workload("six-1", "node1", ip_families=["IPv6"], address_ipv6="fd00:10:244::1234")],
        ip_reservations=["fd00:10:244::/112", "10.244.0.0/28"],
    )


def ipv6_alone() -> Fleet:
    """Return a fleet in which two of four nodes have IPv6 only: no IPv4 pool selects them."""
    alone = {"calico_node_address": None, "calico_node_labels": {"alone": "yes"}}
    return build(
        pool("ipip-crosssubnet", natOutgoing=True, nodeSelector="!has(alone)"),
        pool("vxlan-crosssubnet", "six", "fd00:10:244::/64", natOutgoing=True),
        own={**ADDRESSES6, **{name: {**ADDRESSES6[name], **alone} for name in ("node1", "node4")}},
    )


def flip6(before: str, after: str) -> dict[str, NodeState]:
    current = build(pool("direct"), pool(before, "six", "fd00:10:244::/64"), own=ADDRESSES6)
    target = build(pool("direct"), pool(after, "six", "fd00:10:244::/64"), own=ADDRESSES6, previous=current.allocation)
    old, new = states(current), states(target)
    return {"node1": transition.phase_state(old["node1"], new["node1"], "prepare")}


def flip(before: str, after: str) -> dict[str, NodeState]:
    current = build(pool(before))
    target = build(pool(after), previous=current.allocation)
    old, new = states(current), states(target)
    return {"node1": transition.phase_state(old["node1"], new["node1"], "prepare")}


CASES: dict[str, tuple[t.Callable[[], dict[str, NodeState]], tuple[str, ...]]] = {
    "ipip-crosssubnet": (lambda: states(ipip_crosssubnet()), ("node1", "node4")),
    "dual-stack": (lambda: states(dual_stack()), ("node1",)),
    "ipv6-alone": (lambda: states(ipv6_alone()), ("node1",)),
    "ipv6-from-vxlan-to-direct": (lambda: flip6("vxlan", "direct"), ("node1",)),
    "vxlan-and-direct": (lambda: states(vxlan_and_direct_with_spare_blocks()), ("node1",)),
    "vxlan-without-bgp": (lambda: states(vxlan_without_bgp()), ("node1",)),
    "direct-with-reflectors": (lambda: states(direct_with_reflectors()), ("node1", "rr1")),
    "from-ipip-to-direct": (lambda: flip("ipip", "direct"), ("node1",)),
}


def written(state: NodeState) -> str:
    """Return the state as JSON that ends with a newline, with each innermost object and list on one line."""

    def lines(value: t.Any, indent: str) -> str:
        inner = indent + " "
        if isinstance(value, dict) and value and any(isinstance(item, (dict, list)) for item in value.values()):
            body = (f"{inner}{json.dumps(key)}: {lines(item, inner)}" for key, item in value.items())
            return "{\n" + ",\n".join(body) + f"\n{indent}}}"
        if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
            return "[\n" + ",\n".join(f"{inner}{lines(item, inner)}" for item in value) + f"\n{indent}]"
        return json.dumps(value)

    return lines(state.to_dict(), "") + "\n"


@pytest.mark.parametrize("case", CASES)
def test_a_compiled_state_equals_its_golden_file(case: str) -> None:
    make, nodes = CASES[case]
    found = make()
    for node in nodes:
        path = GOLDEN / case / f"{node}.json"
        text = written(found[node])
        assert NodeState.from_dict(json.loads(text)) == found[node]
        if os.environ.get("GOLDEN") == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.read_text() == text
