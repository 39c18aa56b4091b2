# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests in network namespaces, which need root."""

from __future__ import annotations

import os
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
IN_NAMESPACES = {"agent", "attacks", "bird", "dataplane", "datastore", "fleet", "modules", "policy"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.path.relative_to(HERE).parts[0] in IN_NAMESPACES:
            item.add_marker(pytest.mark.root)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root, for network namespaces"))
