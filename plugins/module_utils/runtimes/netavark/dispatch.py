# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One execution of the plugin: from its command and stdin to exit status and stdout."""

from __future__ import annotations

import json
import logging
import time
import traceback
import typing as t

from ...base.release import VERSION
from ...wire.protocol import AgentError
from ...wire.shim_framing import NETAVARK, netavark_error
from ..attaching import AttachmentBackend
from ..attachment import Attachment
from ..deleted import DeletedWhileDown, StoredForm
from ..json_input import PluginError, shown
from . import attach, network
from .fields import NetavarkError, SentFields

COMMAND, NETNS = "NETAVARK_COMMAND", "NETAVARK_NETNS"
COMMANDS = ("create", "setup", "teardown", "info")
#: The version of netavark's plugin API.
API_VERSION = "1.0.0"

_LOG = logging.getLogger("calico.netavark")


class NetavarkDispatcher:
    """The plugin of netavark on top of an agent.

    `deleted` are the requests that shims stored while the agent was down, None for none. `observed(command, outcome,
    seconds)` is called for every answer; `outcome` is "ok" or "error".
    """

    def __init__(
        self,
        agent: AttachmentBackend,
        deleted: t.Optional[DeletedWhileDown] = None,
        log: logging.Logger = _LOG,
        observed: t.Optional[t.Callable[[str, str, float], None]] = None,
    ) -> None:
        self._agent = agent
        self._deleted = deleted
        self._log = log
        self._observed = observed

    async def handle(self, variables: t.Mapping[str, str], stdin: bytes) -> tuple[int, bytes]:
        """Run one command and return (exit status, stdout): (0, JSON of an answer or b""), or (1, JSON of an error).

        Every error becomes such an answer, and an unexpected one is logged. Only cancellation is raised.
        """
        began = time.perf_counter()
        command = variables.get(COMMAND, "")
        status, output = 1, b""
        try:
            answer = await self._answer(command, variables, stdin)
            output = b"" if answer is None else json.dumps(answer, separators=(",", ":")).encode()
            status = 0
        except (PluginError, AgentError) as refused:
            output = netavark_error(str(refused))
        except Exception as failure:  # noqa: BLE001
            # The error's own text is left out, because it may contain what was on stdin.
            where = "".join(traceback.format_tb(failure.__traceback__))
            self._log.error("netavark %s failed: %s at\n%s", shown(command), type(failure).__name__, where)
            output = netavark_error(
                f"the agent failed ({type(failure).__name__}): this is an error in its code. "
                "`journalctl -u calico-agent` says where."
            )
        if self._observed is not None:
            self._observed(command, "error" if status else "ok", time.perf_counter() - began)
        return status, output + b"\n" if output else b""

    async def _answer(self, command: str, variables: t.Mapping[str, str], stdin: bytes) -> t.Optional[dict[str, t.Any]]:
        if command == "info":
            return {"version": VERSION, "api_version": API_VERSION}
        if command not in COMMANDS:
            raise NetavarkError(f"the command {shown(command)} is not known", f"It is one of {', '.join(COMMANDS)}.")
        fields = SentFields.read(stdin)
        if command == "create":
            return network.create(fields)
        if command == "teardown":
            await attach.teardown(self._agent, fields)
            return None
        if self._deleted is not None:
            await self._deleted.complete()
            self._check_deleted(self._deleted, *attach.attachment(fields))
        return await attach.setup(self._agent, fields, variables.get(NETNS, ""))

    @staticmethod
    def _check_deleted(deleted: DeletedWhileDown, name: str, attachment: Attachment) -> None:
        """Raise NetavarkError if a stored teardown of this attachment failed just now."""
        unfinished = deleted.unfinished(STORED, name, attachment)
        if unfinished:
            raise NetavarkError(
                unfinished,
                "The agent tries it again before each setup and every 10 seconds: correct that, then try again.",
            )


def _stored(variables: t.Mapping[str, str], stdin: bytes) -> tuple[str, Attachment]:
    return attach.attachment(SentFields.read(stdin))


#: The teardowns that the shim stored.
STORED = StoredForm(NETAVARK, "teardown", _stored)
