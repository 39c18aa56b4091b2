# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to a fleet's datastore: from variables, from the group of members, and from .calico.etcd."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import access
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.access import FleetDatastore

SECRET = "00112233445566778899aabbccddeeff"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"
SECRETS = {"username": "root", "password": "pw-0815", "node_secret": SECRET}
RUN_ETCD = "Run playbooks/etcd.yml, which makes the cluster and this file"


class Inventory:
    """An inventory with the hosts node1 and etcd1, and the files of the role calico_etcd."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.etcd = folder / ".calico.etcd"
        self.etcd.mkdir()
        for name, content in (("ca.pem", CERTIFICATE), ("client.pem", CERTIFICATE), ("client.key", KEY)):
            self.write(name, content)
        self.write("secrets.json", json.dumps(SECRETS))
        self.members: dict[str, dict[str, t.Any]] = {"etcd1": {"calico_etcd_address": "10.10.1.21"}}

    def write(self, name: str, content: str, mode: int = 0o600) -> None:
        path = self.etcd / name
        path.write_text(content)
        path.chmod(mode)

    def variables(self, **own: t.Any) -> dict[str, t.Any]:
        return {
            "inventory_dir": str(self.folder),
            "inventory_hostname": "node1",
            "groups": {"calico_nodes": ["node1"], "calico_etcd": list(self.members)},
            "hostvars": {"node1": own, **self.members},
        }

    def of(self, **own: t.Any) -> FleetDatastore | None:
        return access.of([Host("node1", own)], self.variables(**own))

    def files(self, **own: t.Any) -> dict[str, str]:
        found = self.of(**own)
        assert found is not None
        return access.node_files(found, bytes.fromhex(SECRET), "node1")


@pytest.fixture
def inventory(tmp_path: pathlib.Path) -> Inventory:
    return Inventory(tmp_path)


def refusal(call: t.Callable[[], object]) -> str:
    with pytest.raises(FleetError) as error:
        call()
    assert "pw-0815" not in str(error.value) and SECRET not in str(error.value)
    return str(error.value)


def test_a_fleet_with_the_group_has_its_members(inventory: Inventory) -> None:
    inventory.members["node2"] = {"calico_node_address": "10.10.1.12/24"}
    inventory.members["etcd3"] = {"calico_etcd_address": "fd00::21"}
    found = inventory.of()
    assert found == FleetDatastore(
        ("https://10.10.1.21:2379", "https://10.10.1.12:2379", "https://[fd00::21]:2379"),
        *(str(inventory.etcd / name) for name in ("ca.pem", "client.pem", "client.key")),
        2.0,
        True,
        ("https://10.10.1.21:2378", "https://10.10.1.12:2378", "https://[fd00::21]:2378"),
    )
    assert found.settings(Credentials("root", "pw-0815")).password == "pw-0815"


def test_a_fleet_without_the_group_and_variables_has_none(inventory: Inventory) -> None:
    inventory.members = {}
    assert inventory.of() is None


def test_an_empty_list_switches_the_datastore_off(inventory: Inventory) -> None:
    assert inventory.of(calico_etcd_endpoints=[]) is None


def test_a_cluster_of_somebody_else(inventory: Inventory) -> None:
    """Its interval of progress is not known, and it may demand no certificate."""
    for name in ("client.pem", "client.key"):
        (inventory.etcd / name).unlink()
    url = ["https://etcd.example.com:2379"]
    found = inventory.of(calico_etcd_endpoints=url, calico_etcd_ca="../pki/ca.pem")
    assert found == FleetDatastore((url[0],), str(inventory.folder.parent / "pki" / "ca.pem"), "", "", None)
    own = {"calico_etcd_cert": "/pki/c.pem", "calico_etcd_key": "/pki/c.key", "calico_etcd_progress_interval": 5}
    found = inventory.of(calico_etcd_endpoints=url, **own)
    assert found is not None and (found.certificate, found.key, found.progress) == ("/pki/c.pem", "/pki/c.key", 5.0)


def test_a_member_without_an_address(inventory: Inventory) -> None:
    inventory.members = {"etcd1": {}}
    assert refusal(inventory.of) == (
        "calico_etcd_address of etcd1 is not set, and the host has no calico_node_address. Set it to the address at "
        "which the member of etcd listens, such as 10.10.1.11."
    )
    inventory.members = {"etcd1": {"calico_etcd_address": "etcd1.example.com"}}
    assert refusal(inventory.of) == (
        "calico_etcd_address of etcd1 etcd1.example.com is not an address. Write it like 10.10.1.11."
    )


def test_an_inventory_without_a_folder(inventory: Inventory) -> None:
    said = refusal(lambda: access.of([], {**inventory.variables(), "inventory_dir": None}))
    assert said == (
        "calico_etcd_ca is not set, and the inventory has no folder with .calico.etcd. Use an inventory that is a file "
        "or a folder, or set calico_etcd_ca, calico_etcd_cert and calico_etcd_key."
    )


def test_secrets_come_from_variables_or_the_file(inventory: Inventory) -> None:
    assert access.operator(inventory.variables()) == Credentials("root", "pw-0815")
    assert access.node_secret(inventory.variables()) == bytes.fromhex(SECRET)
    own = {"calico_etcd_password": "other", "calico_etcd_node_secret": "ff" * 16}
    assert access.operator(inventory.variables(**own)) == Credentials("root", "other")
    assert access.operator(inventory.variables(**own, calico_etcd_username="ops")).user == "ops"
    assert access.node_secret(inventory.variables(**own)) == b"\xff" * 16
    assert "pw-0815" not in repr(access.operator(inventory.variables()))


def test_without_secrets(inventory: Inventory) -> None:
    path = inventory.etcd / "secrets.json"
    path.unlink()
    assert refusal(lambda: access.operator(inventory.variables())) == (
        f"calico_etcd_password is not set, and {path} has no user. Set calico_etcd_username and calico_etcd_password, "
        f"encrypted with ansible-vault. {RUN_ETCD}, for a cluster of its own."
    )
    assert refusal(lambda: access.node_secret(inventory.variables())) == (
        f"calico_etcd_node_secret is not set, and {path} has none. Set it to the output of `openssl rand -hex 32`, "
        f"encrypted with ansible-vault. {RUN_ETCD}, for a cluster of its own."
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "secrets of etcd {path} is not a JSON object. Restore it from a backup."),
        ("[]", "secrets of etcd {path} is not a JSON object. Restore it from a backup."),
        ("[" * 100_000, "secrets of etcd {path} is not a JSON object. Restore it from a backup."),
        ("x" * (256 << 10) + "x", "secrets of etcd {path} is no text of at most 262144 bytes. Write a file in the form "
         "of PEM."),
        (json.dumps({**SECRETS, "password": ""}), "password in {path} is not a text of 1 to 256 characters. Correct "
         "it."),
        (json.dumps({**SECRETS, "username": 7}), "username in {path} 7 is not a text of 1 to 256 characters. Correct "
         "it."),
    ],
)  # fmt: skip
def test_secrets_that_cannot_be_read(inventory: Inventory, content: str, said: str) -> None:
    inventory.write("secrets.json", content)
    path = str(inventory.etcd / "secrets.json")
    assert refusal(lambda: access.operator(inventory.variables())) == said.format(path=path)


def test_a_secret_that_is_none(inventory: Inventory) -> None:
    inventory.write("secrets.json", json.dumps({**SECRETS, "node_secret": "pw-0815"}))
    assert refusal(lambda: access.node_secret(inventory.variables())) == (
        f"node_secret in {inventory.etcd / 'secrets.json'} is not a text of 32 to 256 hex digits, two for each byte. "
        "Make one with `openssl rand -hex 32`, and encrypt it with ansible-vault."
    )


def test_secrets_that_others_may_read(inventory: Inventory) -> None:
    inventory.write("secrets.json", json.dumps(SECRETS), 0o640)
    path = inventory.etcd / "secrets.json"
    assert refusal(lambda: access.operator(inventory.variables())) == (
        f"secrets of etcd {path} may be read by others: its mode is 0640. If nobody has read it, run `chmod 600 "
        f"{path}`; otherwise replace what is in it."
    )
    inventory.write("client.key", KEY, 0o644)
    assert refusal(inventory.files).startswith(f"calico_etcd_key {inventory.etcd / 'client.key'} may be read by others")


def test_the_files_of_a_node(inventory: Inventory) -> None:
    files = inventory.files()
    assert (files["ca"], files["certificate"], files["key"]) == (CERTIFICATE, CERTIFICATE, KEY)
    wanted = DatastoreSettings(
        ("https://10.10.1.21:2378",),
        "/etc/calico/etcd/ca.pem",
        "/etc/calico/etcd/client.pem",
        "/etc/calico/etcd/client.key",
        "node1",
        rights.password(bytes.fromhex(SECRET), "node1"),
        2.0,
    )
    assert DatastoreSettings.from_dict(json.loads(files["settings"])) == wanted


def test_nodes_check_the_release_of_etcd_for_live_policy_without_gates(inventory: Inventory) -> None:
    elsewhere = {"calico_etcd_endpoints": ["https://a"]}
    for given, checks in (
        ({}, False),
        ({"calico_live_policy": True}, False),  # it has gates
        (elsewhere, False),
        ({**elsewhere, "calico_live_policy": True}, True),
    ):
        assert json.loads(inventory.files(**given)["settings"]).get("check_rights", False) is checks


def test_a_node_gets_its_own_certificate(inventory: Inventory) -> None:
    """Its earlier ones are in the same file. A cluster of somebody else has one certificate for all."""
    own, key = CERTIFICATE.replace("x", "own"), KEY.replace("x", "own")
    (inventory.etcd / "nodes").mkdir()
    inventory.write("nodes/node1.pem", own + key + CERTIFICATE)
    files = inventory.files()
    assert (files["certificate"], files["key"]) == (own, key)
    inventory.write("nodes/node1.pem", own + key, 0o644)
    assert "may be read by others: its mode is 0644." in refusal(inventory.files)


def test_the_files_of_a_node_without_a_certificate(inventory: Inventory) -> None:
    (inventory.etcd / "client.pem").unlink()
    files = inventory.files(calico_etcd_endpoints=["https://a"])
    found = json.loads(files["settings"])
    assert set(files) == {"ca", "settings"} and (found["certificate"], found["key"]) == ("", "")
    assert found["progress_seconds"] is None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("ca.pem", None, "calico_etcd_ca {path} does not exist. " + RUN_ETCD + ", or set calico_etcd_endpoints, "
         "calico_etcd_ca, calico_etcd_cert and calico_etcd_key to your cluster's."),
        ("ca.pem", "nothing", "calico_etcd_ca {path} has no certificate in the form of PEM. Name the file that has "
         "it."),
        ("client.pem", KEY, "calico_etcd_cert {path} has no certificate in the form of PEM. Name the file that has "
         "it."),
        ("client.key", CERTIFICATE, "calico_etcd_key {path} has no private key in the form of PEM. Name the file that "
         "has it."),
        ("client.key", KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), "calico_etcd_key {path} has a passphrase. Nodes "
         "use it without a person: name a key without one."),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used(inventory: Inventory, name: str, content: str | None, said: str) -> None:
    if content is None:
        (inventory.etcd / name).unlink()
    else:
        inventory.write(name, content)
    assert refusal(inventory.files) == said.format(path=inventory.etcd / name)


def test_a_folder_instead_of_a_file(inventory: Inventory) -> None:
    (inventory.etcd / "ca.pem").unlink()
    (inventory.etcd / "ca.pem").mkdir()
    assert refusal(inventory.files) == (
        f"calico_etcd_ca {inventory.etcd / 'ca.pem'} cannot be read: Is a directory. See that it is a file that you "
        "can read."
    )
