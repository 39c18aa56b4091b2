# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the files by which a node reaches the datastore: only root reads them, and nothing else holds them."""

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import settings
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.write import datastore_files
from ansible_collections.baremetal.host_routing.plugins.modules import node, node_info, teardown

from tests.unit.modules.node.test_node import PARAMS
from tests.unit.node.systemctl import Systemctl

PASSWORD = "correct-horse-4711" * 4
SETTINGS = DatastoreSettings(
    endpoints=("https://10.10.1.11:2379",),
    ca="/etc/calico/etcd/ca.pem",
    certificate="/etc/calico/etcd/client.pem",
    key="/etc/calico/etcd/client.key",
    user="node1",
    password=PASSWORD,
)
KEY = "-----BEGIN PRIVATE KEY-----\nsecret key 0815\n-----END PRIVATE KEY-----\n"
FILES = {
    "ca": "-----BEGIN CERTIFICATE-----\nca\n-----END CERTIFICATE-----\n",
    "certificate": "-----BEGIN CERTIFICATE-----\nclient\n-----END CERTIFICATE-----\n",
    "key": KEY,
    "settings": f"{json.dumps(SETTINGS.to_dict(), indent=2)}\n",
}


def params(files: dict[str, str] | None) -> dict[str, object]:
    return {**PARAMS, "datastore": None if files is None else datastore_files.pack(files)}


def lines(answer: dict[str, object]) -> list[str]:
    found = [" ".join(line.split()) for line in answer["plan"] if "/etc/calico/" in line]
    return [line.replace(line.split()[2].partition("/etc/")[0], "", 1) for line in found]


def here(host, name: str):
    return host.folder / "root" / datastore_files.PATHS[name].lstrip("/")


NEW = [
    "+ file /etc/calico/etcd/ca.pem 3 lines, mode 0600",
    "+ file /etc/calico/etcd/client.pem 3 lines, mode 0600",
    "+ file /etc/calico/etcd/client.key 3 lines, mode 0600",
    "+ file /etc/calico/datastore.json 11 lines, mode 0600",
]


def test_check_do_check_do(host):
    planned, dummy = host.four_times(node, **params(FILES))
    assert lines(planned) == NEW
    for name, content in FILES.items():
        assert here(host, name).read_text() == content
        assert here(host, name).stat().st_mode & 0o777 == 0o600
    assert settings.load(str(here(host, "settings"))) == SETTINGS
    assert host.run(node_info, gather=["state"])["datastore"] is True


def test_nothing_but_the_files_holds_a_key_or_a_password(host):
    other = {**FILES, "settings": FILES["settings"].replace(PASSWORD, "another one")}
    answers = [
        host.run(node, check=True, diff=True, **params(FILES)),
        host.run(node, diff=True, **params(FILES)),
        host.run(node, diff=True, **params(other)),
        host.run(node_info),
        host.run(node, diff=True, **params({})),
    ]
    assert lines(answers[2]) == [
        "~ file /etc/calico/datastore.json 11 lines, mode 0600 -> 11 lines, mode 0600 another content"
    ]
    shown = json.dumps(answers)
    for secret in (PASSWORD, "another one", "secret key", datastore_files.pack(FILES), base64.b64encode(KEY.encode())):
        text = secret.decode() if isinstance(secret, bytes) else secret
        assert text not in shown
        for path in host.folder.rglob("*"):
            assert not path.is_file() or text.encode() not in path.read_bytes(), path
    assert repr(datastore_files.unpack(datastore_files.pack(FILES))) == "DatastoreFiles(ca, certificate, key, settings)"


def test_a_fleet_without_a_datastore_has_no_files(host):
    host.run(node, **params(FILES))
    gone = host.run(node, **params({}))
    assert lines(gone) == [
        "- file /etc/calico/datastore.json 11 lines, mode 0600",
        "- file /etc/calico/etcd/client.key 3 lines, mode 0600",
        "- file /etc/calico/etcd/client.pem 3 lines, mode 0600",
        "- file /etc/calico/etcd/ca.pem 3 lines, mode 0600",
    ]
    assert not any(here(host, name).exists() for name in FILES)
    assert not host.run(node, **params({}))["changed"]
    assert host.run(node_info, gather=["state"])["datastore"] is False


def test_a_cluster_that_demands_no_certificate_needs_none(host):
    host.run(node, **params(FILES))
    less = {name: FILES[name] for name in ("ca", "settings")}
    assert lines(host.run(node, **params(less))) == [
        "- file /etc/calico/etcd/client.key 3 lines, mode 0600",
        "- file /etc/calico/etcd/client.pem 3 lines, mode 0600",
    ]


def test_a_call_that_says_nothing_of_the_datastore_leaves_the_files(host):
    """The phases of a change, a return to an older state and ad-hoc tasks say nothing."""
    host.run(node, **params(FILES))
    assert not host.run(node, **params(None))["changed"]
    assert all(here(host, name).exists() for name in FILES)


def test_a_file_that_others_may_read_is_closed(host):
    host.run(node, **params(FILES))
    here(host, "key").chmod(0o644)
    assert lines(host.run(node, **params(FILES))) == [
        "~ file /etc/calico/etcd/client.key 3 lines, mode 0644 -> 3 lines, mode 0600"
    ]
    assert here(host, "key").stat().st_mode & 0o777 == 0o600


def test_a_teardown_takes_them_away(host):
    host.machine.systemctl = str(Systemctl(host.folder / "systemd").program)
    host.run(node, **params(FILES))
    answer = host.run(teardown, diff=True)
    assert not any(here(host, name).exists() for name in FILES)
    assert PASSWORD not in json.dumps(answer) and "secret key" not in json.dumps(answer)
    assert "- file /etc/calico/datastore.json 11 lines, mode 0600" in lines(answer)


def packed(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "value",
    ["%", packed([]), packed({"../../shadow": "x"}), packed({"ca": 1}), packed({"ca": "x" * (1 << 20) + "x"}), "bm8="],
)
def test_files_that_cannot_be_read_are_refused(host, value):
    answer = host.run(node, **{**PARAMS, "datastore": value})
    assert answer["failed"] and answer["msg"] == (
        "the files of the datastore that arrived cannot be read. The module's action fills them in."
    )
