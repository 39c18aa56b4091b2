# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DELs that the shim accepted while the agent was down: it stored the request, and reported success to the runtime.

Each is a file in the shim's framing (agent/api/cni_framing.py) below /var/lib/calico/cni/deleted. The file exists
before the runtime can send the next ADD of the same container, and the dispatcher tries to complete all files before
each ADD. An ADD whose own DEL still fails then is refused. So an old DEL does not delete a newer workload, even if
clocks are wrong, unless its file could not be read at first.
"""

from __future__ import annotations

import asyncio
import logging
import os

from ..api import cni_framing
from ..api.protocol import AgentError
from . import environment, identity
from .configuration import Configuration
from .delete import delete
from .errors import TRY_AGAIN, CniError
from .port import CniBackend

FOLDER = "/var/lib/calico/cni/deleted"
SUFFIX = ".request"


class DeletedWhileDown:
    """The stored DELs in `folder`, to be completed by `agent`."""

    def __init__(self, agent: CniBackend, folder: str, log: logging.Logger) -> None:
        self._agent = agent
        self._folder = folder
        self._log = log
        self._turn = asyncio.Lock()
        self._completed: set[str] = set()  # names of files whose DEL was completed, and that could not be removed
        self._failed: dict[str, str] = {}  # id of a workload whose DEL failed in the last call of `complete` -> reason

    async def complete(self) -> int:
        """Complete the stored DELs, remove their files, and return the number of files removed.

        A DEL that is not valid is logged and dropped, which counts as completed. One that fails, or whose file cannot
        be read, is logged and stays for the next call. A file that cannot be removed is logged once: the next call
        retries its removal, but not its DEL, which might delete a newer workload. A folder that is missing or cannot be
        read counts as empty.
        """
        if not self._waiting():
            self._failed.clear()
            return 0
        async with self._turn:
            done = 0
            self._failed.clear()
            for name in self._waiting():
                if name in self._completed or await self._one(os.path.join(self._folder, name)):
                    done += self._remove(name)
            return done

    def check(self, network: str, attachment: environment.Attachment) -> None:
        """Raise CniError (TRY_AGAIN) if a DEL of this attachment failed in the last call of `complete`.

        A file that cannot be read may be any container's. It holds up none, because runtimes seldom use an id again.
        """
        reason = self._failed.get(identity.workload_id(network, attachment.container, attachment.ifname))
        if reason is not None:
            raise CniError(
                TRY_AGAIN,
                f"an older DEL of {attachment.ifname} of container {attachment.container} on network {network} is not"
                f" done yet: {reason}",
                "The agent tries it again before each ADD and every 10 seconds: correct what it says, then try again.",
            )

    def _remove(self, name: str) -> bool:
        """Remove the file of a completed DEL and return True, or return False if it is gone or cannot be removed.

        The first failure of each file is logged.
        """
        path = os.path.join(self._folder, name)
        try:
            os.unlink(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._completed.discard(name)
            elif name not in self._completed:
                self._completed.add(name)
                self._log.error(
                    "%s, a DEL from when the agent was down, is done, but its file cannot be removed: %s. Remove it"
                    " before the agent starts again.",
                    path,
                    error.strerror,
                )
            return False
        self._completed.discard(name)
        return True

    def _waiting(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if name.endswith(SUFFIX))
        except OSError:
            return []

    async def _one(self, path: str) -> bool:
        """Complete the DEL in one file; return True if the file can be removed, False if the DEL is to be retried.

        Return False for a missing file as well. A DEL that is not valid needs no retry. One that the agent refuses is
        noted for `check`. Problems are logged, not raised.
        """
        try:
            network, attachment = _read(path)
        except (CniError, cni_framing.CniRefusal) as error:
            # A running agent would have refused this DEL as well, so a retry cannot succeed.
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
            self._failed[identity.workload_id(network, attachment.container, attachment.ifname)] = str(error)
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
