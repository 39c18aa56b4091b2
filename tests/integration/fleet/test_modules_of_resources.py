# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules resource and resource_info in a playbook that makes an inventory: check, run, check and run again."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest

from tests.integration.fleet.test_pages_of_inventories import ENVIRONMENT

HOSTS = """\
all:
  vars:
    calico_resource_files: [resources]
    calico_ip_pools: [{name: listed, cidr: 10.245.0.0/16}]
calico_nodes:
  hosts:
    node1: {calico_node_address: 10.10.1.11/24}
"""
POOL = "kind: IPPool\nmetadata:\n  name: default\nspec:\n  cidr: 10.244.0.0/16\n  ipipMode: Always\n"
NEW = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "IPPool",
    "metadata": {"name": "default", "uid": "0d1e"},
    "spec": {"cidr": "10.244.0.0/16", "vxlanMode": "Always"},
}
WRITTEN = (
    "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata:\n  name: default\n"
    "spec:\n  cidr: 10.244.0.0/16\n  vxlanMode: Always\n"
)
DIFF = """\
--- DIR/resources/pool.yml
+++ DIR/resources/pool.yml
@@ -1,6 +1,7 @@
+apiVersion: projectcalico.org/v3
 kind: IPPool
 metadata:
   name: default
 spec:
   cidr: 10.244.0.0/16
-  ipipMode: Always
+  vxlanMode: Always
"""
GONE = (
    f"kind: IPPool\nmetadata: {{name: default}}\n---\n{json.dumps({'kind': 'IPPool', 'metadata': {'name': 'other'}})}"
)


def task(title: str, module: str = "resource", check: bool = False, **args: t.Any) -> dict[str, t.Any]:
    return {
        f"baremetal.host_routing.{module}": {"inventory": "{{ folder }}/hosts.yml", **args},
        "name": title,
        "check_mode": check,
        "diff": True,
        "register": title.replace(" ", "_"),
        "ignore_errors": True,
    }


TASKS = [
    task("checked", check=True, definition=NEW),
    task("changed", definition=NEW),
    task("checked again", check=True, definition=[NEW]),
    task("unchanged", definition={"kind": "IPPoolList", "items": [NEW]}),
    task("read", "resource_info", kind="ippool", name="default"),
    task("of a variable", definition={**NEW, "metadata": {"name": "listed"}}),
    task(
        "adopted",
        check=True,
        adopt=True,
        definition={"kind": "IPPool", "metadata": {"name": "listed"}, "spec": {"cidr": "10.245.0.0/16"}},
    ),
    task("deleted", definition=GONE, state="absent"),
    task("deleted again", definition=GONE, state="absent"),
    task("no document", definition=[]),
    task("no yaml", definition="kind: IPPool\n  x: y"),
    task("no kind", "resource_info", kind="pod"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the inventory after the playbook's run, with results.json."""
    folder = tmp_path_factory.mktemp("inventory")
    (folder / "resources").mkdir()
    (folder / "hosts.yml").write_text(HOSTS)
    (folder / "resources" / "pool.yml").write_text(POOL)
    names = [one["register"] for one in TASKS]
    written = [
        *TASKS[:1],
        {"ansible.builtin.copy": {"src": "{{ folder }}/resources/pool.yml", "dest": "{{ folder }}/checked"}},
        *TASKS[1:6],
        {"ansible.builtin.copy": {"src": "{{ folder }}/resources/pool.yml", "dest": "{{ folder }}/changed"}},
        *TASKS[6:],
        {
            "ansible.builtin.copy": {
                "content": "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}",
                "dest": "{{ folder }}/results.json",
            }
        },
    ]
    variables = {"folder": str(folder), "ansible_python_interpreter": sys.executable}
    play = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": written}]
    (folder / "play.json").write_text(json.dumps(play))
    done = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", str(folder / "play.json")],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def results(folder: pathlib.Path) -> t.Any:
    return json.loads((folder / "results.json").read_text().replace(str(folder), "DIR"))


def test_check_mode_predicts_what_a_run_writes(folder: pathlib.Path, results: t.Any) -> None:
    assert (folder / "checked").read_text() == POOL
    assert (folder / "changed").read_text() == WRITTEN
    for name in ("checked", "changed"):
        found = results[name]
        assert (found["changed"], found["files"]) == (True, ["DIR/resources/pool.yml"])
        assert found["diff"] == {"prepared": DIFF}
    assert results["changed"]["lines"][-1] == "Successfully applied 1 'IPPool' resource(s)"


@pytest.mark.parametrize("name", ["checked_again", "unchanged"])
def test_what_is_in_force_is_unchanged(results: t.Any, name: str) -> None:
    found = results[name]
    assert (found["changed"], found["files"]) == (False, [])
    assert "diff" not in found
    assert found["lines"][-1] == "IPPool(default) is unchanged"


def test_resources_are_returned_as_documents(results: t.Any) -> None:
    (pool,) = results["read"]["resources"]
    assert re.fullmatch("r[0-9a-f]{16}", pool["metadata"].pop("resourceVersion"))
    assert (pool["kind"], pool["metadata"]) == ("IPPool", {"name": "default"})
    assert (pool["spec"]["vxlanMode"], pool["spec"]["blockSize"]) == ("Always", 26)
    assert not results["read"]["changed"]


def test_a_resource_of_a_variable_is_moved_on_request(results: t.Any) -> None:
    found = results["adopted"]
    assert found["changed"] and [path.rpartition("/")[2] for path in found["files"]] == ["listed.yml", "hosts.yml"]
    assert (
        "-    calico_ip_pools: [{name: listed, cidr: 10.245.0.0/16}]\n+    calico_ip_pools: []\n"
        in (found["diff"]["prepared"])
    )


def test_resources_are_deleted_and_stay_away(folder: pathlib.Path, results: t.Any) -> None:
    assert os.listdir(folder / "resources") == []
    assert results["deleted"]["changed"] and not results["deleted_again"]["changed"]
    assert results["deleted"]["diff"]["prepared"].startswith("--- DIR/resources/pool.yml\n+++ /dev/null\n")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("of_a_variable", "failed to apply 'IPPool' resource: [IPPool(listed) stands in calico_ip_pools[0] "
         "(DIR/hosts.yml:4). Change it there, or add --adopt to move it into a file]"),
        ("no_document", "definition has no document. Write kind, metadata and spec of at least one resource."),
        ("no_yaml", "definition:2: is not YAML: mapping values are not allowed here. Write Calico's documents, or read "
         "them from a file."),
        ("no_kind", "resource type 'pod' is not supported. Here are: nodes, "),
    ],
)  # fmt: skip
def test_a_refused_task_says_why(results: t.Any, name: str, why: str) -> None:
    assert results[name]["failed"] and not results[name]["changed"]
    assert results[name]["msg"].startswith(why)
