# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as the node module and the boot unit see it: what node/store/writer.py hands the node's state over to."""

from __future__ import annotations

import typing as t

from ..node.machine import AgentRefused
from .api import protocol
from .api.client import Client, NotRunning
from .api.protocol import AgentError

#: Seconds for the first word. An agent that runs says it at once.
GREETING = 5.0
#: Longer than the agent itself takes for any answer, so that what it has to say is heard.
_ANSWER = protocol.DEADLINE + 5.0


class Connection:
    """See node.machine.Agent."""

    def __init__(self, client: Client, version: t.Mapping[str, t.Any]) -> None:
        self._client = client
        self.engine: str = version.get("engine", "")
        self.settings: str = version.get("settings", "")

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]:
        return _called(self._client, method, params)

    def close(self) -> None:
        self._client.close()


def connect(path: str = protocol.SOCKET, greeting: float = GREETING) -> t.Optional[Connection]:
    """Return a connection to the agent at `path`, None if nothing listens there.

    `greeting` is the seconds for its first answer. Raises TimeoutError where none came in time, or AgentRefused.
    """
    client = Client(path, greeting)
    try:
        version = _called(client, "version", {})
    except NotRunning:
        return None
    client.timeout = _ANSWER
    return Connection(client, version)


def _called(client: Client, method: str, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    try:
        return client.call(method, **params)
    except NotRunning:
        if method == "version":
            raise
        raise AgentRefused(
            f"The agent ended while it was asked for {method}. Run again: what was begun is completed then."
        ) from None
    except AgentError as error:
        if error.code == protocol.TIMEOUT:
            raise TimeoutError(str(error)) from error
        raise AgentRefused(str(error)) from error
