# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of a module by the engine that is installed: the request by stdin, the answer by stdout.

    python3 -I -B /usr/local/lib/calico/start module <digest> <name>

The request is a JSON object with the keys of `ModuleRequest`. Nothing of it is in the arguments or the environment of
the process, which other users can read. The output begins with an empty line and one that says that the module runs.
The controller sends Ansible's archive only if the second one is missing. The last line is the answer: a prefix, and an
object as AnsibleModule prints it, or its compressed form. plugin_utils/actions/engine_call.py is the
controller's half.
"""

from __future__ import annotations

import datetime
import gc
import json
import os
import re
import sys
import syslog
import time
import traceback
import typing as t

from ..base import packed_json
from . import registry

STARTED = "calico-engine started"
ANSWER = "calico-engine answer "
PACKED = "calico-engine packed "
#: Characters of JSON from which on an answer is sent compressed.
_PACKED_FROM = 32 * 1024

_LONGEST_LOGGED = 1024  # the most characters of a parameter's value that are logged
_CREDENTIALS = re.compile(r"://[^/@\s]*@")
_HIDDEN = "NOT_LOGGING_PARAMETER"

Data = dict[str, t.Any]


class ModuleRequest(t.TypedDict):
    """What the controller asks.

    `params` are the module's validated parameters. `environment` has the variables of the task's keyword of this name.
    `traceback` says whether an error comes with its traceback. `log` is None if nothing is logged, otherwise it has
    `name`, `facility`, `prefix` and `hidden`, the names of parameters whose values are not logged.
    """

    params: Data
    check: bool
    diff: bool
    environment: dict[str, str]
    traceback: bool
    log: t.Optional[Data]


class _Answered(SystemExit):
    """The end of a module, like AnsibleModule's, which `except Exception` does not catch."""

    def __init__(self, answer: Data) -> None:
        super().__init__(0)
        self.answer = answer


class EngineModule:
    """The call that a module gets in place of AnsibleModule."""

    def __init__(self, request: ModuleRequest) -> None:
        self.params = request["params"]
        self.check_mode = request["check"]
        self._diff = request["diff"]
        self._traceback = request["traceback"]
        self._warnings: list[str] = []

    def warn(self, warning: str) -> None:
        """Add a warning to the answer, once."""
        if warning not in self._warnings:
            self._warnings.append(warning)

    def exit_json(self, **answer: t.Any) -> t.NoReturn:
        """End the module with this answer, and `warnings` if there are any. Raise a SystemExit that carries it."""
        raise _Answered({**answer, "warnings": self._warnings} if self._warnings else answer)

    def fail_json(self, msg: str, **answer: t.Any) -> t.NoReturn:
        """End the module with an error: `answer` with `failed` True and `msg`. Raise a SystemExit that carries it.

        If the request asks for tracebacks, the answer has as `exception` that of the exception being handled, or else
        the call stack.
        """
        failure: Data = {**answer, "failed": True, "msg": str(msg)}
        if self._traceback:
            raised = sys.exc_info()[0] is not None
            failure["exception"] = traceback.format_exc() if raised else "".join(traceback.format_stack())
        self.exit_json(**failure)


def answer_to(name: str, request: ModuleRequest) -> Data:
    """Run the module `name` in this process and return its answer.

    An Exception that the module does not handle, or that an unknown name raises, is an answer too: `failed` True, `msg`
    and, if the request asks for tracebacks, `exception`. Another SystemExit than that of `exit_json` is raised, and
    KeyError for a request that is not complete.
    """
    call = EngineModule(request)
    try:
        _loaded(name).run(call)
    except _Answered as ended:
        return ended.answer
    except Exception as error:  # noqa: BLE001 - a module's fault is an answer, as with Ansible's archive
        failure: Data = {"failed": True, "msg": str(error) or type(error).__name__}
        if request["traceback"]:
            failure["exception"] = traceback.format_exc()
        return failure


def _loaded(name: str) -> registry.LoadedModule:
    """Return the code of the module `name`, as registry.load does.

    All that is loaded stays until the process ends. So no garbage is looked for in it, neither while it is loaded nor
    at the end, which would take a sixth of the time that a module needs.
    """
    gc.disable()
    try:
        return registry.load(name)
    finally:
        gc.freeze()
        gc.enable()


def line_of(answer: t.Mapping[str, t.Any]) -> str:
    """Return the line of output that carries the answer, in ASCII, compressed from 32 KiB of JSON on.

    It begins with ANSWER, or with PACKED if it is compressed, and has no newline. Raise TypeError for a value that is
    no data, and ValueError for one that contains itself.
    """
    text = json.dumps(answer, default=_plain)
    return ANSWER + text if len(text) < _PACKED_FROM else PACKED + packed_json.pack_text(text)


def logged(params: t.Mapping[str, t.Any], hidden: t.Collection[str]) -> str:
    """Return what the system's log says about a call: "Invoked with NAME=VALUE ...", "Invoked" without parameters.

    Values of `hidden` parameters and credentials of URLs are masked. Up to 1024 characters of a value are shown.
    """
    words = []
    for name, value in params.items():
        text = _HIDDEN if name in hidden else _CREDENTIALS.sub("://********@", str(value))[:_LONGEST_LOGGED]
        words.append(f"{name}={text}")
    return " ".join(["Invoked", *(["with", *words] if words else [])])


def main(arguments: t.Sequence[str]) -> int:
    """Answer the request on stdin; return exit status 1 if the answer is a failure, else 0.

    `arguments` is one word, the module's name. The protocol's lines go to stdout, all else that the process prints to
    stderr. The request's variables are added to the environment. The call is logged to syslog if the request says so.
    An answer that JSON cannot carry is sent as a failure, but its exit status stays. Raise ValueError for any other
    number of words, or if stdin is no JSON, and KeyError for a request that lacks a key.
    """
    (name,) = arguments
    # Only what this function writes goes to stdout, whatever the module and its programs print.
    output = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    output.write(f"\n{STARTED}\n")
    output.flush()
    request: ModuleRequest = json.loads(sys.stdin.buffer.read())
    os.environ.update(request["environment"])
    time.tzset()
    log = request["log"]
    if log is not None:
        syslog.openlog(f"ansible-{log['name']}", 0, getattr(syslog, log["facility"], syslog.LOG_USER))
        syslog.syslog(syslog.LOG_INFO, log["prefix"] + logged(request["params"], log["hidden"]).replace("\0", ""))
    answer = answer_to(name, request)
    try:
        line = line_of(answer)
    except (TypeError, ValueError) as error:
        line = line_of({"failed": True, "msg": f"the answer of {name} is no JSON: {error}"})
    output.write(f"{line}\n")
    output.flush()
    return 1 if answer.get("failed") else 0


def _plain(value: t.Any) -> t.Any:
    """Return what JSON has for mappings, sets (sorted lists), dates and bytes; raise TypeError for other types."""
    if isinstance(value, t.Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    raise TypeError(f"{type(value).__name__} is no data")
