# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node keeps on its disk: the state that it shall have, which addresses are whose, and what workloads there are.

Nothing here fails for a file that cannot be read: `broken` says what is wrong with it, and what depends on it refuses
in words. The workloads that run are left as they are.
"""

from __future__ import annotations

import contextlib
import logging
import typing as t

from ..node import drain
from ..node.ipam.local_ipam import IpamNotWritten, IpamUnreadable, LocalIpam
from ..node.machine import Machine
from ..node.store import remote_endpoints
from ..node.store.endpoints import Endpoints
from ..node.store.store import Store, StoreError
from ..state.attachment import AttachedWorkload
from ..state.node_state import NodeState
from ..state.remote_endpoints import RemoteEndpoints
from .api import protocol
from .api.protocol import AgentError

_log = logging.getLogger("calico.knowledge")


class PersistedState:
    """`state` is the one that Ansible gave, without the node's own workloads; `complete` is False while a run has begun
    to change the node and has not finished."""

    def __init__(self, machine: Machine, ipam: LocalIpam) -> None:
        self.machine = machine
        self.state: t.Optional[NodeState] = None
        self.complete = False
        self.records = Endpoints(machine.workloads)
        self.remote = RemoteEndpoints()  # what is known of other nodes' workloads beside the inventory's
        self._remote = remote_endpoints.Known()  # the same as it lies on the disk
        self._remote_unreadable = ""
        #: What is wrong and does not go away by itself, by what it concerns: state, ipam, records and more.
        self.broken: dict[str, str] = {}
        self._store = Store(machine.store)
        self._ipam = ipam

    def load(self) -> tuple[list[AttachedWorkload], list[AttachedWorkload]]:
        """At the start. The workloads that stand, and those of which something was under way."""
        self.load_state()
        self._load_ipam()
        self.remote = self.read_remote()
        self._close_records()
        standing, problems = self.records.load()
        unfinished, more = self.records.unfinished()
        if problems or more:
            self.broken["records"] = " ".join([*problems, *more])
        return standing, unfinished

    def reload(self) -> None:
        """The state again, and what could not be read before."""
        self.load_state()
        self.remote = self.read_remote()
        if "ipam" in self.broken:
            self._load_ipam()

    def _close_records(self) -> None:
        try:
            self.records.close_to_others()
        except OSError as error:
            _log.warning("The records of workloads cannot be made root's alone: %s.", error)

    def load_state(self) -> None:
        """One that cannot be read does not replace the last one that could."""
        try:
            stored = self._store.load()
        except StoreError as error:
            self.broken["state"] = str(error)
            return
        self.broken.pop("state", None)
        if stored is not None:
            self.take(stored.state, stored.complete)

    def read_remote(self) -> RemoteEndpoints:
        """Return what the disk says of other nodes' workloads, as far as this node takes it; what was known, where that
        cannot be read."""
        try:
            self._remote = remote_endpoints.known(self.machine.store)
            self._remote_unreadable = ""
        except remote_endpoints.RemoteUnreadable as error:
            self._remote_unreadable = str(error)
        return self._believed()

    def _believed(self) -> RemoteEndpoints:
        """Return what this node takes of the file, as the same object while it is the same."""
        known = self._remote.believed_by(self.state)
        self.trouble_with("remote endpoints")(self._remote_unreadable or known.problem(self.machine.store) or None)
        return known.remote if known.remote != self.remote else self.remote

    def take(self, state: NodeState, complete: bool) -> None:
        self.state, self.complete = state, complete
        self.remote = self._believed()
        self._grant()

    def _load_ipam(self) -> None:
        try:
            self._ipam.load()
        except IpamUnreadable as error:
            self.broken["ipam"] = str(error)
            return
        self.broken.pop("ipam", None)
        self._grant()

    def _grant(self) -> None:
        if self.state is None or "ipam" in self.broken:
            return
        conflicts = self._ipam.grant(self.state)
        self.broken.pop("grant", None)
        if conflicts:
            self.broken["grant"] = " ".join(conflicts)

    @property
    def ipam(self) -> LocalIpam:
        """Raises AgentError where its file cannot be read."""
        if "ipam" in self.broken:
            raise AgentError(protocol.UNAVAILABLE, self.broken["ipam"])
        return self._ipam

    @property
    def opened(self) -> tuple[str, ...]:
        """Spare blocks that are in use."""
        return () if "ipam" in self.broken else self._ipam.opened

    @property
    def whole(self) -> bool:
        """Whether everything is known that may not be removed."""
        return self.complete and self.readable

    @property
    def readable(self) -> bool:
        return not self.broken.keys() & {"state", "ipam", "records"}

    def trouble_with(self, part: str) -> t.Callable[[t.Optional[str]], None]:
        """Takes in words what is wrong with `part`, and None when it is well."""

        def told(problem: t.Optional[str]) -> None:
            if problem is None:
                self.broken.pop(part, None)
            else:
                self.broken[part] = problem

        return told

    def no_state(self) -> AgentError:
        words = self.broken.get("state") or (
            f"this node has no desired state yet ({self.machine.store}/state.json). Run site.yml for it, then try"
            " again."
        )
        return AgentError(protocol.UNAVAILABLE, words)

    def need_for_add(self) -> NodeState:
        """The state, when workloads can be added. Raises AgentError."""
        words = self.broken.get("ipam")
        drained = drain.load(self.machine.store) if words is None else None
        if drained is not None:
            words = f"{drained}. Add it to another node; playbooks/site.yml takes this one back into service."
        if words is None:
            if self.state is not None:
                return self.state
            words = self.no_state().message
        raise AgentError(protocol.UNAVAILABLE, f"no workload can be added to this node: {words}")

    @contextlib.contextmanager
    def writing(self, what: str) -> t.Iterator[None]:
        """Raises AgentError not_written where the disk, or the tmpfs of the records, refuses."""
        try:
            yield
        except IpamNotWritten as error:
            raise AgentError(protocol.NOT_WRITTEN, str(error)) from error
        except OSError as error:
            raise AgentError(
                protocol.NOT_WRITTEN,
                f"the {what} cannot be written below {self.machine.workloads}: {error.strerror}. Nothing was changed."
                " Make room or correct the file system, then try again.",
            ) from error
