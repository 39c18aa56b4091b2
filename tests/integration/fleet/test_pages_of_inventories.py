# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages that show the controller's output for shipped inventories: each `$ ...` is run, from the repository's root.

After a wanted change: DOCUMENTATION=write pytest tests/integration/fleet/test_pages_of_inventories.py, then read git's
differences.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import inventory_playbook

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: {page below docs: pattern of its console examples that are run here}. Those of calicoctl.md and scaling.md without an
#: inventory are tested in tests/unit/cli.
CONSOLES = {
    "reference/calicoctl.md": re.compile(r"```console\n(\$ bin/calicoctl .*?)```", re.DOTALL),
    "how-to/policy.md": re.compile(r"```console\n(.*?)```", re.DOTALL),
    "explanation/scaling.md": re.compile(r"```console\n(\$ bin/calicoctl scale -i.*?)```", re.DOTALL),
}
#: The lines that a playbook prints around the answer.
_ANSIBLE = re.compile(r"^(PLAY|TASK|ok:|node\d+ +: ok=)")
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "LC_ALL": "C.UTF-8",
}


def run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command.split(),
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )


def shown(block: str) -> str:
    """Run the commands (`$ ...`) of a console block, and return the block with their present output.

    Empty lines and those that Ansible prints around an answer are left out. Raise AssertionError for an unexpected exit
    status: 1 is expected for a DENY of calicoctl, 0 for all others. Raise IndexError for a calicoctl that prints
    nothing, and subprocess.TimeoutExpired after 100 seconds for one command.
    """
    answers = []
    for line in block.splitlines():
        if line.startswith("$ "):
            done = run(line[2:])
            lines = [text for text in done.stdout.splitlines() if text and not _ANSIBLE.match(text)]
            answers.append("\n".join([line, *lines, ""]))
            denied = "calicoctl" in line and lines[0].startswith("DENY")
            assert done.returncode == (1 if denied else 0), done.stdout
    return "\n".join(answers)


@pytest.mark.parametrize("name", CONSOLES)
def test_the_page_shows_what_is_printed(name: str) -> None:
    page = ROOT / "docs" / name
    text = page.read_text("utf-8")
    actual, count = CONSOLES[name].subn(lambda found: f"```console\n{shown(found.group(1))}```", text)
    if os.environ.get("DOCUMENTATION") == "write":
        page.write_text(actual, "utf-8")
    assert count > 0
    assert actual == text


def test_the_playbook_fails_when_told_what_to_expect() -> None:
    asked = "-i inventories/three-tier-policy -e from=web-1 -e to=db-1 -e to_port=5432/tcp -e expect=allow"
    unexpected = run(f"ansible-playbook playbooks/explain.yml {asked}")
    assert unexpected.returncode == 2
    assert "expected allow: DENY   by the default of tier default, egress of default/web-1" in unexpected.stdout


def test_an_inventory_is_the_same_in_the_quicker_order_of_plugins(tmp_path: pathlib.Path) -> None:
    """Files for each plugin of Ansible's default mean the same hosts, groups and variables."""
    files = {
        "a.yml": "calico_nodes: {hosts: {n1: {x: 1}, n2: }}\nall: {vars: {of_all: [1, 2]}}\n",
        "b.yaml": "plugin: ansible.builtin.constructed\ngroups: {with_x: x is defined}\n",
        "c": "[calico_nodes]\nn3 x=3\n[calico_rr:children]\nwith_y\n[with_y]\nn4\n",
        "d.json": '{"calico_nodes": {"hosts": {"n5": {"x": 5}}}}',
        "e.toml": "[calico_nodes.hosts.n6]\nx = 6\n",
        "f": '#!/bin/sh\necho \'{"calico_nodes": {"hosts": ["n7"]}, "_meta": {"hostvars": {"n7": {"x": 7}}}}\'\n',
        "group_vars/with_x.yml": "y: 2\n",
    }
    for name, text in files.items():
        path = tmp_path / "inventory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "inventory" / "f").chmod(0o755)
    found = []
    for order in ({}, {inventory_playbook._PLUGINS: inventory_playbook._QUICKER}):
        done = subprocess.run(
            ["ansible-inventory", "-i", str(tmp_path / "inventory"), "-i", "n8,", "--list"],
            env={**ENVIRONMENT, **order},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=100,
            check=True,
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert set(found[0]["calico_nodes"]["hosts"]) == {"n1", "n2", "n3", "n5", "n6", "n7"}
    assert found[0]["_meta"]["hostvars"]["n1"]["y"] == 2
