# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent with answers that a test defines, through the real server, at a socket of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Method
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.server import Server
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

METHODS = (
    "version", "status", "resync", "node.plan", "workload.add", "workload.delete", "workload.get", "workload.list",
    "workload.check", "workload.label", "ipam.show", "ipam.check", "ipam.release", "policy.drops", "log.level",
)  # fmt: skip


class FakeAgent:
    """A fake agent.

    `answers` maps a method to its result, to an AgentError, or to a function of its parameters. `asked` holds the calls
    as (method, parameters). Only `version` has an answer from the start. A method of METHODS without an answer is a
    fault of the server: the client gets the code `internal`.
    """

    def __init__(self, path: str) -> None:
        self.answers: dict[str, t.Any] = {"version": {"version": "0.2.0", "engine": "6cd0c2f4b9f3a1d8", "api": 1}}
        self.asked: list[tuple[str, dict[str, t.Any]]] = []
        self._loop = asyncio.new_event_loop()
        self._server = Server(path, {name: Method(self._handler(name)) for name in METHODS}, root=os.getuid())
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._server.start())

    def _handler(self, name: str) -> t.Any:
        async def handle(params: dict[str, t.Any], dummy: Peer) -> dict[str, t.Any]:
            self.asked.append((name, params))
            answer = self.answers[name]
            if callable(answer):
                answer = answer(params)
            if isinstance(answer, AgentError):
                raise answer
            return t.cast("dict[str, t.Any]", answer)

        return handle

    def _do(self, coroutine: t.Coroutine[t.Any, t.Any, t.Any]) -> t.Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def close(self) -> None:
        self._do(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
