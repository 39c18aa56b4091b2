# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The framing of the shims' requests on the agent's socket, simple enough for a shell script.

    > CNI 1                      the greeting: which runtime's plugin asks, and the version of the framing
    > CNI_COMMAND=ADD            the environment, NAME=value per line
    > CNI_CONTAINERID=...
    >                            an empty line
    > {"cniVersion": ...}        the plugin's stdin, until the shim shuts down its side
    < 0                          the exit status, 0 or 1
    < {"cniVersion": ...}        what the plugin prints, until the agent closes

FRAMINGS has one for each kind of plugin. They differ in their greeting and in the form of an error, which is that of
the plugin's runtime and never the API's own. The module is pure.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..base import typed_json
from .plugin_errors import INVALID_ENVIRONMENT, NOT_DECODED, CniError

_VERSION = "1.1.0"
_CONFIGURATION = typed_json.open_table(
    {"cniVersion": typed_json.matching(re.compile(r"[0-9]+\.[0-9]+\.[0-9]+"), "a version")}
)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=.*", re.DOTALL)


class Framing(t.NamedTuple):
    """The requests of one kind of plugin.

    `name` begins the greeting. `root_only` is the remedy for a caller that is not root. `error` makes the plugin's
    output from a refusal and the request's stdin.
    """

    name: str
    root_only: str
    error: t.Callable[[CniError, bytes], bytes]

    @property
    def prefix(self) -> bytes:
        """The first bytes of a connection in this framing, whatever its version."""
        return f"{self.name} ".encode()

    @property
    def greeting(self) -> bytes:
        """The first line of a connection in this framing. Another version has another number."""
        return self.prefix + b"1\n"

    def refusal(self, refused: CniError, stdin: bytes = b"") -> bytes:
        """Return the bytes to send for a refused request: exit status 1, and the error in the runtime's form."""
        return answer(1, self.error(refused, stdin) + b"\n")


def find(begin: bytes, ended: bool = True) -> t.Union[Framing, t.Literal[False], None]:
    """Return the framing of a connection whose first bytes are `begin`, or None for a connection without one.

    Return False if bytes are missing to decide that, and the client may still send some because it has not `ended`.
    """
    for framing in FRAMINGS:
        if begin.startswith(framing.prefix):
            return framing
    return False if not ended and (not begin or may_become(begin) is not None) else None


def may_become(begin: bytes) -> t.Optional[Framing]:
    """Return the framing whose prefix and `begin` are equal as far as both go, or None; None also for no bytes."""
    for framing in FRAMINGS:
        if begin and framing.prefix.startswith(begin[: len(framing.prefix)]):
            return framing
    return None


def parse(data: bytes) -> tuple[dict[str, str], bytes]:
    """Return (environment, stdin) of a request without its greeting: a mapping from variable to value, and bytes.

    The last line with a NAME counts. Raise CniError if the environment does not end in an empty line, or has a line
    that is not NAME=value in UTF-8 without NUL, with NAME of capital letters, digits and "_".
    """
    end = 0 if data.startswith(b"\n") else data.find(b"\n\n") + 1
    if end == 0 and not data.startswith(b"\n"):
        raise CniError(
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
            raise CniError(
                INVALID_ENVIRONMENT, f"a variable is not UTF-8: {line[:60]!r}", "Correct it where the runtime sets it."
            ) from None
        if not _VARIABLE.fullmatch(text) or "\0" in text:
            raise CniError(
                INVALID_ENVIRONMENT,
                f"a line of the environment is not NAME=value: {text[:60]!r}",
                "No variable that the plugin knows holds a line break. Correct it where the runtime sets it.",
            )
        name, dummy, value = text.partition("=")
        environment[name] = value
    return environment, data[end + 1 :]


def answer(status: int, output: bytes) -> bytes:
    """Return the bytes to send for an output with its exit status; any status except 0 is sent as 1."""
    return (b"1\n" if status else b"0\n") + output


def netavark_error(text: str) -> bytes:
    """Return an error as netavark's plugins print it: an object with one text for people."""
    return json.dumps({"error": text}).encode()


def _netavark_refusal(refused: CniError, stdin: bytes) -> bytes:
    """Return a refusal as one text."""
    return netavark_error(str(refused))


def _cni_refusal(refused: CniError, stdin: bytes) -> bytes:
    """Return a refusal as CNI 1.1.0, section "Error", has it, with the `cniVersion` of `stdin`, by default 1.1.0."""
    return json.dumps(refused.to_dict(_version(stdin))).encode()


def _version(stdin: bytes) -> str:
    try:
        return str(_CONFIGURATION(typed_json.parse(stdin))["cniVersion"])
    except ValueError:
        return _VERSION


#: The plugins of runtimes that speak CNI: https://www.cni.dev/docs/spec/.
CNI = Framing("CNI", "Only root may. Run the container runtime as root.", _cni_refusal)
#: The plugin of podman's netavark: https://github.com/containers/netavark/blob/main/plugin-API.md.
NETAVARK = Framing(
    "NETAVARK",
    "A container of a user other than root has no interface on the host. Start it as root: sudo podman run ...",
    _netavark_refusal,
)
FRAMINGS = (CNI, NETAVARK)
#: The first bytes of a connection that are enough to find its framing.
ENOUGH = max(len(framing.prefix) for framing in FRAMINGS)
