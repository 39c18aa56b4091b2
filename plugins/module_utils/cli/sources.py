# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of what commands print: the node's agent, its disk and its kernel.

A command pays only for the sources that it uses: the code of the others is not loaded.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import typing as t

from ..node.engine import engine_start
from ..node.paths import NodePaths
from ..node.store import stored_file
from ..state.fleet_list import FleetList, from_state
from .errors import CommandError

if t.TYPE_CHECKING:
    from ..datastore.heartbeats import Heartbeat
    from ..node.ipam.local_ipam import LocalIpam
    from ..node.machine import Machine
    from ..node.store.store import Stored
    from ..policy.model import LiveNames
    from ..state.attachment import AttachedWorkload
    from ..state.live_policy import LivePolicy
    from ..state.node_state import NodeState
    from .agent_source import AgentSource
    from .connection.datastore_ways import DatastoreWays

Data = dict[str, t.Any]
_V = t.TypeVar("_V")


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"calicoctl: {text}\n")


class Sources:
    """One command's view of its node, as a context manager that holds one connection to the agent.

    The node is `machine`, by default this one. `warn` is called with sentences that the user should see besides the
    output. `config` is the file of -c, by which the datastore is asked. Methods that need the agent, or the state on
    the disk, raise CommandError: the agent does not answer (see AgentSource), or files are missing or cannot be read.
    They raise ValueError for content that this release cannot read. Methods that do without an agent read the disk
    then, with a warning.
    """

    def __init__(
        self, machine: t.Optional[Machine] = None, warn: t.Callable[[str], None] = _to_stderr, config: str = ""
    ) -> None:
        self.paths: NodePaths = machine or NodePaths()
        self.warn = warn
        self._config = config
        if machine is not None:
            self.machine = machine

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *dummy: t.Any) -> None:
        if "agent" in vars(self):
            self.agent.close()

    @functools.cached_property
    def agent(self) -> AgentSource:
        from .agent_source import AgentSource

        return AgentSource(self.paths.agent_socket, self.warn)

    @functools.cached_property
    def machine(self) -> Machine:
        from ..node.machine import here

        return here()

    @property
    def is_node(self) -> bool:
        """Whether this host is a node: it has a state, or the engine, which users without rights see as well."""
        return os.path.exists(self.paths.state) or bool(engine_start.in_use(self.paths.engine))

    def no_node(self) -> str:
        paths = self.paths
        return f"this host is no node: it has no {paths.state} and no engine in {paths.engine}."

    def stored(self) -> Stored:
        """Return the node's stored state with its date, and with the live policy that was last put in force."""
        return self.stored_with_names()[0]

    def stored_with_names(self) -> tuple[Stored, t.Optional[LiveNames]]:
        """Return what `stored` does, and the names of live documents in it; None where there are none."""
        from ..node.desired import with_live_names

        found = self._stored()
        state, names = with_live_names(self.paths.store, found.state)
        return dataclasses.replace(found, state=state), names

    def policy_parts(self) -> tuple[NodeState, t.Optional[LivePolicy]]:
        """Return the node's stored state with the inventory's policy alone, and the live policy beside it, if any."""
        from ..node.desired import stored_live_policy

        state = self._stored().state
        return state, stored_live_policy(self.paths.store, state)

    def _stored(self) -> Stored:
        from ..node.store.store import Store

        return self._read(lambda: Store(self.paths.store).load())

    def fleet_list(self) -> FleetList:
        """Return the nodes of the fleet, without reading the rest of the stored state."""
        return self._read(self._fleet_list)

    def _fleet_list(self) -> t.Optional[FleetList]:
        path = self.paths.state
        stored = stored_file.read(path)
        try:
            return None if stored is None else from_state(stored.get("state"))
        except ValueError as error:
            raise stored_file.unreadable(path, error, stored_file.REMEDY) from error

    def _read(self, read: t.Callable[[], t.Optional[_V]]) -> _V:
        """Return what `read` finds in state.json. Raise CommandError if it raises StoreError or returns None."""
        try:
            found = read()
        except stored_file.StoreError as error:
            if isinstance(error.__cause__, PermissionError):
                raise CommandError(f"{self.paths.state} may be read by root alone. Run calicoctl as root.") from error
            raise CommandError(str(error)) from error
        if found is None:
            raise CommandError(f"this node has no state yet: there is no {self.paths.state}. Run playbooks/site.yml.")
        return found

    def state(self) -> NodeState:
        return self.stored().state

    @functools.cached_property
    def connection(self) -> DatastoreWays:
        """The ways to the datastore."""
        from .connection.datastore_ways import DEFAULT_FILE, DatastoreWays

        paths = self.paths
        default, own = paths.placed(DEFAULT_FILE), paths.placed(paths.datastore)
        return DatastoreWays(self._config, default, own, os.environ, self.warn)

    def heartbeats(self) -> t.Optional[dict[str, Heartbeat]]:
        """Return the heartbeats of all nodes; None without a datastore or, with a warning, if that cannot be read."""
        if not self.connection.possible:
            return None
        from . import datastore_source  # asyncio and TLS take 0.1 s to load, which few commands need

        return datastore_source.heartbeats(self.connection, self.warn)

    def workloads(self) -> list[AttachedWorkload]:
        """Return the workloads that the API, the CNI plugin or a module attached, sorted by id, not the inventory's."""
        from ..node.store.endpoints import Endpoints
        from ..state.attachment import AttachedWorkload

        answer = self.agent.ask_if_running("workload.list", selector=None)
        if answer is not None:
            found = [AttachedWorkload.from_dict(entry) for entry in answer["workloads"]]
        else:
            found, problems = Endpoints(self.paths.workloads).load()
            for problem in problems:
                self.warn(problem)
        return sorted(found, key=lambda workload: workload.id)

    def ipam(self) -> Data:
        """Return the use of this node's blocks and its allocated addresses: {"usage": [...], "allocations": [...]}.

        The first list has a dict with the fields of Usage for each block, the second one a dict with the fields of
        Allocation for each address.
        """
        answer = self.agent.ask_if_running("ipam.show")
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
        answer = self.agent.ask_if_running("ipam.check")
        if answer is None:
            answer = self._ipam_on_disk().check(self.state(), self.workloads()).to_dict()
        return answer

    def _ipam_on_disk(self) -> LocalIpam:
        """Return the allocations read from the disk, with warnings about those that contradict the state."""
        from ..node.ipam.local_ipam import IpamUnreadable, LocalIpam

        ipam = LocalIpam(self.paths.ipam)
        try:
            ipam.load()
        except (IpamUnreadable, OSError) as error:
            raise CommandError(str(error)) from error
        for conflict in ipam.grant(self.state()):
            self.warn(conflict)
        return ipam
