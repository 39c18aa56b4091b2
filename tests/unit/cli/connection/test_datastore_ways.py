# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to the datastore: Calico's calicoctl.cfg as input, and the order of its sources."""

from __future__ import annotations

import json
import os
import pathlib
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import datastore_source
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.connection import api_config
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import blocks_key, heartbeat_key
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings

from tests.fakes.etcd import FakeEtcd
from tests.unit.cli.conftest import Node

HEAD = "apiVersion: projectcalico.org/v3\nkind: CalicoAPIConfig\nmetadata:\nspec:\n"
OURS = HEAD + "  datastoreType: etcdv3\n  etcdEndpoints: https://ours:2379, https://m2:2379\n  etcdCACertFile: CA\n"
KUBERNETES = HEAD + "  datastoreType: kubernetes\n  kubeconfig: /root/.kube/config\n"
CALICOS = OURS.replace("ours", "calicos")
NO_FLEET = "its etcd has no blocks of a fleet of this collection. It may be a Calico's."
NO_KUBERNETES = "is for a Calico whose datastore is Kubernetes. Fleets here have etcd, or no datastore at all."


@pytest.fixture
def cluster(node: Node, monkeypatch: pytest.MonkeyPatch) -> FakeEtcd:
    """A fleet's cluster, whose first endpoint has `ours` in its name; any other one is a Calico's, without our keys."""
    ours, calicos = FakeEtcd(), FakeEtcd()
    calicos.put("/calico/resources/v3/projectcalico.org/nodes/node1", b"{}")
    beat = Heartbeat("node1", time.time() - 2, "0.2.0", "", "converge", True, 0, "", 0, 2, 3, (), 4, 5120, 7, True, 0.1)
    ours.put(heartbeat_key("node1"), heartbeats.encode(beat))
    ours.put(blocks_key("node1"), b"{}")

    def connect(found: DatastoreSettings) -> EtcdClient:
        members = (ours if "ours" in found.endpoints[0] else calicos).members
        return EtcdClient(members, Credentials(found.user, "") if found.user else None, seconds=1.0, jitter=0.0)

    monkeypatch.setattr(datastore_source, "connect", connect)
    for name in list(os.environ):
        if name.removeprefix("CALICO_").startswith(("ETCD_", "DATASTORE_")):
            monkeypatch.delenv(name)
    node.store()
    return ours


def write(node: Node, name: str, text: str, mode: int = 0o600) -> pathlib.Path:
    """Write a file below the node's root, with CA in it replaced by the path of a certificate."""
    path = node.folder / "root" / "etc" / "calico" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "ca.pem").write_text("certificate")
    path.write_text(text.replace("CA\n", f"{path.parent}/ca.pem\n"))
    path.chmod(mode)
    return path


def nodes(node: Node, *words: str) -> tuple[int, bool, str]:
    """Return the exit status of `get nodes -o wide`, whether it shows heartbeats, and the errors."""
    status, out, err = node.run("get", "nodes", "-o", "wide", *words)
    return status, "HEARTBEAT" in out, err.replace("NODE/root", "")


def test_a_file_of_ours_leads_to_the_datastore(node: Node, cluster: FakeEtcd) -> None:
    assert nodes(node) == (0, False, "")
    path = write(node, "calicoctl.cfg", OURS)
    assert nodes(node) == (0, True, "")
    path.rename(node.folder / "my.cfg")
    assert nodes(node) == (0, False, "")
    assert nodes(node, "-c", str(node.folder / "my.cfg")) == (0, True, "")
    assert node.run("-c", str(node.folder / "my.cfg"), "get", "nodes", "-o", "wide")[0] == 0
    assert nodes(node, f"--config={node.folder}/my.cfg") == (0, True, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (KUBERNETES, f"it {NO_KUBERNETES}"),
        (CALICOS, NO_FLEET),
        (HEAD.replace("spec:", "spec: {}"), f"it {NO_KUBERNETES}"),
    ],
)
def test_one_left_by_a_real_calico(node: Node, cluster: FakeEtcd, text: str, why: str) -> None:
    """It is ignored with a warning, so that the node's own settings count, and refused if it is given by -c."""
    path = write(node, "calicoctl.cfg", text)
    assert nodes(node) == (0, False, f"calicoctl: /etc/calico/calicoctl.cfg is ignored: {why}\n")
    write(node, "datastore.json", json.dumps({"endpoints": ["https://ours:2379"]}))
    assert nodes(node) == (0, True, f"calicoctl: /etc/calico/calicoctl.cfg is ignored: {why}\n")
    status, shown, err = nodes(node, "-c", str(path))
    assert (status, shown) == (1, False)
    assert err.startswith("calicoctl: -c /etc/calico/calicoctl.cfg ") and err.endswith(f"{why.removeprefix('it ')}\n")


def test_a_file_of_kubernetes_is_refused_by_every_get(node: Node, cluster: FakeEtcd) -> None:
    path = write(node, "other.cfg", KUBERNETES)
    expected = f"calicoctl: -c NODE/root/etc/calico/other.cfg {NO_KUBERNETES}\n"
    assert node.run("get", "ippools", "-c", str(path)) == (1, "", expected)
    missing = "calicoctl: Error reading config file: /no/such: No such file or directory.\n"
    assert node.run("get", "ippools", "-c", "/no/such") == (1, "", missing)


def test_the_environment_comes_behind_the_file(node: Node, cluster: FakeEtcd, monkeypatch: pytest.MonkeyPatch) -> None:
    write(node, "datastore.json", json.dumps({"endpoints": ["https://ours:2379"]}))
    monkeypatch.setenv("DATASTORE_TYPE", "kubernetes")
    assert nodes(node) == (0, True, f"calicoctl: the environment is ignored: it {NO_KUBERNETES}\n")
    (node.folder / "root" / "etc" / "calico" / "datastore.json").unlink()
    monkeypatch.setenv("DATASTORE_TYPE", "etcdv3")
    monkeypatch.setenv("ETCD_ENDPOINTS", "http://ours:2379")
    assert nodes(node) == (0, True, "")
    monkeypatch.setenv("CALICO_ETCD_ENDPOINTS", "http://calicos:2379")
    assert nodes(node) == (0, False, f"calicoctl: the environment is ignored: {NO_FLEET}\n")
    write(node, "calicoctl.cfg", OURS)
    assert nodes(node) == (0, True, "")


def test_an_inventory_comes_first(node: Node, cluster: FakeEtcd, program: pathlib.Path) -> None:
    """With -i, no other way is read."""
    node.controller = True
    write(node, "calicoctl.cfg", KUBERNETES)
    dummy, out, err = node.run("get", "nodes", "-i", str(node.folder / "hosts"), "-c", "/no/such")
    assert out == "" and "calicoctl.cfg" not in err and "/no/such" not in err


def test_nothing_is_asked_by_a_command_that_needs_no_datastore(node: Node, cluster: FakeEtcd) -> None:
    write(node, "calicoctl.cfg", KUBERNETES)
    assert node.run("get", "nodes")[2] == ""
    assert node.run("get", "ippools", "-o", "wide")[2] == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not one document. Write apiVersion: projectcalico.org/v3, kind: CalicoAPIConfig and spec."),
        ("a: 1\n---\nb: 2\n", "is not one document. Write apiVersion: projectcalico.org/v3, kind: CalicoAPIConfig and "
         "spec."),
        ("kind: CalicoAPIConfig\n", "is an invalid config file: unknown APIVersion ''"),
        (HEAD.replace("CalicoAPIConfig", "IPPool"),
         "is an invalid config file: expected kind 'CalicoAPIConfig', got 'IPPool'"),
        (HEAD, "has no spec."),
        (OURS + "  etcdEndpoint: x\n", "has a field in its spec that Calico does not have: 'etcdEndpoint'."),
        (OURS + "  etcdPassword: {a: secret}\n", "has a etcdPassword that is not text."),
        (OURS + "  etcdPassword: !!python/object/apply:os.system ['touch x']\n",
         "(line 8) is not YAML: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/object/apply:os.system'."),
        (OURS.replace("etcdv3", "mysql"), "has a datastoreType that is neither etcdv3 nor kubernetes."),
        (OURS + "  etcdDiscoverySrv: x\n", "has etcdDiscoverySrv, which is not supported here. Write etcdEndpoints."),
        (OURS + "  etcdKey: secret\n",
         "has etcdKey, which is not read here. Put it into a file, and name it by etcdKeyFile."),
        (OURS + "  etcdKeyFile: /no/key\n",
         "names a file by etcdKeyFile that cannot be read: /no/key: No such file or directory."),
        (OURS + "  etcdKeyFile: /dev/zero\n",
         "names a file by etcdKeyFile that cannot be read: /dev/zero: it is not a regular file."),
        (OURS + '  etcdKeyFile: "a\\0b"\n', "names a file by etcdKeyFile that cannot be read: a\\x00b: its name is not "
         "valid."),
        (HEAD + "  etcdEndpoints: https://root:secret@ours:2379\n", "is not usable: endpoints[0] is refused: a URL "
         "contains a user name; write it to user, and the password to password."),
        (HEAD + f"  etcdEndpoints: {','.join(['http://ours'] * 17)}\n", "is not usable: "),
        (OURS + "  a: &a [x, x]\n  b: [*a, *a]\n" * 1, "has a field in its spec that Calico does not have: 'a'."),
    ],
)  # fmt: skip
def test_a_hostile_or_wrong_file_is_refused_in_words(node: Node, cluster: FakeEtcd, text: str, why: str) -> None:
    path = write(node, "calicoctl.cfg", text)
    status, shown, err = nodes(node, "-c", str(path))
    assert (status, shown) == (1, False)
    assert f"-c /etc/calico/calicoctl.cfg {why}" in err and "secret" not in err
    assert nodes(node)[:2] == (0, False)
    assert "calicoctl.cfg is ignored: it " in nodes(node)[2]


def test_links_devices_sizes_and_modes(node: Node, cluster: FakeEtcd) -> None:
    path = write(node, "calicoctl.cfg", OURS, 0o620)
    why = "may be changed by other users, who could read passwords so. Run chown root and chmod 600."
    assert nodes(node) == (0, False, f"calicoctl: /etc/calico/calicoctl.cfg is ignored: it {why}\n")
    write(node, "calicoctl.cfg", OURS + "  etcdUsername: node1\n  etcdPassword: secret\n", 0o644)
    assert nodes(node)[2].startswith(
        "calicoctl: /etc/calico/calicoctl.cfg has secrets, and all users may read it. Run chmod 600.\n"
    )
    path.write_text("#" * (1 << 20) + OURS)
    assert "is ignored: it is larger than 1 MiB. It needs some lines.\n" in nodes(node)[2]
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "is ignored: it cannot be read: it is not a regular file.\n" in nodes(node)[2]
    path.unlink()
    os.mkfifo(path)
    assert "is ignored: it cannot be read: it is not a regular file.\n" in nodes(node)[2]
    path.unlink()
    path.symlink_to("calicoctl.cfg")
    assert "is ignored: it cannot be read: Too many levels of symbolic links.\n" in nodes(node)[2]


def test_a_private_key_that_others_may_read(node: Node, cluster: FakeEtcd) -> None:
    key = node.folder / "client.key"
    key.write_text("key")
    key.chmod(0o644)
    write(node, "calicoctl.cfg", OURS + f"  etcdKeyFile: {key}\n")
    status, shown, err = nodes(node)
    assert (status, shown) == (0, True)
    assert err == "calicoctl: NODE/client.key is a private key, and other users have rights to it. Run chmod 600.\n"


def test_a_file_in_json_needs_no_yaml(node: Node, cluster: FakeEtcd) -> None:
    spec = {"etcdEndpoints": "http://ours:2379"}
    write(
        node, "calicoctl.cfg", json.dumps({"apiVersion": "projectcalico.org/v3", "kind": api_config.KIND, "spec": spec})
    )
    assert nodes(node) == (0, True, "")
    write(node, "calicoctl.cfg", "{")
    assert "is ignored: it is not JSON.\n" in nodes(node)[2]
