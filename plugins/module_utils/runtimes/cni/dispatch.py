# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One execution of the plugin: from environment and stdin to exit status and stdout."""

from __future__ import annotations

import json
import logging
import time
import traceback
import typing as t

from ...wire.protocol import AgentError
from ...wire.shim_framing import CNI
from .. import attaching
from ..attachment import Attachment
from ..deleted import DeletedWhileDown, StoredForm
from . import add, check, environment, gc, status, versions
from .configuration import Configuration, decode, version_of
from .errors import INTERNAL, TRY_AGAIN, CniError, from_agent_error
from .port import CniBackend

_LOG = logging.getLogger("calico.cni")


class Dispatcher:
    """The CNI plugin on top of an agent.

    `deleted` are the requests that shims stored while the agent was down, None for none.
    `observed(command, code, seconds)` is called for every answer; `code` is the code of the CNI error, 0 for success.
    """

    def __init__(
        self,
        agent: CniBackend,
        deleted: t.Optional[DeletedWhileDown] = None,
        log: logging.Logger = _LOG,
        observed: t.Optional[t.Callable[[str, int, float], None]] = None,
    ) -> None:
        self._agent = agent
        self._log = log
        self._observed = observed
        self._deleted = deleted

    async def handle(self, variables: t.Mapping[str, str], stdin: bytes) -> tuple[int, bytes]:
        """Run one CNI command and return (exit status, stdout): (0, JSON of a result or b""), or (1, JSON of an error).

        ADD and VERSION have a result, the other commands none. Every error becomes such an answer, and an unexpected
        one is logged. Only cancellation is raised.
        """
        began = time.perf_counter()
        error: t.Optional[CniError] = None
        output = b""
        try:
            answer = await self._answer(variables, stdin)
            output = b"" if answer is None else json.dumps(answer, separators=(",", ":")).encode() + b"\n"
        except CniError as refused:
            error = refused
        except AgentError as refused:
            error = from_agent_error(refused)
        except Exception as failure:  # noqa: BLE001
            error = self._internal(variables, failure)
        if self._observed is not None:
            code = 0 if error is None else error.code
            self._observed(variables.get("CNI_COMMAND", ""), code, time.perf_counter() - began)
        if error is None:
            return 0, output
        return 1, json.dumps(error.to_dict(version_of(stdin))).encode() + b"\n"

    def _internal(self, variables: t.Mapping[str, str], failure: Exception) -> CniError:
        """Log where an unexpected error occurred, and return the CniError (INTERNAL) for it.

        The error's own text is left out, because it may contain secrets from stdin.
        """
        where = "".join(traceback.format_tb(failure.__traceback__))
        self._log.error("CNI %s failed: %s at\n%s", variables.get("CNI_COMMAND"), type(failure).__name__, where)
        return CniError(
            INTERNAL,
            f"the agent failed ({type(failure).__name__}): this is an error in its code",
            "`journalctl -u calico-agent` says where.",
        )

    async def _answer(self, variables: t.Mapping[str, str], stdin: bytes) -> t.Optional[dict[str, t.Any]]:
        command = environment.command(variables)
        if command == "VERSION":
            asked = decode(stdin).get("cniVersion")
            spoken = asked if isinstance(asked, str) else versions.NEWEST
            return {"cniVersion": spoken, "supportedVersions": list(versions.SUPPORTED)}
        attachment = None
        if command in ("ADD", "DEL", "CHECK"):
            attachment = environment.attachment(variables, netns=command != "DEL")
        configuration = Configuration.read(stdin, command)
        if command not in ("DEL", "CHECK") and self._deleted is not None:
            await self._deleted.complete()
        if attachment is None:
            if command == "GC":
                removed = await gc.collect(self._agent, configuration)
                self._log.info(
                    "GC of %s: %s", configuration.name, f"removed {', '.join(removed)}" if removed else "nothing"
                )
            else:
                await status.status(self._agent)
        elif command == "ADD":
            self._check_deleted(configuration.name, attachment)
            return await add.add(self._agent, attachment, environment.arguments(variables), configuration)
        elif command == "DEL":
            await attaching.detach(self._agent, configuration.name, attachment)
        else:
            await check.check(self._agent, attachment, configuration)
        return None

    def _check_deleted(self, network: str, attachment: Attachment) -> None:
        """Raise CniError (TRY_AGAIN) if a stored DEL of this attachment failed just now."""
        unfinished = self._deleted.unfinished(STORED, network, attachment) if self._deleted is not None else ""
        if unfinished:
            raise CniError(
                TRY_AGAIN,
                unfinished,
                "The agent tries it again before each ADD and every 10 seconds: correct what it says, then try again.",
            )


def _stored(variables: t.Mapping[str, str], stdin: bytes) -> tuple[str, Attachment]:
    attachment = environment.attachment(variables, netns=False)
    return Configuration.read(stdin, "DEL").name, attachment


#: The DELs that the shim stored.
STORED = StoredForm(CNI, "DEL", _stored)
