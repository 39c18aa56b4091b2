# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node of these tests, with either backend of iptables."""

from __future__ import annotations

import pathlib
import shutil
import typing as t

import pytest

from tests.integration import iptables_backend
from tests.integration.host_under_test import HostKernel, host_under_test
from tests.integration.policy.node_in_namespace import Node
from tests.integration.policy.policed_node import PolicedNode


@pytest.fixture(params=["nft", "legacy"])
def node(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> t.Iterator[Node]:
    assert shutil.which(f"iptables-{request.param}-restore"), "install iptables to run these tests"
    with host_under_test(tmp_path, HostKernel) as kernel:
        made = Node(kernel, str(tmp_path / "netns"), request.param)
        yield made
        made.close()


@pytest.fixture(params=["nft", "legacy"])
def policed(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[PolicedNode]:
    """The node, whose policy is written as documents, with iptables of either backend."""
    iptables_backend.choose(request.param, tmp_path, monkeypatch)
    with host_under_test(tmp_path, HostKernel) as kernel:
        made = PolicedNode(Node(kernel, str(tmp_path / "netns"), request.param))
        yield made
        made.close()
