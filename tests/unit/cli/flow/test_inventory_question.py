# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`policy explain -i`, `validate -i` and `scale -i`, with a program in the place of ansible-playbook.

tests/integration/fleet/test_pages_of_inventories.py runs the real one.
"""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import inventory_playbook

from tests.unit.cli.conftest import Node, answering

ANSWER = '{"lines": ["DENY   by web#1"], "answer": {"verdict": "deny"}}'


def explain(node: Node, inventory: str = "hosts", *more: str) -> tuple[int, str, str]:
    place = str(node.folder / inventory)
    return node.run("policy", "explain", "-i", place, "--from", "a", "--to", "b", "--port", "1/tcp", *more)


def test_the_answer_is_that_of_the_playbook(node: Node, program: pathlib.Path) -> None:
    program.write_text(answering(ANSWER))
    assert explain(node) == (1, "DENY   by web#1\n", "")
    assert explain(node, "hosts", "-o", "json") == (1, '{\n  "verdict": "deny"\n}\n', "")
    program.write_text(answering(ANSWER.replace('"deny"', '"allow"')))
    assert explain(node)[0] == 0


def test_a_question_that_cannot_be_answered_is_an_error(
    node: Node, program: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.write_text(answering('{"error": "to b is nobody."}'))
    assert explain(node) == (2, "", "calicoctl: to b is nobody.\n")
    program.write_text("#!/bin/sh\necho no hosts matched; exit 4\n")
    assert explain(node) == (2, "", "calicoctl: ansible-playbook could not ask the inventory:\nno hosts matched\n")
    assert explain(node, "gone") == (
        2,
        "",
        f"calicoctl: -i NODE/gone does not exist. Write where it is, seen from {os.getcwd()}.\n",
    )
    program.unlink()
    assert explain(node) == (
        2,
        "",
        "calicoctl: ansible-playbook is not found. -i has Ansible read the inventory: run this where Ansible is.\n",
    )
    monkeypatch.setattr(inventory_playbook, "COLLECTION", str(node.folder))
    assert explain(node) == (
        2,
        "",
        "calicoctl: -i is for the controller: this is a node, which has no inventory. Leave -i out here.\n",
    )


def test_an_encrypted_inventory_without_its_password(node: Node, program: pathlib.Path) -> None:
    """One sentence names the option, which each command with -i passes on."""
    place = str(node.folder / "hosts")
    begin = "calicoctl: a file of the inventory is encrypted by ansible-vault, and "
    remedy = ". Name the file that has it: --vault-password-file FILE.\n"
    program.write_text("#!/bin/sh\necho '[ERROR]: Attempting to decrypt but no vault secrets found.'; exit 4\n")
    assert explain(node) == (2, "", f"{begin}no password that fits is known{remedy}")
    program.write_text(
        "#!/bin/sh\necho '[ERROR]: Decryption failed (no vault secrets were found that could decrypt).'; exit 4\n"
    )
    wrong = (2, "", f"{begin}the password in pw does not fit{remedy}")
    assert explain(node, "hosts", "--vault-password-file", "pw") == wrong
    assert node.run("validate", "-i", place, "--vault-password-file", "pw") == wrong
    assert node.run("scale", "-i", place, "--vault-password-file", "pw") == wrong
    program.write_text('#!/bin/sh\necho "$6 $7"; exit 4\n')
    for words in (("validate",), ("scale",)):
        said = node.run(*words, "-i", place, "--vault-password-file", "pw")[2]
        assert said.endswith("\n--vault-password-file pw\n")


def test_files_of_yaml_are_parsed_once(
    node: Node, program: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin `yaml` is asked before `auto`, unless the user has chosen the plugins of inventories."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    program.write_text('#!/bin/sh\necho "${ANSIBLE_INVENTORY_ENABLED-as configured}"; exit 4\n')

    def order() -> str:
        return explain(node)[2].splitlines()[-1]

    quicker, configured = "host_list,script,yaml,auto,ini,toml", "as configured"
    assert order() == quicker
    chosen = "[inventory]\nenable_plugins = ini\n"
    for path in (here / "ansible.cfg", home / ".ansible.cfg"):
        path.write_text("[defaults]\nforks = 50\n")
        assert order() == quicker
        path.write_text(chosen)
        assert order() == configured
        path.unlink()
    (tmp_path / "ansible.cfg").write_text(chosen)
    for named in (tmp_path / "ansible.cfg", tmp_path):
        monkeypatch.setenv("ANSIBLE_CONFIG", str(named))
        assert order() == configured
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "gone"))
    assert order() == quicker
    monkeypatch.setenv("ANSIBLE_INVENTORY_ENABLED", "toml")
    assert order() == "toml"


def test_validate_reports_the_findings_of_an_inventory(node: Node, program: pathlib.Path) -> None:
    place = str(node.folder / "hosts")
    found = '{"lines": ["SEVERITY", "1 error"], "answer": {"good": false, "errors": 1}}'
    program.write_text(answering(found))
    assert node.run("validate", "-i", place) == (1, "SEVERITY\n1 error\n", "")
    assert node.run("validate", "-i", place, "-o", "json") == (1, '{\n  "good": false,\n  "errors": 1\n}\n', "")
    program.write_text(answering(found.replace("false", "true")))
    assert node.run("validate", "-i", place)[0] == 0
    program.write_text('#!/bin/sh\necho "$5"; exit 4\n')
    assert '"strict": true, "output": "none", "answer_file": ' in node.run("validate", "-i", place, "--strict")[2]


def test_scale_reports_the_costs_of_an_inventory(node: Node, program: pathlib.Path) -> None:
    place = str(node.folder / "hosts")
    program.write_text(answering('{"lines": ["NODES", "in all: 1 node"], "answer": {"sessions": 0}}'))
    assert node.run("scale", "-i", place) == (0, "NODES\nin all: 1 node\n", "")
    assert node.run("scale", "-i", place, "-o", "json") == (0, '{\n  "sessions": 0\n}\n', "")
    program.write_text(answering('{"error": "calico_bgp_enabled false has no sessions to count."}'))
    assert node.run("scale", "-i", place) == (
        2, "", "calicoctl: calico_bgp_enabled false has no sessions to count.\n",
    )  # fmt: skip


def test_one_of_both_is_checked(node: Node) -> None:
    say = "calicoctl: say what to check: -f FILE for resources, or -i INVENTORY for a whole inventory.\n"
    assert node.run("validate") == (2, "", say)
    assert node.run("validate", "-f", "x", "-i", "y") == (2, "", say)
    assert node.run("validate", "-f", "x", "--strict") == (
        2, "", "calicoctl: --strict and -o are about an inventory (-i INVENTORY).\n",
    )  # fmt: skip
