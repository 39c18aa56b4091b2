# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the CNI specification (1.1.0, section "Error"), and their counterparts to the agent's own errors."""

from __future__ import annotations

import typing as t

from ...wire import protocol
from ...wire.protocol import AgentError
from ..json_input import PluginError

# Error codes of the CNI specification
INCOMPATIBLE_VERSION = 1
UNSUPPORTED_FIELD = 2
INVALID_ENVIRONMENT = 4
IO_FAILURE = 5
NOT_DECODED = 6
INVALID_CONFIGURATION = 7
TRY_AGAIN = 11
UNAVAILABLE = 50
LIMITED = 51
# This plugin's own error codes: the CNI specification leaves codes from 100 to plugins. libcni uses 999 too.
FORBIDDEN = 100
KERNEL = 101
IN_THE_WAY = 102
CONFLICT = 103
CHECK_FAILED = 110
GC_INCOMPLETE = 111
INTERNAL = 999

_OF_AGENT = {
    protocol.INVALID_PARAMS: INVALID_CONFIGURATION,
    protocol.FORBIDDEN: FORBIDDEN,
    protocol.NOT_FOUND: INVALID_ENVIRONMENT,
    protocol.CONFLICT: CONFLICT,
    protocol.NO_ADDRESS: TRY_AGAIN,
    protocol.TRY_AGAIN: TRY_AGAIN,
    protocol.UNAVAILABLE: TRY_AGAIN,
    protocol.TIMEOUT: TRY_AGAIN,
    protocol.TOO_LARGE: INVALID_CONFIGURATION,
    protocol.IN_THE_WAY: IN_THE_WAY,
    protocol.NOT_WRITTEN: IO_FAILURE,
    protocol.KERNEL: KERNEL,
}


class CniError(PluginError):
    """A CNI error: `message` says what is wrong and where, `details` gives the remedy or the reasons.

    `details` may be empty.

    `code` is an error code of the CNI specification, or from 100 one of this plugin's own.
    """

    def __init__(self, code: int, message: str, details: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def to_dict(self, version: str) -> dict[str, t.Any]:
        """Return the error object of the CNI specification: `cniVersion` is `version`.

        `code`, `msg` and `details` are the error's, `details` "" if there are none.
        """
        return {"cniVersion": version, "code": self.code, "msg": self.message, "details": self.details}


def from_agent_error(error: AgentError) -> CniError:
    """Return the CniError for an error of the agent; its code is INTERNAL if the agent's code has no counterpart.

    Its message is the agent's. Invalid parameters are an error of the configuration, but an invalid `netns` is one of
    the environment: then the message names CNI_NETNS, and the agent's is in `details`.
    """
    if error.code == protocol.INVALID_PARAMS and error.data.get("field") == "netns":
        return CniError(INVALID_ENVIRONMENT, "environment variable CNI_NETNS cannot be used", str(error))
    return CniError(_OF_AGENT.get(error.code, INTERNAL), str(error))
