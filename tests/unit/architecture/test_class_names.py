# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A public class name means one thing in all of plugins/."""

from __future__ import annotations

import ast
import collections

from tests.unit.architecture.test_files import PLUGINS, ROOT
from tests.unit.architecture.trees import tree_of

#: Names that several classes may have: three that Ansible requires, and `Observed`, a type that each driver defines.
ONE_EACH = {"ActionModule", "LookupModule", "ModuleDocFragment", "Observed"}


def public_classes() -> dict[str, list[str]]:
    """Return {public class name: the files that define it, relative to plugins/} for classes at a file's top level."""
    found = collections.defaultdict(list)
    for path in PLUGINS:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT / "plugins")))
    return found


def test_a_class_name_means_one_thing() -> None:
    several = {name: files for name, files in public_classes().items() if len(files) > 1 and name not in ONE_EACH}
    assert several == {}, "name each after what it is"
