# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An afternoon of the agent's own work, with no other program: nothing of it is drift, and a foreign write is."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import random

import pytest

from tests.unit.agent.series import foreign_writes
from tests.unit.agent.series.series_node import SeriesNode
from tests.unit.agent.series.steps import Elsewhere, Settle, Step, call
from tests.unit.agent.virtual_time import run
from tests.unit.agent.workloads.model import Add, Delete, Restart

_STEPS = 60


def afternoon(seed: int) -> list[Step]:
    """Return adds, deletes, other labels, changes of policy here and of workloads elsewhere, and some restarts.

    Half of them follow another one at once.
    """
    rng = random.Random(f"afternoon {seed}")
    found: list[Step] = []
    for dummy in range(_STEPS):
        chance = rng.random()
        if chance < 0.1:
            found.append(Elsewhere(rng.randrange(1 << 30), rng.random() < 0.15))
        elif chance < 0.13:
            found.append(Restart())
        else:
            found.append(call(rng))
        if rng.random() < 0.5:
            found.append(Settle())
    return [*found, Settle()]


@pytest.mark.parametrize("seed", (0, 3, 5, 11))
def test_own_changes_are_no_drift(tmp_path: pathlib.Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """The count of status and heartbeats stays 0 over restarts as well, and no line of the log says "Repaired"."""

    async def scenario() -> None:
        node = SeriesNode(tmp_path, seed, "legacy" if seed % 6 == 5 else "nft")
        with node.counting_failpoints():
            await node.start()
            for number, step in enumerate(afternoon(seed)):
                await asyncio.wait_for(node.step(step), 1000)
                assert node.agent.drift.to_dict()["day"] == 0, (number, step, said(caplog))

    caplog.set_level(logging.INFO, "calico")
    run(scenario())
    assert not [text for text in said(caplog) if text.startswith("Repaired")]


@pytest.mark.parametrize("what", ["flush all", "delete", "extra set", "delete member", "sysctl"])
def test_a_write_of_another_program_is_counted_among_own_changes(
    tmp_path: pathlib.Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        node = SeriesNode(tmp_path, 3)
        with node.counting_failpoints():
            await node.start()
            for step in afternoon(3)[:20]:
                await node.step(step)
            await node.in_order()
            assert any(foreign_writes.write(node.kernel, what, seed) for seed in range(20))
            node.step_of_others()
            await node.in_order()
            assert node.agent.drift.to_dict()["day"] > 0

    caplog.set_level(logging.INFO, "calico")
    run(scenario())
    assert [text for text in said(caplog) if text.startswith("Repaired")]


def test_an_attachment_and_a_delete_are_one_line_each(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the usual level; all that was made for them in sets and chains is there at the level debug."""

    async def scenario() -> None:
        node = SeriesNode(tmp_path, 4)
        with node.counting_failpoints():
            await node.start()
            await node.step(Settle())
            caplog.clear()
            await node.step(Add("web", None, (("role", "web"), ("env", "prod"))))
            await node.step(Settle())
            await node.step(Delete("web"))
            await node.step(Settle())

    caplog.set_level(logging.INFO, "calico.workloads")
    caplog.set_level(logging.DEBUG, "calico.agent")
    run(scenario())
    usual = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert [text.partition(":")[0] for text in usual] == [
        "Attached workload default/web",
        "Deleted workload default/web",
    ]
    assert usual[0].partition(": ")[2] == usual[1].partition(": ")[2]
    assert [text for text in said(caplog) if text.startswith(("Created iptables", "Changed iptables"))]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("calico")]
