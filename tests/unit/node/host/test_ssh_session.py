# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of finding the SSH connection that started a process, from /proc alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import ssh_session
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host.ssh_session import SshSession

SSH = "10.10.1.1 51444 10.10.1.11 22"


def process(proc, number, parent, *environment, name="sh"):
    folder = proc / str(number)
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(b"".join(f"{variable}\0".encode() for variable in environment))
    (folder / "stat").write_text(f"{number} ({name}) S {parent} {number} {number} 0 -1\n")


def test_through_sudo_which_takes_the_variable_away(tmp_path):
    process(tmp_path, 1, 0, "HOME=/")
    process(tmp_path, 700, 1, f"SSH_CONNECTION={SSH}")
    process(tmp_path, 701, 700, "SUDO_UID=1000", name="sudo (x) 3")
    process(tmp_path, 702, 701, "LANG=C")
    assert ssh_session.of_process(702, str(tmp_path)) == SshSession("10.10.1.1", 51444, "10.10.1.11", 22)


def test_the_nearest_one_counts(tmp_path):
    process(tmp_path, 700, 1, f"SSH_CONNECTION={SSH}")
    process(tmp_path, 701, 700, "SSH_CONNECTION=10.10.1.1 5 10.10.1.11 22")
    assert ssh_session.of_process(701, str(tmp_path)).client_port == 5


def test_one_that_came_otherwise_has_none(tmp_path):
    process(tmp_path, 1, 0, "HOME=/")
    process(tmp_path, 700, 1, "SSH_CLIENT=nonsense")
    assert ssh_session.of_process(700, str(tmp_path)) is None
    assert ssh_session.of_process(12345, str(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "session"),
    [
        (SSH, SshSession("10.10.1.1", 51444, "10.10.1.11", 22)),
        ("::ffff:10.10.1.1 5 ::ffff:10.10.1.11 22", SshSession("10.10.1.1", 5, "10.10.1.11", 22)),
        ("fe80::1%eth0 5 FE80::2%eth0 2222", SshSession("fe80::1", 5, "fe80::2", 2222)),
        ("UNKNOWN 65535 UNKNOWN 65535", None),
        ("", None),
    ],
)
def test_the_variable_ssh_connection_is_parsed(text, session):
    assert ssh_session.parse(text) == session


def test_its_text_is_what_sshd_says():
    assert ssh_session.parse(SSH).text == SSH


def test_a_real_process_and_its_child():
    code = (
        "import subprocess, sys;"
        "subprocess.run([sys.executable, '-c', sys.argv[1]], env={'PYTHONPATH': sys.argv[2]}, check=True)"
    )
    child = (
        "from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import ssh_session;"
        "print(ssh_session.of_process().text)"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code, child, paths],
        env={"SSH_CONNECTION": SSH},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == SSH


@pytest.mark.parametrize(
    ("family", "address", "seen"),
    [(socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET6, "::1", "::1"), (socket.AF_INET6, "::", "127.0.0.1")],
)
def test_established_connections_are_read_from_the_kernel(family, address, seen):
    """Established connections are read from the real kernel, also those by IPv4 to a server of both IP versions."""
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip("this host has no IPv6")
        server.listen()
        port = server.getsockname()[1]
        assert ssh_session.established(port) == []
        with socket.create_connection((seen, port)) as client:
            with server.accept()[0]:
                assert ssh_session.established(port) == [SshSession(seen, client.getsockname()[1], seen, port)]


@pytest.mark.parametrize(
    "line",
    ["1: 0B010A0A 01010A0A:C8F4 01", "1: 0B010A0A:0016 x:C8F4 01", "1: 0B010A:0016 01010A0A:C8F4 01", "1: \xe9"],
    ids=["port", "digits", "length", "letters"],
)
def test_a_table_that_cannot_be_parsed_is_empty(tmp_path, line):
    (tmp_path / "net").mkdir()
    good = "0: 0B010A0A:0016 01010A0A:C8F4 01"
    (tmp_path / "net" / "tcp").write_text(f"head\n{good}\n")
    (tmp_path / "net" / "tcp6").write_text(f"head\n{good.replace('C8F4', '0005')}\n{line}\n")
    assert ssh_session.established(22, str(tmp_path)) == [SshSession("10.10.1.1", 51444, "10.10.1.11", 22)]
