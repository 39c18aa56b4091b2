# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure rooms' dataclasses are immutable values: shared or cached ones do not change."""

from __future__ import annotations

import ast
import pathlib

import pytest

from tests.unit.architecture.trees import tree_of

ENGINE = pathlib.Path(__file__).resolve().parents[3] / "plugins" / "module_utils"
ROOMS = ("base", "resources", "ipam", "bgp", "policy", "state", "fleet", "report")


@pytest.mark.parametrize("room", ROOMS)
def test_dataclasses_of_the_pure_rooms_are_frozen(room: str) -> None:
    seen, open_ones = 0, []
    for path in sorted((ENGINE / room).rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                if "dataclass" in ast.unparse(decorator):
                    seen += 1
                    if "frozen=True" not in ast.unparse(decorator):
                        open_ones.append(f"{path.relative_to(ENGINE)}: {node.name}")
    assert open_ones == []
    assert seen or room == "base"
