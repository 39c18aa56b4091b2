# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on an inventory while errors keep lint rules from running."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.finding import ERROR, LintFinding
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import lint_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.lint_source import Looked

REFUSED = LintFinding(ERROR, "refused", "calico_ip_pools", "", "calico_ip_pools is missing.", "Add it.")


@pytest.mark.parametrize(
    ("looked", "verdict"),
    [
        (Looked((REFUSED,)), "1 error: lint rules run once these errors are fixed"),
        (
            Looked((REFUSED,), complete=False),
            "1 error: lint rules run once these errors are fixed, and there may be more errors",
        ),
        (Looked((REFUSED,), 2, 34, 1), "1 error: 2 nodes and 34 rules, 1 more rule not run because of errors"),
    ],
)
def test_the_verdict_says_when_the_other_rules_run(looked: Looked, verdict: str) -> None:
    assert lint_lines.text(looked)[-1] == verdict
