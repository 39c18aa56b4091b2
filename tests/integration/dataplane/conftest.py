# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for the suites of tests/unit/dataplane on this machine's kernel, in namespaces made for each test."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import socket
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import KernelError, NewLink
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.linux import LinuxKernel

pytest.register_assert_rewrite(
    "tests.unit.dataplane.drivers",
    "tests.unit.dataplane.suite_firewall",
    "tests.unit.dataplane.suite_node",
    "tests.unit.dataplane.suite_route",
    "tests.unit.dataplane.suite_tunnel",
    "tests.unit.dataplane.suite_workload",
)

_HOST = "host-under-test"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.root)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root, for network namespaces"))


class HostKernel(LinuxKernel):
    """LinuxKernel in a namespace that stands for a host; the namespaces of its workloads lie beside it."""

    def netns_list(self) -> list[str]:
        return [name for name in super().netns_list() if name != _HOST]


@pytest.fixture
def kernel(tmp_path: pathlib.Path) -> t.Iterator[LinuxKernel]:
    folders = {"netns_folder": str(tmp_path / "netns"), "marker_folder": str(tmp_path / "markers")}
    maker = LinuxKernel(**folders)
    maker.netns_add(_HOST, "test")
    (tmp_path / "markers" / _HOST).unlink()
    host = HostKernel(_HOST, **folders)
    try:
        yield host
    finally:
        host.close()
        for name in maker.netns_list():
            maker.netns_delete(name)
        maker.close()


@pytest.fixture
def ipip(kernel: LinuxKernel) -> None:
    """The kernel has the ipip module; the emulated machine's has, and runs these tests too."""
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
            held = socket.socket()
            held.bind((address, 4242))
            held.listen()
            return held

        held = kernel._there(listen)
        yield
        held.close()

    return hold


@pytest.fixture(scope="session", autouse=True)
def _programs() -> None:
    missing = [name for name in ("ip", "iptables-save", "ipset") if shutil.which(name) is None]
    assert not missing, f"install {missing} to run these tests"
