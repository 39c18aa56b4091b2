# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The suite of chains on the legacy backend, whose kernel refuses tables without saying which rule is bad."""

from __future__ import annotations

import pytest

from tests.unit.dataplane.suite_chains import *  # noqa: F403


@pytest.fixture(autouse=True)
def legacy(kernel) -> None:
    kernel.netfilter.default = "legacy"
