# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The framing of CNI requests on the agent's socket, simple enough for a shell script.

    > CNI 1
    > CNI_COMMAND=ADD            the environment, NAME=value per line
    > CNI_CONTAINERID=...
    >                            an empty line
    > {"cniVersion": ...}        the plugin's stdin, until the shim shuts down its side
    < 0                          the exit status, 0 or 1
    < {"cniVersion": ...}        what the plugin prints, until the agent closes

Errors are those of the CNI specification (1.1.0, section "Error"), never the API's own. The module is pure.
"""

from __future__ import annotations

import json
import re

#: The first line of a connection in this framing. Another version of the framing has another number.
GREETING = b"CNI 1\n"
PREFIX = b"CNI "

# Error codes of the CNI specification. Codes from 100 are the plugin's own; libcni uses 999 for an internal error.
INVALID_ENVIRONMENT = 4
NOT_DECODED = 6
TRY_AGAIN = 11
FORBIDDEN = 100
INTERNAL = 999

_VERSION = "1.1.0"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=.*", re.DOTALL)


class CniRefusal(Exception):
    """The refusal of a CNI request by the API, instead of an answer of the plugin.

    `code` is a CNI error code, `message` says what is wrong, `details` gives the remedy or is empty.
    """

    def __init__(self, code: int, message: str, details: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


def parse(data: bytes) -> tuple[dict[str, str], bytes]:
    """Return (environment, stdin) of a request without its greeting: a mapping from variable to value, and bytes.

    Raise CniRefusal if the environment does not end in an empty line, or has a line that is not NAME=value in UTF-8
    without NUL, with NAME of capital letters, digits and "_" that begins with a letter. The last one of several lines
    with the same NAME counts.
    """
    end = 0 if data.startswith(b"\n") else data.find(b"\n\n") + 1
    if end == 0 and not data.startswith(b"\n"):
        raise CniRefusal(
            NOT_DECODED,
            "the request has no end of its environment",
            "After the lines NAME=value comes an empty one, then the network configuration. The shim was cut short: "
            "try again.",
        )
    environment: dict[str, str] = {}
    for line in data[:end].split(b"\n"):
        if not line:
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise CniRefusal(
                INVALID_ENVIRONMENT, f"a variable is not UTF-8: {line[:60]!r}", "Correct it where the runtime sets it."
            ) from None
        if not _VARIABLE.fullmatch(text) or "\0" in text:
            raise CniRefusal(
                INVALID_ENVIRONMENT,
                f"a line of the environment is not NAME=value: {text[:60]!r}",
                "No variable that CNI knows holds a line break. Correct it where the runtime sets it.",
            )
        name, dummy, value = text.partition("=")
        environment[name] = value
    return environment, data[end + 1 :]


def answer(status: int, output: bytes) -> bytes:
    """Return the bytes to send for an output with its exit status; any status except 0 is sent as 1."""
    return (b"1\n" if status else b"0\n") + output


def refusal(error: CniRefusal, stdin: bytes = b"") -> bytes:
    """Return the bytes to send for a refused request: exit status 1 and the error as a CNI error object.

    The error has the `cniVersion` of the network configuration in `stdin` if that is three numbers with dots, or else
    1.1.0.
    """
    told = {"cniVersion": _version(stdin), "code": error.code, "msg": error.message, "details": error.details}
    return answer(1, json.dumps(told).encode() + b"\n")


def _version(stdin: bytes) -> str:
    try:
        found = json.loads(stdin)["cniVersion"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _VERSION
    return found if isinstance(found, str) and re.fullmatch(r"\d+\.\d+\.\d+", found) else _VERSION
