# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl ipam check -i INVENTORY` as users run it, on "hosts" that are this machine with folders of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store

from tests.integration.ansible_playbook import BIN, ROOT
from tests.integration.playbooks.test_sync_workloads import NODES, Sandbox


@pytest.fixture
def sandbox(tmp_path: pathlib.Path) -> Sandbox:
    """Three nodes whose workloads have the addresses that were assigned to them."""
    made = Sandbox(tmp_path)
    for index, node in enumerate(NODES, 1):
        assign(made, node, "default/web", f"10.244.{index}.2")
    return made


def assign(sandbox: Sandbox, node: str, handle: str, address: str) -> None:
    folder = sandbox.folder / node / "lib" / "calico"
    stored = Store(str(folder)).load()
    assert stored is not None
    books = LocalIpam(str(folder / "ipam"))
    books.load()
    books.grant(dataclasses.replace(stored.state, pools=()))
    books.assign(handle, {}, address=address)
    books.flush()


def check(inventory: pathlib.Path, *options: str) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of `calicoctl ipam check`."""
    done = subprocess.run(
        [BIN / "python", ROOT / "bin" / "calicoctl", "ipam", "check", "-i", inventory, *options],
        env={**os.environ, "ANSIBLE_PIPELINING": "1", "PATH": f"{BIN}:{os.environ['PATH']}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def answer(inventory: pathlib.Path, status: int) -> dict[str, t.Any]:
    found, out, err = check(inventory, "-o", "json")
    assert (found, err) == (status, "")
    return t.cast("dict[str, t.Any]", json.loads(out))


def test_all_nodes_are_asked(sandbox: Sandbox) -> None:
    """The command writes nothing on a node, and its exit status tells of problems."""
    inventory = sandbox.write()
    before = {path: path.read_bytes() for path in sandbox.folder.rglob("*") if path.is_file()}
    status, out, err = check(inventory)
    assert (status, err) == (0, ""), out
    assert "Loading what the lockfile has...\nFound 3 blocks of 3 nodes.\n" in out
    assert "Found 3 nodes that answer, with 3 IPs of workloads." in out and out.endswith("found 0 problems.\n")
    assert {path: path.read_bytes() for path in sandbox.folder.rglob("*") if path.is_file()} == before
    assign(sandbox, "node2", "default/lost", "10.244.2.9")
    found = answer(inventory, 1)
    assert (found["problems"], found["leaked"]) == (1, [{"node": "node2", "address": "10.244.2.9"}])


def test_nodes_that_do_not_answer_are_named(sandbox: Sandbox) -> None:
    """node3 is not reached, and node2 answers for another node."""
    state = sandbox.folder / "node2" / "lib" / "calico" / "state.json"
    found = json.loads(state.read_text())
    found["state"]["node"] = "node1"
    state.write_text(json.dumps(found))
    found = answer(sandbox.write(down=True), 1)
    assert found["asked"] == ["node1"] and found["problems"] == 2
    assert found["silent"]["node3"].startswith("unreachable: ")
    assert found["silent"]["node2"] == "its answer cannot be used: node is node1, another one"


def test_an_inventory_that_is_not_there() -> None:
    status, out, err = check(pathlib.Path("/nonexistent/hosts"))
    assert (status, out) == (2, "") and "does not exist" in err
