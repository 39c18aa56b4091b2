# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action resource_change, which `calicoctl -i INVENTORY apply` runs, with inventories as Ansible reads them."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import resource_change

from tests.unit.plugin_utils import controller

HOSTS = """\
all:
  vars:
    calico_resource_files: [../net]
    calico_policy_files: [../policy.yml]
    calico_ip_pools:
      - {name: listed, cidr: 10.245.0.0/16, encapsulation: None}
calico_nodes:
  hosts:
    node1: {calico_node_address: 10.10.1.11/24, calico_node_labels: {rack: a}}
    node2: {calico_node_address: 10.10.1.12/24}
"""
POOL = """\
# The pools of the fleet.
---
# agreed with the network team
apiVersion: projectcalico.org/v3
kind: IPPool
metadata:
  name: default
spec:
  cidr: 10.244.0.0/16
  ipipMode: CrossSubnet
  natOutgoing: true
"""
BGP = "kind: BGPConfiguration\nmetadata:\n  name: default\nspec:\n  asNumber: 64520\n"
POLICY = "kind: GlobalNetworkPolicy\nmetadata:\n  name: all\nspec:\n  selector: all()\n  types: [Ingress]\n"
INSTALLATION = """\
apiVersion: operator.tigera.io/v1
kind: Installation
metadata:
  name: default
spec:
  calicoNetwork:
    ipPools:
    - {name: asked, cidr: 10.246.0.0/16, encapsulation: VXLAN}
"""
FILES = {"prod/hosts.yml": HOSTS, "net/pools.yml": POOL, "net/bgp.yml": BGP, "policy.yml": POLICY}


def document(kind: str, name: str, spec: t.Any, **metadata: t.Any) -> dict[str, t.Any]:
    return {"apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def request(verb: str, *documents: t.Any, **more: t.Any) -> dict[str, t.Any]:
    found = {"verb": verb, "namespace": "", "skip": False, "dry_run": False, "adopt": False, **more}
    if documents:
        found["documents"] = [{"content": one, "place": f"x.yml:{index}"} for index, one in enumerate(documents, 1)]
    return found


VXLAN = document("IPPool", "default", {"cidr": "10.244.0.0/16", "vxlanMode": "Always", "natOutgoing": True})
NEW = document("NetworkPolicy", "web", {"selector": "app == 'web'"}, namespace="prod")
HOSTILE = "\x1b]0;mine\x07\n---\nkind: Tier\u2028\x85"
CASES: dict[str, dict[str, t.Any]] = {
    "changed": request("apply", VXLAN),
    "dry": request("apply", VXLAN, dry_run=True),
    "check": request("apply", VXLAN),
    "several": request("apply", VXLAN, NEW),
    "unchanged": request("apply", document("IPPool", "listed", {"cidr": "10.245.0.0/16"})),
    "variable": request("apply", document("IPPool", "listed", {"cidr": "10.245.0.0/16", "disabled": True})),
    "deleted": request("delete", kind="GlobalNetworkPolicy", word="gnp", names=["all"]),
    "gone": request("delete", document("BGPConfiguration", "default", None)),
    "patched": request("patch", kind="IPPool", word="pool", names=["default"], patch={"spec": {"disabled": True}},
                       type="strategic"),
    "labelled": request("label", kind="Node", word="nodes", names=["node2"], label="rack=b", remove=False,
                        overwrite=False),
    "label of a variable": request("label", kind="Node", word="nodes", names=["node1"], label="rack=b", remove=False,
                                   overwrite=True),
    "overlap": request("create", document("IPPool", "second", {"cidr": "10.244.128.0/17"})),
    "invalid": request("create", document("IPPool", "second", {"cidr": "x"})),
    "settings": request("apply", document("BGPConfiguration", "default", {"asNumber": 64520, "listenPort": 1790})),
    "no folder": request("create", NEW),
    "crlf": request("apply", VXLAN),
    "traversal": request("create", document("Tier", "../../x", {})),
    "control": request("create", document("Tier", "x", {}, annotations={"note": HOSTILE})),
    "link": request("create", document("Tier", "x", {})),
    "first pool": request("create", document("IPPool", "default", {"cidr": "10.244.0.0/16"})),
    "first policy": request("create", NEW),
    "first settings": request("apply", document("BGPConfiguration", "default", {"asNumber": 64520})),
    "repaired": request("apply", VXLAN),
    "pool of an installation": request("patch", kind="IPPool", word="pool", names=["asked"],
                                       patch={"spec": {"disabled": True}}, type="strategic"),
    "pool of an installation, adopted": request("delete", kind="IPPool", word="pool", names=["asked"], adopt=True),
    "pool as an installation has it": request(
        "apply", document("IPPool", "asked", {"cidr": "10.246.0.0/16", "vxlanMode": "Always", "natOutgoing": True})
    ),
    "one of two": request("create", document("Tier", "good", {}), document("Tier", "bad", {"order": "x"})),
}  # fmt: skip


def inventory(folder: pathlib.Path, name: str) -> str:
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if name == "no folder":
            text = text.replace("[../net]", "[../net/pools.yml, ../net/bgp.yml]")
        if name.startswith("first"):
            text = text.replace("calico_ip_pools", "unused") if path == "prod/hosts.yml" else ""
        if name == "repaired":
            text = text.replace("cidr: 10.244.0.0/16", "cidr: none")
        if name == "crlf":
            text = text.replace("\n", "\r\n")
        (folder / path).write_text(text, newline="")
    if "installation" in name:
        (folder / "net/bgp.yml").write_text(INSTALLATION)
    if name == "link":
        (folder / "net" / "tier").symlink_to("/etc")
    return str(folder / "prod" / "hosts.yml")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[pathlib.Path, dict[str, t.Any]]]:
    """The folder and the result of each case."""
    base = tmp_path_factory.mktemp("changes")
    runs = []
    for name, asked in CASES.items():
        folder = base / name.replace(" ", "-")
        hosts = inventory(folder, name)
        (folder / "request.json").write_text(json.dumps(asked))
        args = {"request_file": str(folder / "request.json"), "output": "none"}
        runs.append(controller.Run("resource_change", args, hosts, {"node1": {}}, check_mode=name == "check"))
    found = controller.run(runs)
    wrong = [result["exception"] for result in found if "exception" in result]
    assert not wrong, wrong[0]
    return {name: (base / name.replace(" ", "-"), result) for name, result in zip(CASES, found)}


def files(folder: pathlib.Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "request.json"
    }


def shown(lines: list[str], folder: pathlib.Path) -> list[str]:
    return [line.replace(str(folder), "DIR") for line in lines]


CHANGED = POOL.replace("  ipipMode: CrossSubnet\n", "").rstrip("\n") + "\n  vxlanMode: Always\n"
DIFF = [
    "--- DIR/net/pools.yml",
    "+++ DIR/net/pools.yml",
    "@@ -7,5 +7,5 @@",
    "   name: default",
    " spec:",
    "   cidr: 10.244.0.0/16",
    "-  ipipMode: CrossSubnet",
    "   natOutgoing: true",
    "+  vxlanMode: Always",
]
APPLIED = "Successfully applied 1 'IPPool' resource(s)"


def test_a_document_changes_where_it_is_written_and_the_difference_is_shown(results: t.Any) -> None:
    folder, result = results["changed"]
    assert files(folder) == {**FILES, "net/pools.yml": CHANGED}
    assert shown(result["lines"], folder) == [*DIFF, APPLIED]
    assert (result["changed"], shown(result["files"], folder)) == (True, ["DIR/net/pools.yml"])


@pytest.mark.parametrize("name", ["dry", "check"])
def test_a_dry_run_and_check_mode_write_nothing(results: t.Any, name: str) -> None:
    folder, result = results[name]
    assert files(folder) == FILES
    assert shown(result["lines"], folder) == [*DIFF, f"Nothing was written: this is a dry run of: {APPLIED}"]


def test_a_new_resource_has_a_file_of_its_own(results: t.Any) -> None:
    folder, result = results["several"]
    new = (
        "---\napiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata:\n  name: web\n  namespace: prod\n"
        "spec:\n  selector: \"app == 'web'\"\n"
    )
    path = "net/networkpolicy/prod.web.yml"
    assert files(folder) == {**FILES, "net/pools.yml": CHANGED, path: new}
    assert shown(result["lines"], folder)[len(DIFF) : len(DIFF) + 2] == ["--- /dev/null", f"+++ DIR/{path}"]
    assert result["lines"][-1] == "Successfully applied 2 resource(s)"


def test_what_is_in_force_is_unchanged(results: t.Any) -> None:
    folder, result = results["unchanged"]
    assert files(folder) == FILES
    assert (result["changed"], result["lines"]) == (False, [APPLIED, "IPPool(listed) is unchanged"])


def test_a_pool_that_an_installation_has_is_unchanged(results: t.Any) -> None:
    result = results["pool as an installation has it"][1]
    assert (result["changed"], result["lines"][1:]) == (False, ["IPPool(asked) is unchanged"])


def test_a_file_goes_with_its_last_document_unless_a_variable_names_it(results: t.Any) -> None:
    folder, result = results["deleted"]
    assert files(folder) == {**FILES, "policy.yml": ""}
    assert result["lines"][-1] == "Successfully deleted 1 'GlobalNetworkPolicy' resource(s)"
    folder, result = results["gone"]
    assert files(folder) == {path: text for path, text in FILES.items() if path != "net/bgp.yml"}
    assert shown(result["lines"], folder)[:2] == ["--- DIR/net/bgp.yml", "+++ /dev/null"]


def test_fields_and_labels_are_written_into_documents(results: t.Any) -> None:
    folder, dummy = results["patched"]
    assert files(folder)["net/pools.yml"] == POOL.replace("/16\n", "/16\n  disabled: true\n")
    folder, result = results["labelled"]
    metadata = "metadata:\n  labels:\n    rack: b\n  name: node2\n"
    wanted = f"---\napiVersion: projectcalico.org/v3\nkind: Node\n{metadata}spec: {{}}\n"
    assert files(folder) == {**FILES, "net/node/node2.yml": wanted}
    assert result["lines"][-1] == "Successfully set label rack on nodes node2"
    folder, dummy = results["settings"]
    assert files(folder) == {**FILES, "net/bgp.yml": f"apiVersion: projectcalico.org/v3\n{BGP}  listenPort: 1790\n"}


def test_a_file_keeps_its_line_ends(results: t.Any) -> None:
    folder, dummy = results["crlf"]
    assert files(folder)["net/pools.yml"] == CHANGED.replace("\n", "\r\n")


def test_text_of_a_document_controls_neither_the_terminal_nor_the_file(results: t.Any) -> None:
    folder, result = results["control"]
    text = files(folder)["net/tier/x.yml"]
    assert yaml.safe_load(text)["metadata"] == {"name": "x", "annotations": {"note": HOSTILE}}
    assert all(character.isprintable() for character in "".join([*text.splitlines(), *result["lines"]]))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("traversal", "x.yml:1: Tier ../../x: metadata.name ../../x is not a name of lower case letters"),
        ("one of two", "x.yml:2: Tier bad: spec.order x is a text."),
        ("variable", "failed to apply 'IPPool' resource: [IPPool(listed) stands in calico_ip_pools[0] "
         "(DIR/prod/hosts.yml:6). Change it there, or add --adopt to move it into a file]"),
        ("overlap", "nothing was written, because the inventory would not be valid:\n"),
        ("label of a variable", "nothing was written, because the inventory would not be valid:\n"),
        ("invalid", "x.yml:1: IPPool second: spec.cidr x is not"),
        ("pool of an installation", "Failed to patch 'IPPool' resource: IPPool(asked) stands in Installation default "
         "(DIR/net/bgp.yml:8). Change it there"),
        ("pool of an installation, adopted", "Failed to delete 'IPPool' resource: IPPool(asked) stands in Installation "
         "default (DIR/net/bgp.yml:8), and --adopt does not move it: it is no entry of a variable. Write it into a "
         "file of calico_resource_files by hand, and remove it there"),
        ("no folder", "NetworkPolicy(prod/web) needs a file, and calico_resource_files names no folder for it. Make "
         "a folder beside the inventory, and name it in group_vars/all: calico_resource_files: [../resources]"),
    ],
)  # fmt: skip
def test_a_change_is_refused_as_a_whole(results: t.Any, name: str, why: str) -> None:
    folder, result = results[name]
    assert result["failed"]
    assert result["msg"].replace(str(folder), "DIR").startswith(why)
    assert sorted(os.listdir(folder / "net")) == ["bgp.yml", "pools.yml"]


def test_the_first_pool_of_an_inventory_makes_it_valid(results: t.Any) -> None:
    """A folder without documents is enough to begin with. An inventory stays without a pool until it is given one."""
    folder, result = results["first pool"]
    assert result["lines"][-1] == "Successfully created 1 'IPPool' resource(s)"
    assert yaml.safe_load(files(folder)["net/ippool/default.yml"])["spec"] == {"cidr": "10.244.0.0/16"}
    assert results["first policy"][1]["msg"].startswith("nothing was written, because the inventory would not be valid")
    assert results["first settings"][1]["msg"].startswith("calico_ip_pools is not set.")
    for name in ("first policy", "first settings"):
        assert results[name][1]["failed"]
        assert sorted(os.listdir(results[name][0] / "net")) == ["bgp.yml", "pools.yml"]


def test_an_invalid_document_is_replaced_by_a_valid_one(results: t.Any) -> None:
    folder, result = results["repaired"]
    assert result["lines"][-1] == APPLIED
    assert yaml.safe_load(files(folder)["net/pools.yml"].partition("---")[2]) == VXLAN


def test_a_folder_that_is_a_link_out_of_its_folder_is_not_written_through(results: t.Any) -> None:
    folder, result = results["link"]
    assert result["failed"]
    assert "DIR/net/tier is a link that leads out of DIR/net." in result["msg"].replace(str(folder), "DIR")
    assert not os.path.exists("/etc/x.yml")


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"ansible_inventory_sources": ["/a", "/b"]}, "several inventories (/a, /b) are not changed. "
         "Name one: -i INVENTORY."),
        ({"ansible_inventory_sources": ["host,"], "inventory_dir": None}, "the inventory is no file, so there are no "
         "files to change. Name one: -i INVENTORY."),
        ({"ansible_inventory_sources": ["/gone"], "inventory_dir": "/gone"}, "/gone cannot be written: "
         "No such file or directory. Nothing was changed."),
    ],
)  # fmt: skip
def test_an_inventory_that_is_no_one_folder_is_refused(variables: dict[str, t.Any], why: str) -> None:
    with pytest.raises(CommandError) as raised:
        resource_change.change(variables, request("apply", NEW), write=True)
    assert str(raised.value) == why
