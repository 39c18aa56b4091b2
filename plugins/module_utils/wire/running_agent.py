# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection of the node module and the boot unit to the running agent; node/write/writer.py hands states over."""

from __future__ import annotations

import typing as t

from . import protocol
from .client import AgentClient, NotRunning
from .protocol import AgentError

#: Seconds to wait for the first answer. A running agent gives it at once.
GREETING = 5.0
#: Seconds to wait for any other answer: longer than the agent's own deadline, so that its own error arrives.
_ANSWER = protocol.DEADLINE + 5.0


class AgentRefused(Exception):
    """The error for a request that the agent refused, or that failed in another way than by a missing answer."""


class RunningAgent:
    """A connection to the running agent, and what the agent says of itself.

    `engine` is the digest of the agent's engine, `settings` the digest of its agent.json; "" if the agent named none.
    """

    def __init__(self, client: AgentClient, version: t.Mapping[str, t.Any]) -> None:
        self._client = client
        self.engine: str = version.get("engine", "")
        self.settings: str = version.get("settings", "")

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]:
        """Call a method of the API other than `version` and return its result; it blocks up to 35 seconds.

        Raise TimeoutError if the agent does not answer in time or accepts no connection, or AgentRefused if it refuses,
        has ended meanwhile, or its socket may not be opened.
        """
        return _called(self._client, method, params)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def connect(path: str = protocol.SOCKET, greeting: float = GREETING) -> t.Optional[RunningAgent]:
    """Return a connection to the agent whose socket is `path`, or None if no agent answers there with the protocol.

    `greeting` is the time for the first answer in seconds. Raise TimeoutError or AgentRefused as `RunningAgent.call`
    does.
    """
    client = AgentClient(path, greeting)
    try:
        version = _called(client, "version", {})
    except NotRunning:
        return None
    client.timeout = _ANSWER
    return RunningAgent(client, version)


def _called(client: AgentClient, method: str, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Call a method and return its result. Only the method `version` raises NotRunning."""
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
