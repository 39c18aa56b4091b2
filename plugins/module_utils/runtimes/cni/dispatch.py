# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of CNI, and its errors."""

from __future__ import annotations

import json
import typing as t

from ...wire.plugin_errors import TRY_AGAIN, CniError, PluginError, from_error
from ...wire.protocol import AgentError
from ...wire.shim_framing import CNI
from ..attachment import Attachment, detach
from ..deleted import StoredForm
from ..plugin import Plugin
from . import add, check, environment, gc, status, versions
from .configuration import Configuration, decode, version_of
from .port import CniBackend


def _stored(variables: t.Mapping[str, str], stdin: bytes) -> Attachment:
    return environment.attachment(variables, Configuration.read(stdin, "DEL").name, netns=False)


class CniPlugin(Plugin[CniBackend]):
    """The CNI plugin. ADD and VERSION have a result, the other commands none."""

    variable = "CNI_COMMAND"
    stored = StoredForm(CNI, "ADD", "DEL", _stored)

    def _refusal(self, error: t.Union[PluginError, AgentError], stdin: bytes) -> tuple[str, bytes]:
        refused = from_error(error)
        return str(refused.code), json.dumps(refused.to_dict(version_of(stdin))).encode()

    async def _answer(self, command: str, variables: t.Mapping[str, str], stdin: bytes) -> t.Optional[dict[str, t.Any]]:
        environment.check_command(command)
        if command == "VERSION":
            asked = decode(stdin).get("cniVersion")
            spoken = asked if isinstance(asked, str) else versions.NEWEST
            return {"cniVersion": spoken, "supportedVersions": list(versions.SUPPORTED)}
        configuration = Configuration.read(stdin, command)
        if command == "GC":
            await self._complete_deleted()
            removed = await gc.collect(self._agent, configuration)
            self._log.info(
                "GC of %s: %s", configuration.name, f"removed {', '.join(removed)}" if removed else "nothing"
            )
            return None
        if command == "STATUS":
            await self._complete_deleted()
            await status.status(self._agent)
            return None
        attachment = environment.attachment(variables, configuration.name, netns=command != "DEL")
        if command == "ADD":
            await self._complete_deleted()
            unfinished = self._unfinished(attachment)
            if unfinished is not None:
                raise CniError(TRY_AGAIN, *unfinished)
            return await add.add(self._agent, attachment, environment.arguments(variables), configuration)
        if command == "DEL":
            await detach(self._agent, attachment)
        else:
            await check.check(self._agent, attachment, configuration)
        return None
