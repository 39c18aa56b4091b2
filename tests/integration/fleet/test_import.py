# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory that `calicoctl import` makes of a Calico's documents, as Ansible reads it: addresses are kept."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest
import yaml

from tests.integration.fleet.test_pages_of_inventories import ENVIRONMENT

ROOT = pathlib.Path(__file__).resolve().parents[3]
CALICO = ROOT / "tests" / "unit" / "migration" / "calico" / "resources.yml"


def calicoctl(*words: str) -> str:
    program = [str(ROOT / "bin" / "calicoctl"), *words]
    done = subprocess.run(program, env=ENVIRONMENT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("import") / "prod")
    calicoctl("import", str(CALICO), "--to", folder)
    return folder


def test_the_inventory_is_valid(inventory: str) -> None:
    """There are warnings alone: of a filter that no peer uses, and of a field of Felix without effect."""
    assert calicoctl("validate", "-i", inventory).endswith("2 warnings: 4 nodes and 59 rules\n")


def test_blocks_and_addresses_are_those_of_calico(inventory: str) -> None:
    shown = calicoctl("ipam", "show", "--show-blocks", "-i", inventory)
    for block in (
        "| Block         | 10.244.10.0/26 ",
        "| Block (spare) | 10.244.11.0/26 ",
        "| Block         | 10.244.20.0/26 ",
    ):
        assert block in shown
    assert "10.244.40.0/26" not in shown
    assert "workload: default/web" in calicoctl("ipam", "show", "--ip", "10.244.10.2", "-i", inventory)
    nodes = yaml.safe_load(calicoctl("get", "node", "node1", "-o", "yaml", "-i", inventory))
    assert nodes["spec"]["bgp"] == {"ipv4Address": "10.10.1.11/24", "ipv4IPIPTunnelAddr": "10.244.10.1"}


def test_an_export_can_be_imported_again(inventory: str, tmp_path: pathlib.Path) -> None:
    """Nothing is left out, and the second inventory has the same resources. The lockfile has the nodes' tunnels."""
    (tmp_path / "exported.yml").write_text(calicoctl("export", "-i", inventory))
    said = calicoctl("import", str(tmp_path / "exported.yml"), "--to", str(tmp_path / "again"))
    assert "left out" not in said and "for a person" not in said
    shutil.copy(f"{inventory}/.calico.lock.yml", tmp_path / "again")
    assert calicoctl("export", "-i", str(tmp_path / "again")) == (tmp_path / "exported.yml").read_text()
