# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads that come and go: how they are added and deleted, and what there is of them.

An add and a delete have one commit point each, the renaming of the workload's record:

    add     address (memory) ─► record begun ─► link, while the journal goes to the disk and policy's sets and chains to
            the kernel ─► route ─► COMMIT ─► answer
    delete  COMMIT ─► route gone, while the release goes to the disk ─► answer ─► link (deletion.py) ─► record forgotten

Whatever is begun and not committed when the agent is killed is cleared away by its next start. So an add that was never
answered left nothing, and a delete that was begun is done. Nobody reaches an address that is not on the disk, or that
policy does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import typing as t

from ...base import selectors
from ...dataplane.attach import Attached
from ...dataplane.change import Change
from ...dataplane.drivers import workload as workload_driver
from ...ipam.allocations import AllocationError
from ...node.ipam.local_ipam import IpamNotWritten
from ...node.store.store import now
from ...state.attachment import OwnEndpoints, Workload, beside_inventory, endpoint_routes, with_workloads
from ...state.node_state import NodeState, WorkloadEndpoint
from ..api import protocol
from ..api.protocol import AgentError
from ..api.request import AddRequest
from ..persisted_state import Knowledge
from ..watch.events import Events
from . import failpoints
from .admission import admitted
from .commit import GroupCommit, Write
from .deletion import Deletion
from .keyed_lock import OneAtATime
from .rwlock import Turn
from .wiring import Plumbing

_log = logging.getLogger("calico.workloads")

#: Seconds that an add waits for what is left of its predecessor, and a failed one for being cleared away.
_PATIENCE = 10.0
SELECTOR_LIMIT = 4096  # characters of a caller's selector

#: Identity of a namespace that nobody recorded: none has it.
_UNKNOWN = "unknown"


class Workloads:
    """`changed` is called whenever what the node shall have is another than before. `admission()` has policy know all
    that are `coming`, and is None where there is no policy."""

    def __init__(
        self,
        knowledge: Knowledge,
        turn: Turn,
        plumbing: Plumbing,
        commit: GroupCommit,
        deletion: t.Callable[[t.Callable[[str], t.Awaitable[None]]], Deletion],
        events: Events,
        changed: t.Callable[[], None],
        admission: t.Callable[[], t.Optional[Write]] = lambda: None,
    ) -> None:
        self._knowledge = knowledge
        self._records = knowledge.records
        self._turn = turn
        self._plumbing = plumbing
        self._commit = commit
        self._events = events
        self._changed = changed
        self._admission = admission
        self._own = OwnEndpoints()
        self._coming: dict[str, Workload] = {}  # begun, and not among those that stand
        self._opened: tuple[str, ...] = ()
        self._standing: dict[str, Workload] = {}
        self._interfaces: dict[str, str] = {}  # host end: id of the workload that has it or is about to
        self._one = OneAtATime()
        self.relabellings = 0  # how often labels of one that stands became others
        self._attached: set[str] = set()  # what changes of the workloads are about that were added here
        self.deletion = deletion(self.release)

    async def start(self, standing: t.Sequence[Workload], unfinished: t.Sequence[Workload]) -> None:
        """What was under way is undone or completed: either way nothing of it stays."""
        self._opened = self._knowledge.opened
        self._standing = {workload.id: workload for workload in standing}
        self._interfaces = {workload.interface: workload.id for workload in standing}
        self.adopt()
        await self._identify()
        for workload in unfinished:
            self._leave(workload)
        await self.deletion.step()

    async def _identify(self) -> None:
        """Records of an earlier release do not say which namespace their workloads were attached to: it is the one in
        which they stand. One that does not stand anywhere has ended."""
        for workload in list(self._standing.values()):
            if workload.netns_identity or workload.netns_owned:
                continue
            try:
                found = await self._plumbing.adopted(self.endpoint(workload)) if workload.addresses else ""
            except AgentError as error:
                _log.warning("The network namespace of workload %s cannot be looked into: %s", workload.id, error)
                found = ""
            self._standing[workload.id] = dataclasses.replace(workload, netns_identity=found or _UNKNOWN)
            if found:
                with contextlib.suppress(OSError):  # it is looked for again by the next start
                    self._records.save(self._standing[workload.id])

    def adopt(self) -> None:
        """Those that stand keep their addresses, also when somebody moved a damaged journal away."""
        broken = self._knowledge.broken
        if "ipam" in broken:
            return
        problems = self._knowledge.ipam.adopt(self._standing.values())
        broken.pop("addresses", None)
        if problems:
            broken["addresses"] = " ".join(problems)
        self._commit.written()  # nobody waits: what does not come to the disk is adopted again by the next start

    # ---- add

    async def add(self, request: AddRequest) -> Workload:
        """See Agent.add."""
        request = request.checked()
        async with self._one(request.id):
            standing = self._standing.get(request.id)
            if standing is not None:
                return await self._again(request, standing)
            self._knowledge.need_for_add()
            workload = self._claimed(request)
            try:
                await self._predecessor_gone(workload)
                async with self._turn.shared():
                    workload = self._assigned(workload, request)
                    attached = await self._make(workload)
            except BaseException:
                self._interfaces.pop(workload.interface, None)
                raise
        self._events.tell("added", workload=workload.to_dict())
        return _as_it_is(workload, attached)

    async def _again(self, request: AddRequest, standing: Workload) -> Workload:
        """The same answer, when it is the same request; what was broken meanwhile is repaired first."""
        difference = request.differs_from(standing)
        if difference:
            raise AgentError(
                protocol.CONFLICT,
                f"workload {request.id} exists already, with {difference}. Delete it first, or choose another id.",
            )
        if request.container:
            standing = self._relabelled(standing, standing.with_labels(request.labels))
        async with self._turn.shared():
            attached = await self._plumbing.again(self.endpoint(standing))
        return _as_it_is(standing, attached)

    def _claimed(self, request: AddRequest) -> Workload:
        """The workload, whose device nobody else can have from now on."""
        workload = request.workload(now())
        other = self._interfaces.get(workload.interface) or self._of_inventory(workload.interface)
        if other:
            raise AgentError(
                protocol.CONFLICT,
                f"workload {request.id} would have the device {workload.interface}, which belongs to workload {other}."
                " A node has one workload of a namespace and name: choose another name.",
            )
        self._interfaces[workload.interface] = workload.id
        return workload

    def wanted(self, interface: str) -> bool:
        """Whether it is the host end of a workload, or of one that is about to be."""
        return interface in self._interfaces or bool(self._of_inventory(interface))

    def _of_inventory(self, interface: str) -> str:
        known = self._knowledge.state.workloads if self._knowledge.state else ()
        found = next((found for found in known if found.interface == interface), None)
        return f"{workload_driver.identity(found)} of the inventory" if found else ""

    async def _predecessor_gone(self, workload: Workload) -> None:
        if not await self.deletion.finished(workload.interface, _PATIENCE):
            raise AgentError(
                protocol.TRY_AGAIN,
                f"workload {workload.id} was deleted, and its device {workload.interface} is still being removed."
                " Try again.",
            )

    async def _address_forgotten(self, workload: Workload) -> None:
        for address in workload.addresses:
            if not await self.deletion.forgotten(address, _PATIENCE):
                raise AgentError(
                    protocol.TRY_AGAIN,
                    f"{address} was that of a workload that was deleted, which is still being removed. Try again.",
                )

    def _assigned(self, workload: Workload, request: AddRequest) -> Workload:
        """With its addresses, in memory alone: it is for `_make` to have them written or to take them back."""
        attributes = {"namespace": request.namespace, "name": request.name}
        if request.network:
            attributes.update(network=request.network, container=request.container, interface=request.peer_interface)
        try:
            held = self._knowledge.ipam.assign_each(
                request.id, attributes, addresses=request.addresses, pools=request.pools, versions=request.families
            )
        except AllocationError as error:
            raise AgentError(error.code, str(error)) from error
        failpoints.point("add.assigned")
        return dataclasses.replace(workload, addresses=tuple(one.address for one in held), pool=held[0].pool)

    async def _make(self, workload: Workload) -> Attached:
        """The plumbing, the disk and policy at the same time, and the route when all are done."""
        self._coming[workload.id] = workload
        try:
            with self._knowledge.writing("record"):
                self._records.begin(workload)
            failpoints.point("add.begun")
            await self._address_forgotten(workload)
            written, admission = self._commit.written(), self._admission()
            endpoint = self.endpoint(workload)
            opened = self._newly_opened()

            def ready() -> bool:
                return written.stands and (admission is None or admission.stands)

            attached, routed = await self._plumbing.link(endpoint, opened, ready)
            workload = dataclasses.replace(workload, netns_identity=attached.netns_identity)
            with self._knowledge.writing("record"):
                self._records.identify(workload.id, attached.netns_identity)
            if not routed:
                with self._knowledge.writing("address"):
                    await written
                failpoints.point("add.written")
                if admission is not None:
                    await admitted(admission, endpoint)
                failpoints.point("add.guarded")
                await self._plumbing.route(endpoint, opened)
            self._opened = tuple(cidr for cidr in self._knowledge.opened if cidr in self._opened or cidr in opened)
            failpoints.point("add.routed")
            with self._knowledge.writing("record"):
                self._records.commit(workload.id)
            failpoints.point("add.committed")
        except BaseException:
            del self._coming[workload.id]
            await asyncio.shield(asyncio.ensure_future(self._undo(workload)))
            self._changed()  # what policy learned of it has to go
            raise
        self._standing[workload.id] = workload
        del self._coming[workload.id]
        if self.endpoint(workload) == endpoint:  # else another state came meanwhile: what follows from it is no drift
            self._attached |= _subjects(endpoint)
        self._changed()
        return attached

    async def _undo(self, workload: Workload) -> None:
        """Leaves nothing of an add; what cannot be done at once is tried again until it is."""
        with contextlib.suppress(AgentError):
            await self._plumbing.unroute(self.endpoint(workload))
        self._leave(workload)
        await self.deletion.finished(workload.interface, _PATIENCE)

    def _newly_opened(self) -> tuple[str, ...]:
        """Spare blocks that were opened since the last add that came through."""
        opened = tuple(cidr for cidr in self._knowledge.opened if cidr not in self._opened)
        if opened:
            self._changed()
        return opened

    # ---- labels

    async def relabel(self, id: str, labels: t.Mapping[str, t.Optional[str]]) -> Workload:
        """See Agent.relabel."""
        async with self._one(id):
            workload = self._standing.get(id)
            if workload is None:
                raise not_found(id)
            return self._relabelled(workload, workload.labelled(labels))

    def _relabelled(self, before: Workload, workload: Workload) -> Workload:
        """Have a workload that stands stand with the labels that it has now. Raises AgentError."""
        if workload is before:
            return before
        with self._knowledge.writing("record"):
            self._records.save(workload)
        self._standing[workload.id] = workload
        if workload.labels != before.labels:
            self.relabellings += 1
            self._changed()
            self._events.tell("labelled", workload=workload.to_dict())
        return workload

    # ---- delete

    async def delete(self, id: str) -> bool:
        """See Agent.delete."""
        async with self._one(id):
            workload = self._standing.get(id)
            if workload is None:
                return await self._release_alone(id)
            async with self._turn.shared():
                await self._remove(workload)
        self._events.tell("deleted", workload=workload.to_dict())
        failpoints.point("delete.answered")
        return True

    async def _remove(self, workload: Workload) -> None:
        with contextlib.suppress(OSError):  # then it is deleted all the same, and only a crash would bring it back
            self._records.leave(workload.id)
        failpoints.point("delete.begun")
        del self._standing[workload.id]
        self._interfaces.pop(workload.interface, None)
        self._attached -= _subjects(self.endpoint(workload))
        self._changed()
        released = asyncio.ensure_future(self._released(workload.id))
        unreachable = False
        try:
            with contextlib.suppress(AgentError):
                await self._plumbing.unroute(self.endpoint(workload))
                unreachable = True
            failpoints.point("delete.unrouted")
            await released
            failpoints.point("delete.released")
        finally:
            self._leave(workload, released=released.done() and not released.cancelled() and released.result())
        if not unreachable:  # its route goes with its link
            await self.deletion.finished(workload.interface, _PATIENCE)

    async def _release_alone(self, id: str) -> bool:
        """Of a workload that did not come back after a reboot only the address is there."""
        if "ipam" in self._knowledge.broken or self._knowledge.ipam.by_handle(id) is None:
            return False
        if self.deletion.get(id) is None:
            with self._knowledge.writing("release"):
                await self.release(id)
        return True

    async def _released(self, id: str) -> bool:
        try:
            await self.release(id)
        except IpamNotWritten as error:
            _log.warning("%s", error)
            return False
        return True

    async def release(self, id: str) -> None:
        """Frees the address of a workload, in memory and on the disk. Raises IpamNotWritten."""
        broken = self._knowledge.broken.get("ipam")
        if broken is not None:
            raise IpamNotWritten(broken)
        if self._knowledge.ipam.release(id):
            await self._commit.written()

    def _leave(self, workload: Workload, *, released: bool = False) -> None:
        self.deletion.add(workload, self.endpoint(workload), released=released)
        self._own.forget(workload.id)

    # ---- addresses without a workload

    def uses(self, handle: str) -> bool:
        """Whether there is or may soon be such a workload, or something is left of it."""
        return handle in self._standing or handle in self._one or self.deletion.get(handle) is not None

    async def release_unused(self, handle: str) -> bool:
        """Whether the address of a workload that there is not is free now."""
        async with self._one(handle):
            return handle not in self._standing and await self._released(handle)

    async def release_address(self, address: str) -> None:
        """See Agent.release_address."""
        allocation = self._knowledge.ipam.by_address(address)
        if allocation is None:
            raise AgentError(
                protocol.NOT_FOUND, f"address {address} is not allocated on this node. See `calicoctl ipam show`."
            )
        if self.uses(allocation.handle):
            raise AgentError(
                protocol.CONFLICT,
                f"address {address} belongs to workload {allocation.handle}. Delete that instead"
                f" (calicoctl workload del {allocation.handle}).",
            )
        with self._knowledge.writing("release"):
            await self.release(allocation.handle)

    # ---- look

    def attached(self, change: Change) -> bool:
        """Whether a change is about a workload that was added here and stood as it had to: it is somebody's doing, also
        when the reconciler has not seen that workload before."""
        subjects = change.subject.split(".") if change.kind == "sysctl" else [change.subject]
        return not self._attached.isdisjoint(subjects)

    def expect_changes(self) -> None:
        """The node shall have another state: what follows from that is nobody's doing."""
        self._attached.clear()

    def coming(self) -> tuple[WorkloadEndpoint, ...]:
        """Those that policy has to know before they can be reached. At any moment of the loop a workload is among these
        or those that stand, until it leaves."""
        return tuple(self.endpoint(workload) for workload in self._coming.values())

    def desired(self, state: NodeState, opened: t.Collection[str]) -> NodeState:
        """`state` with those that stand."""
        return with_workloads(state, self, opened, self._own)

    def for_policy(self, state: NodeState) -> NodeState:
        """As far as policy depends on those that stand: less to make."""
        own = beside_inventory(state, self, self._own)
        return dataclasses.replace(state, workloads=(*state.workloads, *own))

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> t.Iterator[Workload]:
        return iter(list(self._standing.values()))

    def get(self, id: str) -> t.Optional[Workload]:
        return self._standing.get(id)

    def list(self, selector: t.Optional[str] = None) -> t.List[Workload]:
        """By id. Raises AgentError for a selector that cannot be read."""
        found = [self._standing[id] for id in sorted(self._standing)]
        if selector is None:
            return found
        selects = parsed_selector(selector)
        return [workload for workload in found if selects.matches(workload.labels)]

    async def check(self, id: str, need_desired: t.Callable[[], NodeState]) -> t.List[str]:
        """See Agent.check. `need_desired` is asked when it is this one's turn."""
        async with self._one(id), self._turn.shared():
            workload = self._standing.get(id)
            if workload is None:
                raise not_found(id)
            desired = need_desired()
            problems = []
            held = () if "ipam" in self._knowledge.broken else self._knowledge.ipam.of_handle(id)
            stray = [address for address in workload.addresses if address not in {one.address for one in held}]
            if stray:
                problems.append(f"its address {', '.join(stray)} is not allocated to it")
            own = self.endpoint(workload)
            alone = dataclasses.replace(
                desired,
                workloads=(own,),
                routes=tuple(item for item in desired.routes if item.device == own.interface),
                sysctls=tuple(item for item in desired.sysctls if own.interface in item.key.split("/")),
            )
            planned = await self._plumbing.plan(alone, own)
        # What would be removed is everybody else's.
        problems += [change.line().strip() for change in planned.additions]
        return problems + [change.note for change in planned.kept if change.subject == workload_driver.identity(own)]

    def endpoint(self, workload: Workload) -> WorkloadEndpoint:
        return self._own.of(self._knowledge.state or _NO_STATE, workload)


def parsed_selector(text: str) -> selectors.Selector:
    """Return a caller's selector. Raises AgentError for one that is too long or cannot be read."""
    if len(text) > SELECTOR_LIMIT:
        raise AgentError(
            protocol.INVALID_PARAMS,
            f"workload.list: selector has {len(text)} characters, and at most {SELECTOR_LIMIT} are taken. Ask for all "
            "workloads, and select among the answer.",
            {"field": "selector"},
        )
    try:
        return selectors.parse_once(text)
    except selectors.SelectorError as error:
        shown = repr(text if len(text) <= 80 else text[:77] + "...")
        raise AgentError(protocol.INVALID_PARAMS, f"workload.list: selector {shown}: {error}") from error


def _subjects(endpoint: WorkloadEndpoint) -> set[str]:
    """Of changes: of the workload itself, its routes, its sysctls."""
    routes = {route.destination for route in endpoint_routes(endpoint)}
    return {workload_driver.identity(endpoint), endpoint.interface, *routes}


_NO_STATE = NodeState(node="", address="")


def _as_it_is(workload: Workload, attached: Attached) -> Workload:
    return dataclasses.replace(workload, mac=attached.mac, mtu=attached.mtu)


def not_found(id: str) -> AgentError:
    # What cannot be an id (AddRequest) may be anything.
    shown = id if len(id) <= 600 and id.isprintable() else repr(id if len(id) <= 80 else id[:77] + "...")
    return AgentError(protocol.NOT_FOUND, f"there is no workload {shown} on this node. See `calicoctl workload list`.")
