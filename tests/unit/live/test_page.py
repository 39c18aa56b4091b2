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
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import change_answer, open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_effect import (
    ChangedObject,
    ChangeEffect,
    DeniedFlow,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import change

from tests.unit.live.conftest import Operator
from tests.unit.live.test_nodes import NODES, beat, follow, say

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "how-to" / "live-policy.md"
_BLOCK = re.compile(r"```(console|yaml)\n(.*?)```", re.DOTALL)
_FLOW = DeniedFlow(6, "192.0.2.5", 51_444, "10.244.1.2", 22, "blocks.ssh#1 (ingress, WorkloadEndpoint default/web)")
#: 2026-11-30T16:02:12Z
NOW = 1796054532.0


def test_the_page_shows_what_is_printed(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    for node in NODES:
        beat(operator, node)
        say(operator, node, operator.etcd.revision)
    follow(operator, *NODES)
    _answer(operator)
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


def _answer(operator: Operator) -> None:
    """Let nodes answer the open change, each for two workloads of its own; on node2, a connection would be denied."""
    seen: set[str] = set()
    act = operator.before_call

    def look() -> None:
        act()
        event = operator.etcd.data().get(keys.OPEN_CHANGE.encode())
        found = open_change.decode(event.value) if event is not None and event.value else None
        if found is None or found.id in seen:
            return
        seen.add(found.id)
        objects = tuple(ChangedObject(key.kind, key.name, "+", 2) for key in found.documents)
        for node in NODES:
            flows = (_FLOW,) if node == "node2" else ()
            effect = ChangeEffect(objects, len(objects), 2, 3, 0, len(flows), flows=flows)
            state = "answered" if found.kind == "question" else "in_force"
            answer = ChangeAnswer(node, found.id, NOW, state, "", effect)
            operator.etcd.put(keys.answer_key(node, found.id), change_answer.encode(answer))

    operator.before_call = look


def _try_to_delete(operator: Operator) -> None:
    """Open a trial of ada."""
    values = {DocumentKey("GlobalNetworkPolicy", "", "blocks.ssh"): None}
    trial = OpenChange("20261130T160212.004-9f3a1c", "ada", open_change.TRIAL, 60, 1, values)
    operator.etcd.put(keys.OPEN_CHANGE, open_change.encode(trial))


def _shown(operator: Operator, block: str) -> str:
    answers = []
    for line in block.splitlines():
        if not line.startswith("$ calicoctl "):
            continue
        words = shlex.split(line)[2:]
        if words[-1] == "old.yml" and not (operator.folder / "old.yml").exists():
            operator.fleet.read_as("bob")
            document = operator.run("get", "gnp", "blocks.networks", "-o", "yaml")[1]
            operator.run("patch", "gnp", "blocks.networks", "-p", '{"spec": {"order": 2}}')
            (operator.folder / "old.yml").write_text(document.replace("  tier: blocks", "  order: 3\n  tier: blocks"))
            operator.fleet.read_as("ada")
        is_disturbing = words[-1] == '{"spec": {"nets": []}}'
        if is_disturbing:
            _try_to_delete(operator)
        dummy, out, err = operator.run(*words)
        if is_disturbing:
            operator.etcd.delete(keys.OPEN_CHANGE)
        out = re.sub(r"after \d+\.\d s", "after 0.2 s", out)
        out = re.sub(r"after \d+\.\d\d s", "after 0.21 s", out)
        answers.append(f"{line}\n{out.rstrip()}\n{err}".replace("\n\n", "\n"))
    return "\n".join(answers)
