# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that passwords from a vault appear in one file of the node only, even with -vvv.

The node is this machine with folders, a network, an /etc and a /dev of its own.
"""

from __future__ import annotations

import base64
import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import typing as t
import zlib

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords

from tests.integration.ansible_playbook import BIN, play

pytestmark = pytest.mark.root

PASSWORD, OTHER = "correct-horse-4711", "battery-staple-0815"
NAME = "tor-a:password"

_INTERPRETER = """\
#!/bin/sh
exec unshare --mount --net sh -c '
    mount -t overlay overlay -o lowerdir=/etc,upperdir={root}/etc,workdir={root}/work /etc &&
    mount --bind {root}/lib /var/lib && mount --bind {root}/run /run && mount -t tmpfs none /dev &&
    mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && ln -s /proc/self/fd /dev/fd &&
    mkdir /dev/shm && ln -s /run/log /dev/log &&
    ip link add eth0 type veth peer name peer0 && ip link set peer0 up && ip link set eth0 up &&
    ip addr add 10.10.1.11/24 dev eth0 && ip route add default via 10.10.1.1 &&
    exec {python} "$@"' sh "$@"
"""

PLAY = """\
- hosts: calico_nodes
  gather_facts: false
  tasks:
    - baremetal.host_routing.node_info:
        gather: [state, ipam]
      register: observed
    - baremetal.host_routing.fleet:
        observed: observed
      register: fleet
      run_once: true
    - baremetal.host_routing.node:
        fleet: "{{ fleet.path }}"
      register: result
    - ansible.builtin.debug:
        msg: "new to it: {{ observed.passwords_changed | join(' ') }}."
    - baremetal.host_routing.node_info:
"""


class Syslog(threading.Thread):
    """A thread that collects in `lines` all that the node's modules write to the system's log."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(daemon=True)
        self.lines: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        handle = os.open(folder, os.O_RDONLY)  # by its /proc path, because a socket's path has at most 107 characters
        self._socket.bind(f"/proc/self/fd/{handle}/log")
        os.close(handle)

    def run(self) -> None:
        while True:
            try:
                self.lines.append(self._socket.recv(1 << 20))
            except OSError:
                return


class Processes(threading.Thread):
    """A thread that collects the command lines and environments of other processes in `seen`, until `done` is set.

    It looks every 0.1 seconds, so it may miss processes that end sooner.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.1):
            for entry in pathlib.Path("/proc").iterdir():
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    for name in ("cmdline", "environ"):
                        try:
                            self.seen.add((entry / name).read_bytes())
                        except OSError:
                            continue


class Node:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.root = folder, folder / "node1"
        for name in ("etc", "work", "lib", "run", "remote"):
            (self.root / name).mkdir(parents=True)
        (folder / "local").mkdir()
        (folder / "vault").write_text("open sesame")
        interpreter = self.root / "python"
        interpreter.write_text(_INTERPRETER.format(root=self.root, python=sys.executable))
        interpreter.chmod(0o755)
        (folder / "play.yml").write_text(PLAY)
        self.syslog = Syslog(self.root / "run")
        self.syslog.start()

    @property
    def file(self) -> pathlib.Path:
        return self.root / "etc" / "calico" / "bird.secrets.conf"

    def inventory(self, password: str, **variables: t.Any) -> None:
        """Write an inventory with one BGP peer, whose password is encrypted by ansible-vault.

        `variables` are variables of the group calico_nodes; they replace those of this inventory with the same name,
        such as calico_bgp_peers. Raise subprocess.CalledProcessError if ansible-vault fails.
        """
        peer = {"name": "tor-a", "peerIP": "10.10.1.1", "asNumber": 65001}
        peer["password"] = {"secretKeyRef": {"name": "tor-a", "key": "password"}}
        node = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(self.root / "python"),
            "ansible_remote_tmp": str(self.root / "remote"),
            "calico_node_address": "10.10.1.11/24",
        }
        shared = {"calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}], "calico_bgp_peers": [peer]}
        hosts = {"calico_nodes": {"hosts": {"node1": node}, "vars": {**shared, **variables}}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
        command = [BIN / "ansible-vault", "encrypt_string", "--vault-password-file", self.folder / "vault"]
        done = subprocess.run(
            [*command, "--stdin-name", "password"], input=password, capture_output=True, text=True, check=True
        )
        folder = self.folder / "group_vars" / "all"
        folder.mkdir(parents=True, exist_ok=True)
        secret = done.stdout.rstrip().replace("\n", "\n    ")
        (folder / "secrets.yml").write_text(f"calico_bgp_secrets:\n  tor-a:\n    {secret}\n")

    def play(self, *options: str) -> tuple[int, str]:
        environment = {
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"),
            "ANSIBLE_LOG_PATH": str(self.folder / "ansible.log"),
            "ANSIBLE_VAULT_PASSWORD_FILE": str(self.folder / "vault"),
        }
        hosts = self.folder / "hosts.yml"
        options = ("-vvv", "--diff", *options)
        done = play(self.folder / "play.yml", hosts, *options, environment=environment, timeout=180, prepared=False)
        return done.returncode, done.stdout + done.stderr


def forms(password: str) -> list[bytes]:
    """Return the password as it is, packed for the module, and in base64, which hides it only from a plain search."""
    packed = passwords.pack({NAME: password})
    return [password.encode(), packed.encode(), base64.b64encode(password.encode())]


def opened(data: bytes) -> bytes:
    """Return data with what is packed in it, as the request of the module node is."""
    found = [data]
    for text in set(re.findall(rb"eA[A-Za-z0-9+/]{20,}={0,2}", data)):
        with contextlib.suppress(ValueError, zlib.error):
            found.append(zlib.decompress(base64.b64decode(text)))
    return b"\n".join(found)


def test_a_packed_password_is_found() -> None:
    packed = packed_json.pack({"bgp_passwords": passwords.pack({NAME: PASSWORD})})
    assert forms(PASSWORD)[1] in opened(b"request=" + packed.encode() + b" x")


@pytest.mark.skipif(shutil.which("bird") is None and not os.path.exists("/usr/sbin/bird"), reason="BIRD is needed")
def test_no_output_log_or_process_shows_a_password(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path)
    processes = Processes()
    processes.start()
    said = []
    try:
        node.inventory(PASSWORD)
        status, output = node.play()
        assert status == 0, output
        assert re.search(r"bird\.secrets\.conf +1 password", output)
        said.append(output)
        assert passwords.from_text(node.file.read_text()) == {NAME: PASSWORD}
        assert node.file.stat().st_mode & 0o777 == 0o640
        # A check shows that the password is another one, and leaves the file. The next run writes the password.
        node.inventory(OTHER)
        status, output = node.play("--check")
        assert status == 0 and re.search(r"password of 10\.10\.1\.1\b.*tor-a:password is another one", output), output
        assert f"new to it: {NAME}." in output, output
        said.append(output)
        assert passwords.from_text(node.file.read_text()) == {NAME: PASSWORD}
        said.append(node.play()[1])
        assert passwords.from_text(node.file.read_text()) == {NAME: OTHER}
        # A refused password is named, but not shown.
        node.inventory('with"quote-' + PASSWORD)
        status, output = node.play()
        assert status != 0
        assert "calico_bgp_secrets.tor-a.password has a double quote or a control character" in output
        said.append(output)
        node.inventory(OTHER, calico_bgp_peers=[])
        said.append(node.play()[1])
        assert not node.file.exists()
    finally:
        processes.done.set()
        processes.join()
    logged = opened(b"\n".join(node.syslog.lines))
    assert logged.count(b"Invoked with") >= 8
    assert b"request=NOT_LOGGING_PARAMETER" in logged
    for password in (PASSWORD, OTHER):
        for form in forms(password):
            assert form.decode() not in "\n".join(said)
            assert form not in logged
            assert not any(form in opened(text) for text in processes.seen)
            for path in tmp_path.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    assert form not in opened(path.read_bytes()), path
    assert [*(tmp_path / "local").iterdir()] == [*(node.root / "remote").iterdir()] == []
