# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DELs that the shim took while the agent was down: it wrote the request down, and told the runtime that all is well.

Each is a file of the shim's framing (agent/api/cni_framing.py) below /var/lib/calico/cni/deleted. A file is there
before its runtime can send the next ADD of the same container, and the dispatcher completes them before each ADD: so
an old DEL never takes a newer workload, whatever the clocks say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os

from ..api import cni_framing
from ..api.protocol import AgentError
from . import environment
from .configuration import Configuration
from .delete import delete
from .errors import CniError
from .port import CniBackend

FOLDER = "/var/lib/calico/cni/deleted"
SUFFIX = ".request"


class DeletedWhileDown:
    def __init__(self, agent: CniBackend, folder: str, log: logging.Logger) -> None:
        self._agent = agent
        self._folder = folder
        self._log = log
        self._turn = asyncio.Lock()

    async def complete(self) -> int:
        """How many were completed. One that cannot be now stays for the next time; none is ever an error."""
        if not self._waiting():
            return 0
        async with self._turn:
            done = 0
            for name in self._waiting():
                path = os.path.join(self._folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if await self._one(path):
                        os.unlink(path)
                        done += 1
            return done

    def _waiting(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if name.endswith(SUFFIX))
        except OSError:
            return []

    async def _one(self, path: str) -> bool:
        """Whether nothing more is to be done for it."""
        try:
            network, attachment = _read(path)
        except (CniError, cni_framing.CniRefusal) as error:
            # The running agent would have refused it as well: there is nothing that it could mean.
            self._log.warning("%s, a DEL from when the agent was down, says nothing and is dropped: %s", path, error)
            return True
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self._log.warning("%s, a DEL from when the agent was down, cannot be read: %s", path, error.strerror)
            return False
        who = f"{attachment.container}.{attachment.ifname} on {network}"
        try:
            found = await delete(self._agent, network, attachment)
        except AgentError as error:
            self._log.warning("The DEL of %s, from when the agent was down, waits: %s", who, error)
            return False
        self._log.info("The DEL of %s, from when the agent was down, is done%s", who, "" if found else ": it was gone")
        return True


def _read(path: str) -> tuple[str, environment.Attachment]:
    with open(path, "rb") as file:
        data = file.read()
    if not data.startswith(cni_framing.GREETING):
        raise CniError(6, "it is not in the shim's framing")
    variables, stdin = cni_framing.parse(data[len(cni_framing.GREETING) :])
    attachment = environment.attachment(variables, netns=False)
    return Configuration.read(stdin, "DEL").name, attachment
