# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node module and a node's daemon, on the real kernel: there is one writer, even while one of them dies."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import threading
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import apply, command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.errors import AgentSilent
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Route
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import running_agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.running_agent import AgentRefused

from tests.integration.agent.daemon_under_test import Daemon
from tests.unit.agent.node_under_test import STATE

# No BGP: these hosts have no BIRD.
BASE = dataclasses.replace(STATE, bird=None)
MORE = dataclasses.replace(BASE, routes=(*BASE.routes, *(Route(f"10.244.9.{n}/32", "blackhole") for n in range(200))))
EXTRA = {f"10.244.9.{n}/32" for n in range(200)}


def here(daemon: Daemon, greeting: float = running_agent.GREETING) -> machine.Machine:
    """Return the daemon's machine as a module that runs on it sees it.

    The module waits at most `greeting` seconds for the agent's first answer.
    """
    folder = daemon.folder
    return machine.Machine(
        daemon.kernel,
        functools.partial(running_agent.connect, greeting=greeting),
        root=str(folder / "root"),
        store=str(folder / "lib"),
        lock=str(folder / "run" / "node.lock"),
        bird_config=str(folder / "bird.cfg"),
        bird_socket=str(folder / "run" / "bird.ctl"),
        workloads=str(folder / "run" / "workloads"),
        ipam=str(folder / "lib" / "ipam"),
        cni_deleted=str(folder / "lib" / "cni" / "deleted"),
        agent_socket=daemon.socket,
        writer_lock=str(folder / "run" / "writer.lock"),
        boot_wait=0.0,
    )


def bring(daemon: Daemon, state=MORE, check=False, greeting: float = running_agent.GREETING) -> apply.Result:
    return apply.bring_to(here(daemon, greeting), Stored(state, who="me@here"), check=check)


@pytest.fixture
def busy(daemon: Daemon) -> Daemon:
    """The agent with two workloads, a and b. `address` is that of a, and b reaches it."""
    bring(daemon, BASE)
    daemon.address = daemon.add("a")["addresses"][0]
    daemon.add("b")
    assert daemon.reaches("b", daemon.address)
    return daemon


def test_check_do_check_do(busy: Daemon) -> None:
    planned = bring(busy, check=True)
    assert EXTRA.isdisjoint(busy.destinations)
    done = bring(busy)
    assert planned.plan.lines == done.plan.lines
    assert busy.destinations >= EXTRA
    assert [bring(busy, check=check, greeting=0.2).plan.changed for check in (True, False)] == [False, False]
    bring(busy, BASE)
    assert EXTRA.isdisjoint(busy.destinations)
    assert busy.reaches("b", busy.address)


def test_without_the_daemon_the_module_plans_and_writes_the_same(busy: Daemon) -> None:
    planned = bring(busy, check=True)
    busy.stop()
    assert bring(busy, check=True).plan.lines == planned.plan.lines
    assert bring(busy).plan.lines == planned.plan.lines
    assert busy.reaches("b", busy.address)
    busy.start()
    busy.in_sync()
    assert busy.destinations >= EXTRA and busy.reaches("b", busy.address)


def test_a_daemon_that_is_killed_meanwhile_fails_the_run_and_the_next_completes_it(busy: Daemon) -> None:
    stopped = threading.Event()

    def kill() -> None:
        while not stopped.is_set() and EXTRA.isdisjoint(busy.destinations):
            time.sleep(0.001)
        busy.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        bring(busy)
        finished = True
    except (AgentRefused, AgentSilent) as error:
        finished = False
        assert "Run again" in str(error) or "then run again" in str(error)
    finally:
        stopped.set()
        killer.join()
    assert busy.reaches("b", busy.address)
    assert finished == busy.store.load().complete
    busy.start()
    bring(busy)
    assert busy.destinations >= EXTRA and busy.store.load().complete
    assert busy.reaches("b", busy.address)


def test_a_daemon_that_hangs_is_reported_and_nothing_is_changed(busy: Daemon) -> None:
    os.kill(busy.pid, signal.SIGSTOP)
    try:
        for check in (True, False):
            with pytest.raises(AgentSilent, match=r"ask again, which does no harm\. .* Look at it \(journalctl"):
                bring(busy, check=check, greeting=0.2)
        assert EXTRA.isdisjoint(busy.destinations)
        assert busy.store.load().state == BASE
    finally:
        os.kill(busy.pid, signal.SIGCONT)
    assert bring(busy).plan.changed


def test_the_boot_unit_asks_the_daemon(busy: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert busy.kernel.run(["ip", "route", "flush", "proto", "179"]).code == 0
    assert command.main(["apply"], here(busy)) == 0
    assert busy.reaches("b", busy.address)
    assert capsys.readouterr().err == ""
