# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One execution of the plugin: environment and stdin in, exit status and stdout out."""

from __future__ import annotations

import json
import logging
import traceback
import typing as t

from ..protocol import AgentError
from . import add, check, delete, environment, gc, status, versions
from .configuration import Configuration, decode, version_of
from .deleted import FOLDER, DeletedWhileDown
from .errors import INTERNAL, CniError, of_agent
from .port import Agent

_LOG = logging.getLogger("calico.cni")


async def handle(agent: Agent, variables: t.Mapping[str, str], stdin: bytes) -> tuple[int, bytes]:
    """(0, a result or nothing) or (1, an error), each as the specification has it. Raises nothing else."""
    return await Dispatcher(agent, deleted=None).handle(variables, stdin)


class Dispatcher:
    """`deleted` is the folder of DELs that the shim took while the agent was down; None: there is none."""

    def __init__(self, agent: Agent, deleted: t.Optional[str] = FOLDER, log: logging.Logger = _LOG) -> None:
        self._agent = agent
        self._log = log
        self._deleted = DeletedWhileDown(agent, deleted, log) if deleted else None

    async def complete_deletions(self) -> int:
        """Completes what the shim took while the agent was down; how many. To be called before the socket is opened,
        and now and then: the shim may have found no socket a moment before there was one."""
        return await self._deleted.complete() if self._deleted else 0

    async def handle(self, variables: t.Mapping[str, str], stdin: bytes) -> tuple[int, bytes]:
        """As the function."""
        try:
            answer = await self._answer(variables, stdin)
        except CniError as error:
            return _failed(error, stdin)
        except AgentError as error:
            return _failed(of_agent(error), stdin)
        except Exception as error:  # noqa: BLE001
            # Where, but not what: its text may hold what was on stdin.
            where = "".join(traceback.format_tb(error.__traceback__))
            self._log.error("CNI %s failed: %s at\n%s", variables.get("CNI_COMMAND"), type(error).__name__, where)
            return _failed(
                CniError(
                    INTERNAL,
                    f"the agent failed ({type(error).__name__}): this is an error in its code",
                    "`journalctl -u calico-agent` says where.",
                ),
                stdin,
            )
        return 0, b"" if answer is None else json.dumps(answer, separators=(",", ":")).encode() + b"\n"

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
        if command not in ("DEL", "CHECK"):
            await self.complete_deletions()
        if attachment is None:
            if command == "GC":
                removed = await gc.collect(self._agent, configuration)
                self._log.info(
                    "GC of %s: %s", configuration.name, f"removed {', '.join(removed)}" if removed else "nothing"
                )
            else:
                await status.status(self._agent)
        elif command == "ADD":
            return await add.add(self._agent, attachment, environment.arguments(variables), configuration)
        elif command == "DEL":
            await delete.delete(self._agent, configuration.name, attachment)
        else:
            await check.check(self._agent, attachment, configuration)
        return None


def _failed(error: CniError, stdin: bytes) -> tuple[int, bytes]:
    return 1, json.dumps(error.to_dict(version_of(stdin))).encode() + b"\n"
