# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories that do not exist, cannot be parsed or have no host of the fleet: no playbook ends with exit status 0."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

from tests import prepared_ansible
from tests.integration.ansible_playbook import BIN, ROOT, play

PATHS = sorted((ROOT / "playbooks").glob("*.yml"))
#: Without live.yml, which asks the datastore alone and reads no inventory.
PLAYBOOKS = [path.name for path in PATHS if path.name != "live.yml"]
#: Options with which a playbook asks for no other one, and contacts this machine at most.
OPTIONS = {
    "change.yml": ["-e", f"request_file={pathlib.Path(__file__).with_name('nothing_to_delete.json')}"],
    "etcd_restore.yml": ["-e", f"snapshot={ROOT / 'README.md'}", "-e", "confirm=true"],
    "etcd_revoke.yml": ["-e", "node=node1"],
    "explain.yml": ["-e", "from=a", "-e", "to=b", "-e", "to_port=80/tcp"],
    "remove_node.yml": ["-e", "node=node1", "-e", "confirm=true"],
    "rollback.yml": ["-e", "plan=previous"],
    "switch_pool_mode.yml": ["-e", "pool=default", "-e", "mode=direct"],
    "teardown.yml": ["-e", "confirm=true"],
}
#: The playbooks that read what their hosts have before they read the whole inventory. They need an interpreter there.
READ_FIRST = ("rollback.yml", "site.yml", "switch_pool_mode.yml", "switch_topology.yml")
BROKEN = "calico_nodes: {hosts: {node2: {}\n"
WARNINGS = (
    "Put the hosts that route for workloads into group calico_nodes, and correct what Ansible's warnings above say, if "
    "there are any."
)
NOTHING = (
    "has no hosts: Ansible found none there. Correct what Ansible's warnings above say about it, and put the hosts "
    "that route for workloads into group calico_nodes."
)
NO_YAML = "document is not YAML: expected ',' or '}', but got '<stream end>'. Correct it."
NONE_OF_OURS = "has no host in group calico_nodes or calico_rr"
#: {names of the inventories, separated by spaces, or by a comma in one -i: what is said about them}
REFUSED = {
    "broken.yml": f"FOLDER/broken.yml:2: {NO_YAML}",
    "empty": f"FOLDER/empty {NOTHING}",
    "half.yml": f"FOLDER/half.yml {NOTHING}",
    "itself.yml": f"FOLDER/itself.yml {NOTHING}",
    "others.yml": f"FOLDER/others.yml {NONE_OF_OURS}: its hosts are in no group. {WARNINGS}",
    "like.yml others.yml": (
        f"FOLDER/like.yml, FOLDER/others.yml {NONE_OF_OURS}: its groups are calico_node, g0, g1, g2, g3 and 2 more. "
        f"{WARNINGS}"
    ),
    "good.yml,more.yml": (
        "FOLDER/good.yml,FOLDER/more.yml is a list of hosts to Ansible, because it has a comma. Give each inventory "
        "with an -i of its own: -i FOLDER/good.yml -i FOLDER/more.yml."
    ),
    "good.yml gone": f"FOLDER/gone does not exist. Write where it is, seen from {ROOT}, after -i.",
}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with inventories: `good`, `broken`, `both` (a folder with these two), `others`, `like` and `empty`."""
    node = "{calico_node_address: 10.0.0.1/24, ansible_connection: local, ansible_python_interpreter: /bin/false}"
    pools = "calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}]"
    good = f"calico_nodes:\n  hosts: {{node1: {node}}}\n  vars: {{{pools}}}\n"
    others = ", ".join(f"g{number}: {{hosts: {{web1: {{}}}}}}" for number in range(6))
    texts = {
        "good.yml": good,
        "broken.yml": BROKEN,
        "both/broken.yml": BROKEN,
        "both/good.yml": good + "calico_etcd: {hosts: {node1: {}}}\n",
        "others.yml": "all: {hosts: {web1: {}}}\n",
        "like.yml": f"{{calico_node: {{hosts: {{web1: {{}}}}}}, {others}}}",
        "more.yml": good + "web: {hosts: {web1: {}}}\n",
        "empty/.keep": "",
        # Ansible gives these up when it has read a host.
        "half.yml": "calico_nodes: {hosts: {node1: {}, calico_node_address: 10.0.0.1/24}}\n",
        "itself.yml": "calico_nodes: {hosts: {node1: {}}, children: {calico_nodes: {}}}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "PATH": f"{BIN}:{os.environ['PATH']}"}


def run(*words: t.Union[str, pathlib.Path], cwd: pathlib.Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook with these words; return the finished process, whatever its exit status."""
    return prepared_ansible.run([BIN / "ansible-playbook", *words], cwd, ENVIRONMENT, timeout=120)


def said(done: subprocess.CompletedProcess[str], folder: pathlib.Path) -> str:
    """Return what Ansible printed, on one line, with FOLDER for `folder`."""
    return " ".join((done.stdout + done.stderr).replace(str(folder), "FOLDER").split())


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_no_playbook_is_green_without_an_inventory(playbook: str, folder: pathlib.Path) -> None:
    """An inventory that does not exist is refused before any task, with Ansible's warning."""
    done = play(f"playbooks/{playbook}", folder / "gone", *OPTIONS.get(playbook, ()))
    assert done.returncode == 4
    assert "TASK" not in done.stdout
    assert "[WARNING]: Unable to parse FOLDER/gone as an inventory source" in said(done, folder)
    assert (
        "[ERROR]: Error processing keyword 'hosts': The lookup plugin 'baremetal.host_routing.fleet_hosts' failed: "
        f"inventory FOLDER/gone does not exist. Write where it is, seen from {ROOT}, after -i. Origin: "
    ) in said(done, folder)


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_no_playbook_is_green_if_a_part_is_not_parsed(playbook: str, folder: pathlib.Path) -> None:
    """A file that cannot be parsed is refused although another file has a host of the fleet."""
    reading = ["-e", f"ansible_python_interpreter={sys.executable}"] if playbook in READ_FIRST else []
    done = play(f"playbooks/{playbook}", folder / "both", *OPTIONS.get(playbook, ()), *reading)
    assert done.returncode == 2, said(done, folder)
    assert "[WARNING]: Unable to parse FOLDER/both/broken.yml as an inventory source" in said(done, folder)
    assert "Failed to parse inventory with 'yaml' plugin: YAML parsing failed" in said(done, folder)
    assert "FOLDER/both/broken.yml:2" in said(done, folder)
    assert NO_YAML.replace(" Correct it.", "") in said(done, folder)
    assert "changed=0" in done.stdout


@pytest.mark.parametrize("given", REFUSED)
@pytest.mark.parametrize("options", [[], ["-e", "strict=true"], ["--limit", "all"]], ids=["", "strict", "limit"])
def test_validate_is_red(given: str, options: t.Sequence[str], folder: pathlib.Path) -> None:
    sources = [
        word for name in given.split() for word in ("-i", ",".join(str(folder / part) for part in name.split(",")))
    ]
    done = run(ROOT / "playbooks" / "validate.yml", *sources, *options)
    assert done.returncode == 4
    what = "" if given == "broken.yml" else "inventory "
    assert f"fleet_hosts' failed: {what}{REFUSED[given]} Origin: " in said(done, folder)


@pytest.mark.parametrize("playbook", ["validate.yml", "site.yml"])
@pytest.mark.parametrize("file", ["group_vars/all.yml", "group_vars/calico_nodes/more.yaml", "host_vars/node1"])
def test_variables_that_are_not_yaml_are_named_with_file_and_line(
    playbook: str, file: str, folder: pathlib.Path
) -> None:
    """So is the file that calicoctl's command about the inventory cannot read."""
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text("calico_underlay_mtu: 1500\ncalico_policies: [\n  - {\n")
    refusal = f"FOLDER/{file}:3: document is not YAML: expected the node content, but found '-'. Correct it."
    done = run(ROOT / "playbooks" / playbook, "-i", folder / "good.yml")
    assert done.returncode == 4
    assert f"fleet_hosts' failed: {refusal} Origin: " in said(done, folder)
    if playbook == "validate.yml":
        command = [ROOT / "bin" / "calicoctl", "validate", "-i", folder / "good.yml"]
        told = subprocess.run(
            command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
        )
        assert said(told, folder) == f"calicoctl: {refusal}"


def test_variables_in_a_vault_are_not_taken_for_broken(folder: pathlib.Path) -> None:
    (folder / "group_vars").mkdir()
    (folder / "group_vars" / "all.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3030\n")
    done = run(ROOT / "playbooks" / "validate.yml", "-i", folder / "good.yml")
    assert done.returncode != 0
    assert "is not YAML" not in said(done, folder)
    assert "vault" in said(done, folder)


def test_validate_is_green_on_the_inventory_that_these_differ_from(folder: pathlib.Path) -> None:
    """A good inventory is accepted, also beside hosts of others and under --limit to one of them."""
    assert play("playbooks/validate.yml", folder / "good.yml").returncode == 0
    assert play("playbooks/validate.yml", folder / "more.yml", "--limit", "web1").returncode == 0


def test_an_inventory_is_named_where_none_is_given(folder: pathlib.Path) -> None:
    done = run(ROOT / "playbooks" / "validate.yml", cwd=folder)
    assert done.returncode == 4
    assert (
        "failed: inventory is not given, and Ansible's default /etc/ansible/hosts does not exist. Give it with -i, for "
        "example -i inventories/prod. Origin: "
    ) in said(done, folder)


def test_a_limit_that_leaves_no_host_of_the_fleet(folder: pathlib.Path) -> None:
    done = play("playbooks/site.yml", folder / "more.yml", "--limit", "web1")
    assert done.returncode == 4
    assert (
        "failed: --limit web1 leaves no host of group calico_nodes or calico_rr. Name hosts of the fleet, or leave it "
        "out for all of them. Origin: "
    ) in said(done, folder)


@pytest.mark.parametrize("option", ["--syntax-check", "--list-tasks", "--list-tags"])
def test_lists_need_no_inventory(option: str, folder: pathlib.Path) -> None:
    """These options print about every playbook without any host."""
    for inventory in ("gone", "broken.yml", "others.yml"):
        done = run(*PATHS, "-i", folder / inventory, option)
        assert done.returncode == 0, said(done, folder)
        assert done.stdout.count("playbook: ") == len(PATHS)


@pytest.mark.parametrize(
    "question",
    [["validate"], ["scale"], ["policy", "explain", "--from", "a", "--to", "b", "--port", "80/tcp"]],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("inventory", "refused"),
    [
        ("gone", f"calicoctl: -i FOLDER/gone does not exist. Write where it is, seen from {ROOT}."),
        (
            "both",
            "[ERROR]: Completely failed to parse inventory source FOLDER/both/broken.yml Put hosts and groups there as "
            "Ansible reads them, or take it out of the inventory.",
        ),
        ("others.yml", f"inventory {REFUSED['others.yml']}"),
    ],
)
def test_calicoctl_has_no_answer(question: t.Sequence[str], inventory: str, refused: str, folder: pathlib.Path) -> None:
    command = [ROOT / "bin" / "calicoctl", *question, "-i", folder / inventory]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert refused in said(done, folder)
    if inventory == "both":
        assert "[WARNING]: Failed to parse inventory with 'yaml' plugin: YAML parsing failed" in said(done, folder)
