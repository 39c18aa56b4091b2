# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an inventory that are read, their keys that are there twice, and the check of the roles' variables."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible._internal._datatag._tags import Origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.written_inventory import (
    ClearSecret,
    RepeatedKey,
    WrittenInventory,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import pool_entry
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import (
    role_variables,
    written_source,
    yaml_file,
)

VAULT = "$ANSIBLE_VAULT;1.1;AES256\n3964\n"


def read(folder: pathlib.Path, source: str, files: t.Mapping[str, str], groups: t.Sequence[str]) -> WrittenInventory:
    """Write `files` into `folder` and return the inventory of `source`, whose `groups` have the host node1."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    task_vars = {
        "hostvars": {"node1": {}},
        "groups": {name: ["node1"] for name in ("all", *groups)},
        "ansible_inventory_sources": [str(folder / source), "node1,"],
    }
    return written_source.read(task_vars, [Host("node1", {})])


def owners(written: WrittenInventory) -> list[str]:
    return [f"{file.folder}/{file.owner}" for file in written.variable_files]


def test_files_of_variables_and_what_ansible_does_not_read(tmp_path: pathlib.Path) -> None:
    """A name with dots is a host's; hidden files and backups are left out, and files of other endings, too."""
    files = {
        "hosts.yml": "all: {}\n",
        "group_vars/all/calico.yml": "a: 1\n",
        "group_vars/rack_a.yaml": "a: 1\n",
        "group_vars/.hidden.yml": "a: 1\na: 1\n",
        "group_vars/old.yml~": "a: 1\na: 1\n",
        "host_vars/node1.example.com": "a: 1\n",
        "host_vars/node2": "a: 1\n",
        "host_vars/node3.json": '{"a": 1,\n"a": 2}\n',
    }
    written = read(tmp_path, "hosts.yml", files, ())
    assert owners(written) == [
        "group_vars/all", "group_vars/rack_a", "host_vars/node1.example.com", "host_vars/node2", "host_vars/node3",
    ]  # fmt: skip
    assert written.repeated_keys == (RepeatedKey("a", 1, f"{tmp_path}/host_vars/node3.json:2"),)


def test_a_folder_of_sources_and_an_ini_file_have_places(tmp_path: pathlib.Path) -> None:
    """A section of an INI file is a group's place, and the first word of a line a host's."""
    files = {
        "inventory/a.ini": "# first\nnode1 ansible_host=10.0.0.1\n[rack_a:children]\nx\n[calico_rrs]\nnode1\n",
        "inventory/b.yml": "spine:\n  hosts: {node1: }\n",
        "inventory/group_vars/gone.yml": "a: 1\n",
        "group_vars/beside.yml": "a: 1\n",
    }
    written = read(tmp_path, "inventory", files, ("calico_rrs", "rack_a", "spine"))
    folder = tmp_path / "inventory"
    assert written.places == {
        "node1": f"{folder}/a.ini:2",
        "rack_a": f"{folder}/a.ini:3",
        "calico_rrs": f"{folder}/a.ini:5",
        "spine": f"{folder}/b.yml:1",
    }
    assert owners(written) == ["group_vars/gone"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\nb: {c: 1,\n  c: 2}\na: 3\n", ["c 2 3", "a 1 4"]),
        ("- a: 1\n- a: 1\n---\na: 1\n", []),
        ("x: &x {a: 1}\ny: {<<: *x, <<: *x, a: 2}\nz: [*x, *x]\n", []),
        ("a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  39\na: !unsafe x\n", ["a 1 4"]),
        (f"{VAULT}a: 1\na: 1\n", []),
        ("a: 1\na: [\n", []),
        ("1: a\n'1': b\n", []),
    ],
)
def test_keys_that_are_there_twice(text: str, found: list[str], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "all.yml"
    file.write_text(text)
    repeated = [key for key in yaml_file.of_file(str(file)).keys if key.first_line is not None]
    assert [f"{key.text} {key.first_line} {key.line}" for key in repeated] == found


def test_a_file_that_cannot_be_read_has_no_keys(tmp_path: pathlib.Path) -> None:
    (tmp_path / "latin.yml").write_bytes(b"a: \xff\na: 1\n")
    assert yaml_file.of_file(str(tmp_path / "latin.yml")).keys == []
    assert yaml_file.of_file(str(tmp_path / "gone.yml")).keys == []
    assert not yaml_file.is_encrypted(str(tmp_path / "gone.yml"))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("calico_node_agent", "yes", None),
        ("calico_node_agent", None, None),
        ("calico_node_agent", "maybe", "is not true or false. Write for example true, which is the default."),
        ("calico_node_generations_kept", "7", None),
        ("calico_node_generations_kept", 7.5, "is not a whole number. Write for example 10, which is the default."),
        ("calico_node_mode", "", None),
        ("calico_node_mode", "tunnel", f"is not known. Choose one of {', '.join(pool_entry.FIELDS)}."),
        ("calico_node_cni_chained_plugins", [{"type": "portmap"}], None),
    ],
)  # fmt: skip
def test_ansible_decides_which_values_a_role_accepts(name: str, value: t.Any, text: t.Optional[str]) -> None:
    error = role_variables.error(name, "node1", value, "all.yml:1")
    assert (error and str(error)) == (text and f"all.yml:1: {name} of node1 {value} {text}")


def test_a_similar_name_is_meant() -> None:
    assert role_variables.meant("calico_node_agent_metrics_prt") == "calico_node_agent_metrics_port"
    assert role_variables.meant("calico_bgp_as_nummber") == "calico_bgp_as_number"
    assert role_variables.meant("calico_version") == ""


def test_a_password_in_an_encrypted_file_is_no_secret_in_clear_text(tmp_path: pathlib.Path) -> None:
    """Ansible decrypts a whole file as it reads it, so the file itself says whether it is encrypted."""
    clear, encrypted = tmp_path / "clear.yml", tmp_path / "vault.yml"
    clear.write_text("ansible_password: hunter2\n")
    encrypted.write_text(VAULT)

    def at(path: pathlib.Path, value: str) -> str:
        return t.cast(str, Origin(path=str(path), line_num=1).tag(value))

    raw = {
        "ansible_password": at(clear, "{{ vault_password }}"),
        "vault_password": at(encrypted, "hunter2"),
        "ansible_become_password": at(clear, "hunter2"),
        "ansible_ssh_pass": at(clear, "{{ lookup('env', 'PASS') }}"),
        "calico_bgp_secrets": {
            "tor": {"password": at(encrypted, "hunter2")},
            "rr": {"password": "{{ vault_password }}"},
        },
    }
    written = written_source.read({"hostvars": {"node1": raw}}, [Host("node1", {})])
    assert written.clear_secrets == (ClearSecret("ansible_become_password of node1", f"{clear}:1"),)


NUMBERS = """\
calico_bgp_as_number: 064512
calico_ip_pools:
  - {name: a, blockSize: 0x1A, nodeSelector: all(), mode: 0644}
calico_policies: [{ingress: [{destination: {ports: [20:30, "20:30", 80, 1_000]}}], order: 10.50}]
calico_workloads: [{labels: {version: 1.10, same: 1.5, hex: 0x10, plain: 7, quoted: "010"}}]
calico_aliased: &a {labels: {release: 2.0}}
calico_merged: {<<: *a}
file_mode: 0644
labels: {version: 1.10}
"""


def test_numbers_that_yaml_reads_otherwise(tmp_path: pathlib.Path) -> None:
    """Only those in our variables count, and a number as Python writes it is as it is written."""
    written = read(tmp_path, "hosts.yml", {"hosts.yml": "all: {}\n", "group_vars/all.yml": NUMBERS}, ())
    assert [(*number[:4], number.origin.rpartition("/")[2]) for number in written.odd_numbers] == [
        ("calico_bgp_as_number", "064512", 26954, "octal", "all.yml:1"),
        ("calico_ip_pools[0].mode", "0644", 420, "octal", "all.yml:3"),
        ("calico_policies[0].ingress[0].destination.ports[0]", "20:30", 1230, "sixties", "all.yml:4"),
        ("calico_workloads[0].labels.version", "1.10", 1.1, "label", "all.yml:5"),
        ("calico_workloads[0].labels.hex", "0x10", 16, "label", "all.yml:5"),
    ]


GROUPS_OF_KEYS = """\
all:
  children:
    calico_nodes:
      hosts: {node1: {calico_node_address: 10.0.0.1/24, hosts: 1}}
      calico_underlay_mtu: 1400
      children: {rack_a: {host: {}}, rack_b: null}
"""


def test_keys_of_groups_that_ansible_leaves_out(tmp_path: pathlib.Path) -> None:
    """A file of an inventory plugin has other keys, and so have files of variables."""
    files = {
        "prod/hosts.yml": GROUPS_OF_KEYS,
        "prod/10-plugin.yml": "plugin: ansible.builtin.constructed\ngroups: {rack_a: {host: {}}}\n",
        "prod/group_vars/all.yml": "calico_nodes: {host: {}}\n",
        "prod/list.yml": "- a\n- {host: {}}\n",
    }
    written = read(tmp_path, "prod", files, ())
    assert [(key.group, key.key, key.origin.rpartition("/")[2]) for key in written.group_keys] == [
        ("calico_nodes", "calico_underlay_mtu", "hosts.yml:5"),
        ("rack_a", "host", "hosts.yml:6"),
    ]


def test_groups_that_contain_themselves_end(tmp_path: pathlib.Path) -> None:
    """An alias may make a group its own child; the search for keys ends all the same."""
    text = "all: &a\n  children: {again: *a}\n  host: {}\n"
    assert len(read(tmp_path, "hosts.yml", {"hosts.yml": text}, ()).group_keys) > 1


def test_folders_with_nearly_the_name_of_one_that_ansible_reads(tmp_path: pathlib.Path) -> None:
    files = {
        "hosts.yml": "all: {}\n",
        "group_var/all.yml": "a: 1\n",
        "Host-Vars/n": "",
        "vars/a.yml": "",
        "group.vars": "",
    }
    written = read(tmp_path, "hosts.yml", files, ())
    assert [folder[:2] for folder in written.like_folders] == [("Host-Vars", "host_vars"), ("group_var", "group_vars")]
