# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of what commands print: the node's agent and its disk."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import typing as t

from ..node.engine import engine_start
from ..node.store.store import Store, Stored, StoreError
from ..wire import settings
from ..wire.client import AgentClient, NotRunning
from ..wire.protocol import AgentError
from .errors import CommandError

if t.TYPE_CHECKING:
    from ..datastore.heartbeats import Heartbeat
    from ..node.ipam.local_ipam import LocalIpam
    from ..node.machine import Machine
    from ..state.attachment import AttachedWorkload
    from ..state.node_state import NodeState

Data = dict[str, t.Any]

#: The most seconds to wait for an agent to be in sync, or to report problems.
PATIENCE = 3.0
_STEP = 0.1


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"calicoctl: {text}\n")


class Sources:
    """One command's view of its node, as a context manager that holds one connection to the agent.

    `warn` is called with sentences that the user should see besides the output. Methods that need the agent, or the
    state on the disk, raise CommandError: the agent does not run, refuses or does not answer within 30 seconds, its
    socket may not be opened, or files are missing or cannot be read. They raise ValueError for content that this
    release cannot read. Methods that do without an agent read the disk then, with a warning.
    """

    def __init__(self, machine: Machine, warn: t.Callable[[str], None] = _to_stderr) -> None:
        self.machine = machine
        self.warn = warn
        self._client = AgentClient(machine.agent_socket)
        self._warned = False

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *dummy: t.Any) -> None:
        self._client.close()

    @property
    def is_node(self) -> bool:
        """Whether this host is a node: it has a state, or the engine, which users without rights see as well."""
        state = os.path.join(self.machine.store, "state.json")
        return os.path.exists(state) or bool(engine_start.in_use(self.machine.engine))

    def no_node(self) -> str:
        machine = self.machine
        return f"this host is no node: it has no {machine.store}/state.json and no engine in {machine.engine}."

    def stored(self) -> Stored:
        """Return the node's stored state with its date."""
        try:
            stored = Store(self.machine.store).load()
        except StoreError as error:
            if isinstance(error.__cause__, PermissionError):
                raise CommandError(
                    f"{self.machine.store}/state.json may be read by root alone. Run calicoctl as root."
                ) from error
            raise CommandError(str(error)) from error
        if stored is None:
            raise CommandError(
                f"this node has no state yet: there is no {self.machine.store}/state.json. Run playbooks/site.yml."
            )
        return stored

    def state(self) -> NodeState:
        return self.stored().state

    def agent_settings(self) -> settings.AgentSettings:
        """Return the settings in the agent's file, whether it runs or not; they are the defaults without a file."""
        try:
            return settings.load(self.machine.placed(settings.PATH)).settings
        except settings.SettingsError as error:
            raise CommandError(str(error)) from error

    def heartbeats(self) -> t.Optional[dict[str, Heartbeat]]:
        """Return the heartbeats of all nodes; None without a datastore or, with a warning, if that cannot be read."""
        path = self.machine.placed(self.machine.datastore)
        if not os.path.exists(path):
            return None
        from . import datastore_source  # asyncio and TLS take 0.1 s to load, which few commands need

        return datastore_source.heartbeats(path, self.warn)

    def ask(self, method: str, **params: t.Any) -> Data:
        """Return the agent's result for `method`."""
        return self.ask_for(0, method, **params)

    def ask_for(self, seconds: int, method: str, **params: t.Any) -> Data:
        """Return what `ask` does. While no agent answers, ask again, for `seconds` seconds at most.

        An agent may end before its answer, so the method must be one that may be called twice.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._client.call(method, **params)
            except AgentError as error:
                if not isinstance(error, NotRunning) or time.monotonic() >= deadline:
                    raise CommandError(error.message) from error
            time.sleep(_STEP)

    def ask_if_running(self, method: str, **params: t.Any) -> t.Optional[Data]:
        """Return the agent's result for `method`, or None if no agent runs, with one warning per command."""
        try:
            return self._client.call(method, **params)
        except NotRunning:
            if not self._warned:
                self._warned = True
                self.warn(
                    f"the agent does not run (nobody listens at {self.machine.agent_socket}); "
                    "this is what the node has on its disk."
                )
            return None
        except AgentError as error:
            raise CommandError(error.message) from error

    def agent_status(self) -> Data:
        """Return the agent's status. Wait PATIENCE (3) seconds at most for it to be in sync or report problems.

        It may be out of sync in the result. The agent is out of sync for a moment whenever a workload comes or goes:
        only a longer time is worth reporting.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.ask("status")
            if found["in_sync"] or found["problems"] or time.monotonic() >= deadline:
                return found
            time.sleep(_STEP)

    def agent_runs(self) -> bool:
        with contextlib.suppress(AgentError):
            self._client.call("version")
            return True
        return False

    def workloads(self) -> list[AttachedWorkload]:
        """Return the workloads that the API, the CNI plugin or a module attached, sorted by id, not the inventory's."""
        from ..node.store.endpoints import Endpoints
        from ..state.attachment import AttachedWorkload

        answer = self.ask_if_running("workload.list", selector=None)
        if answer is not None:
            found = [AttachedWorkload.from_dict(entry) for entry in answer["workloads"]]
        else:
            found, problems = Endpoints(self.machine.workloads).load()
            for problem in problems:
                self.warn(problem)
        return sorted(found, key=lambda workload: workload.id)

    def ipam(self) -> Data:
        """Return the use of this node's blocks and its allocated addresses: {"usage": [...], "allocations": [...]}.

        The first list has a dict with the fields of Usage for each block, the second one a dict with the fields of
        Allocation for each address.
        """
        answer = self.ask_if_running("ipam.show")
        if answer is None:
            ipam = self._ipam_on_disk()
            answer = {
                "usage": [usage._asdict() for usage in ipam.usage()],
                "allocations": [
                    {**allocation._asdict(), "attributes": dict(allocation.attributes)}
                    for allocation in ipam.allocations()
                ],
            }
        return answer

    def ipam_check(self) -> Data:
        """Return the check of allocations: {"lines": texts to print, "problems": the number of problems, ...}.

        The other keys, with a list each, are leaked, unused, missing, outside, mismatched, duplicate and invalid.
        """
        answer = self.ask_if_running("ipam.check")
        if answer is None:
            answer = self._ipam_on_disk().check(self.state(), self.workloads()).to_dict()
        return answer

    def _ipam_on_disk(self) -> LocalIpam:
        """Return the allocations read from the disk, with warnings about those that contradict the state."""
        from ..node.ipam.local_ipam import IpamUnreadable, LocalIpam

        ipam = LocalIpam(self.machine.ipam)
        try:
            ipam.load()
        except (IpamUnreadable, OSError) as error:
            raise CommandError(str(error)) from error
        for conflict in ipam.grant(self.state()):
            self.warn(conflict)
        return ipam
