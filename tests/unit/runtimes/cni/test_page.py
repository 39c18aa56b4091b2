# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that docs/reference/cni.md and the suite agree: rows of its table and tests, its codes and the plugin's."""

from __future__ import annotations

import re

from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.cni import versions
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import plugin_errors

from tests.conftest import ROOT
from tests.unit.runtimes.cni import suite_conformance

PAGE = (ROOT / "docs" / "reference" / "cni.md").read_text("utf-8")
SHIM = (ROOT / "roles" / "calico_node" / "files" / "cni" / "calico").read_text("utf-8")


def test_every_row_is_a_test() -> None:
    rows = re.findall(r"^\| \w+ \| .* \| `(test_\w+)` \|$", PAGE, re.MULTILINE)
    assert rows == [name for name in vars(suite_conformance) if name.startswith("test_")]


def test_every_code_is_there() -> None:
    rows = re.findall(r"^\| (\d+) \| ", PAGE.partition("## Errors")[2].partition("## When")[0], re.MULTILINE)
    assert [int(code) for code in rows] == sorted(value for value in vars(plugin_errors).values() if type(value) is int)


def test_the_shim_speaks_the_same_versions() -> None:
    listed = ",".join(f'"{version}"' for version in versions.SUPPORTED)
    assert f'"supportedVersions":[{listed}]' in SHIM
    assert f"version={versions.NEWEST} ;;" in SHIM
