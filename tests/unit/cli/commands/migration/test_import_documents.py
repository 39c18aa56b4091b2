# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl import` and `calicoctl export`: files in, an inventory out, and hostile input on the way."""

from __future__ import annotations

import io
import json
import os
import pathlib
import sys

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.migration import import_documents

from tests.unit.cli.commands.test_inventory_resources import ANSWER
from tests.unit.cli.conftest import Node, answering

CALICO = pathlib.Path(__file__).resolve().parents[3] / "migration" / "calico" / "resources.yml"
POOL = "kind: IPPool\nmetadata: {name: p}\nspec: {cidr: 10.0.0.0/16}\n"


def files(folder: pathlib.Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


def test_an_inventory_is_made_of_documents(node: Node) -> None:
    target = node.folder / "new" / "prod"
    status, out, err = node.run("import", str(CALICO), "--to", str(target))
    assert (status, err) == (0, "")
    assert out.startswith("taken: 1 BGPConfiguration, 1 BGPFilter, ")
    assert out.endswith("it, and commit it with its hidden files:\n  calicoctl validate -i NODE/new/prod\n")
    made = files(target)
    resources = {name.removeprefix(".calico/") for name in made if name.startswith(".calico/")}
    assert set(made) - {f".calico/{name}" for name in resources} == {
        ".calico.lock.yml", "group_vars/all.yml", "hosts.yml",
    }  # fmt: skip
    assert resources == {
        "bgpconfiguration/default.yml", "bgpfilter/no-default.yml", "bgppeer/tor.yml",
        "felixconfiguration/default.yml", "globalnetworkpolicy/allow-web.yml", "ippool/default-ipv4-ippool.yml",
        "ipreservation/switches.yml", "node/node1.yml", "node/node2.yml", "node/node3.yml", "node/node4.yml",
    }  # fmt: skip
    assert yaml.safe_load(made["group_vars/all.yml"])["calico_resource_files"] == [".calico"]
    assert list(yaml.safe_load(made["hosts.yml"])["all"]["children"]["calico_nodes"]["hosts"]) == [
        "node1", "node2", "node3", "node4",
    ]  # fmt: skip
    assert oct(target.stat().st_mode & 0o777) == "0o755"
    assert [entry.name for entry in target.parent.iterdir()] == ["prod"]


def test_the_report_is_there_for_programs(node: Node) -> None:
    status, out, dummy = node.run("import", str(CALICO), "--to", str(node.folder / "prod"), "-o", "json")
    found = json.loads(out)
    assert status == 0 and found["taken"]["Node"] == 4
    assert [remark["what"] for remark in found["for_a_person"]] == ["address 10.244.10.4", "IPAMBlock 10.244.40.0/26"]


def test_files_folders_and_stdin_are_read_together(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (node.folder / "given" / "deeper").mkdir(parents=True)
    (node.folder / "given" / "pool.yaml").write_text(POOL)
    (node.folder / "given" / "deeper" / "peer.json").write_text(
        json.dumps({"kind": "BGPPeer", "metadata": {"name": "t"}, "spec": {"peerIP": "10.1.1.1", "asNumber": 65000}})
    )
    tier = io.StringIO("kind: Tier\nmetadata: {name: t}\nspec: {order: 1}\n")
    monkeypatch.setattr(sys, "stdin", tier)
    target = str(node.folder / "prod")
    status, out, err = node.run("import", str(node.folder / "given"), "-R", "-f", "-", "--to", target)
    assert (status, err) == (0, "") and out.startswith("taken: 1 BGPPeer, 1 IPPool, 1 Tier\n")


def test_an_export_of_calico_for_its_own_migration(node: Node) -> None:
    """Its parts are separated by lines of "===", which is no YAML; lines of errors are those of the file."""
    path = node.folder / "etcd-data"
    blocks = {"blocks": [{"Key": "/calico/ipam/v2/assignment/ipv4/block/10.0.1.0-26", "Value": {
        "cidr": "10.0.1.0/26", "affinity": "host:n", "allocations": [], "attributes": []}}]}  # fmt: skip
    path.write_text(f'{POOL}---\n===\n{{"kind": "ClusterInformation"}}\n===\n{json.dumps(blocks)}\n')
    status, out, err = node.run("import", str(path), "--to", str(node.folder / "prod"))
    assert (status, err) == (0, "")
    assert "ClusterInformation is what Calico's own programs write down. (NODE/etcd-data:6)" in out
    assert "IPAMBlock 10.0.1.0/26 belongs to n, which is not among the nodes." in out
    path.write_text(f"{POOL}===\na: [\n")
    status, out, err = node.run("import", str(path), "--to", str(node.folder / "other"))
    assert (status, out) == (1, "") and err.startswith("calicoctl: NODE/etcd-data:") and "is not YAML" in err
    assert not (node.folder / "other").exists()


def test_files_of_host_local_are_read_from_a_copy(node: Node) -> None:
    networks = node.folder / "n1" / "networks"
    (networks / "podman").mkdir(parents=True)
    (networks / "podman" / "10.0.3.7").write_text("0123456789abcdef\r\neth0")
    (networks / "podman" / "last_reserved_ip.0").write_text("10.0.3.7")
    (networks / "podman" / "lock").touch()
    (networks / "podman" / "10.0.3.8").symlink_to("/etc/shadow")
    os.mkfifo(networks / "podman" / "10.0.3.9")
    (networks / "elsewhere").symlink_to("/")
    path = node.folder / "pool.yml"
    path.write_text(f"{POOL}---\nkind: Node\nmetadata: {{name: n1}}\nspec: {{bgp: {{ipv4Address: 192.0.2.1/24}}}}\n")
    words = ["import", str(path), "--to", str(node.folder / "prod"), "--host-local"]
    status, dummy, err = node.run(*words, f"n1={networks}")
    assert (status, err) == (0, "")
    variables = yaml.safe_load((node.folder / "prod" / "group_vars" / "all.yml").read_text())
    assert variables["calico_workloads"] == [
        {"name": "podman-0123456789ab", "node": "n1", "namespace": "default", "address": "10.0.3.7"}
    ]
    (networks / "podman" / "10.0.3.10").write_text("x" * 5000)
    words[3] = str(node.folder / "other")
    assert node.run(*words, f"n1={networks}")[2].endswith("has a file of more than 4096 bytes.\n")
    assert node.run(*words, "n1=/no/such")[2].endswith("/no/such cannot be read: No such file or directory.\n")
    assert node.run(*words, "n1") == (2, "", "calicoctl: --host-local n1 is no NODE=FOLDER.\n")


def test_a_folder_that_has_something_is_not_touched(node: Node) -> None:
    target = node.folder / "prod"
    target.mkdir()
    (target / "mine").write_text("mine")
    refused = "calicoctl: --to NODE/prod exists already, and is no empty folder. Name a new one.\n"
    assert node.run("import", str(CALICO), "--to", str(target)) == (1, "", refused)
    assert files(target) == {"mine": "mine"}
    (target / "mine").unlink()
    assert node.run("import", str(CALICO), "--to", str(target))[0] == 0
    (node.folder / "link").symlink_to("/no/such")
    assert node.run("import", str(CALICO), "--to", str(node.folder / "link"))[0] == 1
    assert node.run("import", "--to", "x")[0] == 2


def test_a_write_that_fails_leaves_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*dummy: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(import_documents.replacement, "store", fail)
    (node.folder / "there").mkdir()
    status, out, err = node.run("import", str(CALICO), "--to", str(node.folder / "there" / "prod"))
    assert (status, out) == (1, "") and "No space left on device" in err
    assert list((node.folder / "there").iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        'kind: IPPool\nmetadata: {name: "../../../etc/cron.d/x"}\nspec: {cidr: 10.8.0.0/16}\n',
        'kind: GlobalNetworkPolicy\nmetadata: {name: "\\e[2Jx"}\nspec: {selector: all()}\n',
        'kind: Node\nmetadata: {name: "{{ lookup(\'pipe\', \'id\') }}"}\nspec: {bgp: {ipv4Address: 10.1.1.1/24}}\n',
        'kind: WorkloadEndpoint\nmetadata: {name: n-o-w-eth0, namespace: x}\nspec: {node: n, orchestrator: o, '
        'workload: "{{ 1 }}", endpoint: eth0, interfaceName: cali1, ipNetworks: [10.0.0.1/32]}\n',
        "kind: Installation\napiVersion: operator.tigera.io/v1\nmetadata: {name: ../x}\n",
        "kind: Installation\nmetadata: {name: default}\nspec: {a: 2026-01-01}\n",
        "kind: IPPool\nmetadata: {name: q}\nspec: {cidr: 10.8.0.0/16, nodeSelector: 2026-01-01}\n",
        "kind: !!python/name:os.system x\n",
        "a: &a [x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n" + "".join(
            f"c{at}: &c{at} [{', '.join([f'*c{at - 1}' if at else '*b'] * 9)}]\n" for at in range(9)),
        "[" * 100 + "]" * 100,
        'kvs: [{key: "!!", value: "////"}, {key: "L2NhbGljbw==", value: ""}, 7]\n',
    ],
)  # fmt: skip
def test_hostile_documents_make_no_files_of_their_own(node: Node, text: str) -> None:
    """Names with paths, terminal control, Jinja; tags and aliases of YAML; dumps that are none."""
    path = node.folder / "hostile.yml"
    path.write_text(f"{POOL}---\n{text}")
    target = node.folder / "a" / "prod"
    status, out, err = node.run("import", str(path), "--to", str(target))
    assert "\x1b" not in out + err and "Traceback" not in err
    if status:
        assert err.startswith("calicoctl: NODE/hostile.yml") and not target.exists()
        return
    assert sorted(files(target)) == [".calico/ippool/p.yml", "group_vars/all.yml", "hosts.yml"]
    assert "{{" not in "".join(files(target).values())
    assert [entry.name for entry in (node.folder / "a").iterdir()] == ["prod"]


def test_text_that_ansible_would_evaluate_stays_in_files_that_it_does_not_read(node: Node) -> None:
    """A selector may have any text in quotes. It lies where files are read without Jinja."""
    path = node.folder / "pool.yml"
    path.write_text("kind: IPPool\nmetadata: {name: p}\nspec: {cidr: 10.0.0.0/16, nodeSelector: \"a == '{{ 1 }}'\"}\n")
    assert node.run("import", str(path), "--to", str(node.folder / "prod"))[0] == 0
    with_jinja = [name for name, text in files(node.folder / "prod").items() if "{{" in text]
    assert with_jinja == [".calico/ippool/p.yml"]


def test_a_very_long_name_has_a_file(node: Node) -> None:
    path = node.folder / "long.yml"
    path.write_text(
        POOL.replace("name: p", f"name: {'a' * 253}") + "---\n" + POOL.replace("name: p", f"name: {'a' * 252}b")
    )
    assert node.run("import", str(path), "--to", str(node.folder / "prod"))[0] == 0
    assert len(files(node.folder / "prod")) == 4


def test_an_export_has_all_documents_in_calicos_order(node: Node, program: pathlib.Path) -> None:
    node.controller = True
    resources = {
        **ANSWER["resources"],
        "Tier": [{"kind": "Tier", "metadata": {"name": "t"}, "spec": {"order": 1}}],
        "Profile": [{"kind": "Profile", "metadata": {"name": "projectcalico-default-allow"}, "spec": {}}],
        "BGPConfiguration": [{"kind": "BGPConfiguration", "metadata": {"name": "default"}, "spec": {"asNumber": 1}}],
    }
    program.write_text(answering(json.dumps({"lines": [], "answer": {**ANSWER, "resources": resources}})))
    status, out, err = node.run("export", "-i", str(node.folder / "hosts"))
    assert (status, err) == (0, "")
    found = list(yaml.safe_load_all(out))
    assert [one["kind"] for one in found] == ["IPPool", "Tier", "Node", "BGPConfiguration"]
    assert found[0] == {**resources["IPPool"][0], "metadata": {"name": "lab"}}
    assert node.run("export") == (2, "", "calicoctl: say what to export: -i INVENTORY.\n")
