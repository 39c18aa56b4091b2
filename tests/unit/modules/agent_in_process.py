# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent of a node in the module tests, in this process: it has the test's kernel, its socket and its lock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent import Agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.server import Server
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.known.host import AgentHost
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.instruments import Instruments
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.settings import AgentSettings

from tests.unit.agent.virtual_time import inline


class AgentInProcess:
    """A running agent, as a context manager.

    `engine` and `settings` are the digests that it reports. `asked` lists its requests in order: "plan", "additions",
    "removals" or "resync"; others are not listed. With `silent` it answers `version` only after a minute.
    """

    def __init__(self, host, engine="", settings="", silent=False):
        self.machine = host.machine
        self.engine, self.settings, self.silent = engine, settings, silent
        self.asked = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._held = contextlib.ExitStack()
        self._held.enter_context(lock.held("calico-agent", 0, self.machine.writer_lock))
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *dummy):
        self.stop()

    @property
    def state(self):
        return self.agent.persisted.state

    def stop(self):
        if self._loop.is_closed():
            return
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._held.close()

    async def _start(self):
        kernel = self.machine.kernel
        self.agent = Agent(
            AgentHost(self.machine, AgentSettings(), lambda: kernel, thread=lambda name: inline),
            Instruments(Registry()),
        )
        methods = Methods(self.agent).table
        for name in ("node.plan", "node.apply", "resync"):
            methods[name] = methods[name]._replace(handler=self._counted(name, methods[name].handler))
        methods["version"] = methods["version"]._replace(handler=self._version)
        await self.agent.start()
        self._parts = [asyncio.ensure_future(part) for part in self.agent.run().values()]
        self._server = Server(self.machine.agent_socket, methods, root=os.getuid())
        await self._server.start()

    async def _stop(self):
        await self._server.stop(0)
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _counted(self, name, handler):
        async def counted(params, peer):
            what = {"node.plan": "plan", "resync": "resync"}.get(name)
            self.asked.append(what or ("removals" if params["removals"] else "additions"))
            return await handler(params, peer)

        return counted

    async def _version(self, params, peer):
        if self.silent:
            await asyncio.sleep(60)
        return {"version": "1", "engine": self.engine, "settings": self.settings, "api": 1}
