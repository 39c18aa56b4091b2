# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One execution of a plugin: from environment and stdin to exit status and stdout."""

from __future__ import annotations

import json
import logging
import time
import traceback
import typing as t

from ..wire.plugin_errors import PluginError
from ..wire.protocol import AgentError
from .attachment import Attachment, AttachmentBackend
from .deleted import DeletedWhileDown, StoredForm
from .json_input import shown

_Backend = t.TypeVar("_Backend", bound=AttachmentBackend)


class Plugin(t.Generic[_Backend]):
    """The plugin of one kind of runtime on top of an agent.

    `deleted` are the requests that shims stored while the agent was down, None for none. `observed(command, outcome,
    seconds)` is called for every answer; `outcome` is "ok", or for an error what `_refusal` returns.
    """

    #: The variable that has the command.
    variable: str
    #: The removals that the shim stored.
    stored: StoredForm

    def __init__(
        self,
        agent: _Backend,
        deleted: t.Optional[DeletedWhileDown] = None,
        observed: t.Callable[[str, str, float], None] = lambda command, outcome, seconds: None,
    ) -> None:
        self._agent = agent
        self._deleted = deleted
        self._log = logging.getLogger(f"calico.{self.stored.framing.name.lower()}")
        self._observed = observed

    async def handle(self, variables: t.Mapping[str, str], stdin: bytes) -> tuple[int, bytes]:
        """Run one command and return (exit status, stdout): (0, JSON of an answer or b""), or (1, JSON of an error).

        Every error becomes such an answer, and an unexpected one is logged. Only cancellation is raised.
        """
        began = time.perf_counter()
        command = variables.get(self.variable, "")
        error: t.Union[PluginError, AgentError, None] = None
        outcome, output = "ok", b""
        try:
            answer = await self._answer(command, variables, stdin)
            output = b"" if answer is None else json.dumps(answer, separators=(",", ":")).encode() + b"\n"
        except (PluginError, AgentError) as refused:
            error = refused
        except Exception as failure:  # noqa: BLE001
            # The error's own text is left out, because it may contain secrets from stdin.
            what, where = type(failure).__name__, "".join(traceback.format_tb(failure.__traceback__))
            self._log.error("%s %s failed: %s at\n%s", self.stored.framing.name, shown(command), what, where)
            error = PluginError(
                f"the agent failed ({what}): this is an error in its code", "`journalctl -u calico-agent` says where."
            )
        if error is not None:
            outcome, output = self._refusal(error, stdin)
            output += b"\n"
        self._observed(command, outcome, time.perf_counter() - began)
        return 0 if error is None else 1, output

    async def _answer(self, command: str, variables: t.Mapping[str, str], stdin: bytes) -> t.Optional[dict[str, t.Any]]:
        """Run one command and return its answer, None for none. Any error may be raised."""
        raise NotImplementedError

    def _refusal(self, error: t.Union[PluginError, AgentError], stdin: bytes) -> tuple[str, bytes]:
        """Return the outcome of an error for `observed`, and the error as the runtime reads it."""
        raise NotImplementedError

    async def _complete_deleted(self) -> None:
        if self._deleted is not None:
            await self._deleted.complete()

    def _unfinished(self, attachment: Attachment) -> t.Optional[tuple[str, str]]:
        """Return (what is wrong, remedy) if a stored removal of this attachment failed just now, else None."""
        return self._deleted.unfinished(self.stored, attachment) if self._deleted is not None else None
