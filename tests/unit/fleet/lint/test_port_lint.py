# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that deny workloads by selector and not by a published port: which are found, and which hold."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.policies import port_lint

from tests.unit.fleet.fleets import build, pool, workload

ALLOW = {"action": "Allow"}
NAT = pool("vxlan", natOutgoing=True)
WEB = {"app": "web"}


def source(action: str = "Deny", selector: str = "app == 'web'", **fields: t.Any) -> dict[str, t.Any]:
    return {"action": action, "source": {"selector": selector}, **fields}


def policy(*rules: t.Any, name: str = "db", **fields: t.Any) -> dict[str, t.Any]:
    return {"kind": "GlobalNetworkPolicy", "name": name, "selector": "app == 'db'", "ingress": list(rules), **fields}


def found(*policies: t.Any, pools: t.Sequence[t.Any] = (NAT,), **rest: t.Any) -> list[tuple[str, str, str]]:
    """Return name, the number of the rule and what allows for each finding."""
    findings = port_lint.findings(build(*pools, policies=list(policies), **rest))
    return [
        (one.name, one.text.split()[1], one.text.partition("), which ")[2].partition(" allows")[0]) for one in findings
    ]


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([policy(source(), ALLOW)], [("db", "1", "db#2")]),
        ([policy(ALLOW, source(), ALLOW)], []),
        ([policy(source())], []),  # what no rule allows is denied from everywhere
        ([policy(source(), source("Allow", "app == 'api'"))], []),
        ([policy(source("Allow", "app == 'api'"), source(), ALLOW)], [("db", "2", "db#3")]),
        ([policy(source(), {"action": "Allow", "source": {"nets": ["10.0.0.0/8"]}})], [("db", "1", "db#2")]),
        ([policy(source(), {"action": "Allow", "source": {"nets": ["192.0.2.0/24"]}})], []),
        ([policy(source(), {"action": "Deny", "source": {"nets": ["10.10.0.0/16"]}}, ALLOW)], []),
        ([policy(source(), {**ALLOW, "protocol": "UDP", "destination": {"ports": [53]}})], [("db", "1", "db#2")]),
        ([policy(source(protocol="TCP"), {**ALLOW, "protocol": "UDP"})], []),
        ([policy(source(protocol="ICMP"), ALLOW)], []),
        ([policy(source(selector="app in {'web', 'api'} && has(tier)"), ALLOW)], [("db", "1", "db#2")]),
        ([policy(source(selector="!has(trusted)"), ALLOW)], [("db", "1", "db#2")]),
        ([policy(source(), order=1), policy(ALLOW, name="all", order=2)], [("db", "1", "all#1")]),
        ([policy(ALLOW, name="all", order=1), policy(source(), order=2)], []),
        ([policy(source(), ALLOW, kind="StagedGlobalNetworkPolicy")], []),
        ([policy(source(), ALLOW, preDNAT=True, applyOnForward=True)], []),
        ([policy(types=["Egress"], egress=[source(), ALLOW])], []),
        ([policy(source(), {"action": "Pass"}, tier="platform"), {"kind": "Tier", "name": "platform", "order": 1}],
         [("db", "1", "profile projectcalico-default-allow#1")]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_rules_that_a_published_port_passes(
    policies: list[t.Any], expected: list[tuple[str, str, str]], known: bool
) -> None:
    """The workloads need not be in the inventory."""
    workloads = [workload("db", "node1", labels={"app": "db"}), workload("web", "node2", labels=WEB)] if known else []
    assert found(*policies, workloads=workloads) == expected


def test_without_masquerading_between_nodes_rules_hold() -> None:
    odd = policy(source(), ALLOW)
    assert found(odd, pools=[pool("vxlan")]) == []
    assert found(odd, nat_outgoing_exclusions="IPPoolsAndHostIPs") == []
    assert found(odd, nodes={"node1": "10.10.1.11/24"}, workloads=[]) == []
