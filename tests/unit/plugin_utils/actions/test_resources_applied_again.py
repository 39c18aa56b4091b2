# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `get -o yaml` prints for the inventories of this repository changes nothing when it is applied."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds

from tests.unit.plugin_utils import controller

ROOT = pathlib.Path(__file__).resolve().parents[4]
#: The inventories that have their hosts in a file.
NAMES = sorted(path.name for path in (ROOT / "inventories").iterdir() if (path / "hosts.yml").exists())
#: An inventory with the kinds that those have not, in variables, with fields beyond Calico's and in other spellings.
EVERYTHING = """\
all:
  vars:
    calico_ip_pools: [{name: p, cidr: 10.244.0.0/16, encapsulation: VXLANCrossSubnet}]
    calico_ip_reservations: [10.244.7.0/30]
    calico_iptables_filter_deny_action: Reject
    calico_bgp_filters: [{name: no-default, exportV4: [{action: Reject, cidr: 0.0.0.0/0, matchOperator: Equal}]}]
    calico_bgp_peers: [{peerIP: 10.10.1.1, asNumber: 65000, filters: [no-default], bfd: true, holdTime: 90}]
    calico_policies:
      - {kind: Tier, name: first, order: 10}
      - {kind: GlobalNetworkPolicy, name: first.all, tier: first, selector: "a=='b'", ingress: [{action: Pass}]}
      - {kind: NetworkPolicy, name: web, namespace: prod, selector: "app=='web'", types: [Ingress]}
      - {kind: StagedGlobalNetworkPolicy, name: later, selector: all(), types: [Egress]}
      - {kind: StagedNetworkPolicy, name: later, selector: all(), types: [Egress]}
      - {kind: Profile, name: open, egress: [{action: Allow}], labelsToApply: {a: b}}
      - {kind: GlobalNetworkSet, name: documentation, labels: {a: b}, nets: [192.0.2.0/024]}
      - {kind: NetworkSet, name: documentation, nets: [192.0.2.1]}
      - {kind: HostEndpoint, name: eth0-of-node1, node: node1, interfaceName: eth0}
calico_nodes:
  hosts:
    node1: {calico_node_address: 10.10.1.11/24, calico_node_bgp_listen_port: 1790}
"""
#: The kinds whose documents are no resources of files.
_NOT_OF_FILES = ("WorkloadEndpoint",)
_OF_POLICY = ("GlobalNetworkPolicy", "NetworkPolicy", "GlobalNetworkSet", "NetworkSet")


@pytest.fixture(scope="module")
def inventories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The path of each inventory by its name: those of the repository, and `everything`."""
    path = tmp_path_factory.mktemp("everything") / "hosts.yml"
    path.write_text(EVERYTHING)
    return {**{name: str(ROOT / "inventories" / name) for name in NAMES}, "everything": str(path)}


@pytest.fixture(scope="module")
def documents(
    inventories: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, t.Any]]]:
    """What `get -o yaml` prints of each inventory: all its resources."""
    folder = tmp_path_factory.mktemp("printed")
    asked = [
        controller.Run(
            "fleet_resources",
            {"output": "none", "answer_file": str(folder / name)},
            hosts,
            {"": {}},
        )
        for name, hosts in inventories.items()
    ]
    for result in controller.run(asked):
        assert not result.get("failed"), result
    found = {name: json.loads((folder / name).read_text())["answer"]["resources"] for name in inventories}
    return {
        name: [one for kind, of_kind in of_kinds.items() if kind not in _NOT_OF_FILES for one in of_kind]
        for name, of_kinds in found.items()
    }


@pytest.fixture(scope="module")
def results(
    inventories: dict[str, str],
    documents: dict[str, list[dict[str, t.Any]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, t.Any]]:
    """The results of applying all resources of each inventory to itself, and those of `NAME of policy` to NAME.

    Resources of policy alone are compared without a plan of the fleet. `NAME before a change` has versions that the
    resources no longer have.
    """
    folder = tmp_path_factory.mktemp("again")
    asked = {
        **documents,
        **{
            f"{name} of policy": [one for one in printed if one["kind"] in _OF_POLICY]
            for name, printed in documents.items()
        },
        f"{NAMES[0]} before a change": [
            {**one, "metadata": {**one["metadata"], "resourceVersion": "r0123456789abcdef"}}
            for one in documents[NAMES[0]]
        ],
    }
    runs = {}
    for name, contents in asked.items():
        listed = [{"content": content, "place": f"x.yml:{index}"} for index, content in enumerate(contents)]
        request = {"verb": "apply", "namespace": "", "skip": False, "dry_run": False, "adopt": False}
        request["documents"] = listed
        (folder / f"{name}.json").write_text(json.dumps(request))
        args = {"output": "none", "request_file": str(folder / f"{name}.json")}
        path = inventories[name.partition(" ")[0]]
        runs[name] = controller.Run("resource_change", args, path, {"": {}}, check_mode=True)
    return dict(zip(runs, controller.run(list(runs.values()))))


def test_each_document_has_its_version(documents: dict[str, list[dict[str, t.Any]]]) -> None:
    versions = [one["metadata"]["resourceVersion"] for printed in documents.values() for one in printed]
    assert all(re.fullmatch("r[0-9a-f]{16}", version) for version in versions)


def test_what_get_printed_before_somebody_s_change_is_refused(results: dict[str, dict[str, t.Any]]) -> None:
    result = results[f"{NAMES[0]} before a change"]
    assert result["failed"]
    assert result["msg"].startswith("failed to apply any resources: [update conflict: ")
    assert result["msg"].count("update conflict: ") == result["msg"].count(" is out of date (latest: r") > 5


@pytest.mark.parametrize("part", ["", " of policy"])
@pytest.mark.parametrize("inventory", [*NAMES, "everything"])
def test_what_get_prints_changes_nothing(results: dict[str, dict[str, t.Any]], inventory: str, part: str) -> None:
    result = results[f"{inventory}{part}"]
    assert not result.get("failed"), result["msg"]
    assert (result["changed"], result["files"]) == (False, [])
    assert result["lines"][0].startswith("Successfully applied ")
    assert all(line.endswith(" is unchanged") for line in result["lines"][1:])


def test_the_inventories_have_all_kinds(results: dict[str, dict[str, t.Any]]) -> None:
    lines = [line for result in results.values() for line in result.get("lines", ())]
    found = {kind.name for kind in kinds.KINDS if any(line.startswith(f"{kind.name}(") for line in lines)}
    assert found >= {kind.name for kind in kinds.KINDS} - {*_NOT_OF_FILES}
