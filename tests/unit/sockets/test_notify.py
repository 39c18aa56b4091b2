# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the reports to systemd, and of a systemd that does not listen."""

from __future__ import annotations

import os
import pathlib
import socket
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets.notify import Notifier


@pytest.fixture
def systemd(tmp_path: pathlib.Path) -> t.Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        yield listener


def test_ready_watchdog_and_stopping_are_sent_to_systemd(systemd: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": systemd.getsockname()})
    notifier.ready()
    notifier.alive()
    notifier.stopping()
    assert [systemd.recv(1000) for dummy in range(3)] == [
        b"READY=1",
        b"WATCHDOG=1",
        b"STOPPING=1",
    ]


def test_an_abstract_socket() -> None:
    name = f"calico-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        listener.settimeout(10)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).alive()
        assert listener.recv(100) == b"WATCHDOG=1"


def test_without_systemd_nothing_is_wrong(tmp_path: pathlib.Path) -> None:
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()


def test_it_does_not_wait_for_who_does_not_listen(systemd: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": systemd.getsockname()})
    for dummy in range(2000):  # more than a socket's queue holds
        notifier.alive()
