# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random calls, sabotage and kills, compared with a simple model: the agent as a process, on the real kernel.

There are 500 steps, in runs of 100, and 10,000 in `make soak`. HOST_ROUTING_MODEL_STEPS sets another number, such as
100000, which is rounded down to whole runs.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import random
import threading
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads import failpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import NotRunning
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.unit.agent.node_under_test import BLOCK, SPARE
from tests.unit.agent.workloads.model import (
    ASKED,
    NAMES,
    SABOTAGE,
    Add,
    Call,
    Delete,
    Killed,
    Model,
    Restart,
    Resync,
    Sabotage,
    Step,
    Together,
    sabotage,
)

STEPS = int(os.environ.get("HOST_ROUTING_MODEL_STEPS", "500"))
RUN = 100
_LATEST = 0.004  # the most seconds before a kill without a failpoint is due, from just before the calls


def steps(chance: random.Random) -> list[Step]:
    """Return RUN random steps, with few kills, because each kill costs a start."""

    def call(name: str) -> Call:
        address = chance.choice((None, None, None, *ASKED))
        return Delete(name) if chance.random() < 0.4 else Add(name, address)

    def several() -> tuple[Call, ...]:
        return tuple(call(name) for name in chance.sample(NAMES, chance.randint(1, 4)))

    def step() -> Step:
        kind = chance.random()
        if kind < 0.55:
            return call(chance.choice(NAMES))
        if kind < 0.75:
            return Together(several())
        if kind < 0.80:
            return Killed(chance.randrange(2 * len(failpoints.POINTS)), several())
        if kind < 0.96:
            return Sabotage(chance.choice(SABOTAGE), chance.randrange(6))
        return Restart() if kind < 0.98 else Resync()

    return [step() for dummy in range(RUN)]


class World:
    def __init__(self, daemon: Daemon, chance: random.Random) -> None:
        self.daemon = daemon
        self.kernel = daemon.kernel
        self.chance = chance
        self.callers = concurrent.futures.ThreadPoolExecutor(4)

    def call(self, call: Call) -> str | bool | None:
        """Do a call; return the address of an add, whether a delete found the workload, or None for a conflict.

        Raise AgentError for other refusals, and its subclass NotRunning if no agent answers.
        """
        try:
            if isinstance(call, Delete):
                return self.daemon.delete(call.name)
            address = {} if call.address is None else {"address": call.address}
            return str(self.daemon.add(call.name, netns_owned=True, **address)["addresses"][0])
        except AgentError as error:
            if error.code != "conflict":
                raise
            return None

    def cut_off(self, call: Call) -> None:
        with contextlib.suppress(NotRunning):
            self.call(call)

    def step(self, step: Step, model: Model) -> None:
        if isinstance(step, (Add, Delete)):
            model.answered(step, self.call(step))
        elif isinstance(step, Together):
            answers = list(self.callers.map(self.call, step.calls))
            for call, answer in sorted(zip(step.calls, answers), key=lambda pair: isinstance(pair[0], Add)):
                model.answered(call, answer)
        elif isinstance(step, Killed):
            self.killed(step)
            for call in sorted(step.calls, key=lambda call: isinstance(call, Add)):
                model.tried_again(call, self.call(call))
        elif isinstance(step, Restart):
            self.daemon.kill()
            self.daemon.start()
        elif isinstance(step, Resync):
            self.daemon.call("resync")
        else:
            with contextlib.suppress(KernelError):  # the agent may be deleting the same object
                sabotage(self.kernel, step, self.daemon.links, self.daemon.destinations)

    def killed(self, step: Killed) -> None:
        """Do the calls of `step` at the same time, kill the agent, and start it again.

        It is killed at the failpoint with the index `step.moment`, for which it is started anew before the calls, or
        after them if they do not reach that. If there is no such failpoint, the kill is due at a random moment up to 4
        milliseconds from just before the calls. Raise AgentError if the agent refuses a call for another reason than a
        conflict. Raise what `Daemon.start` and, before a failpoint, `Daemon.settled` raise.
        """
        point = failpoints.POINTS[step.moment] if step.moment < len(failpoints.POINTS) else ""
        if point:
            self.daemon.settled()  # otherwise the next agent may reach the failpoint before it listens
            self.daemon.kill()
            self.daemon.start(fault=point)
        else:
            pid = self.daemon.pid
            threading.Timer(self.chance.random() * _LATEST, os.kill, (pid, 9)).start()
        list(self.callers.map(self.cut_off, step.calls))
        if not point:
            assert self.daemon.process is not None
            self.daemon.process.wait(60)
        self.daemon.close()
        self.daemon.start()

    def converges(self, model: Model) -> None:
        daemon = self.daemon
        daemon.settled()
        # The agent repairs without a request.
        daemon.until(self.as_desired, "what was broken is repaired")
        expected = {f"default/{name}": address for name, address in model.standing.items()}
        listed = daemon.call("workload.list")["workloads"]
        assert {workload["id"]: workload["addresses"][0] for workload in listed} == expected
        assert daemon.allocated() == expected
        assert len(daemon.links) == len(daemon.records) == len(expected)
        assert daemon.destinations - {BLOCK, SPARE} == {f"{address}/32" for address in expected.values()}
        assert set(self.kernel.netns_list()) == set(model.standing)
        assert daemon.call("ipam.check")["problems"] == 0
        assert self.kernel.link("theirs0") is None or self.kernel.link_delete("theirs0") is None
        for name, address in list(model.standing.items())[:1]:
            assert daemon.reaches(name, "10.10.1.11"), address

    def as_desired(self) -> bool:
        time.sleep(0.05)
        answer = self.daemon.call("node.plan")
        return answer["changes"] == [] and self.daemon.call("status")["problems"] == []


@pytest.mark.parametrize("seed", range(STEPS // RUN))
def test_the_agent_keeps_to_the_model(engine: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    with daemon_under_test(engine, tmp_path) as daemon:
        daemon.settings(cooldown=0.0, cleanup_grace=0.0)
        daemon.start()
        world, model = World(daemon, chance), Model()
        for number, step in enumerate(steps(chance)):
            try:
                world.step(step, model)
            except BaseException as error:
                raise AssertionError(f"step {number}: {step}\n{daemon.log.read_text()[-2000:]}") from error
        world.converges(model)
