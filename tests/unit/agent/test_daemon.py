# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of all parts of the agent together, in the test's process on a fake kernel."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pathlib
import signal
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent import daemon
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent import Agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.upkeep import upkeep
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.upkeep.recovery import recover
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets.notify import Notifier
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Route
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.settings import AgentSettings

from tests.unit.agent.node_under_test import STATE, Node, with_state

Visit = t.Callable[[Agent], t.Awaitable[None]]


@pytest.fixture
def served(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., int]:
    """A function that runs the agent of a fresh node until SIGTERM, and returns its exit status.

    Its arguments are a coroutine function to await with the agent while it runs, and settings. Metrics are off unless
    `metrics_port` is given.
    """
    made: list[Agent] = []

    class Seen(Agent):
        def __init__(self, *arguments: t.Any, **more: t.Any) -> None:
            super().__init__(*arguments, **more)
            made.append(self)

    monkeypatch.setattr(daemon, "Agent", Seen)
    # The objects of other tests must not be exempted from garbage collection.
    monkeypatch.setattr(daemon, "_settle", lambda: None)

    def serve(visit: Visit, **settings: t.Any) -> int:
        node = Node(tmp_path)
        machine = dataclasses.replace(
            node.machine, agent_socket=str(tmp_path / "agent.sock"), cni_deleted=str(tmp_path / "deleted")
        )

        async def scenario() -> int:
            chosen = AgentSettings(**{"metrics_port": 0, **settings})
            serving = asyncio.ensure_future(daemon._serve(machine, chosen, "", lambda: node.kernel))
            try:
                while not serving.done() and not (made and made[0].status.in_sync):
                    await asyncio.sleep(0.01)
                if not serving.done():
                    await visit(made[0])
            finally:
                if not serving.done():
                    os.kill(os.getpid(), signal.SIGTERM)
            return await serving

        return asyncio.run(asyncio.wait_for(scenario(), 120))

    return serve


@pytest.mark.parametrize("address", ["a..b", "a" * 64])
def test_an_address_of_metrics_that_is_no_host_name_is_a_problem_and_the_agent_runs(
    served: t.Callable[..., int], address: str
) -> None:
    async def visit(agent: Agent) -> None:
        while not agent.status.problems:
            await asyncio.sleep(0.01)
        assert agent.status.problems == [
            f"metrics cannot be served on {address} port 9091: a label of this host name is empty, longer than 63"
            " characters or invalid. Choose another metrics_address or metrics_port in agent.json, then restart"
            " calico-agent."
        ]

    assert served(visit, metrics_address=address, metrics_port=9091) == 0


@pytest.fixture
def unhandled() -> t.Iterator[list[int]]:
    """The numbers of SIGHUP and SIGUSR1 that came while the agent had no handler for them; they end no test."""
    numbers: list[int] = []
    former = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGUSR1)}
    for number in former:
        signal.signal(number, lambda number, frame: numbers.append(number))
    yield numbers
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("reported", [False, True])
def test_signals_that_come_before_the_agent_runs_do_what_they_do_later(
    served: t.Callable[..., int],
    unhandled: list[int],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    reported: bool,
) -> None:
    """SIGHUP and SIGUSR1 are handled that come during the start, or when it is `reported`; SIGTERM has a handler then.

    A state that is stored after the first one was read is read at that SIGHUP, and the dump is written.
    """
    dump, store = tmp_path / "agent-dump.json", Store(str(tmp_path / "lib"))
    changed = with_state(routes=(*STATE.routes, Route("10.244.9.0/29", "blackhole")))

    def come() -> None:
        store.save(Stored(changed, complete=True))
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGUSR1)

    async def recovery(*arguments: t.Any) -> None:
        come()
        await recover(*arguments)

    def ready(notifier: Notifier) -> None:
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        come()

    async def visit(agent: Agent) -> None:
        while not dump.exists():
            await asyncio.sleep(0.01)
        assert agent.persisted.state == changed

    if reported:
        monkeypatch.setattr(Notifier, "ready", ready)
    else:
        monkeypatch.setattr(upkeep, "recover", recovery)
    assert served(visit) == 0
    assert unhandled == []


def test_signals_that_come_before_the_state_is_read_do_not_end_the_agent(
    unhandled: list[int], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(paths: t.Optional[str], mounts: t.Optional[str]) -> t.NoReturn:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGUSR1)
        raise OSError("the start went on")

    monkeypatch.setattr(daemon, "_here", here)
    assert daemon.main(["--settings", str(tmp_path / "none")]) == 1
    assert unhandled == []
