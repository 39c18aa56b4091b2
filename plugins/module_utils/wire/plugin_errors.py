# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of runtimes' plugins: texts, with the codes of the CNI specification (1.1.0, section "Error")."""

from __future__ import annotations

import typing as t

from . import protocol
from .protocol import AgentError

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


class PluginError(Exception):
    """The error of a plugin: `what` says what is wrong and where, `remedy` how to go on; it may be empty."""

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(" ".join(text if text.endswith(".") else f"{text}." for text in (what, remedy) if text))


class CniError(PluginError):
    """An error with a `code` of CNI or, from 100, of the plugin. Runtimes without CNI get its texts alone."""

    def __init__(self, code: int, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.code = code

    def to_dict(self, version: str) -> dict[str, t.Any]:
        """Return the error object of the CNI specification: `msg` is what is wrong, and `details` the remedy."""
        return {"cniVersion": version, "code": self.code, "msg": self.what, "details": self.remedy}


def from_error(error: t.Union[PluginError, AgentError]) -> CniError:
    """Return the CniError for an error; its code is INTERNAL if it has no counterpart.

    An error of the agent keeps its message. Invalid parameters are an error of the configuration, but an invalid
    `netns` is one of the environment, about CNI_NETNS.
    """
    if isinstance(error, PluginError):
        return error if isinstance(error, CniError) else CniError(INTERNAL, error.what, error.remedy)
    if error.code == protocol.INVALID_PARAMS and error.data.get("field") == "netns":
        return CniError(INVALID_ENVIRONMENT, "environment variable CNI_NETNS cannot be used", str(error))
    return CniError(_OF_AGENT.get(error.code, INTERNAL), str(error))
