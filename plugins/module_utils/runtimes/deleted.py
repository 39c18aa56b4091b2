# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removals that a shim accepted while the agent was down: it stored the request, and reported success to the runtime.

Each is a file in the shim's framing (wire/shim_framing.py) below /var/lib/calico/cni/deleted, whichever runtime
it is of. The file exists before the runtime can attach the same container again, and plugins try to complete all files
before they attach one. An attachment whose own removal still fails then is refused. So an old removal does not delete a
newer workload, even if clocks are wrong, unless its file could not be read at first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import typing as t

from ..files import bounded
from ..wire import shim_framing
from ..wire.plugin_errors import PluginError
from ..wire.protocol import AgentError
from ..wire.shim_framing import Framing
from .attachment import Attachment, AttachmentBackend, detach

SUFFIX = ".request"
#: Seconds between two searches for stored requests.
_INTERVAL = 10.0

_log = logging.getLogger("calico.runtimes")


class StoredForm(t.NamedTuple):
    """The stored requests of one kind of plugin.

    `adds` is the runtime's word for a request to attach, `word` that for a removal. `read(environment, stdin)` returns
    the attachment of a stored request, and raises PluginError for one that the plugin would refuse.
    """

    framing: Framing
    adds: str
    word: str
    read: t.Callable[[t.Mapping[str, str], bytes], Attachment]


class DeletedWhileDown:
    """The stored removals in `folder`, in one of `forms`, to be completed by `agent`."""

    def __init__(self, agent: AttachmentBackend, folder: str, forms: t.Sequence[StoredForm]) -> None:
        self._agent = agent
        self._folder = folder
        self._forms = forms
        self._turn = asyncio.Lock()
        self._completed: set[str] = set()  # names of files whose removal was completed, and that could not be removed
        self._failed: dict[str, str] = {}  # id of a workload -> why its removal failed just now

    async def run(self) -> None:
        """Complete stored removals every 10 seconds, until cancelled. What fails is retried by the next round.

        The shim may store one just before the socket exists, and no other request may follow.
        """
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.complete()

    async def complete(self) -> int:
        """Complete the stored removals, remove their files, and return the number of files removed. Raise nothing.

        It has to be called before the socket is opened. A removal that is not valid is logged and dropped, which counts
        as completed. One that fails, or whose file cannot be read, is logged and stays for the next call. A file that
        cannot be removed is logged once: the next call retries to remove it, but not the workload, which might be a
        newer one.
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

    def unfinished(self, form: StoredForm, attachment: Attachment) -> t.Optional[tuple[str, str]]:
        """Return (what is wrong, remedy) if an older removal of this attachment failed in `complete`, else None.

        A file that cannot be read may be any container's. It holds up none, because runtimes seldom use an id again.
        """
        reason = self._failed.get(attachment.id)
        if reason is None:
            return None
        return (
            f"an older {form.word} of {attachment.ifname} of container {attachment.container} on network"
            f" {attachment.network} is not done yet: {reason}",
            f"The agent tries it again before each {form.adds} and every 10 seconds: correct what it says, then try"
            " again.",
        )

    def _remove(self, name: str) -> bool:
        """Remove the file of a completed removal and return True; False if it is gone or cannot be removed."""
        path = os.path.join(self._folder, name)
        try:
            os.unlink(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._completed.discard(name)
            elif name not in self._completed:
                self._completed.add(name)
                _log.error(
                    "%s, a removal from when the agent was down, is done, but its file cannot be removed: %s. Remove it"
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
        """Complete the removal in one file; return True if the file can be removed, False to retry or if it is gone."""
        word = "removal"
        try:
            form, request = self._read(path)
            word = form.word
            attachment = form.read(*shim_framing.parse(request))
        except PluginError as error:
            # A running agent would have refused this as well, so a retry cannot succeed.
            text = "%s, a %s from when the agent was down, says nothing and is dropped: %s"
            _log.warning(text, path, word, error)
            return True
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                text = "%s, a removal from when the agent was down, cannot be read: %s"
                _log.warning(text, path, error.strerror)
            return False
        who = f"{attachment.container}.{attachment.ifname} on {attachment.network}"
        try:
            found = await detach(self._agent, attachment)
        except AgentError as error:
            _log.warning("The %s of %s, from when the agent was down, waits: %s", word, who, error)
            self._failed[attachment.id] = str(error)
            return False
        gone = "" if found else ": it was gone"
        _log.info("The %s of %s, from when the agent was down, is done%s", word, who, gone)
        return True

    def _read(self, path: str) -> tuple[StoredForm, bytes]:
        """Return the form of a stored request and what follows its greeting."""
        try:
            data = bounded.read(path, bounded.OWN_LIMIT)
        except bounded.TooLarge as error:
            raise PluginError(str(error)) from None
        for form in self._forms:
            if data.startswith(form.framing.greeting):
                return form, data[len(form.framing.greeting) :]
        raise PluginError("it is not in the shim's framing")
