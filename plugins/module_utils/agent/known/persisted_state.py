# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's files as the agent uses them: the desired state, the allocated addresses, and the records of workloads.

No method fails because a file cannot be read when it is loaded. `broken` then says what is wrong with it, and methods
that need the file refuse with an AgentError. Running workloads are left as they are.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import typing as t

from ...node import drain
from ...node.ipam.local_ipam import IpamNotWritten, IpamUnreadable, LocalIpam
from ...node.machine import Machine
from ...node.store import remote_endpoints
from ...node.store.atomic_file import FileError
from ...node.store.endpoints import Endpoints
from ...node.store.store import Store
from ...node.store.stored_file import StoreError
from ...state.attachment import AttachedWorkload
from ...state.live_policy import NO_LIVE_POLICY
from ...state.node_state import NodeState
from ...state.other_endpoints import OtherEndpoints
from ...state.remote_endpoints import RemoteEndpoints
from ...wire import protocol
from ...wire.protocol import AgentError

_log = logging.getLogger("calico.knowledge")


class PersistedState:
    """The content of the node's files. `state` is the one that Ansible gave, without the node's own workloads.

    `state` is None until one was read or given to `take`. `complete` is False while it is None, and from the time when
    a run begins to change the node until one permits removals.
    """

    def __init__(self, machine: Machine, ipam: LocalIpam) -> None:
        self.machine = machine
        self.state: t.Optional[NodeState] = None
        self.complete = False
        self.records = Endpoints(machine.workloads)
        #: The live policy to be in force beside that of the state, where the state allows that.
        self.live = NO_LIVE_POLICY
        #: Why `live` is not known, "" if it is. Where the state allows live policy, no policy is compiled meanwhile.
        self.live_unknown = ""
        #: The workloads of other nodes beside those of the state: those in `remote`, and those that the datastore has.
        self.others = OtherEndpoints(lock=threading.Lock())
        self._accepted = RemoteEndpoints()
        self._remote = remote_endpoints.KnownEndpoints()  # other nodes' workloads as on the disk, accepted or not
        self._remote_unreadable = ""
        #: {part: what is wrong with it at the moment}. Parts are files (state, ipam, records...) and other sources of
        #: problems, such as the policy log.
        self.broken: dict[str, str] = {}
        self._store = Store(machine.store)
        self._ipam = ipam

    @property
    def remote(self) -> RemoteEndpoints:
        """The reports of workloads that other nodes added, as far as this node accepts them.

        Setting it changes `others`.
        """
        return self._accepted

    @remote.setter
    def remote(self, remote: RemoteEndpoints) -> None:
        self._accepted = remote
        self.others.replace_reports(remote.nodes)

    def load(self) -> tuple[list[AttachedWorkload], list[AttachedWorkload]]:
        """Read all files; return (attached workloads, workloads whose add or delete is unfinished).

        A record that cannot be read is left out of both lists. The records become readable by root only.
        """
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
        """Read the state and the other nodes' workloads again, and allocations that could not be read before."""
        self.load_state()
        self.remote = self.read_remote()
        if "ipam" in self.broken:
            self._load_ipam()

    def recheck_records(self, is_known: t.Callable[[str], bool]) -> bool:
        """Read the records again if some could not be read; return whether all of them can be read now.

        Return False if none was unreadable. `is_known` returns whether the agent knows a workload of this id: a record
        that can be read again without that needs a restart, and stays a problem.
        """
        if "records" not in self.broken:
            return False
        attached, problems = self.records.load()
        problems += self.records.unfinished()[1]
        problems += [
            f"The record of workload {workload.id} can be read again. Restart calico-agent, which takes it."
            for workload in attached
            if not is_known(workload.id)
        ]
        self.note("records", " ".join(problems))
        return not problems

    def _close_records(self) -> None:
        """Make the records of workloads readable by root only. A failure is logged."""
        try:
            self.records.close_to_others()
        except OSError as error:
            _log.warning("The records of workloads cannot be made root's alone: %s.", error)

    def load_state(self) -> None:
        """Read the desired state and `take` it. If there is no file, or none that can be read, keep the last one."""
        try:
            stored = self._store.load()
        except StoreError as error:
            self.broken["state"] = str(error)
            return
        self.broken.pop("state", None)
        if stored is not None:
            self.take(stored.state, stored.complete)

    def completed_on_disk(self) -> bool:
        """Return whether the disk has the present state as a complete one. A file that cannot be read has none."""
        try:
            stored = self._store.load()
        except StoreError:
            return False
        return stored is not None and stored.complete and stored.state == self.state

    def read_remote(self) -> RemoteEndpoints:
        """Read the other nodes' workloads from the disk and return those that this node accepts; `remote` stays.

        Without a file there are none; if it cannot be read, those known before count. That, or that some are not
        accepted, is noted in `broken`. The result is the object `remote` if nothing changed.
        """
        try:
            self._remote = remote_endpoints.known(self.machine.store)
            self._remote_unreadable = ""
        except remote_endpoints.RemoteUnreadable as error:
            self._remote_unreadable = str(error)
        return self._accept()

    def keep_reports(self, remote: RemoteEndpoints) -> None:
        """Use these reports of other nodes' workloads, as far as accepted, and write them. A failure is a problem."""
        self._remote, self._remote_unreadable = remote_endpoints.KnownEndpoints(remote), ""
        try:
            remote_endpoints.save(self.machine.store, self._remote)
        except FileError as error:
            self._remote_unreadable = str(error)
        self.remote = self._accept()

    def _accept(self) -> RemoteEndpoints:
        """Return the accepted workloads of other nodes, the object `remote` if unchanged; note problems in `broken`."""
        known = self._remote.accepted_by(self.state)
        self.note("remote endpoints", self._remote_unreadable or known.problem(self.machine.store))
        return known.remote if known.remote != self.remote else self.remote

    def take(self, state: NodeState, complete: bool) -> None:
        """Use `state`, which `NodeState.from_dict` has checked, as Ansible's; `complete` becomes the attribute.

        `remote` becomes what a node with this state accepts of other nodes' workloads. If the journal of allocations
        could be read, give the state's blocks to the IPAM, and note conflicts with allocations in `broken`.
        """
        self.state, self.complete = state, complete
        self.remote = self._accept()
        self._grant()

    def _load_ipam(self) -> None:
        """Read the journal of allocations, and give the IPAM the state's blocks; note failures in `broken`."""
        try:
            self._ipam.load()
        except IpamUnreadable as error:
            self.broken["ipam"] = str(error)
            return
        self.broken.pop("ipam", None)
        self._grant()

    def _grant(self) -> None:
        """Give the state's blocks to the IPAM, if its journal was read; note conflicts with allocations in `broken`."""
        if self.state is None or "ipam" in self.broken:
            return
        self.note("grant", " ".join(self._ipam.grant(self.state)))

    @property
    def ipam(self) -> LocalIpam:
        """The node's IPAM. Access raises AgentError with code `unavailable` if its journal cannot be read."""
        if "ipam" in self.broken:
            raise AgentError(protocol.UNAVAILABLE, self.broken["ipam"])
        return self._ipam

    @property
    def opened(self) -> tuple[str, ...]:
        """The CIDRs of the spare blocks that were opened; () if the journal cannot be read.

        Without a state, those of all blocks with allocated addresses are among them.
        """
        return () if "ipam" in self.broken else self._ipam.opened

    @property
    def whole(self) -> bool:
        """Whether `complete` and `readable` are both true, so that every desired object is known."""
        return self.complete and self.readable

    @property
    def readable(self) -> bool:
        """Whether none of the state, the allocations and the records was found unreadable; missing ones are fine."""
        return not self.broken.keys() & {"state", "ipam", "records"}

    def note(self, part: str, problem: t.Optional[str]) -> None:
        """Note a problem with `part` in `broken`, or remove the note if there is none: None or ""."""
        if problem:
            self.broken[part] = problem
        else:
            self.broken.pop(part, None)

    def has_bird(self) -> bool:
        """Return whether the node runs BIRD; False without a state."""
        return self.state is not None and self.state.bird is not None

    def nflog_group(self) -> int:
        """Return the NFLOG group that the rules of the present policy log to, or 0 if there is none."""
        return self.state.policy.settings.nflog_group if self.state and self.state.policy else 0

    def no_state(self) -> AgentError:
        """Return the AgentError, code `unavailable`, that says why there is no desired state."""
        words = self.broken.get("state") or (
            f"this node has no desired state yet ({self.machine.store}/state.json). Run site.yml for it, then try"
            " again."
        )
        return AgentError(protocol.UNAVAILABLE, words)

    def need_for_add(self) -> NodeState:
        """Return the desired state if workloads can be added; one that was read before is enough.

        Raise AgentError with code `unavailable` if the allocations cannot be read, the node is drained (which a drain
        mark that cannot be read means too), or there is no state.
        """
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
        """Run the body of a `with`; raise AgentError with code `not_written` for its IpamNotWritten and OSError.

        `what` names in the message for an OSError what could not be written. Other errors of the body come out.
        """
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
