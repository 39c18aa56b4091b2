# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by documents and files of a Calico, which a user imports or which lie in /etc/calico."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import subprocess
import threading

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import datastore_source
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.connection.datastore_ways import DatastoreWays

from tests.integration.fleet.test_pages_of_inventories import ENVIRONMENT

ROOT = pathlib.Path(__file__).resolve().parents[4]
TIME = 60.0


def calicoctl(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "bin" / "calicoctl"), *words],
        cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIME, check=False,
    )  # fmt: skip


def hostile_documents(folder: pathlib.Path) -> list[dict[str, object]]:
    """Return valid and invalid documents with a template of Jinja, a path and terminal control in every place."""
    template = f"{{{{ lookup('pipe', 'touch {folder}/PWNED') }}}}"
    pool = {"kind": "IPPool", "metadata": {"name": "p", "annotations": {"note": template}},
            "spec": {"cidr": "10.9.0.0/16", "nodeSelector": f"rack == \"{template}\" || all()"}}  # fmt: skip
    node = {"kind": "Node", "metadata": {"name": "node1"}, "spec": {"bgp": {"ipv4Address": "192.0.2.1/24"}}}
    workload = {"node": "node1", "orchestrator": "cni", "workload": "web", "endpoint": "eth0",
                "interfaceName": "cali1", "ipNetworks": ["10.9.1.1/32"]}  # fmt: skip
    return [
        pool,
        node,
        {**node, "metadata": {"name": template}},
        {**node, "metadata": {"name": "../../../node2"}},
        {**node, "spec": {"bgp": {"ipv4Address": template}}, "metadata": {"name": "node3"}},
        {**pool, "metadata": {"name": "\x1b]0;x\x07"}},
        {"kind": "WorkloadEndpoint", "metadata": {"name": "node1-cni-web-eth0", "namespace": "default"},
         "spec": workload},
        {"kind": "WorkloadEndpoint", "metadata": {"name": "node1-cni-x-eth0", "namespace": "default"},
         "spec": {**workload, "workload": template}},
        {"kind": "IPAMBlock", "spec": {"cidr": "10.9.1.0/26", "affinity": f"host:{template}", "allocations": [0],
                                       "attributes": [{"handle_id": template, "secondary": {"node": template}}]}},
        {"kind": "DaemonSet", "metadata": {"name": template}, "spec": {"template": {"spec": {"containers": [
            {"name": "calico-node", "env": [{"name": "CALICO_IPV4POOL_CIDR", "value": template}]}]}}}},
        {"kind": template, "metadata": {"name": template}},
    ]  # fmt: skip


def test_an_import_runs_nothing_of_what_it_reads(tmp_path: pathlib.Path) -> None:
    """Have an operator import documents with templates of Jinja, paths and terminal control in names and values.

    Gain: a command on the controller, when Ansible reads the inventory that was made, or a file outside of it.
    Precedent: CWE-94, CVE-2023-5764 (templates in values that Ansible takes for its own).
    Closed: 0.2.0
    Result: Names are checked before they name a host or a file. Documents lie in files that are read without Jinja.
    """
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "all.json").write_text(json.dumps({"kind": "List", "items": hostile_documents(tmp_path)}))
    done = calicoctl(tmp_path, "import", "given", "--to", "made/prod")
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "made"]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["prod"]
    for words in (["validate"], ["get", "ippools"], ["get", "wep"]):
        assert calicoctl(tmp_path, *words, "-i", "made/prod").returncode in (0, 1)
    shown = calicoctl(tmp_path, "ipam", "show", "--ip", "10.9.1.1", "-i", "made/prod")
    assert "in use" in shown.stdout or "10.9.1.1" in shown.stdout + shown.stderr
    assert not (tmp_path / "PWNED").exists()


class _Listener(http.server.BaseHTTPRequestHandler):
    """A server in the place of etcd, which keeps what it is sent."""

    bodies: list[bytes] = []

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.send_error(500)

    def log_message(self, *dummy: object) -> None:
        pass


@pytest.mark.parametrize("mode", [0o622, 0o620, 0o602])
def test_a_password_is_not_sent_where_another_user_says(tmp_path: pathlib.Path, mode: int) -> None:
    """Write another endpoint into a calicoctl.cfg that the operator left open for writing.

    Gain: the password of the datastore's user, sent to a server of the attacker.
    Precedent: CWE-732.
    Closed: 0.2.0
    Result: A file that other users may write is not used, and said to be so. With -c it is an error.
    """
    server = http.server.HTTPServer(("127.0.0.1", 0), _Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = tmp_path / "calicoctl.cfg"
    path.write_text(
        "apiVersion: projectcalico.org/v3\nkind: CalicoAPIConfig\nspec:\n"
        f"  etcdEndpoints: http://127.0.0.1:{server.server_port}\n  etcdUsername: root\n  etcdPassword: hunter2\n"
    )
    said: list[str] = []

    def ask() -> None:
        ways = DatastoreWays("", str(path), str(tmp_path / "none"), {}, said.append)
        datastore_source.heartbeats(ways, said.append)

    try:
        path.chmod(mode)
        ask()
        assert _Listener.bodies == [] and "may be changed by other users" in said[0]
        path.chmod(0o600)
        ask()
        assert b"hunter2" in b"".join(_Listener.bodies)  # the server is one that a usable file leads to
    finally:
        _Listener.bodies.clear()
        server.shutdown()
        server.server_close()


def test_a_file_without_an_end_does_not_stop_calicoctl(tmp_path: pathlib.Path) -> None:
    """Leave a pipe, a device or a loop of links where calicoctl looks for its configuration and its keys.

    Gain: commands that hang or take all memory.
    Precedent: CWE-400.
    Closed: 0.2.0
    Result: Only regular files of a usual size are read. Others are named, and passed over.
    """
    pipe, loop, config = tmp_path / "pipe", tmp_path / "loop", tmp_path / "config"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for path in (pipe, loop, pathlib.Path("/dev/zero")):
        said: list[str] = []
        ways = DatastoreWays("", str(path), str(tmp_path / "none"), {}, said.append)
        assert list(ways.ways()) == [] and "cannot be read" in said[0]
        config.write_text(
            "apiVersion: projectcalico.org/v3\nkind: CalicoAPIConfig\nspec:\n"
            f"  etcdEndpoints: https://127.0.0.1:1\n  etcdCACertFile: {path}\n"
        )
        config.chmod(0o600)
        ways = DatastoreWays("", str(config), str(tmp_path / "none"), {}, said.append)
        assert list(ways.ways()) == [] and "names a file by etcdCACertFile that cannot be read" in said[1]
