# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random series of changes leave a host as it would be if it had been made from nothing: the agent as a process.

The steps are those of tests/unit/agent/series, on the real kernel. `make test` takes the SERIES, and `make soak` others
for HOST_ROUTING_SOAK minutes (2 by default).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.failpoints import POINTS
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    KernelError,
    NewLink,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import of_machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.agent.test_model import World
from tests.integration.host_under_test import HostKernel, host_under_test
from tests.pauses import pause
from tests.unit.agent.series import compared, foreign_writes
from tests.unit.agent.series.elsewhere import Elsewhere as OtherNodes
from tests.unit.agent.series.inventory import Inventory
from tests.unit.agent.series.steps import Address, Change, Elsewhere, Fail, Foreign, Label, Settle, Step, series
from tests.unit.agent.workloads.model import Add, Delete, Killed, Restart, Resync, Sabotage, sabotage
from tests.unit.agent.workloads.test_dual_stack import DUAL

SERIES = range(4)
LENGTH = 30
_MINUTES = float(os.environ.get("HOST_ROUTING_SOAK", "2"))
#: Seconds until the host has to be in order, also after writes that only polling finds.
_PATIENCE = 100.0
_FAILING = """#!/bin/sh
if [ -e {fault} ]; then rm {fault}; echo "{name}: made to fail" >&2; exit 1; fi
exec {program} "$@"
"""


class Series(World):
    """A host that takes the steps of a series. Of the failures, those of programs are possible here."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        super().__init__(daemon, random.Random(f"kills {seed}"))
        self.inventory = Inventory(dataclasses.replace(DUAL, plan="plan", bird=None))
        self.inventory.fill(seed)
        self.others = OtherNodes()
        self.machine = Machine(
            self.kernel,
            store=str(daemon.folder / "lib"),
            ipam=str(daemon.folder / "lib" / "ipam"),
            workloads=str(daemon.folder / "run" / "workloads"),
        )
        _as_a_host(self.kernel)
        self._failing: set[pathlib.Path] = set()
        daemon.programs.mkdir()
        for name in ("iptables-restore", "ip6tables-restore", "ipset"):
            program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
            wrapper = daemon.programs / name
            wrapper.write_text(_FAILING.format(fault=self._fault(name), name=name, program=program))
            wrapper.chmod(0o755)
        daemon.desire(self.inventory.state())
        daemon.start()

    def _fault(self, program: str) -> pathlib.Path:
        return self.daemon.folder / f"{program}.fails"

    # ---- steps

    def step(self, step: Step, *dummy: object) -> None:
        """Take a step; raise AssertionError if a Settle finds a difference that stays."""
        if isinstance(step, Settle):
            self.in_order()
        elif isinstance(step, Killed):
            self.killed(step)
        elif isinstance(step, Restart):
            self.daemon.kill()
            self.daemon.start()
        elif isinstance(step, Resync):
            self.daemon.call("resync")
        elif isinstance(step, Foreign):
            foreign_writes.write(self.kernel, step.what, step.seed)
        elif isinstance(step, Sabotage):
            with contextlib.suppress(KernelError):
                sabotage(self.kernel, step, self.daemon.links, self.daemon.destinations)
        elif isinstance(step, Fail):
            if step.operation == "run":
                self._fault(step.match).touch()
                self._failing.add(self._fault(step.match))
        elif isinstance(step, Address):
            self._toggle(InterfaceAddress("eth1", f"10.11.1.{step.number + 1}", 24))
        elif isinstance(step, Elsewhere):
            self.others.change_report(step.seed, self.machine.store)
            self.daemon.call("remote_endpoints.reload")
        else:
            self.call(step)

    def call(self, call: t.Any) -> None:
        """Do a call of a series. Raise AgentError if the agent refuses it for another reason than it may."""
        try:
            if isinstance(call, Add):
                address = {} if call.address is None else {"address": call.address}
                self.daemon.add(call.name, netns_owned=True, labels=dict(call.labels), **address)
            elif isinstance(call, Delete):
                self.daemon.delete(call.name)
            elif isinstance(call, Label):
                self.daemon.call("workload.label", id=f"default/{call.name}", labels=dict(call.labels))
            elif isinstance(call, Change):
                self._change(call)
        except AgentError as error:
            expected = ("conflict", "not_found", "no_address", *(("kernel",) if self._failing else ()))
            if error.code not in expected:
                raise

    def _change(self, change: Change) -> None:
        self.inventory.change(change.seed)
        state = self.inventory.state()
        self.daemon.desire(state)
        if change.reload:
            os.kill(self.daemon.pid, signal.SIGHUP)
        else:
            self.daemon.call("node.apply", state=state.to_wire(), removals=True)

    def _toggle(self, mine: InterfaceAddress) -> None:
        if any(one.address == mine.address for one in self.kernel.addresses()):
            self.kernel.address_delete(mine)
        else:
            self.kernel.address_add(mine)

    # ---- comparison

    def in_order(self) -> None:
        """Wait until the host is as one that was made from nothing; raise AssertionError if it does not become so."""
        for fault in self._failing:
            fault.unlink(missing_ok=True)
        stored = self.daemon.store.load()
        assert stored is not None
        began = time.monotonic()
        self.daemon.settled()
        state = of_machine(self.machine, stored.state)
        want = self._from_nothing(state)
        while True:
            found = compared.differences(compared.firewall(self.kernel), want)
            found += [change.line() for change in plan_node(self.kernel, state).changes]
            status = self.daemon.call("status")
            if not found and status["in_sync"] and not status["problems"]:
                break
            assert time.monotonic() < began + _PATIENCE, "\n".join([*found, *status["problems"]])
            pause(began, least=0.05, most=1.0)
        self._failing.clear()

    def _from_nothing(self, state: NodeState) -> compared.Ours:
        """Return the rules and sets of a new namespace to which `state` was written at once."""
        with host_under_test(self.daemon.folder / "fresh", HostKernel) as fresh:
            apply_node(fresh, plan_node(fresh, state, ["ipset", "iptables"]))
            return compared.firewall(fresh)


def _as_a_host(kernel: HostKernel) -> None:
    """Give a host with an underlay the node's IPv6 address and a second interface."""
    kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
    kernel.link_add(NewLink("eth1", "bridge", 1500))
    kernel.link_set("eth1", up=True)


def check(engine: pathlib.Path, folder: pathlib.Path, seed: int) -> None:
    """Take the steps of a series on a new host. Raise AssertionError with the step that failed."""
    with daemon_under_test(engine, folder, None) as daemon:
        daemon.settings(cooldown=0.0, cleanup_grace=0.0)
        host = Series(daemon, seed)
        for number, step in enumerate(series(seed, LENGTH, moments=2 * len(POINTS) - 1, kills=0.04)):
            try:
                host.step(step)
            except Exception as error:
                log = daemon.log.read_text()[-2000:]
                raise AssertionError(f"seed {seed}, step {number}, {step}: {error}\n{log}") from error


@pytest.mark.parametrize("seed", SERIES)
def test_step_by_step_is_as_from_nothing(engine: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    check(engine, tmp_path, seed)


@pytest.mark.soak
def test_step_by_step_is_as_from_nothing_for_minutes(engine: pathlib.Path, tmp_path: pathlib.Path) -> None:
    end, seed = time.monotonic() + 60 * _MINUTES, len(SERIES)
    while time.monotonic() < end:
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(engine, folder, seed)
        seed += 1
