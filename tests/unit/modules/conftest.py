# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for modules on a FakeKernel."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine

from tests.fakes.kernel import FakeKernel
from tests.unit.modules.harness import Host


@pytest.fixture(params=["archive", "engine"])
def start(request):
    """The way by which a test's modules are started: each test runs once with "archive" and once with "engine"."""
    return request.param


@pytest.fixture
def host(tmp_path, monkeypatch, capsys, start):
    made = Host(tmp_path, FakeKernel(), start)
    made.stdout = capsys.readouterr
    monkeypatch.setattr(machine, "here", lambda agent=None: made.using(agent))
    return made
