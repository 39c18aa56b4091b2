# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check that each line of Calico's behaviour has a test with packets, or a reason why it has none."""

from __future__ import annotations

import ast
import pathlib
import re

from tests.integration.policy.semantics import LINES, PARTLY, WITHOUT_TEST

INTEGRATION = pathlib.Path(__file__).parents[2] / "integration"
_NUMBERED = re.compile(r"test_((?:\d\d_)+)")


def lines_of_tests() -> set[int]:
    """Return the numbers of LINES that names of integration tests about policy contain."""
    found: set[int] = set()
    for path in (
        *(INTEGRATION / "policy").glob("test_*.py"),
        *(INTEGRATION / "agent" / "policy").glob("test_policy_*.py"),
    ):
        for node in ast.parse(path.read_text("utf-8")).body:
            match = _NUMBERED.match(node.name) if isinstance(node, ast.FunctionDef) else None
            found |= set(map(int, match.group(1).strip("_").split("_"))) if match else set()
    return found


def test_every_line_has_a_test_or_a_reason() -> None:
    assert sorted(LINES) == list(range(1, 50))
    assert sorted(lines_of_tests() | WITHOUT_TEST.keys()) == sorted(LINES)
    assert not lines_of_tests() & WITHOUT_TEST.keys()
    assert PARTLY.keys() <= lines_of_tests()
