# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol of the agent's socket: one JSON object per line, requests and answers in the same order.

    > {"version": 1, "id": 7, "method": "workload.get", "params": {"id": "default/web"}}
    < {"id": 7, "result": {...}}
    < {"id": 7, "error": {"code": "not_found", "message": "...", "data": {}}}

`version`, `id` and `params` may be left out. A method that streams answers with any number of {"id": 7, "event": {...}}
and ends with a result or an error. A connection whose first line is `CNI 1` or `NETAVARK 1` has a framing of
shim_framing instead.

The module is pure, and cheap to import because clients are short-lived programs.
"""

from __future__ import annotations

import json
import math
import typing as t

from ..base.terminal_text import cut

VERSION = 1
SOCKET = "/run/calico/agent.sock"
#: The suffix of root's own socket, whose queue of connections no other user can fill.
ROOT_SUFFIX = "-root"
#: The suffix of the folder beside the agent's, whose socket answers calico-runtimes.service and has its methods alone.
RUNTIMES_SUFFIX = "-runtimes"
#: The group whose members may call methods that change nothing; only root may call the others.
GROUP = "calico"

LINE_LIMIT = 1 << 20  # bytes of a request of root, its newline included
READER_LINE_LIMIT = 16 << 10  # bytes of a request of another caller, its newline included
DEADLINE = 30.0  # the most seconds that the agent works on a request that is no stream; a client's default
IDLE = 30.0  # the most seconds until a connection's next request is complete

INVALID_PARAMS = "invalid_params"
UNKNOWN_METHOD = "unknown_method"
FORBIDDEN = "forbidden"
NOT_FOUND = "not_found"
CONFLICT = "conflict"
NO_ADDRESS = "no_address"
TRY_AGAIN = "try_again"
IN_THE_WAY = "in_the_way"
NOT_WRITTEN = "not_written"
KERNEL = "kernel"
UNAVAILABLE = "unavailable"
TOO_LARGE = "too_large"
TIMEOUT = "timeout"
INTERNAL = "internal"
CODES = frozenset(
    {
        INVALID_PARAMS, UNKNOWN_METHOD, FORBIDDEN, NOT_FOUND, CONFLICT, NO_ADDRESS, TRY_AGAIN, IN_THE_WAY, NOT_WRITTEN,
        KERNEL, UNAVAILABLE, TOO_LARGE, TIMEOUT, INTERNAL,
    }
)  # fmt: skip

Id = t.Union[int, str, None]


def root_socket(path: str) -> str:
    """Return the path of root's own socket beside the one at `path`: /run/calico/agent-root.sock for agent.sock."""
    stem, dot, suffix = path.rpartition(".")
    return f"{stem}{ROOT_SUFFIX}.{suffix}" if dot and "/" not in suffix else f"{path}{ROOT_SUFFIX}"


def runtimes_socket(path: str) -> str:
    """Return the path of the socket for runtimes: /run/calico-runtimes/agent.sock for /run/calico/agent.sock."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{RUNTIMES_SUFFIX}{slash}{name}"


_FIELDS = ("version", "id", "method", "params")
_FORM = 'A request is {"version": 1, "id": N, "method": "...", "params": {}} on one line.'
#: Characters of the longest integer that is accepted, its sign included. No method needs longer ones, and they are slow
#: to convert.
_DIGITS = 20
_SHOWN = 60  # the most characters of a value in a message


class AgentError(Exception):
    """A refusal as the agent sends it: `code` is one of CODES, `message` is for people, `data` is for programs."""

    def __init__(self, code: str, message: str, data: t.Optional[t.Mapping[str, t.Any]] = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = dict(data or {})

    def __reduce__(self) -> tuple[t.Any, ...]:
        # Pickling needs all arguments; a client may send the error from one of its processes to another.
        return AgentError, (self.code, self.message, self.data)


class Request(t.NamedTuple):
    id: Id
    method: str
    params: dict[str, t.Any]


class BadRequest(AgentError):
    """The error for a line that is not a request. `id` is the request's id, or None if it could not be read."""

    def __init__(self, message: str, id: Id = None) -> None:
        super().__init__(INVALID_PARAMS, message)
        self.id = id


def parse(line: bytes) -> Request:
    """Return the request in `line`, which may end in a newline. Raise BadRequest for any other bytes.

    A request is a JSON object with the text `method` and no field but `version`, which is 1, `id`, which is an integer,
    a text or null, and the object `params`. Without `id` it is None, without `params` {}. Integers of more than 20
    characters, numbers that are not finite and half surrogate pairs are refused too.
    """
    data = _object(line)
    # Fields are read one by one, not by base/typed_json.py: an error has the id that was read before it.
    id = data.get("id")
    if isinstance(id, bool) or not (id is None or isinstance(id, (int, str))):
        raise BadRequest(f"id must be a number without a fraction or a text, not {_shown(id)}. {_FORM}")
    unknown = sorted(data.keys() - set(_FIELDS))
    if unknown:
        raise BadRequest(f"a request has no field {_shown(unknown[0])}. {_FORM}", id)
    version = data.get("version", VERSION)
    if isinstance(version, bool) or version != VERSION:
        raise BadRequest(
            f"version {_shown(version)} is not spoken by this agent, which speaks {VERSION}. "
            "Use the client of the same release; the role installs both.",
            id,
        )
    method = data.get("method")
    if not isinstance(method, str):
        raise BadRequest(f"method must be the name of a method, not {_shown(method)}. {_FORM}", id)
    params = data.get("params", {})
    if not isinstance(params, dict):
        raise BadRequest(f"params must be an object, not {_shown(params)}. {_FORM}", id)
    return Request(id, method, params)


def request(id: Id, method: str, params: t.Mapping[str, t.Any]) -> bytes:
    """Return the line of a request. Raise TypeError, ValueError or RecursionError if JSON cannot express `params`."""
    return _line({"version": VERSION, "id": id, "method": method, "params": dict(params)})


def result(id: Id, value: t.Mapping[str, t.Any]) -> bytes:
    """Return the line of an answer with a result. Raise TypeError, ValueError or RecursionError if it is not JSON."""
    return _line({"id": id, "result": value})


def event(id: Id, value: t.Mapping[str, t.Any]) -> bytes:
    """Return the line of one event of a stream. Raise TypeError, ValueError or RecursionError if it is not JSON."""
    return _line({"id": id, "event": value})


def failure(id: Id, error: AgentError) -> bytes:
    """Return the line of an answer with an error, whatever it is: `error.data` that is not JSON becomes {}."""
    shown = {"code": error.code, "message": error.message, "data": error.data}
    try:
        return _line({"id": id, "error": shown})
    except (TypeError, ValueError, RecursionError):
        return _line({"id": id, "error": dict(shown, data={})})


def _line(value: t.Mapping[str, t.Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _object(line: bytes) -> dict[str, t.Any]:
    try:
        text = line.decode("utf-8")
        data = json.loads(text, parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
        if "\\u" in text:
            # Half of a surrogate pair is valid JSON, but a text with it cannot be encoded and stored.
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the request is not UTF-8 at byte {error.start}. {_FORM}") from None
    except UnicodeEncodeError:
        raise BadRequest(f"the request holds half of a surrogate pair, which is not a character. {_FORM}") from None
    except RecursionError:
        raise BadRequest(f"the request is nested too deeply. {_FORM}") from None
    except json.JSONDecodeError as error:
        raise BadRequest(f"the request is not JSON: {error.msg} at column {error.colno}. {_FORM}") from None
    except ValueError as error:
        raise BadRequest(f"the request is not JSON: {error}. {_FORM}") from None
    if not isinstance(data, dict):
        raise BadRequest(f"the request is {_shown(data)}, not an object. {_FORM}")
    return data


def _no_number(text: str) -> t.NoReturn:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{cut(text, _SHOWN)} is too large a number")
    return number


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"{cut(text, _SHOWN)} is too large a number")
    return int(text)


def _shown(value: object) -> str:
    """Return a JSON value as messages show it: "null", "an object", "a list", or up to 60 characters of JSON."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return cut(json.dumps(value), _SHOWN)
