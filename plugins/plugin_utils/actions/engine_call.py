# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The call of a module by this controller's engine, in the place of Ansible's archive of its sources.

The controller validates the arguments and hides secrets in the answer; the node runs the module's function, whose byte
code it keeps. One command does all of it: module_utils/modules/engine_module.py is the node's half. A node that has not
this controller's engine says so before anything has run, and gets the call once more with the engine in its input.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import typing as t

from ansible import constants
from ansible.executor import module_common
from ansible.executor.interpreter_discovery import InterpreterDiscoveryRequiredError, discover_interpreter
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json, terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import locks, replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import engine_module, registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.module_call import ModuleSpec
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import (
    bundle,
    carried_start,
    engine_start,
)

Data = dict[str, t.Any]

#: The profile of Ansible's encoders and decoders that modules without one of their own have.
PROFILE = "legacy"

#: The folder with the sources of the engine.
SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "module_utils")
#: The status of Python for a file that it cannot open: there is no `start`.
_NO_FILE = 2
#: What it means, by its exit status, that an engine on the node has not started a module.
_NOT_INSTALLED = {
    _NO_FILE: "it has no engine",
    engine_start.ABSENT: "it has not this controller's engine",
    engine_start.ALTERED: "its engine is not as it was installed, or others than root may write it",
    engine_start.UNKNOWN_INTERPRETER: "its engine has no byte code for this interpreter",
}


@functools.cache
def engine_digest() -> str:
    """Return the digest of this controller's engine, 16 hex digits. Raise OSError if a file of it cannot be read."""
    return bundle.bundle_digest(SOURCE)


def packed_path() -> str:
    """Return the path of the file that `packed_engine` writes, in the run's temporary folder on the controller."""
    return os.path.join(str(constants.DEFAULT_LOCAL_TMP), f"engine-{engine_digest()}")


def packed_engine() -> carried_start.PackedEngine:
    """Return this controller's engine, packed once for all processes of the run. Raise OSError if that fails."""
    path = packed_path()
    # Hosts are served by processes of their own at the same time: the first one packs, the others wait for it.
    with locks.held(f"{path}.lock"):
        if not os.path.exists(path):
            packed = bundle.build(SOURCE)
            replacement.replace(path, packed.data, 0o644, sync=False)
            return packed
    with open(path, "rb") as stream:
        return carried_start.PackedEngine.from_data(stream.read())


def why_archive(action: ActionBase, module: str, in_background: bool) -> str:
    """Return why a call of `module`, a full name, has to use Ansible's archive, "" if the engine can be tried."""
    connection, become = action._connection, action._connection.become
    if module.rpartition(".")[2] not in registry.FOLDERS:
        return "the engine does not have this module"
    if in_background or action._task.async_val:
        return "a task with async is started by Ansible's wrapper"
    if getattr(connection._shell, "_IS_WINDOWS", False):
        return "the host's shell is no shell of Unix"
    # Whether pipelining is switched on does not matter here: nothing is sent to a file in its place.
    if not connection.has_pipelining:
        return f"the connection {connection.transport} passes no input to a command"
    if become and not getattr(become, "pipelining", become.name != "su"):
        return f"{become.name} passes no input to a command"
    if constants.DEFAULT_KEEP_REMOTE_FILES:
        return "Ansible shall keep a module's files on the host"
    return ""


class ValidArguments(t.NamedTuple):
    """The arguments of a call, validated.

    `error` is the message of AnsibleModule for wrong ones, "" if there is none. `secrets` are the values of parameters
    with no_log, which no answer may contain. `warnings` are sentences about options that are set beside their alias.
    """

    params: Data
    secrets: t.AbstractSet[str]
    error: str
    warnings: list[str]


def validated(spec: ModuleSpec, module: str, args: t.Mapping[str, t.Any]) -> ValidArguments:
    """Return the arguments as AnsibleModule of `module` (a name for messages) would have them, with paths as given.

    Wrong arguments raise nothing: the result has the first `error`.
    """
    encoder = get_module_encoder(PROFILE, Direction.CONTROLLER_TO_MODULE)
    plain = json.loads(json.dumps(dict(args), cls=encoder))
    options = {name: _for_controller(option) for name, option in spec.argument_spec.items()}
    result = ArgumentSpecValidator(**{**spec.rules(), "argument_spec": options}).validate(plain)
    errors = result.errors.errors
    error = str(errors[0].msg) if errors else ""
    if errors and isinstance(errors[0], UnsupportedError):
        error = f"Unsupported parameters for ({module}) module: {error}"
    both = [f"Both option {one['option']} and its alias {one['alias']} are set." for one in result._warnings]
    return ValidArguments(result.validated_parameters, result._no_log_values, error, both)


def as_dict(parsed: t.Any) -> Data:
    """Return an answer as ActionBase has parsed it, a dict or, from ansible-core 2.21 on, an object, as a dict."""
    to_dict = getattr(parsed, "as_result_dict", None)
    return t.cast(Data, to_dict(for_round_trip=True) if to_dict else parsed)


def scrubbed(answer: Data, secrets: t.AbstractSet[str]) -> Data:
    """Return an answer without the values in `secrets`, as AnsibleModule does it.

    True, False and None stay as values of its own keys. Without secrets the result is `answer` itself.
    """
    if not secrets:
        return answer
    kept = {key: value for key, value in answer.items() if value is None or isinstance(value, bool)}
    return {**remove_values(answer, secrets), **kept}


class Output(t.NamedTuple):
    """What a command printed.

    `started` says whether the module was started. `text` is its answer. Without one it is "", and `rest` is what was
    printed after that start; otherwise `rest` is "".
    """

    started: bool
    text: str
    rest: str = ""


def read(stdout: str) -> Output:
    """Return whether the module started by `stdout`, and its answer if it can be unpacked (see packed_json.LIMIT)."""
    dummy, started, rest = f"\n{stdout}".partition(f"\n{engine_module.STARTED}")
    for line in rest.splitlines() if started else ():
        if line.startswith(engine_module.ANSWER) and len(engine_module.ANSWER) < len(line) <= packed_json.LIMIT:
            return Output(True, line[len(engine_module.ANSWER) :])
        if line.startswith(engine_module.PACKED):
            try:
                return Output(True, packed_json.unpack_text(line[len(engine_module.PACKED) :].strip()))
            except ValueError:
                break
    return Output(bool(started), "", rest)


class Printed(t.NamedTuple):
    """What a command printed, and all that Ansible knows about it."""

    output: Output
    result: Data

    @property
    def status(self) -> int:
        """The exit status."""
        return int(self.result["rc"])

    @property
    def words(self) -> str:
        """The text of its errors for people, or else its exit status."""
        return terminal_text.text(self.result["stderr"].strip() or f"status {self.status}")


class EngineCall:
    """A call of a module by `action`. `module` is its full name, `args` are its arguments.

    Raise KeyError for a module that the engine does not have.
    """

    def __init__(self, action: ActionBase, module: str, args: t.Mapping[str, t.Any], task_vars: Data) -> None:
        self._action, self._module, self._task_vars = action, module, task_vars
        self._name = module.rpartition(".")[2]
        self._spec = registry.spec(self._name)
        self._arguments = validated(self._spec, module, args)

    def run(self) -> t.Optional[Data]:
        """Return the module's answer, as ActionBase._execute_module returns one; None if the archive has to be used.

        The module has not run then. For wrong arguments the answer is a failure, and nothing is sent to the host. Raise
        AnsibleConnectionFailure if the host cannot be reached, another AnsibleError as for a wrong become password, and
        OSError if the engine cannot be packed.
        """
        if self._arguments.error:
            return self._finished({"failed": True, "msg": self._arguments.error, "_ansible_parsed": True})
        interpreter = self._interpreter()
        if not interpreter:
            return None
        self._action._used_interpreter = f"#!{interpreter}"
        request = json.dumps(self._request()).encode()
        printed = self._printed(command(interpreter, self._name), request)
        way = "the host's engine"
        if not printed.output.started and printed.status in _NOT_INSTALLED:
            way = f"an engine that came with the call, because {_NOT_INSTALLED[printed.status]}:"
            packed = packed_engine()
            printed = self._printed(carrying_command(interpreter, self._name, packed), carried(packed) + request)
        if not printed.output.started:
            _explain(self._name, f"the engine did not start: {printed.words}")
            return None
        Display().vvv(f"{self._name} ran by {way} {engine_digest()}")
        return self._answer(printed)

    def _printed(self, line: str, given: bytes) -> Printed:
        """Run the command `line` on the host with `given` as its input, and return what it printed."""
        result = self._action._low_level_execute_command(line, sudoable=True, in_data=given)
        return Printed(read(result["stdout"]), result)

    def _answer(self, printed: Printed) -> Data:
        """Return the answer in what a started module has printed, or a failure with what it printed otherwise."""
        text, rest = printed.output.text, printed.output.rest
        answer = as_dict(self._action._parse_returned_data({**printed.result, "stdout": text}, PROFILE))
        if not text:
            answer["module_stdout"] = rest
        return self._finished(answer)

    def _request(self) -> engine_module.ModuleRequest:
        action, task_vars = self._action, self._task_vars
        task = action._task
        environment: Data = {}
        action._compute_environment_string(environment)
        log: t.Optional[Data] = None
        if not (task.no_log or constants.config.get_config_value("DEFAULT_NO_TARGET_SYSLOG", variables=task_vars)):
            prefix = constants.config.get_config_value("TARGET_LOG_INFO", variables=task_vars)
            log = {
                "name": self._module,
                "facility": str(task_vars.get("ansible_syslog_facility", constants.DEFAULT_SYSLOG_FACILITY)),
                "prefix": f"{prefix} " if prefix else "",
                "hidden": [name for name, option in self._spec.argument_spec.items() if option.get("no_log")],
            }
        return {
            "params": self._arguments.params,
            "check": bool(task.check_mode),
            "diff": bool(task.diff),
            "environment": {str(name): str(value) for name, value in environment.items()},
            "traceback": _with_traceback(),
            "log": log,
        }

    def _finished(self, answer: Data) -> Data:
        """Add the keys to `answer` that AnsibleModule and ActionBase add, and return it without secret values.

        An action without the attribute `shows_arguments`, or where it is True, gets its arguments as `invocation`.
        """
        if getattr(self._action, "shows_arguments", True):
            answer.setdefault("invocation", {"module_args": self._arguments.params})
        if self._arguments.warnings:
            answer["warnings"] = [*self._arguments.warnings, *answer.get("warnings", ())]
        for stream in ("stdout", "stderr"):
            if stream in answer and f"{stream}_lines" not in answer:
                answer[f"{stream}_lines"] = str(answer[stream] or "").splitlines()
        return scrubbed(answer, self._arguments.secrets)

    def _interpreter(self) -> str:
        """Return the path of the host's Python, "" if this version of Ansible finds it in another way.

        If need be it is discovered as ActionBase does it, and recorded in the action and in the task's variables.
        """
        action, task_vars = self._action, self._task_vars
        host = action._task.delegate_to
        own = task_vars["ansible_delegated_vars"][host] if host else task_vars
        local = bool(getattr(action._connection, "_remote_is_local", False))
        for dummy in (1, 2):
            try:
                found = module_common._get_shebang("/usr/bin/python", own, action._templar, remote_is_local=local)
                return str(found[1])
            except InterpreterDiscoveryRequiredError as required:
                name = required.interpreter_name
                discovered = discover_interpreter(
                    action=action, interpreter_name=name, discovery_mode=required.discovery_mode, task_vars=own
                )
                key = f"discovered_interpreter_{name}"
                own["ansible_facts"][key] = action._discovered_interpreter = discovered
                if not host or action._task.delegate_facts:
                    task_vars["ansible_facts"][key] = discovered
                    action._discovered_interpreter_key = key
            except (AttributeError, TypeError):
                return ""
        return ""


def command(interpreter: str, name: str, root: str = engine_start.ROOT) -> str:
    """Return the command that starts the module `name` in the engine below the folder `root` of the node, for a shell.

    It contains no argument of the module. `interpreter` is the path of the node's Python, and is not quoted.
    """
    words = ["-I", "-B", os.path.join(root, engine_start.START), engine_start.MODULE, engine_digest(), name]
    return f"{interpreter} {' '.join(map(shlex.quote, words))}"


def carrying_command(interpreter: str, name: str, packed: carried_start.PackedEngine) -> str:
    """Return the command that starts the module `name` by the engine in its input, for a shell.

    The input is what `carried` returns, and then the request. `interpreter` is a path, and is not quoted.
    """
    words = ["-I", "-B", "-c", carried_start.COMMAND, engine_digest(), packed.sha256, name]
    return f"{interpreter} {' '.join(map(shlex.quote, words))}"


def carried(packed: carried_start.PackedEngine) -> bytes:
    """Return the input of a call before its request: the program that starts the engine, and the engine.

    A line with its length in bytes precedes each. Raise OSError if the program's file cannot be read.
    """
    with open(carried_start.__file__, "rb") as stream:
        program = stream.read()
    return b"".join((b"%d\n" % len(program), program, b"%d\n" % len(packed.data), packed.data))


def by_engine(
    action: ActionBase, module: str, args: t.Mapping[str, t.Any], task_vars: Data, in_background: bool
) -> t.Optional[Data]:
    """Return the answer of `module`, run by the node's engine; None if it has not run and the archive has to be used.

    `args` are the module's arguments; they are not changed. The errors are those of `EngineCall.run`.
    """
    why = why_archive(action, module, in_background)
    if why:
        _explain(module, why)
        return None
    return EngineCall(action, module, args, task_vars).run()


def _explain(module: str, why: str) -> None:
    Display().vvv(f"{module} is sent as an archive: {why}")


def _with_traceback() -> bool:
    """Return whether Ansible shows tracebacks of errors."""
    return bool({"always", "error"} & set(constants.config.get_config_value("DISPLAY_TRACEBACK") or ()))


def _for_controller(option: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return an option as the controller can validate it: a path is a text, whose `~` is left to the node."""
    return {**option, "type": "str"} if option.get("type") == "path" else dict(option)
