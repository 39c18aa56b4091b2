# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/reference/calicoctl.md shows calicoctl's output: each `$ calicoctl ...` in it is run here.

tests/integration/fleet/test_pages_of_inventories.py runs each `$ bin/calicoctl ...`.

After a wanted change: DOCUMENTATION=write pytest tests/unit/cli/test_documentation.py, then read git's differences.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import parser
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import policy_explain

from tests.unit.cli.commands.test_agent_status import BLOCK, STATUS
from tests.unit.cli.commands.test_ipam import serve
from tests.unit.cli.commands.test_node_status import protocols
from tests.unit.cli.commands.test_policy_drops import ANSWER
from tests.unit.cli.commands.test_policy_explain import NOW, settle
from tests.unit.cli.commands.test_validate import PEER, POOL
from tests.unit.cli.conftest import WEB, Node
from tests.unit.cli.fake_fleet import fleet_of, publish_workloads
from tests.unit.cli.test_command import commands

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "reference" / "calicoctl.md"
#: The section whose commands run on a node with a datastore.
_OF_FLEET = re.compile(r"^## The whole fleet\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"```console\n(\$ calicoctl.*?)```", re.DOTALL)


@pytest.fixture
def documented(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The node of docs/reference/calicoctl.md. The current folder has the files that its commands read."""
    serve(node)
    settle(node)
    agent = node.agents[-1]
    agent.answers.update(
        {
            "status": {**STATUS, "workloads": 2},
            "node.plan": {"changes": [BLOCK], "problems": [], "in_sync": False},
            "resync": {"changes": [BLOCK], "problems": [], "in_sync": True},
            "workload.add": {"workload": WEB.to_dict(), "created": True},
            "workload.get": {"workload": WEB.to_dict()},
            "workload.delete": {"deleted": True},
            "policy.drops": ANSWER,
        }
    )
    # BIRD shows the time alone, without a date, for a change of today.
    states = protocols(Mesh_10_10_2_13="Established", Mesh_10_10_1_12="Established", Global_10_10_1_1="Established")
    node.bird(states.replace(b"2026-01-02 07:13:29", b"07:13:29"))
    (node.folder / "new.yaml").write_text(f"{POOL}---\n{PEER}")
    monkeypatch.setattr(policy_explain, "now", lambda: NOW)
    monkeypatch.chdir(node.folder)
    return node


def shown(node: Node, block: str) -> str:
    """Run each `$ calicoctl` line of a console block; return these lines, each followed by its output, errors last.

    A blank line separates them. Other lines of the block are left out, and the exit status does not matter.
    """
    lines = []
    for line in block.splitlines():
        if line.startswith("$ calicoctl"):
            dummy, out, err = node.run(*shlex.split(line)[2:])
            lines += [line, *(out + err).rstrip("\n").splitlines(), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def test_the_page_shows_what_is_printed(documented: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text("utf-8")

    def run_blocks(part: str) -> str:
        return _CONSOLE.sub(lambda found: f"```console\n{shown(documented, found.group(1))}```", part)

    of_fleet = _OF_FLEET.search(text)
    assert of_fleet is not None
    before = run_blocks(text[: of_fleet.start()])
    after = run_blocks(text[of_fleet.end() :])
    publish_workloads(fleet_of(documented, monkeypatch))
    actual = before + run_blocks(of_fleet.group()) + after
    if os.environ.get("DOCUMENTATION") == "write":
        PAGE.write_text(actual, "utf-8")
    assert actual == text


def test_the_page_names_every_command() -> None:
    text = PAGE.read_text("utf-8")
    for words, made in commands(parser.build()):
        if words and not list(made.subparsers()):
            assert f"`{' '.join(words)}" in text or f"$ calicoctl {' '.join(words)}" in text, words
