# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warnings of a plan, with their places in the inventory; shipped inventories cause none."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import documents_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.policy_notices import notices

from tests.unit.fleet.fleets import hosts, pool, workload

ROOT = pathlib.Path(__file__).resolve().parents[4]
TIER = """\
apiVersion: projectcalico.org/v3
kind: Tier
metadata: {name: platform}
spec: {order: 10}
---
apiVersion: projectcalico.org/v3
kind: StagedNetworkPolicy
metadata: {name: web}
spec:
  ingress: [{action: Deny}, {action: Allow}]
"""


def warned(documents: str = "", **variables: t.Any) -> list[str]:
    given = hosts(pool("direct"), **variables)
    given = [dataclasses.replace(host, origins={"calico_policies[0]": "group_vars/all.yml:7"}) for host in given]
    files = [Document(content, "policy/all.yml", line) for content, line in documents_of(documents, "policy/all.yml")]
    return list(notices(Fleet.build(inventory.read(given, files), None), given))


def test_each_warning_names_its_place_in_the_inventory() -> None:
    odd = {"kind": "NetworkPolicy", "name": "w", "ingress": [{"action": "Deny"}, {"action": "Allow"}]}
    host = {"kind": "HostEndpoint", "name": "h", "interfaceName": "eth0"}
    unreached = (
        "rule 2 of Ingress is never reached: rule 1 (Deny) matches all that it does. Move it before that, or remove it."
    )
    assert warned(TIER, policies=[odd], own={"node2": {"calico_node_policies": [host]}}) == [
        f"policy/all.yml:6: NetworkPolicy default/staged:web: {unreached}",
        f"group_vars/all.yml:7: calico_policies[0]: NetworkPolicy default/w: {unreached}",
        "policy/all.yml:1: Tier platform: has no policy and decides nothing. Remove it, or give it one.",
        "calico_node_policies[0] of node2: HostEndpoint h: has no profile, and no policy without preDNAT applies to "
        "it: nothing but failsafe ports reaches node2 there, or leaves it. Write a policy that selects it, or give it "
        "the profile projectcalico-default-allow.",
    ]


def variables_in(folder: pathlib.Path) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    for path in sorted(folder.glob("group_vars/all/*.yml")):
        found.update(yaml.safe_load(path.read_text("utf-8")))
    return found


@pytest.mark.parametrize("where", ["inventories/three-tier-policy", "docs/how-to/policy.md"])
def test_nothing_is_found_in_what_is_shipped(where: str) -> None:
    if where.startswith("docs"):
        text = re.findall(r"```yaml\n(# group_vars.*?)```", (ROOT / where).read_text("utf-8"), re.DOTALL)[0]
        found = yaml.safe_load(text)
    else:
        found = variables_in(ROOT / where)
    assert found["calico_policies"]
    assert warned(workloads=found["calico_workloads"], policies=found["calico_policies"]) == []


def test_without_policy() -> None:
    assert warned(workloads=[workload("w1", "node1")]) == []
