# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that all playbooks with a plan of the role calico_node have in common."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.conftest import ROOT

ROLE = "baremetal.host_routing.calico_node"
#: The variable of the role that each option sets.
COMMON = {"approve": "calico_node_approve", "files": "calico_node_whole_files"}


def uses(tasks: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield the entries of a play, as deep as they are, that use the role: their `vars` are those of the role."""
    if isinstance(tasks, list):
        for entry in tasks:
            yield from uses(entry)
    elif isinstance(tasks, dict):
        if ROLE in (tasks.get("role"), (tasks.get("ansible.builtin.import_role") or {}).get("name")):
            yield tasks
        for key in ("roles", "tasks", "block", "always"):
            yield from uses(tasks.get(key))


PLAYS = [
    pytest.param(path, play, id=path.name)
    for path in sorted((ROOT / "playbooks").glob("*.yml"))
    for play in yaml.safe_load(path.read_text("utf-8"))
    if list(uses(play))
]


def test_these_playbooks_have_a_plan() -> None:
    assert [param.id for param in PLAYS] == [
        "remove_node.yml",
        "rollback.yml",
        "site.yml",
        "switch_pool_mode.yml",
        "switch_topology.yml",
    ]


@pytest.mark.parametrize(("path", "play"), PLAYS)
def test_every_playbook_with_a_plan_has_the_same_options(path: pathlib.Path, play: dict[str, t.Any]) -> None:
    """What a message tells people to add to a run works in each of these playbooks."""
    assert {name: play["vars"].get(name) for name in COMMON} == {"approve": "", "files": False}
    for use in uses(play):
        assert {option: use["vars"].get(variable) for option, variable in COMMON.items()} == {
            option: f"{{{{ {option} }}}}" for option in COMMON
        }
