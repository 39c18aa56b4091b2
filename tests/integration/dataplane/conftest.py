# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for the suites of tests/unit/dataplane on this machine's kernel, in namespaces made for each test."""

from __future__ import annotations

import contextlib
import errno
import pathlib
import shutil
import socket
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError, NewLink

from tests.integration.host_under_test import HostKernel, host_under_test


@pytest.fixture
def kernel(tmp_path: pathlib.Path) -> t.Iterator[LinuxKernel]:
    with host_under_test(tmp_path, HostKernel) as host:
        yield host


@pytest.fixture
def ipip(kernel: LinuxKernel) -> None:
    """The ipip module of the kernel, which the emulated machine's kernel has; without it the test is skipped."""
    try:
        kernel.link_add(NewLink("probe0", "ipip", local="10.255.255.1"))
    except KernelError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip(f"this kernel has no ipip ({error.said}); these run in the emulated machine")
    kernel.link_delete("probe0")


@pytest.fixture
def hold_socket(kernel: LinuxKernel) -> t.Callable[[str], t.ContextManager[None]]:
    @contextlib.contextmanager
    def hold(address: str) -> t.Iterator[None]:
        def listen() -> socket.socket:
            held = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            held.bind((address, 4242))
            held.listen()
            return held

        held = kernel._there(listen)
        yield
        held.close()

    return hold


@pytest.fixture
def netns_path(kernel: LinuxKernel) -> t.Callable[[str], str]:
    def make(name: str) -> str:
        kernel.netns_add(name, "")
        return str(pathlib.Path(kernel._netns_folder) / name)

    return make


@pytest.fixture
def move(kernel: LinuxKernel) -> t.Callable[[str, str, str], None]:
    def into(device: str, netns: str, name: str) -> None:
        words = ["ip", "link", "set", "dev", device, "netns", netns, "name", name]
        kernel._there(lambda: subprocess.run(words, check=True))

    return into


@pytest.fixture
def own_namespace(kernel: LinuxKernel) -> t.Callable[[str], None]:
    """A function that makes a name of a namespace lead to the namespace of this process."""

    def make(name: str) -> None:
        (pathlib.Path(kernel._netns_folder) / name).symlink_to("/proc/self/ns/net")

    return make


@pytest.fixture(scope="session", autouse=True)
def _programs() -> None:
    missing = [name for name in ("ip", "iptables-save", "ipset") if shutil.which(name) is None]
    assert not missing, f"install {missing} to run these tests"
