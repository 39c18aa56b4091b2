# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of netavark's plugin API, and its errors."""

from __future__ import annotations

import typing as t

from ...base.release import VERSION
from ...wire.plugin_errors import PluginError
from ...wire.protocol import AgentError
from ...wire.shim_framing import NETAVARK, netavark_error
from ..attachment import Attachment, AttachmentBackend
from ..deleted import StoredForm
from ..json_input import shown
from ..plugin import Plugin
from . import attach, network
from .fields import NetavarkError, document_of

COMMAND, NETNS = "NETAVARK_COMMAND", "NETAVARK_NETNS"
COMMANDS = ("create", "setup", "teardown", "info")
#: The version of netavark's plugin API.
API_VERSION = "1.0.0"


def _stored(variables: t.Mapping[str, str], stdin: bytes) -> Attachment:
    return attach.attachment(document_of(stdin))


class NetavarkPlugin(Plugin[AttachmentBackend]):
    """The plugin of netavark. The command teardown has no answer."""

    variable = COMMAND
    stored = StoredForm(NETAVARK, "setup", "teardown", _stored)

    def _refusal(self, error: t.Union[PluginError, AgentError], stdin: bytes) -> tuple[str, bytes]:
        return "error", netavark_error(str(error))

    async def _answer(self, command: str, variables: t.Mapping[str, str], stdin: bytes) -> t.Optional[dict[str, t.Any]]:
        if command == "info":
            return {"version": VERSION, "api_version": API_VERSION}
        if command not in COMMANDS:
            raise NetavarkError(f"the command {shown(command)} is not known", f"It is one of {', '.join(COMMANDS)}.")
        document = document_of(stdin)
        if command == "create":
            return network.create(document)
        if command == "teardown":
            await attach.teardown(self._agent, document)
            return None
        await self._complete_deleted()
        attachment = attach.attachment(document, variables.get(NETNS, ""))
        unfinished = self._unfinished(attachment)
        if unfinished is not None:
            raise NetavarkError(*unfinished)
        return await attach.setup(self._agent, attachment, document)
