# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shop of inventories/three-tier-policy on the lab's hosts: its places, and which of them reach which.

It also writes inventories of the shop with other policies. Each rule and port for TCP applies to UDP as well here, so
that streams of packets can be counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.fleet import workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool
from tests.lab.measure.reach import Attempt, Place
from tests.lab.topology import OUTSIDE_ADDRESS

from . import inventory

SHIPPED = Path(__file__).resolve().parents[3] / "inventories" / "three-tier-policy" / "group_vars" / "all"
#: The ports of web, app and db, and one that no shipped policy opens.
PORTS = (80, 8080, 5432, 9100)
POOL = Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan", nat_outgoing=True)

Resource = dict[str, Any]


def _shipped(name: str, variable: str) -> list[Resource]:
    answer: list[dict[str, Any]] = yaml.safe_load((SHIPPED / name).read_text("utf-8"))[variable]
    return answer


def by_udp_too(rules: Sequence[Resource]) -> list[Resource]:
    return [
        {**rule, "protocol": protocol} if "protocol" in rule else rule
        for rule in rules
        for protocol in (("TCP", "UDP") if rule.get("protocol") == "TCP" else (rule.get("protocol", ""),))
    ]


def _with_udp(resource: Resource) -> Resource:
    """Return a policy, or a workload, with a copy for UDP of each TCP rule, or of each TCP named port."""
    more: Resource = {name: by_udp_too(resource[name]) for name in ("ingress", "egress", "ports") if name in resource}
    return {**resource, **more}


def shipped_policies() -> list[Resource]:
    return [_with_udp(one) for one in _shipped("policies.yml", "calico_policies")]


def shipped_workloads() -> list[Resource]:
    return [_with_udp(one) for one in _shipped("calico.yml", "calico_workloads")]


class Shop:
    """An inventory of the shop that a test changes and runs again; `labels` are labels of nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mode = POOL.mode
        self.policies = shipped_policies()
        self.workloads = shipped_workloads()
        self.labels: dict[str, dict[str, str]] = {}
        self.variables: dict[str, Any] = {}

    def write(self) -> str:
        return inventory.write(
            self.folder,
            [inventory.pool(dataclasses.replace(POOL, mode=self.mode))],
            self.workloads,
            bgp_peers=inventory.ROUTER,
            policies=self.policies,
            labels=self.labels,
            **self.variables,
        )

    def policy(self, name: str) -> Resource:
        return next(one for one in self.policies if one["name"] == name)

    def replace(self, name: str, **fields: object) -> None:
        self.policies = [{**one, **fields} if one["name"] == name else one for one in self.policies]

    def relabel(self, workload: str, **labels: str) -> None:
        self.workloads = [
            {**one, "labels": {**one["labels"], **labels}} if one["name"] == workload else one for one in self.workloads
        ]


@dataclass(frozen=True)
class Member:
    """A workload, or an outside host, whose `name` is ""; `tier` is its label app.

    `of_inventory` False: an agent attached the workload later, so that only its own node knows its labels.
    """

    name: str
    tier: str
    place: Place
    of_inventory: bool = True

    @property
    def node(self) -> str:
        return self.place.where

    def known_to(self, node: str) -> bool:
        """Return whether `node` knows this member's labels, so that selectors there can match it."""
        return self.of_inventory or self.node == node


OUTSIDER = Member("", "outside", Place("outside", None, OUTSIDE_ADDRESS))


def members(lab: BaseLab, declared: Sequence[Mapping[str, Any]]) -> list[Member]:
    """Return the inventory's workloads, as the nodes have stored them; the tier is from the `declared` ones.

    Raise KeyError for a stored workload that is not declared, and the errors of `workloads`.
    """
    tiers = {one["name"]: one["labels"]["app"] for one in declared}
    return [
        Member(found.name, tiers[found.name], Place(found.node, found.name, found.address)) for found in workloads(lab)
    ]


def attach(lab: BaseLab, node: str, name: str, tier: str) -> Member:
    """Attach a workload that the inventory does not have, through the node's agent, and return it.

    Its namespace is created. Raise CommandFailed if the node refuses that or the workload.
    """
    added = lab.json(
        node,
        f"ip netns add {name} && calicoctl workload add {name} --netns {name} --label app={tier} -o json",
    )
    [address] = added["addresses"]
    return Member(name, tier, Place(node, name, address), of_inventory=False)


def detach(lab: BaseLab, member: Member) -> None:
    lab.exec(member.node, f"calicoctl workload delete {member.name} && ip netns del {member.name}")


def allowed(source: Member, target: Member, port: int) -> bool:
    """Return whether policy allows a connection to `port` by TCP or UDP, as the inventory's comments say.

    It is written by hand, independently of the product's policy code.
    """
    if source.tier == "guest" and not (target.tier == "web" and target.known_to(source.node)):
        return False
    if source.tier == "web" and not (port == 8080 and target.tier == "app" and target.known_to(source.node)):
        return False
    if source.tier == "app" and not (port == 5432 and target.tier == "db" and target.known_to(source.node)):
        return False
    if source.tier == "db":
        return False
    if target.tier == "web":
        return port == 80
    if target.tier == "app":
        return port == 8080 and source.tier == "web" and source.known_to(target.node)
    if target.tier == "db":
        return port == 5432 and source.tier == "app" and source.known_to(target.node)
    return True


def matrix(found: Sequence[Member], protocols: Sequence[str] = ("tcp", "udp")) -> dict[Attempt, tuple[Member, Member]]:
    """Return {attempt: (source, target)}, from each member and an outside host to each other member on all PORTS."""
    return {
        Attempt(source.place, target.place, protocol, port): (source, target)
        for source in (*found, OUTSIDER)
        for target in found
        if source is not target
        for protocol in protocols
        for port in PORTS
    }


def routed_outside(lab: BaseLab) -> None:
    """Add a route to the pool by the router on the outside host, which has none otherwise; it stays there."""
    lab.outside_exec(["ip", "route", "replace", POOL.cidr, "via", "192.0.2.1"])
