# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods of the agent's API: each checks its parameters, calls a part of the Agent and returns plain data."""

from __future__ import annotations

import time
import typing as t

from ..base import release
from ..dataplane.planning.plan import NodePlan
from ..node.engine import running_engine
from ..node.store import packed_state
from ..state.node_state import NodeState
from ..wire import protocol
from ..wire.peer import Peer
from ..wire.protocol import AgentError
from ..wire.request import AddRequest, published_ports
from ..wire.settings import LEVELS
from .agent import Agent
from .api.calls import Method
from .concurrency.fair_share import give_way
from .known.workload_table import not_found
from .log import journal
from .log.transactions import transaction
from .metrics.reports import plain
from .reconcile.passes import PassOutcome
from .workloads.check import parsed_selector

Data = dict[str, t.Any]

API = 1
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
        (id,) = _texts(params, "workload.delete", "id")
        return {"deleted": await self._agent.transactions.delete(id)}

    async def label(self, params: Data, peer: Peer) -> Data:
        method = "workload.label"
        _known(params, method, {"id", "labels"})
        (id,) = _texts({name: params[name] for name in params if name == "id"}, method, "id")
        labels = params.get("labels")
        if not isinstance(labels, dict) or not all(text is None or isinstance(text, str) for text in labels.values()):
            raise _invalid(method, "labels", labels, "must be an object whose values are texts, or null for one to go")
        return {"workload": (await self._agent.transactions.relabel(id, labels)).to_dict()}

    async def join(self, params: Data, peer: Peer) -> Data:
        id, netns = _texts(params, "workload.join", "id", "netns")
        workload, siblings = await self._agent.transactions.join(id, netns)
        return {"workload": workload.to_dict(), "siblings": siblings}

    async def publish(self, params: Data, peer: Peer) -> Data:
        method = "workload.publish"
        _known(params, method, {"id", "ports"})
        (id,) = _texts({name: params[name] for name in params if name == "id"}, method, "id")
        workload = await self._agent.transactions.publish(id, published_ports(params.get("ports"), method))
        return {"workload": workload.to_dict()}

    async def withdraw(self, params: Data, peer: Peer) -> Data:
        (id,) = _texts(params, "workload.withdraw", "id")
        return {"withdrawn": await self._agent.transactions.withdraw(id)}

    async def get(self, params: Data, peer: Peer) -> Data:
        (id,) = _texts(params, "workload.get", "id")
        workload = self._agent.transactions.get(id)
        if workload is None:
            raise not_found(id)
        return {"workload": workload.to_dict()}

    async def list(self, params: Data, peer: Peer) -> Data:
        selector = _optional(params, "workload.list", "selector", str, "a text")
        selects = None if selector is None else parsed_selector(selector)
        found: t.List[Data] = []
        for number, workload in enumerate(self._agent.transactions.list()):
            if selects is None or selects.matches(workload.labels):
                found.append(workload.to_dict())
            if number % _CHUNK == _CHUNK - 1:
                await give_way()
        return {"workloads": found}

    async def check(self, params: Data, peer: Peer) -> Data:
        (id,) = _texts(params, "workload.check", "id")
        return {"problems": await self._agent.transactions.check(id)}

    async def plan(self, params: Data, peer: Peer) -> Data:
        state = _state(params, "node.plan", {"state"})
        plan = await (self._agent.changes.plan(state) if peer.uid == self._root else self._agent.changes.look())
        return planned(plan, self._agent.status.in_sync)

    async def apply(self, params: Data, peer: Peer) -> Data:
        state = _state(params, "node.apply", {"state", "removals"})
        removals = params.get("removals", False)
        if not isinstance(removals, bool):
            raise _invalid("node.apply", "removals", removals, "must be true or false")
        async with transaction("node apply", state.plan if state is not None else "the state on the disk"):
            return done(await self._agent.changes.apply(state, removals))

    async def resync(self, params: Data, peer: Peer) -> Data:
        _known(params, "resync", set())
        return done(await self._agent.changes.resync())

    async def reload_remote_endpoints(self, params: Data, peer: Peer) -> Data:
        _known(params, "remote_endpoints.reload", set())
        return done(await self._agent.changes.reload_remote_endpoints())

    async def save_datastore(self, params: Data, peer: Peer) -> Data:
        _known(params, "datastore.save", set())
        return await self._agent.datastore.save()

    async def status(self, params: Data, peer: Peer) -> Data:
        _known(params, "status", set())
        return {**self._version, **self._agent.status.to_dict()}

    async def version(self, params: Data, peer: Peer) -> Data:
        _known(params, "version", set())
        return dict(self._version)

    async def log_level(self, params: Data, peer: Peer) -> Data:
        level = _optional(params, "log.level", "level", str, "a text")
        before = journal.level()
        if level is not None:
            if level not in LEVELS:
                raise _invalid("log.level", "level", level, f"must be one of {', '.join(LEVELS)}")
            journal.set_level(level)
        return {"level": journal.level(), "before": before}

    async def ipam_show(self, params: Data, peer: Peer) -> Data:
        _known(params, "ipam.show", set())
        ipam = self._agent.persisted.ipam
        return {
            "usage": [usage._asdict() for usage in ipam.usage()],
            "allocations": [
                {**allocation._asdict(), "attributes": dict(allocation.attributes)} for allocation in ipam.allocations()
            ],
        }

    async def ipam_check(self, params: Data, peer: Peer) -> Data:
        _known(params, "ipam.check", set())
        return self._agent.addresses.check(self._agent.workloads)

    async def ipam_release(self, params: Data, peer: Peer) -> Data:
        (address,) = _texts(params, "ipam.release", "address")
        await self._agent.transactions.release_address(address)
        return {"released": True}

    async def ipam_reserve(self, params: Data, peer: Peer) -> Data:
        method = "ipam.reserve"
        _known(params, method, {"address", "family", "pools"})
        address, pools, family = params.get("address"), params.get("pools", []), params.get("family", 4)
        if address is not None and not isinstance(address, str):
            raise _invalid(method, "address", address, "must be a text")
        if not isinstance(pools, list) or not all(isinstance(pool, str) and pool for pool in pools):
            raise _invalid(method, "pools", pools, "must be a list of names or CIDRs of IP pools")
        if isinstance(family, bool) or family not in (4, 6):
            raise _invalid(method, "family", family, "must be 4 or 6")
        return {"address": await self._agent.addresses.reserve(address, pools, family)}

    async def ipam_unreserve(self, params: Data, peer: Peer) -> Data:
        (address,) = _texts(params, "ipam.unreserve", "address")
        return {"released": await self._agent.addresses.unreserve(address)}

    async def ipam_pools(self, params: Data, peer: Peer) -> Data:
        _known(params, "ipam.pools", set())
        state = self._agent.persisted.state
        return {
            "pools": [
                {"name": pool.name, "cidr": pool.cidr, "disabled": pool.disabled}
                for pool in (state.pools if state is not None else ())
            ]
        }

    async def engine_started(self, params: Data, peer: Peer) -> Data:
        _known(params, "engine.started", set())
        self._agent.upkeep.unused_addresses.engine_started()
        return {}

    async def policy_drops(self, params: Data, peer: Peer) -> Data:
        _known(params, "policy.drops", {"workload", "since", "after"})
        workload, since, after = (params.get(name) for name in ("workload", "since", "after"))
        if workload is not None and (not isinstance(workload, str) or not workload):
            # An empty id would mean every end that is no workload.
            raise _invalid("policy.drops", "workload", workload, "must be the id of a workload")
        for name in ("since", "after"):
            value = params.get(name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
            if value is not None and not number:
                raise _invalid("policy.drops", name, value, "must be a number that is not negative")
        log = self._agent.policy_log
        earliest = None if since is None else time.time() - since
        return {
            "drops": [entry.to_dict() for entry in log.entries(workload, earliest, after or 0)],
            "next": log.order,
            "group": log.group,
            "wanted_group": self._agent.persisted.nflog_group(),
            "policy": self._agent.persisted.state is not None and self._agent.persisted.state.policy is not None,
            "lost": log.lost,
            "unlisted": log.unlisted,
        }

    async def watch(self, params: Data, peer: Peer) -> t.AsyncIterator[Data]:
        _known(params, "watch", set())
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


def _state(params: Data, method: str, known: set[str]) -> t.Optional[NodeState]:
    _known(params, method, known)
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


def _known(params: Data, method: str, known: t.Collection[str]) -> None:
    for name in params:
        if name not in known:
            takes = f"It takes: {', '.join(sorted(known))}." if known else "It takes none."
            raise AgentError(protocol.INVALID_PARAMS, f"{method} has no parameter {name[:60]!r}. {takes}")


def _texts(params: Data, method: str, *names: str) -> t.List[str]:
    _known(params, method, names)
    for name in names:
        if not isinstance(params.get(name), str) or not params[name]:
            raise _invalid(method, name, params.get(name), "must be a text")
    return [params[name] for name in names]


def _optional(params: Data, method: str, name: str, kind: type, words: str) -> t.Any:
    _known(params, method, {name})
    value = params.get(name)
    if value is not None and not isinstance(value, kind):
        raise _invalid(method, name, value, f"must be {words}")
    return value


def _invalid(method: str, name: str, value: object, rule: str) -> AgentError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return AgentError(protocol.INVALID_PARAMS, f"{method}: {name} {shown} {rule}.", {"field": name})
