# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions of the role calico_etcd as Ansible runs them: files, plans, refusals and the status."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from tests.unit.plugin_utils import controller
from tests.unit.plugin_utils.etcd.test_cluster_hosts import ANSWER, changed

HOSTS = """\
calico_nodes:
  hosts:
    etcd1: {calico_node_address: 10.0.0.1/24}
    node2: {calico_node_address: 10.0.0.2/24}
calico_etcd:
  hosts:
    etcd1:
"""


@pytest.fixture
def inventory(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    return tmp_path


def run(
    inventory: pathlib.Path, action: str, args: dict[str, t.Any], answer: t.Any = None, check: bool = False
) -> tuple[str, dict[str, t.Any]]:
    registered = {"etcd1": {"seen": answer} if answer is not None else {}}
    printed, (result,) = controller.printed(
        [controller.Run(action, args, str(inventory / "hosts.yml"), registered, check)]
    )
    return printed, result


def test_files_are_named_in_check_mode_and_written_without(inventory: pathlib.Path) -> None:
    printed, result = run(inventory, "etcd_files", {}, check=True)
    folder = inventory / ".calico.etcd"
    assert result["changed"] is True and not folder.exists()
    assert f"{folder}/secrets.json: new, with a random password of the user root\n" in printed
    printed, result = run(inventory, "etcd_files", {"show": False})
    assert printed == "" and (result["changed"], result["days_left"]["ca.pem"]) == (True, 3649)
    password = json.loads((folder / "secrets.json").read_text())["password"]
    assert password not in json.dumps(result)
    assert result["members"]["etcd1"] == {
        "address": "10.0.0.1",
        "client_url": "https://10.0.0.1:2379",
        "gate_url": "https://10.0.0.1:2378",
        "peer_url": "https://10.0.0.1:2380",
        "files": f"{folder}/members/etcd1",
    }
    assert run(inventory, "etcd_files", {})[1]["changed"] is False


def test_a_node_is_revoked_by_its_name(inventory: pathlib.Path) -> None:
    run(inventory, "etcd_files", {})
    printed = run(inventory, "etcd_files", {"revoke": "node2"}, check=True)[0]
    folder = inventory / ".calico.etcd"
    assert printed == f"{folder}/revoked.txt: 1 of node2 more" and not (folder / "revoked.txt").exists()
    assert run(inventory, "etcd_files", {"revoke": "node2"})[1]["files"] == ["revoked.txt", "nodes/node2.pem"]
    assert not (folder / "nodes" / "node2.pem").exists() and (folder / "revoked.txt").exists()
    assert run(inventory, "etcd_files", {"revoke": "../node2"})[1]["msg"] == (
        "node ../node2 is not the name of a node. Name a node as the inventory has it."
    )


@pytest.mark.parametrize("given", ["ca_cert", "ca_key"])
def test_half_an_authority_is_refused(inventory: pathlib.Path, given: str) -> None:
    other = {"ca_cert": "ca_key", "ca_key": "ca_cert"}[given]
    assert run(inventory, "etcd_files", {given: "ca.pem"})[1]["msg"] == (
        f"calico_etcd_{other} is not set, but calico_etcd_{given} is. Set both, or neither for an authority of our own."
    )


def test_a_plan_has_steps_and_clients(inventory: pathlib.Path) -> None:
    """The controller's address is an operator's, unless operators are named."""
    off = changed("member.auth", "off")
    printed, result = run(inventory, "etcd_plan", {"seen": "seen"}, off)
    assert printed == "etcd1            switch authentication on"
    assert [step["kind"] for step in result["steps"]] == ["secure"]
    assert result["operators"] == {"ipv4": ["192.0.2.5"], "ipv6": []}
    assert result["fleet"] == {"ipv4": ["10.0.0.1", "10.0.0.2"], "ipv6": []}
    assert result["fleet_addresses"] == ["10.0.0.1", "10.0.0.2"]
    assert (result["members"], result["via"]) == ({"ipv4": ["10.0.0.1"], "ipv6": []}, "etcd1")
    dummy, named = run(inventory, "etcd_plan", {"seen": "seen", "operators": ["198.51.100.0/24"]}, off)
    assert named["operators"]["ipv4"] == ["198.51.100.0/24"]
    assert named["fleet"] == result["fleet"]


OPERATORS = "calico_etcd_operators: [{name: ada, addresses: [192.0.2.9, 'fd00::/64']}, {name: berta}]\n"


def with_operators(inventory: pathlib.Path, text: str) -> None:
    (inventory / "group_vars").mkdir(exist_ok=True)
    (inventory / "group_vars" / "all.yml").write_text(text)


def test_operators_reach_members_from_their_addresses(inventory: pathlib.Path) -> None:
    """The controller's address stays one of operators."""
    with_operators(inventory, OPERATORS)
    dummy, result = run(inventory, "etcd_plan", {"seen": "seen"}, ANSWER)
    assert result["operators"] == {"ipv4": ["192.0.2.5", "192.0.2.9"], "ipv6": ["fd00::/64"]}
    assert result["fleet"] == {"ipv4": ["10.0.0.1", "10.0.0.2"], "ipv6": []}
    assert result["fleet_addresses"] == ["10.0.0.1", "10.0.0.2"]


def test_an_operator_who_left_is_shut_out_and_then_forgotten(inventory: pathlib.Path) -> None:
    with_operators(inventory, OPERATORS)
    assert run(inventory, "etcd_files", {})[1]["operators_left"] == []
    with_operators(inventory, "calico_etcd_operators: [{name: berta}]\n")
    (inventory / "hosts.yml").write_text(HOSTS.replace("node2", "ada"))
    assert run(inventory, "etcd_files", {})[1]["users_left"] == []  # its user is that of a node
    (inventory / "hosts.yml").write_text(HOSTS)
    result = run(inventory, "etcd_files", {})[1]
    assert (result["operators_left"], result["users_left"]) == (["ada"], ["ada"])
    printed, dummy = run(inventory, "etcd_plan", {"seen": "seen", "operators_left": ["ada"]}, ANSWER)
    assert printed == "etcd1            restart: it ends watches of ada"
    folder = inventory / ".calico.etcd" / "operators"
    run(inventory, "etcd_files", {"forget": ["ada"]}, check=True)
    assert sorted(path.name for path in folder.iterdir()) == ["ada", "berta"]
    assert run(inventory, "etcd_files", {"forget": ["ada"]})[1]["files"] == ["operators/ada/issued.pem"]
    assert [path.name for path in folder.iterdir()] == ["berta"]
    assert run(inventory, "etcd_files", {})[1]["operators_left"] == []


def test_operators_of_nodes_alone_are_no_operators_who_left(inventory: pathlib.Path) -> None:
    """A host of etcd that does not have the variable would shut all of them out."""
    text = HOSTS.replace("{calico_node_address: 10.0.0.2/24}", "{calico_node_address: 10.0.0.2/24, x: 1}")
    (inventory / "hosts.yml").write_text(text.replace("etcd1:\n", "etcd9: {calico_etcd_address: 10.0.0.9}\n"))
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars" / "calico_nodes.yml").write_text(OPERATORS)
    for action, args in (("etcd_files", {}), ("etcd_plan", {"seen": "seen"})):
        (result,) = controller.run(
            [controller.Run(action, args, str(inventory / "hosts.yml"), {"etcd9": {"seen": ANSWER}})]
        )
        assert result["msg"] == (
            "calico_etcd_operators differs between hosts: etcd9 has [], etcd1 has [{name: ada, addresses: [192.0.2.9, "
            "fd00::/64]}, {name: berta}]. It is one value for all hosts: set it once, in group_vars/all."
        ), action


@pytest.mark.parametrize("action", ["etcd_files", "etcd_plan"])
def test_an_operator_with_the_name_of_a_node_is_refused(inventory: pathlib.Path, action: str) -> None:
    with_operators(inventory, "calico_etcd_operators: [{name: node2}]\n")
    args = {"seen": "seen"} if action == "etcd_plan" else {}
    assert run(inventory, action, args, ANSWER)[1]["msg"] == (
        "calico_etcd_operators[0].name node2 is the name of a node. Give the operator another name."
    )


def test_a_host_that_does_not_answer_stops_the_plan(inventory: pathlib.Path) -> None:
    assert run(inventory, "etcd_plan", {"seen": "seen"})[1]["msg"] == (
        "The answer of etcd1 cannot be used: it is None, not a table. Look at the host. The cluster was not changed."
    )
    (inventory / "hosts.yml").write_text(HOSTS.replace("    etcd1:\n", "    etcd1:\n    node2:\n    etcd3:\n"))
    (inventory / "host_vars").mkdir()
    (inventory / "host_vars" / "etcd3.yml").write_text("calico_etcd_address: 10.0.0.3\n")
    assert run(inventory, "etcd_plan", {"seen": "seen"}, ANSWER)[1]["msg"] == (
        "node2 is in group calico_etcd and not in this run, or it failed. Run the playbook for the whole group, "
        "without --limit. A host that is dead and does not come back is taken out of the group. The cluster was not "
        "changed."
    )


def test_a_revocation_leaves_out_what_does_not_answer(inventory: pathlib.Path) -> None:
    """A host that was not asked, is unreachable, or answers what cannot be read stops no revocation."""
    hosts = HOSTS.replace("    etcd1:\n", "    etcd1:\n    node2:\n    etcd3: {calico_etcd_address: 10.0.0.3}\n")
    (inventory / "hosts.yml").write_text(hosts)
    args = {"seen": "seen", "only": "revoke"}
    printed, result = run(inventory, "etcd_plan", args, ANSWER)
    assert (result["via"], result["left_out"]) == ("etcd1", ["node2", "etcd3"])
    assert printed.splitlines()[-2:] == [
        "etcd1            restart, which ends open watches",
        "etcd1            defragment its database",
    ]
    assert result["notices"][0] == (
        "node2 is left out (it is not in this run, or it failed and its error stands above): its gate does not get the "
        "list of revoked certificates, and its member is neither restarted nor defragmented. A watch that the node has "
        "there may go on. Run the playbook again when the host is back."
    )
    (inventory / "hosts.yml").write_text(HOSTS)
    for answer, reason in (
        ({"unreachable": True, "msg": "No route to host.\n"}, "unreachable: No route to host"),
        ({"failed": True, "msg": "no Python"}, "no Python"),
        ({"host": {}}, "its answer cannot be used: host.installed is missing"),
        (None, "the host was not asked"),
    ):
        assert run(inventory, "etcd_plan", args, answer)[1]["msg"] == (
            f"No member of the cluster answers (etcd1: {reason}). Start them with `systemctl start calico-etcd`, or "
            "restore the cluster from a snapshot with playbooks/etcd_restore.yml. The gates of hosts that are reached "
            "get the list of revoked certificates. The node's user and keys are kept."
        )


def test_the_status_is_a_table_or_json(inventory: pathlib.Path) -> None:
    days = {"members/etcd1/server.pem": 200}
    printed, result = run(inventory, "etcd_status", {"seen": "seen", "days_left": days}, ANSWER)
    assert "etcd1    10.0.0.1   3.4.23   leader" in printed and result["good"] is True
    printed, result = run(inventory, "etcd_status", {"seen": "seen", "days_left": days, "output": "json"}, ANSWER)
    assert json.loads(printed)["members"]["etcd1"]["version"] == "3.4.23"
    gone = {"unreachable": True, "msg": "Failed to connect: timed out."}
    printed, result = run(inventory, "etcd_status", {"seen": "seen", "days_left": days, "strict": True}, gone)
    assert "! etcd1: unreachable: Failed to connect: timed out." in printed.splitlines()
    assert (result["failed"], result["msg"]) == (True, "2 things are not well with the etcd cluster, see above.")


def test_hostile_texts_command_no_terminal(inventory: pathlib.Path) -> None:
    """A member that root rewrote shows its text, and nothing else."""
    answer = changed("member.reason", "\x1b[2Jgone\nnode9  good")
    printed, dummy = run(inventory, "etcd_status", {"seen": "seen", "days_left": {}}, answer)
    assert "\x1b" not in printed and not any(line.startswith("node9") for line in printed.splitlines())
