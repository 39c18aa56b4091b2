# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A public class name means one thing in all of plugins/."""

from __future__ import annotations

import ast
import collections

from tests.unit.architecture.test_files import PLUGINS, ROOT

#: The names that Ansible asks for, and the associated type that each driver has.
ONE_EACH = {"ActionModule", "ModuleDocFragment", "Observed"}
#: Names that mean several things still, and the rooms to rename them in. Remove a name here that means one thing; add
#: none.
SEVERAL = {
    "Address": "dataplane",
    "Agent": "agent, node",
    "Answer": "agent, node",
    "Client": "agent, bird",
    "Connection": "agent, dataplane",
    "Machine": "agent",
    "Marked": "agent",
    "Outcome": "agent, bird, dataplane",
    "Place": "cli, dataplane",
    "Problem": "cli, node",
    "Refused": "agent",
    "Rule": "dataplane",
    "Session": "bird, node",
    "Turn": "agent",
    "Workload": "agent, state",
    "WorkloadEndpoint": "agent, dataplane, state",
}


def public_classes() -> dict[str, list[str]]:
    """Return {class name: the files that define it}, of classes that no other class contains."""
    found = collections.defaultdict(list)
    for path in PLUGINS:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT / "plugins")))
    return found


def test_a_class_name_means_one_thing() -> None:
    allowed = ONE_EACH | SEVERAL.keys()
    several = {name: files for name, files in public_classes().items() if len(files) > 1 and name not in allowed}
    assert several == {}, "name each after what it is"
