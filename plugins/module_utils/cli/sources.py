# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where commands get what they print: the agent while it runs, else the node's disk, and they say which."""

from __future__ import annotations

import contextlib
import sys
import time
import typing as t

from ..agent.api.client import AgentClient, NotRunning
from ..agent.api.protocol import AgentError
from ..node.ipam.local_ipam import IpamUnreadable, LocalIpam
from ..node.machine import Machine
from ..node.store import remote_endpoints
from ..node.store.endpoints import Endpoints
from ..node.store.store import Store, Stored, StoreError
from ..state.attachment import Workload
from ..state.node_state import NodeState
from ..state.remote_endpoints import RemoteEndpoints
from .errors import CommandError

Data = dict[str, t.Any]

#: Seconds that an agent may take to be in sync again.
PATIENCE = 3.0
_STEP = 0.1


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"calicoctl: {text}\n")


class Sources:
    """One command's view of its node. A context manager: it holds one connection to the agent.

    `warn` is told, in sentences, what a person should know beside what he asked for.
    """

    def __init__(self, machine: Machine, warn: t.Callable[[str], None] = _to_stderr) -> None:
        self.machine = machine
        self._warn = warn
        self._client = AgentClient(machine.agent_socket)
        self._warned = False

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *dummy: t.Any) -> None:
        self._client.close()

    def stored(self) -> Stored:
        """Raises CommandError on a node without a state."""
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

    def ask(self, method: str, **params: t.Any) -> Data:
        """The agent's result. Raises CommandError with the agent's own words, or that it does not run."""
        try:
            return self._client.call(method, **params)
        except AgentError as error:
            raise CommandError(error.message) from error

    def ask_if_running(self, method: str, **params: t.Any) -> t.Optional[Data]:
        """None where no agent answers, which is said on stderr once. Raises CommandError for its refusals."""
        try:
            return self._client.call(method, **params)
        except NotRunning:
            if not self._warned:
                self._warned = True
                self._warn(
                    f"the agent does not run (nobody listens at {self.machine.agent_socket}); "
                    "this is what the node has on its disk."
                )
            return None
        except AgentError as error:
            raise CommandError(error.message) from error

    def agent_status(self) -> Data:
        """What the agent says of itself. Raises CommandError.

        With every workload that comes or goes it looks at its node again, and is not in sync for that moment: what
        lasts longer than PATIENCE is told.
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

    def workloads(self) -> list[Workload]:
        """Those that the API, the CNI plugin or a module attached, by id; inventory workloads are in the state."""
        answer = self.ask_if_running("workload.list", selector=None)
        if answer is not None:
            found = [Workload.from_dict(entry) for entry in answer["workloads"]]
        else:
            found, problems = Endpoints(self.machine.workloads).load()
            for problem in problems:
                self._warn(problem)
        return sorted(found, key=lambda workload: workload.id)

    def remote_endpoints(self) -> RemoteEndpoints:
        """What this node knows of other nodes' workloads beside the inventory's; nothing, with a warning, where that
        cannot be read."""
        try:
            known = remote_endpoints.known(self.machine.store).believed_by(self.state())
        except remote_endpoints.RemoteUnreadable as error:
            self._warn(str(error))
            return RemoteEndpoints()
        if known.left_out:
            self._warn(known.problem(self.machine.store))
        return known.remote

    def ipam(self) -> Data:
        """{"usage": one entry per block, "allocations": [...]}"""
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
        """{"lines": what to print, "problems": how many, ...}"""
        answer = self.ask_if_running("ipam.check")
        if answer is None:
            answer = self._ipam_on_disk().check(self.state(), self.workloads()).to_dict()
        return answer

    def _ipam_on_disk(self) -> LocalIpam:
        """Read, and written by nobody: what it would append is never flushed."""
        ipam = LocalIpam(self.machine.ipam)
        try:
            ipam.load()
        except (IpamUnreadable, OSError) as error:
            raise CommandError(str(error)) from error
        for conflict in ipam.grant(self.state()):
            self._warn(conflict)
        return ipam
