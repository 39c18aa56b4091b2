# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent for a node of the module tests: the real socket, protocol, lock and drivers, on the test's kernel.

It knows what node/writer.py asks an agent for and nothing else. `asked` is what it was asked, in order; with `silent`
it takes requests and never answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import threading

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.protocol import AgentError
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.server import Method, Server
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import node as dataplane
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import desired, lock, packed_state

_FIELDS = ("kind", "action", "subject", "before", "after", "note", "detail")


class AgentInProcess:
    def __init__(self, host, engine="", settings="", silent=False):
        self.machine = host.machine
        self.engine, self.settings, self.silent = engine, settings, silent
        self.asked = []
        self.state = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._held = contextlib.ExitStack()
        self._held.enter_context(lock.held("calico-agent", 0, self.machine.writer_lock))
        methods = {
            "version": Method(self._version),
            "node.plan": Method(self._plan),
            "node.apply": Method(self._apply, changes=True),
            "resync": Method(self._resync, changes=True),
        }
        self._server = Server(self.machine.agent_socket, methods, root=os.getuid())
        self._thread.start()
        self._run(self._server.start())
        return self

    def __exit__(self, *dummy):
        self.stop()

    def stop(self):
        if self._loop.is_closed():
            return
        self._run(self._server.stop(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._held.close()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _version(self, params, peer):
        if self.silent:
            await asyncio.sleep(60)
        return {"version": "1", "engine": self.engine, "settings": self.settings, "api": 1}

    def _planned(self, state):
        return dataplane.plan_node(self.machine.kernel, desired.of_machine(self.machine, state))

    async def _plan(self, params, peer):
        self.asked.append("plan")
        plan = self._planned(packed_state.unpack(params["state"]))
        plain = {
            name: [{field: getattr(change, field) for field in _FIELDS} for change in getattr(plan, name)]
            for name in ("changes", "expected", "kept")
        }
        return {**plain, "problems": [], "underlay": plan.underlay, "in_sync": not plan.changed}

    async def _apply(self, params, peer):
        removals = params["removals"]
        self.asked.append("removals" if removals else "additions")
        try:
            self.state = packed_state.unpack(params["state"])
        except ValueError as error:
            raise AgentError(protocol.INVALID_PARAMS, f"node.apply: {error}") from error
        return self._done(self._planned(self.state), removals)

    async def _resync(self, params, peer):
        self.asked.append("resync")
        return self._done(self._planned(self.state), True)

    def _done(self, plan, removals):
        if not removals:
            groups = [group._replace(changes=[c for c in group.changes if c.action != "-"]) for group in plan.groups]
            plan = dataclasses.replace(plan, removals=(), groups=tuple(groups))
        problems = []
        try:
            dataplane.apply_node(self.machine.kernel, plan)
        except ApplyError as error:
            problems = str(error).splitlines()
        return {"changes": [], "problems": problems, "waiting": [], "in_sync": not problems}
