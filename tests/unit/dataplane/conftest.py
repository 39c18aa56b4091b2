# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for the suites on FakeKernel; tests/integration/dataplane has those for a real kernel."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from tests.fakes.kernel import FakeKernel


@pytest.fixture
def kernel() -> t.Iterator[FakeKernel]:
    fake = FakeKernel()
    yield fake
    assert fake.violations == []


@pytest.fixture
def ipip(kernel: FakeKernel) -> None:
    """The ipip module, which a FakeKernel has unless `kinds` lacks it: the value is None."""


@pytest.fixture
def hold_socket(kernel: FakeKernel) -> t.Callable[[str], t.ContextManager[None]]:
    """A function of an address that returns a context manager, in which a socket is bound to the address."""

    @contextlib.contextmanager
    def hold(address: str) -> t.Iterator[None]:
        kernel.sockets[address] = 1
        yield
        del kernel.sockets[address]

    return hold


@pytest.fixture
def netns_path(kernel: FakeKernel) -> t.Callable[[str], str]:
    """A function that makes a namespace of others and returns an absolute path to it, as a container runtime does."""

    def make(name: str) -> str:
        path = f"/var/run/netns/{name}"
        kernel.netns_add(path, "")
        return path

    return make


@pytest.fixture
def own_namespace(kernel: FakeKernel) -> t.Callable[[str], None]:
    """A function that makes the name of a namespace lead to the host's own network namespace, and returns None."""

    def make(name: str) -> None:
        kernel.machine.namespaces[name] = kernel

    return make


@pytest.fixture
def move(kernel: FakeKernel) -> t.Callable[[str, str, str], None]:
    """A function that moves a device of the host into a namespace and renames it, as a container engine does."""

    def into(device: str, netns: str, name: str) -> None:
        link = kernel._links.pop(device)
        link.name, link.up = name, False
        kernel.inside(netns)._make(link)

    return into
