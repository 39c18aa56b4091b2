# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods of the agent's API: their parameters, and for each the part of the Agent that it calls."""

from __future__ import annotations

import time
import typing as t

from ..base import release, selectors
from ..base.terminal_text import cut
from ..base.typed_json import anything, by_name, flag, maybe, number, one_of, table, text
from ..dataplane.planning.plan import NodePlan
from ..node.engine import running_engine
from ..node.store import packed_state
from ..state.node_state import NodeState
from ..wire import container_description, protocol
from ..wire.container_description import ContainerDescription
from ..wire.peer import Peer
from ..wire.protocol import AgentError
from ..wire.request import POOLS, PORTS, AddRequest, family, published_ports
from ..wire.settings import LEVELS
from .agent import Agent
from .api.calls import Method
from .concurrency.fair_share import give_way
from .log import journal
from .log.transactions import transaction
from .metrics.reports import plain
from .reconcile.passes import PassOutcome

Data = dict[str, t.Any]

API = 1
_TEXT = text(protocol.LINE_LIMIT, 1)
_NONE, _ID, _ADDRESS = table({}), table({"id": _TEXT}), table({"address": _TEXT})
_LABELS = table({"id": _TEXT, "labels": by_name(maybe(text()))})  # null removes a label
_JOIN, _PUBLISH = table({"id": _TEXT, "netns": _TEXT}), table({"id": _TEXT, "ports": PORTS})
_LIST, _LEVEL = table({}, {"selector": maybe(text(protocol.LINE_LIMIT))}), table({}, {"level": maybe(one_of(*LEVELS))})
_PLAN, _APPLY = table({}, {"state": anything}), table({}, {"state": anything, "removals": flag})
_RESERVE = table({}, {"address": maybe(text()), "pools": POOLS, "family": family})
# An empty id would select every end of a flow that is not a workload.
_DROPS = table({}, {"workload": maybe(_TEXT), "since": maybe(number()), "after": maybe(number())})
SELECTOR_LIMIT = 4096  # the most characters in a caller's selector
_CHUNK = 16  # workloads that are handled between two calls of give_way


class Methods:
    """The methods of the API.

    `table` is a mapping from the name of a method to the Method for the server, and `for_runtimes` is that of the
    server for calico-runtimes.service. `settings` is the digest of the
    settings that the agent was started with. `root` is the uid whose plans may delay adds; the plans of other callers
    wait until no workload is being added, deleted or repaired, and are refused (try_again) as `NodeChanges.look` says.
    """

    def __init__(self, agent: Agent, settings: str = "", root: int = 0) -> None:
        self._agent = agent
        self._root = root
        self._version = {
            "version": release.VERSION,
            "engine": running_engine.digest(agent.host.machine.engine) or "",
            "settings": settings,
            "api": API,
        }
        self.for_runtimes: dict[str, Method] = {
            container_description.WATCH: Method(self.watch_containers, reads=_NONE, stream=True),
            container_description.DESCRIBE: Method(self.describe, reads=container_description.READS, changes=True),
        }
        self.table: dict[str, Method] = {
            "workload.add": Method(self.add, changes=True),
            "workload.delete": Method(self.delete, reads=_ID, changes=True),
            "workload.label": Method(self.label, reads=_LABELS, changes=True),
            "workload.join": Method(self.join, reads=_JOIN, changes=True),
            "workload.publish": Method(self.publish, reads=_PUBLISH, changes=True),
            "workload.withdraw": Method(self.withdraw, reads=_ID, changes=True),
            "workload.get": Method(self.get, reads=_ID),
            "workload.list": Method(self.list, reads=_LIST),
            "workload.check": Method(self.check, reads=_ID, slow=True),
            "node.plan": Method(self.plan, reads=_PLAN, reserved=("state",), slow=True),
            "node.apply": Method(self.apply, reads=_APPLY, changes=True),
            "resync": Method(self.resync, reads=_NONE, changes=True),
            "remote_endpoints.reload": Method(self.reload_remote_endpoints, reads=_NONE, changes=True),
            "datastore.save": Method(self.save_datastore, reads=_NONE, changes=True),
            "status": Method(self.status, reads=_NONE),
            "ipam.show": Method(self.ipam_show, reads=_NONE),
            "ipam.check": Method(self.ipam_check, reads=_NONE),
            "ipam.release": Method(self.ipam_release, reads=_ADDRESS, changes=True),
            "ipam.reserve": Method(self.ipam_reserve, reads=_RESERVE, changes=True),
            "ipam.unreserve": Method(self.ipam_unreserve, reads=_ADDRESS, changes=True),
            "ipam.pools": Method(self.ipam_pools, reads=_NONE),
            "engine.started": Method(self.engine_started, reads=_NONE, changes=True),
            "policy.drops": Method(self.policy_drops, reads=_DROPS),
            "watch": Method(self.watch, reads=_NONE, stream=True),
            "version": Method(self.version, reads=_NONE),
            "log.level": Method(self.log_level, reads=_LEVEL, changes=True),
        }

    async def add(self, params: Data, peer: Peer) -> Data:
        request = AddRequest.from_params(params)
        created = self._agent.transactions.get(request.id) is None
        return {"workload": (await self._agent.transactions.add(request)).to_dict(), "created": created}

    async def delete(self, params: Data, peer: Peer) -> Data:
        return {"deleted": await self._agent.transactions.delete(params["id"])}

    async def label(self, params: Data, peer: Peer) -> Data:
        return {"workload": (await self._agent.transactions.relabel(params["id"], params["labels"])).to_dict()}

    async def join(self, params: Data, peer: Peer) -> Data:
        workload, siblings = await self._agent.transactions.join(params["id"], params["netns"])
        return {"workload": workload.to_dict(), "siblings": siblings}

    async def publish(self, params: Data, peer: Peer) -> Data:
        ports = published_ports(params["ports"], "workload.publish")
        workload = await self._agent.transactions.publish(params["id"], ports)
        return {"workload": workload.to_dict()}

    async def withdraw(self, params: Data, peer: Peer) -> Data:
        return {"withdrawn": await self._agent.transactions.withdraw(params["id"])}

    async def get(self, params: Data, peer: Peer) -> Data:
        return {"workload": self._agent.workloads.need(params["id"]).to_dict()}

    async def list(self, params: Data, peer: Peer) -> Data:
        selector = params.get("selector")
        selects = None if selector is None else _selector(selector)
        found: t.List[Data] = []
        for index, workload in enumerate(self._agent.transactions.list()):
            if selects is None or selects.matches(workload.labels):
                found.append(workload.to_dict())
            if index % _CHUNK == _CHUNK - 1:
                await give_way()
        return {"workloads": found}

    async def check(self, params: Data, peer: Peer) -> Data:
        return {"problems": await self._agent.transactions.check(params["id"])}

    async def plan(self, params: Data, peer: Peer) -> Data:
        state = _state("node.plan", params)
        plan = await (self._agent.changes.plan(state) if peer.uid == self._root else self._agent.changes.look())
        return planned(plan, self._agent.status.in_sync)

    async def apply(self, params: Data, peer: Peer) -> Data:
        state = _state("node.apply", params)
        async with transaction("node apply", state.plan if state is not None else "the state on the disk"):
            return done(await self._agent.changes.apply(state, params.get("removals", False)))

    async def resync(self, params: Data, peer: Peer) -> Data:
        return done(await self._agent.changes.resync())

    async def reload_remote_endpoints(self, params: Data, peer: Peer) -> Data:
        return done(await self._agent.changes.reload_remote_endpoints())

    async def save_datastore(self, params: Data, peer: Peer) -> Data:
        return await self._agent.datastore.save()

    async def status(self, params: Data, peer: Peer) -> Data:
        return {**self._version, **self._agent.status.to_dict()}

    async def version(self, params: Data, peer: Peer) -> Data:
        return dict(self._version)

    async def log_level(self, params: Data, peer: Peer) -> Data:
        level = params.get("level")
        before = journal.level()
        if level is not None:
            journal.set_level(level)
        return {"level": journal.level(), "before": before}

    async def ipam_show(self, params: Data, peer: Peer) -> Data:
        ipam = self._agent.persisted.ipam
        return {
            "usage": [usage._asdict() for usage in ipam.usage()],
            "allocations": [
                {**allocation._asdict(), "attributes": dict(allocation.attributes)} for allocation in ipam.allocations()
            ],
        }

    async def ipam_check(self, params: Data, peer: Peer) -> Data:
        return self._agent.addresses.check(self._agent.workloads)

    async def ipam_release(self, params: Data, peer: Peer) -> Data:
        await self._agent.transactions.release_address(params["address"])
        return {"released": True}

    async def ipam_reserve(self, params: Data, peer: Peer) -> Data:
        pools, version = params.get("pools", []), params.get("family", 4)
        return {"address": await self._agent.addresses.reserve(params.get("address"), pools, version)}

    async def ipam_unreserve(self, params: Data, peer: Peer) -> Data:
        return {"released": await self._agent.addresses.unreserve(params["address"])}

    async def ipam_pools(self, params: Data, peer: Peer) -> Data:
        state = self._agent.persisted.state
        return {
            "pools": [
                {"name": pool.name, "cidr": pool.cidr, "disabled": pool.disabled}
                for pool in (state.pools if state is not None else ())
            ]
        }

    async def engine_started(self, params: Data, peer: Peer) -> Data:
        self._agent.upkeep.unused_addresses.engine_started()
        return {}

    async def policy_drops(self, params: Data, peer: Peer) -> Data:
        log, since = self._agent.policy_log, params.get("since")
        earliest = None if since is None else time.time() - since
        entries = log.entries(params.get("workload"), earliest, params.get("after") or 0)
        return {
            "drops": [entry.to_dict() for entry in entries],
            "next": log.order,
            "group": log.group,
            "wanted_group": self._agent.persisted.nflog_group(),
            "policy": self._agent.persisted.state is not None and self._agent.persisted.state.policy is not None,
            "lost": log.lost,
            "unlisted": log.unlisted,
        }

    async def watch(self, params: Data, peer: Peer) -> t.AsyncIterator[Data]:
        async for event in self._agent.events.watch():
            yield event

    async def watch_containers(self, params: Data, peer: Peer) -> t.AsyncIterator[Data]:
        """Yield what containers have workloads, and each whose workload is added from then on."""
        async for event in self._agent.events.watch(self._agent.transactions.descriptions.known):
            if event["event"] in ("known", "overflow"):
                yield event
            elif event["event"] == "added":
                workload = event["workload"]
                docker, container = bool(workload.get("handed_over")), workload["container"]
                if docker or container:
                    yield {"event": "added", "docker": docker, "containers": [] if docker else [container]}

    async def describe(self, params: Data, peer: Peer) -> Data:
        prefixes = self._agent.transactions.descriptions.prefixes
        description = ContainerDescription.from_params(params, prefixes)
        return {"described": [one.id for one in await self._agent.transactions.describe(description)]}


def planned(plan: NodePlan, in_sync: bool) -> Data:
    """Return a plan in JSON-ready form: `changes`, `expected`, `kept`, `problems`, `underlay` and `in_sync`.

    The first three are lists of changes as `plain` returns them. The conflicts are among `changes`, and `problems`
    lists their notes. `underlay` is the device of the node's address, "" if no driver needed it. `in_sync` is True if
    the parameter, the agent's view, is True and the plan has no `changes`.
    """
    return {
        "changes": [plain(change) for change in plan.changes],
        "expected": [plain(change) for change in plan.expected],
        "kept": [plain(change) for change in plan.kept],
        "problems": [change.note for change in plan.problems],
        "underlay": plan.underlay,
        "in_sync": in_sync and not plan.changed,
    }


def done(outcome: PassOutcome) -> Data:
    """Return the outcome of a pass in JSON-ready form, with changes as `plain` returns them."""
    return {
        "changes": [plain(change) for change in outcome.changes],
        "problems": list(outcome.problems),
        "waiting": list(outcome.waiting),
        "in_sync": outcome.in_sync,
    }


def _selector(text: str) -> selectors.Selector:
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
        raise AgentError(protocol.INVALID_PARAMS, f"workload.list: selector {cut(text)!r}: {error}") from error


def _state(method: str, params: Data) -> t.Optional[NodeState]:
    state = params.get("state")
    if state is None:
        return None
    try:
        return packed_state.unpack(state)
    except ValueError as error:
        raise AgentError(
            protocol.INVALID_PARAMS,
            f"{method}: state is not one that this agent reads: {error}. Is the collection of the controller of another"
            " release than the node's engine? Run site.yml, which installs its own.",
        ) from error
