# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random calls, sabotage and kills checked against a simple model, with an agent in memory."""

from __future__ import annotations

import asyncio
import pathlib
import tempfile

import hypothesis
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import BLOCK, SPARE
from tests.unit.agent.virtual_time import run
from tests.unit.agent.workloads.killable_node import KillableNode
from tests.unit.agent.workloads.model import (
    Add,
    Call,
    Delete,
    Killed,
    Model,
    Restart,
    Resync,
    Step,
    Together,
    sabotage,
    steps,
)


class World(KillableNode):
    """A node whose addresses are on the disk before they have a route, whenever its agent is killed."""

    def written(self, kernel) -> None:
        """Assert that each address with a route in the present kernel is on the disk, and count a moment."""
        if kernel is self.kernel:
            hosts = {route[:-3] for route in self.routes if route.endswith("/32")}
            assert hosts <= set(self.on_disk().values()), hosts
        super().written(kernel)

    # ---- steps

    async def call(self, call: Call):
        try:
            if isinstance(call, Delete):
                return await self.agent.transactions.delete(f"default/{call.name}")
            return await self.add(call.name, netns_owned=True, address=call.address)
        except AgentError as error:
            assert error.code == "conflict", error
            return None

    async def step(self, step: Step, model: Model) -> None:
        if isinstance(step, (Add, Delete)):
            model.answered(step, await self.call(step))
        elif isinstance(step, Together):
            answers = await asyncio.gather(*map(self.call, step.calls))
            for call, answer in sorted(zip(step.calls, answers), key=lambda pair: isinstance(pair[0], Add)):
                model.answered(call, answer)
        elif isinstance(step, Killed):
            await self.killed(step.moment, asyncio.gather(*map(self.call, step.calls), return_exceptions=True))
            for call in sorted(step.calls, key=lambda call: isinstance(call, Add)):
                model.tried_again(call, await self.call(call))
        elif isinstance(step, Restart):
            await self.restart()
        elif isinstance(step, Resync):
            await self.agent.changes.resync()
        else:
            sabotage(self.kernel, step, self.links, self.routes)

    # ---- checks against the model

    async def converges(self, model: Model) -> None:
        await asyncio.sleep(5)
        await self.agent.changes.resync()
        assert self.differences() == [] and self.agent.status.in_sync and self.agent.status.problems == []
        expected = {f"default/{name}": address for name, address in model.standing.items()}
        assert {workload.id: workload.addresses[0] for workload in self.agent.transactions.list()} == expected
        assert self.on_disk() == expected
        assert len(self.links) == len(self.records) == len(expected)
        assert self.routes - {BLOCK, SPARE} == {f"{address}/32" for address in expected.values()}
        assert set(self.kernel.netns_list()) == set(model.standing)
        assert self.agent.addresses.check(self.agent.workloads)["problems"] == 0
        assert self.kernel.violations == []


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(st.lists(steps(moments=40), min_size=5, max_size=25))
def test_the_agent_keeps_to_the_model(todo):
    async def scenario():
        with tempfile.TemporaryDirectory() as folder:
            world, model = World(pathlib.Path(folder), cleanup_grace=0.0), Model()
            with world.counting_failpoints():
                await world.start()
                for step in todo:
                    await world.step(step, model)
                await world.converges(model)

    run(scenario())
