# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixture of a container runtime in memory."""

from __future__ import annotations

import pathlib

import pytest

from tests.unit.runtimes.cni.fake_agent import FakeRuntime


@pytest.fixture
def runtime(tmp_path: pathlib.Path) -> FakeRuntime:
    return FakeRuntime(str(tmp_path / "deleted"))
