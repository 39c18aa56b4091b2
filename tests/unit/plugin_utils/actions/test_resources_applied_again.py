# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `get -o yaml` prints for the inventories of this repository changes nothing when it is applied."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds

from tests.unit.plugin_utils import controller

ROOT = pathlib.Path(__file__).resolve().parents[4]
#: The inventories that have their hosts in a file.
NAMES = sorted(path.name for path in (ROOT / "inventories").iterdir() if (path / "hosts.yml").exists())
#: The kinds whose documents are no resources of files.
_NOT_OF_FILES = ("WorkloadEndpoint",)
_OF_POLICY = ("GlobalNetworkPolicy", "NetworkPolicy", "GlobalNetworkSet", "NetworkSet")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, t.Any]]:
    """The results of applying all resources of each inventory to itself, and those of `NAME of policy` to NAME.

    Resources of policy alone are compared without a plan of the fleet.
    """
    folder = tmp_path_factory.mktemp("again")
    hosts = {name: str(ROOT / "inventories" / name) for name in NAMES}
    asked = [
        controller.Run("fleet_resources", {"output": "none", "answer_file": str(folder / name)}, path, {"": {}})
        for name, path in hosts.items()
    ]
    for result in controller.run(asked):
        assert not result.get("failed"), result
    runs = {}
    for name, path in [*hosts.items(), *((f"{name} of policy", path) for name, path in hosts.items())]:
        found = json.loads((folder / name.removesuffix(" of policy")).read_text())["answer"]["resources"]
        documents = [
            {"content": document, "place": f"{kind}:{index}"}
            for kind in found
            if kind not in _NOT_OF_FILES and (kind in _OF_POLICY or not name.endswith(" of policy"))
            for index, document in enumerate(found[kind])
        ]
        request = {"verb": "apply", "namespace": "", "skip": False, "dry_run": False, "documents": documents}
        (folder / f"{name}.json").write_text(json.dumps(request))
        args = {"output": "none", "request_file": str(folder / f"{name}.json")}
        runs[name] = controller.Run("resource_change", args, path, {"": {}}, check_mode=True)
    return dict(zip(runs, controller.run(list(runs.values()))))


@pytest.mark.parametrize("name", [*NAMES, *(f"{name} of policy" for name in NAMES)])
def test_what_get_prints_changes_nothing(results: dict[str, dict[str, t.Any]], name: str) -> None:
    result = results[name]
    assert not result.get("failed"), result["msg"]
    assert (result["changed"], result["files"]) == (False, [])
    assert result["lines"][0].startswith("Successfully applied ")
    assert all(line.endswith(" is unchanged") for line in result["lines"][1:])


def test_the_inventories_have_most_kinds(results: dict[str, dict[str, t.Any]]) -> None:
    lines = [line for result in results.values() for line in result["lines"]]
    found = {kind.name for kind in kinds.KINDS if any(line.startswith(f"{kind.name}(") for line in lines)}
    assert found >= {"Node", "IPPool", "BGPConfiguration", "BGPPeer", "GlobalNetworkPolicy", "Tier"}
