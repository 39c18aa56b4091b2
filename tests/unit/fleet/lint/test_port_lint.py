# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that deny workloads by selector or net and not by a published port: which are found, and which hold."""

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


def nets(action: str = "Deny", *cidrs: str, **fields: t.Any) -> dict[str, t.Any]:
    return {"action": action, "source": {**({"nets": list(cidrs)} if cidrs else {}), **fields}}


OF_POOL = "10.244.0.0/16"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([nets("Deny", OF_POOL), ALLOW], [("db", "1", "db#2")]),
        ([nets("Deny", "10.244.7.0/24"), ALLOW], [("db", "1", "db#2")]),
        ([nets("Deny", "10.244.7.1/32"), ALLOW], [("db", "1", "db#2")]),
        ([nets("Deny", "192.0.2.0/24", "10.244.7.1/32"), ALLOW], [("db", "1", "db#2")]),
        # The nodes are 10.10.1.11 and so on.
        ([nets("Deny", "10.0.0.0/8"), ALLOW], []),
        ([nets("Deny", OF_POOL, "10.10.0.0/16"), ALLOW], []),
        ([nets("Deny", OF_POOL), nets("Deny", "10.10.0.0/16"), ALLOW], []),
        ([nets("Deny", OF_POOL)], []),  # what no rule allows is denied from everywhere
        ([nets("Deny", "192.0.2.0/24"), ALLOW], []),  # no workload has such an address
        ([nets("Deny", "fd00::/8"), ALLOW], []),  # the pool is of IPv4
        ([nets("Allow", OF_POOL), nets("Deny", OF_POOL), ALLOW], []),
        ([nets("Allow", "10.244.7.0/24"), nets("Deny", OF_POOL), ALLOW], [("db", "2", "db#3")]),
        ([nets("Deny", notNets=["10.10.0.0/16"]), ALLOW], [("db", "1", "db#2")]),
        ([nets("Deny", notNets=[OF_POOL]), ALLOW], []),
        ([nets("Deny", OF_POOL, notNets=["10.244.255.255/32"]), ALLOW], [("db", "1", "db#2")]),
        ([nets("Deny", OF_POOL, selector="app == 'web'"), ALLOW], [("db", "1", "db#2")]),
        ([source("Allow"), nets("Deny", OF_POOL, selector="app == 'web'"), ALLOW], []),
        ([{"action": "Deny"}, ALLOW], []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_rules_with_nets_that_a_published_port_passes(
    rules: list[t.Any], expected: list[tuple[str, str, str]], known: bool
) -> None:
    workloads = [workload("db", "node1", labels={"app": "db"}), workload("web", "node2", labels=WEB)] if known else []
    assert found(policy(*rules), workloads=workloads) == expected


def test_a_rule_for_the_address_of_one_workload() -> None:
    """Its labels decide on rules before that one."""
    web = workload("web", "node2", address="10.244.9.9", labels=WEB)
    alone = nets("Deny", "10.244.9.9/32")
    assert found(policy(alone, ALLOW), workloads=[web]) == [("db", "1", "db#2")]
    assert found(policy(source("Allow"), alone, ALLOW), workloads=[web]) == []
    (finding,) = port_lint.findings(build(NAT, policies=[policy(alone, ALLOW)], workloads=[web]))
    assert finding.text.startswith("rule 1 of Ingress denies by net what a published port lets in: by a port that")


def test_nets_of_ipv6_are_those_of_its_own_pools() -> None:
    six = pool("vxlan", "six", "fd00:10:244::/64", natOutgoing=True)
    own = {f"node{number}": {"calico_node_address_ipv6": f"fd00:10:10::{number}/64"} for number in (1, 2, 3, 4)}
    rules = nets("Deny", "fd00:10:244::/64"), ALLOW
    assert found(policy(*rules), pools=[NAT, six], own=own, workloads=[]) == [("db", "1", "db#2")]
    assert found(policy(*rules), pools=[NAT], own=own, workloads=[]) == []


def test_without_masquerading_between_nodes_rules_hold() -> None:
    odd = policy(source(), ALLOW)
    assert found(odd, pools=[pool("vxlan")]) == []
    assert found(odd, nat_outgoing_exclusions="IPPoolsAndHostIPs") == []
    assert found(odd, nodes={"node1": "10.10.1.11/24"}, workloads=[]) == []
