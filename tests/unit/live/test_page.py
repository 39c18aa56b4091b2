# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/how-to/live-policy.md shows calicoctl's output: each `$ calicoctl ...` in it is run here, in order.

After a wanted change: DOCUMENTATION=write pytest tests/unit/live/test_page.py, then read git's differences.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import change

from tests.unit.live.conftest import Operator
from tests.unit.live.test_nodes import NODES, beat, follow, say

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "how-to" / "live-policy.md"
_BLOCK = re.compile(r"```(console|yaml)\n(.*?)```", re.DOTALL)
#: 2026-11-30T16:02:12Z
NOW = 1796054532.0


def test_the_page_shows_what_is_printed(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    for node in NODES:
        beat(operator, node)
        say(operator, node, operator.etcd.revision)
    follow(operator, *NODES)
    operator.fleet.etcd.revision = 5118
    monkeypatch.chdir(operator.folder)
    ids = iter(range(1, 100))

    def new_id(dummy: float) -> str:
        number = next(ids)
        return f"20261130T160212.{number:03}-{number:06x}"

    monkeypatch.setattr(change, "new_id", new_id)
    monkeypatch.setattr(change.time, "time", lambda: NOW)
    for node in NODES:
        beat(operator, node)

    def shown(found: re.Match[str]) -> str:
        kind, text = found.groups()
        if kind == "console":
            return f"```console\n{_shown(operator, text)}```"
        file = re.match(r"# (\S+\.yml)\n", text)
        if file:
            path = operator.folder / file.group(1)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return found.group()

    text = PAGE.read_text("utf-8")
    actual = _BLOCK.sub(shown, text)
    if os.environ.get("DOCUMENTATION") == "write":
        PAGE.write_text(actual, "utf-8")
    assert actual == text


def _shown(operator: Operator, block: str) -> str:
    answers = []
    for line in block.splitlines():
        if not line.startswith("$ calicoctl "):
            continue
        words = shlex.split(line)[2:]
        if words[-1] == "old.yml" and not (operator.folder / "old.yml").exists():
            operator.fleet.read_as("bob")
            document = operator.run("get", "gnp", "deny-blocked", "-o", "yaml")[1]
            operator.run("patch", "gnp", "deny-blocked", "-p", '{"spec": {"order": 2}}')
            (operator.folder / "old.yml").write_text(document.replace("order: 1", "order: 3"))
            operator.fleet.read_as("ada")
        dummy, out, err = operator.run(*words)
        answers.append(f"{line}\n{out.rstrip()}\n{err}".replace("\n\n", "\n"))
    return "\n".join(answers)
