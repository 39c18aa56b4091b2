# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods of the agent's API: each checks its parameters, calls a part of the Agent and returns plain data."""

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
from ..wire import protocol
from ..wire.peer import Peer
from ..wire.protocol import AgentError
from ..wire.request import POOLS, PORTS, AddRequest, family, published_ports, read_params
from ..wire.settings import LEVELS
from .agent import Agent
from .api.calls import Method
from .concurrency.fair_share import give_way
from .known.workload_table import not_found
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

    `table` is a mapping from the name of a method to the Method for the server. `settings` is the digest of the
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
        self.table: dict[str, Method] = {
            "workload.add": Method(self.add, changes=True),
            "workload.delete": Method(self.delete, changes=True),
            "workload.label": Method(self.label, changes=True),
            "workload.join": Method(self.join, changes=True),
            "workload.publish": Method(self.publish, changes=True),
            "workload.withdraw": Method(self.withdraw, changes=True),
            "workload.get": Method(self.get),
            "workload.list": Method(self.list),
            "workload.check": Method(self.check, slow=True),
            "node.plan": Method(self.plan, reserved=("state",), slow=True),
            "node.apply": Method(self.apply, changes=True),
            "resync": Method(self.resync, changes=True),
            "remote_endpoints.reload": Method(self.reload_remote_endpoints, changes=True),
            "datastore.save": Method(self.save_datastore, changes=True),
            "status": Method(self.status),
            "ipam.show": Method(self.ipam_show),
            "ipam.check": Method(self.ipam_check),
            "ipam.release": Method(self.ipam_release, changes=True),
            "ipam.reserve": Method(self.ipam_reserve, changes=True),
            "ipam.unreserve": Method(self.ipam_unreserve, changes=True),
            "ipam.pools": Method(self.ipam_pools),
            "engine.started": Method(self.engine_started, changes=True),
            "policy.drops": Method(self.policy_drops),
            "watch": Method(self.watch, stream=True),
            "version": Method(self.version),
            "log.level": Method(self.log_level, changes=True),
        }

    async def add(self, params: Data, peer: Peer) -> Data:
        request = AddRequest.from_params(params)
        created = self._agent.transactions.get(request.id) is None
        return {"workload": (await self._agent.transactions.add(request)).to_dict(), "created": created}

    async def delete(self, params: Data, peer: Peer) -> Data:
        id = read_params("workload.delete", _ID, params)["id"]
        return {"deleted": await self._agent.transactions.delete(id)}

    async def label(self, params: Data, peer: Peer) -> Data:
        read = read_params("workload.label", _LABELS, params)
        return {"workload": (await self._agent.transactions.relabel(read["id"], read["labels"])).to_dict()}

    async def join(self, params: Data, peer: Peer) -> Data:
        read = read_params("workload.join", _JOIN, params)
        workload, siblings = await self._agent.transactions.join(read["id"], read["netns"])
        return {"workload": workload.to_dict(), "siblings": siblings}

    async def publish(self, params: Data, peer: Peer) -> Data:
        method = "workload.publish"
        read = read_params(method, _PUBLISH, params)
        workload = await self._agent.transactions.publish(read["id"], published_ports(read["ports"], method))
        return {"workload": workload.to_dict()}

    async def withdraw(self, params: Data, peer: Peer) -> Data:
        id = read_params("workload.withdraw", _ID, params)["id"]
        return {"withdrawn": await self._agent.transactions.withdraw(id)}

    async def get(self, params: Data, peer: Peer) -> Data:
        id = read_params("workload.get", _ID, params)["id"]
        workload = self._agent.transactions.get(id)
        if workload is None:
            raise not_found(id)
        return {"workload": workload.to_dict()}

    async def list(self, params: Data, peer: Peer) -> Data:
        selector = read_params("workload.list", _LIST, params).get("selector")
        selects = None if selector is None else _selector(selector)
        found: t.List[Data] = []
        for index, workload in enumerate(self._agent.transactions.list()):
            if selects is None or selects.matches(workload.labels):
                found.append(workload.to_dict())
            if index % _CHUNK == _CHUNK - 1:
                await give_way()
        return {"workloads": found}

    async def check(self, params: Data, peer: Peer) -> Data:
        id = read_params("workload.check", _ID, params)["id"]
        return {"problems": await self._agent.transactions.check(id)}

    async def plan(self, params: Data, peer: Peer) -> Data:
        state = _state("node.plan", read_params("node.plan", _PLAN, params))
        plan = await (self._agent.changes.plan(state) if peer.uid == self._root else self._agent.changes.look())
        return planned(plan, self._agent.status.in_sync)

    async def apply(self, params: Data, peer: Peer) -> Data:
        found = read_params("node.apply", _APPLY, params)
        state = _state("node.apply", found)
        async with transaction("node apply", state.plan if state is not None else "the state on the disk"):
            return done(await self._agent.changes.apply(state, found.get("removals", False)))

    async def resync(self, params: Data, peer: Peer) -> Data:
        read_params("resync", _NONE, params)
        return done(await self._agent.changes.resync())

    async def reload_remote_endpoints(self, params: Data, peer: Peer) -> Data:
        read_params("remote_endpoints.reload", _NONE, params)
        return done(await self._agent.changes.reload_remote_endpoints())

    async def save_datastore(self, params: Data, peer: Peer) -> Data:
        read_params("datastore.save", _NONE, params)
        return await self._agent.datastore.save()

    async def status(self, params: Data, peer: Peer) -> Data:
        read_params("status", _NONE, params)
        return {**self._version, **self._agent.status.to_dict()}

    async def version(self, params: Data, peer: Peer) -> Data:
        read_params("version", _NONE, params)
        return dict(self._version)

    async def log_level(self, params: Data, peer: Peer) -> Data:
        level = read_params("log.level", _LEVEL, params).get("level")
        before = journal.level()
        if level is not None:
            journal.set_level(level)
        return {"level": journal.level(), "before": before}

    async def ipam_show(self, params: Data, peer: Peer) -> Data:
        read_params("ipam.show", _NONE, params)
        ipam = self._agent.persisted.ipam
        return {
            "usage": [usage._asdict() for usage in ipam.usage()],
            "allocations": [
                {**allocation._asdict(), "attributes": dict(allocation.attributes)} for allocation in ipam.allocations()
            ],
        }

    async def ipam_check(self, params: Data, peer: Peer) -> Data:
        read_params("ipam.check", _NONE, params)
        return self._agent.addresses.check(self._agent.workloads)

    async def ipam_release(self, params: Data, peer: Peer) -> Data:
        address = read_params("ipam.release", _ADDRESS, params)["address"]
        await self._agent.transactions.release_address(address)
        return {"released": True}

    async def ipam_reserve(self, params: Data, peer: Peer) -> Data:
        found = read_params("ipam.reserve", _RESERVE, params)
        pools, version = found.get("pools", []), found.get("family", 4)
        return {"address": await self._agent.addresses.reserve(found.get("address"), pools, version)}

    async def ipam_unreserve(self, params: Data, peer: Peer) -> Data:
        address = read_params("ipam.unreserve", _ADDRESS, params)["address"]
        return {"released": await self._agent.addresses.unreserve(address)}

    async def ipam_pools(self, params: Data, peer: Peer) -> Data:
        read_params("ipam.pools", _NONE, params)
        state = self._agent.persisted.state
        return {
            "pools": [
                {"name": pool.name, "cidr": pool.cidr, "disabled": pool.disabled}
                for pool in (state.pools if state is not None else ())
            ]
        }

    async def engine_started(self, params: Data, peer: Peer) -> Data:
        read_params("engine.started", _NONE, params)
        self._agent.upkeep.unused_addresses.engine_started()
        return {}

    async def policy_drops(self, params: Data, peer: Peer) -> Data:
        found = read_params("policy.drops", _DROPS, params)
        log, since = self._agent.policy_log, found.get("since")
        earliest = None if since is None else time.time() - since
        entries = log.entries(found.get("workload"), earliest, found.get("after") or 0)
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
        read_params("watch", _NONE, params)
        async for event in self._agent.events.watch():
            yield event


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
