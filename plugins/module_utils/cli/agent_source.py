# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's agent as a source of what commands print."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..wire.client import AgentClient, NotRunning
from ..wire.protocol import AgentError
from .errors import CommandError

Data = dict[str, t.Any]

#: The most seconds to wait for an agent to be in sync, or to report problems.
PATIENCE = 3.0
_STEP = 0.1


class AgentSource:
    """One command's connection to the agent at a socket.

    `warn` is called with sentences that the user should see besides the output. Methods raise CommandError: the agent
    does not run, refuses or does not answer within 30 seconds, or its socket may not be opened.
    """

    def __init__(self, socket: str, warn: t.Callable[[str], None]) -> None:
        self._socket = socket
        self._warn = warn
        self._client = AgentClient(socket)
        self._warned = False

    def close(self) -> None:
        self._client.close()

    def ask(self, method: str, **params: t.Any) -> Data:
        """Return the agent's result for `method`."""
        return self.ask_for(0, method, **params)

    def ask_for(self, seconds: int, method: str, **params: t.Any) -> Data:
        """Return the agent's result for `method`. Retry while no agent answers, for at most `seconds` seconds.

        The method must be safe to call twice, because an agent may end after its work and before its answer.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._client.call(method, **params)
            except AgentError as error:
                if not isinstance(error, NotRunning) or time.monotonic() >= deadline:
                    raise CommandError(error.message) from error
            time.sleep(_STEP)

    def ask_if_running(self, method: str, **params: t.Any) -> t.Optional[Data]:
        """Return the agent's result for `method`, or None if no agent runs, with one warning per command."""
        try:
            return self._client.call(method, **params)
        except NotRunning:
            if not self._warned:
                self._warned = True
                self._warn(
                    f"the agent does not run (nobody listens at {self._socket}); this is what the node has on its disk."
                )
            return None
        except AgentError as error:
            raise CommandError(error.message) from error

    def status(self) -> Data:
        """Return the agent's status. Wait at most PATIENCE (3) seconds until it is in sync or reports problems.

        It may be out of sync in the result. The agent is out of sync for a moment whenever a workload comes or goes:
        only a longer time is worth reporting.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.ask("status")
            if found["in_sync"] or found["problems"] or time.monotonic() >= deadline:
                return found
            time.sleep(_STEP)

    def runs(self) -> bool:
        with contextlib.suppress(AgentError):
            self._client.call("version")
            return True
        return False
