# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of a module's start by the installed engine."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import time
import types
import typing as t

import pytest
from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.action import node as node_action
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import engine_module, registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.module_call import ModuleSpec
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes.node_request import NodeRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import engine_start
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import engine_call

ROOT = pathlib.Path(__file__).resolve().parents[4]
ROUTE = "baremetal.host_routing.route"
SECRET = "s3cr3t-of-the-test"


def action(**changes: t.Any) -> t.Any:
    """Return an action on a host with pipelining, whose commands print `printed` with `status`.

    `changes` replace the values in `given`; `windows`, `stderr` and `carried` may be added. A command whose input has
    the engine prints `carried` with status 0; without `carried` it is like all others. `commands` of the action gets
    each (command, input). Reading an answer raises AssertionError for another profile than "legacy".
    """
    given = {
        "become": None,
        "has_pipelining": True,
        "async_val": 0,
        "printed": "",
        "status": 0,
        "environment": {},
        "interpreter": "/usr/bin/python3",
        **changes,
    }
    commands: list[tuple[str, bytes]] = []

    def execute(command: str, sudoable: bool, in_data: bytes) -> dict[str, t.Any]:
        commands.append((command, in_data))
        if " -c " in command and "carried" in given:
            return {"rc": 0, "stdout": given["carried"], "stderr": ""}
        return {"rc": given["status"], "stdout": given["printed"], "stderr": given.get("stderr", "")}

    def parse(result: dict[str, t.Any], profile: str) -> dict[str, t.Any]:
        assert profile == "legacy"
        return {**json.loads(result["stdout"]), "_ansible_parsed": True}

    shell = types.SimpleNamespace(_IS_WINDOWS=given.get("windows", False))
    return types.SimpleNamespace(
        commands=commands,
        _connection=types.SimpleNamespace(
            transport="ssh", has_pipelining=given["has_pipelining"], become=given["become"], _shell=shell
        ),
        _task=types.SimpleNamespace(
            async_val=given["async_val"], delegate_to=None, no_log=False, check_mode=True, diff=False
        ),
        _templar=types.SimpleNamespace(
            _engine=types.SimpleNamespace(template=lambda value, options: value),
        ),
        _compute_environment_string=lambda into: into.update(given["environment"]),
        _low_level_execute_command=execute,
        _parse_returned_data=parse,
        task_vars={"ansible_python_interpreter": given["interpreter"], "ansible_facts": {}},
    )


def ran(answer: t.Mapping[str, t.Any]) -> str:
    return f"\n{engine_module.STARTED}\n{engine_module.line_of(answer)}\n"


def by_engine(asked: t.Any, module: str = ROUTE, in_background: bool = False, **args: t.Any) -> t.Any:
    return engine_call.by_engine(asked, module, args, asked.task_vars, in_background)


def test_the_registry_has_the_modules_that_run_on_nodes() -> None:
    """The registry names exactly the modules whose files import code from module_utils/modules, with its folder."""
    found = {}
    for path in (ROOT / "plugins" / "modules").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and ".module_utils.modules." in str(node.module):
                found[path.stem] = (node.module or "").rpartition(".")[2]
    assert dict(registry.FOLDERS) == found
    for name in registry.FOLDERS:
        assert isinstance(registry.spec(name), ModuleSpec)
        assert callable(registry.load(name).run)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"async_val": 30}, "a task with async is started by Ansible's wrapper"),
        ({"has_pipelining": False}, "the connection ssh passes no input to a command"),
        ({"become": types.SimpleNamespace(name="su", pipelining=False)}, "su passes no input to a command"),
        ({"become": types.SimpleNamespace(name="su")}, "su passes no input to a command"),
        ({"windows": True}, "the host's shell is no shell of Unix"),
    ],
)
def test_a_task_that_takes_no_input_gets_the_archive(changes: dict[str, t.Any], why: str) -> None:
    asked = action(**changes)
    assert engine_call.why_archive(asked, ROUTE, False) == why
    assert by_engine(asked, destination="10.0.0.0/8", device="eth0") is None and asked.commands == []


def test_other_reasons_for_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_call.why_archive(action(), ROUTE, True) == "a task with async is started by Ansible's wrapper"
    assert engine_call.why_archive(action(), "ansible.builtin.ping", False) == "the engine does not have this module"
    monkeypatch.setattr(constants, "DEFAULT_KEEP_REMOTE_FILES", True)
    assert engine_call.why_archive(action(), ROUTE, False) == "Ansible shall keep a module's files on the host"


@pytest.mark.parametrize("become", [None, types.SimpleNamespace(name="sudo", pipelining=True)])
def test_pipelining_that_is_switched_off_is_no_reason(become: t.Any) -> None:
    asked = action(become=become)
    asked._connection.get_option = lambda name: {"pipelining": False}[name]
    assert engine_call.why_archive(asked, ROUTE, False) == ""


@pytest.mark.parametrize(
    ("status", "stderr", "words"),
    [
        (engine_start.ABSENT, "SyntaxError: x", "the engine did not start: SyntaxError: x"),
        (1, "sudo: sorry, you must have a tty to run sudo", "the engine did not start: sudo: sorry, you must have"),
        (127, "", "the engine did not start: status 127"),
        (1, "\x1b[2J", "the engine did not start: \\x1b[2J"),
    ],
)
def test_a_module_that_has_not_started_is_sent_as_an_archive(
    status: int, stderr: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(engine_call.Display, "vvv", lambda dummy, text: said.append(text))
    asked = action(status=status, stderr=stderr, printed="Welcome to node1\n")
    assert by_engine(asked, destination="10.0.0.0/8", device="eth0") is None
    assert said[0].startswith(f"route is sent as an archive: {words}")


INSTALLED = f"/usr/bin/python3 -I -B /usr/local/lib/calico/start module {engine_call.engine_digest()} route"


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (engine_start.ABSENT, "it has not this controller's engine"),
        (engine_start.ALTERED, "its engine is not as it was installed, or others than root may write it"),
        (engine_start.UNKNOWN_INTERPRETER, "its engine has no byte code for this interpreter"),
        (2, "it has no engine"),
    ],
)
def test_a_host_without_the_engine_gets_it_with_the_call(
    status: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(engine_call.Display, "vvv", lambda dummy, text: said.append(text))
    asked = action(status=status, carried=ran({"plan": ["+ route"], "msg": SECRET}), environment={"TOKEN": SECRET})
    assert by_engine(asked, destination="10.0.0.0/8", device="eth0")["plan"] == ["+ route"]
    (first, request), (second, given) = asked.commands
    packed = engine_call.packed_engine()
    assert first == INSTALLED
    assert second == engine_call.carrying_command("/usr/bin/python3", "route", packed) and SECRET not in second
    assert given == engine_call.carried(packed) + request and SECRET in request.decode()
    digest = engine_call.engine_digest()
    assert said == [f"route ran by an engine that came with the call, because {why}: {digest}"]


@pytest.mark.parametrize("status", [1, 127, 255])
def test_the_engine_is_not_sent_to_a_host_that_did_not_answer_by_python(status: int) -> None:
    asked = action(status=status, carried=ran({}))
    assert by_engine(asked, destination="10.0.0.0/8", device="eth0") is None
    assert [command for command, dummy in asked.commands] == [INSTALLED]


def test_the_engine_is_packed_once_for_all_processes_of_a_run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of six processes that need the engine at the same time packs it, and all have the same one."""
    packed = engine_call.packed_engine()

    def build(source: str) -> t.Any:
        with open(tmp_path / "builds", "a") as stream:
            stream.write("one\n")
        time.sleep(0.3)
        return packed

    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(engine_call.bundle, "build", build)
    children = []
    for dummy in range(6):
        child = os.fork()
        if child == 0:
            os._exit(0 if engine_call.packed_engine() == packed else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert (tmp_path / "builds").read_text() == "one\n"
    assert pathlib.Path(engine_call.packed_path()).read_bytes() == packed.data


class Archive(node_action.ActionModule):  # type: ignore[misc]
    """The action of the module node, whose files are copied to the folder /tmp/x of its host."""

    def __init__(self, check: bool, installed: t.Optional[str]) -> None:
        self._task = types.SimpleNamespace(check_mode=check)
        self._installed = installed
        shell = types.SimpleNamespace(tmpdir="/tmp/x", join_path=lambda *parts: "/".join(parts))
        self._connection = types.SimpleNamespace(_shell=shell)
        self.copied: list[tuple[str, str]] = []

    def _transfer_file(self, local: str, remote: str) -> str:
        self.copied.append((local, remote))
        return remote


def test_an_archive_gets_the_engine_as_a_file() -> None:
    asked = Archive(False, "0123456789abcdef")
    digest = engine_call.engine_digest()
    given = {"module_name": "x", "module_args": {"request": NodeRequest(engine_digest=digest).pack(), "who": "me"}}
    args = asked.archive_options(given)["module_args"]
    sha256 = engine_call.packed_engine().sha256
    request = NodeRequest(engine_digest=digest, engine="/tmp/x/engine", engine_sha256=sha256)
    assert (args["who"], NodeRequest.unpack(args["request"])) == ("me", request)
    assert asked.copied == [(engine_call.packed_path(), "/tmp/x/engine")]


@pytest.mark.parametrize(
    ("check", "installed", "wanted"),
    [(True, None, "own"), (False, "own", "own"), (False, None, None)],
)
def test_an_archive_that_installs_no_engine_gets_none(
    check: bool, installed: t.Optional[str], wanted: t.Optional[str]
) -> None:
    """No file is copied in check mode, to a node that has this engine, and for a call that wants none."""
    own = {"own": engine_call.engine_digest(), None: None}
    asked = Archive(check, own[installed])
    given = {"module_args": {"request": NodeRequest(change="x", engine_digest=own[wanted] or "").pack()}}
    assert asked.archive_options(given) == given and asked.copied == []


def test_a_module_that_has_started_is_not_run_again() -> None:
    asked = action(printed=f"\n{engine_module.STARTED}\n", status=1)
    asked._parse_returned_data = lambda result, profile: {"failed": True, "module_stdout": result["stdout"]}
    answer = by_engine(asked, destination="10.0.0.0/8", device="eth0")
    assert answer["failed"] and answer["module_stdout"] == "\n"


class Parsed:
    """An answer as ansible-core 2.21 parses it."""

    def __init__(self, answer: dict[str, t.Any]) -> None:
        self.answer = answer

    def as_result_dict(self, *, for_round_trip: bool = False) -> dict[str, t.Any]:
        """Return the answer; without `for_round_trip`, keys that Ansible itself reads later are missing."""
        assert for_round_trip
        return dict(self.answer)


def test_an_answer_that_ansible_parses_into_an_object_is_returned_as_a_dict() -> None:
    asked = action(printed=ran({"changed": True, "plan": ["+"]}))
    asked._parse_returned_data = lambda result, profile: Parsed(json.loads(result["stdout"]))
    answer = by_engine(asked, destination="10.0.0.0/8", device="eth0")
    assert (answer["changed"], answer["plan"]) == (True, ["+"])
    assert answer["invocation"]["module_args"]["destination"] == "10.0.0.0/8"


def test_arguments_and_environment_are_input_and_no_part_of_the_command() -> None:
    asked = action(printed=ran({"changed": False, "generation": 3}), environment={"TOKEN": SECRET, "N": 1})
    answer = by_engine(asked, "baremetal.host_routing.node_info", gather=["engine"], bgp_passwords=SECRET)
    ((command, given),) = asked.commands
    start = f"/usr/bin/python3 -I -B /usr/local/lib/calico/start module {engine_call.engine_digest()}"
    assert command == f"{start} node_info"
    request = json.loads(given)
    assert request["environment"] == {"TOKEN": SECRET, "N": "1"}
    assert request["check"] is True and request["diff"] is False
    assert request["params"]["bgp_passwords"] == SECRET and request["params"]["policy"] is True
    assert request["log"]["hidden"] == ["bgp_passwords"]
    assert SECRET not in json.dumps(answer) and answer["generation"] == 3
    assert answer["invocation"]["module_args"]["bgp_passwords"] == "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"


def test_an_action_that_does_not_show_its_arguments_gets_none_of_them() -> None:
    asked = action(printed=ran({"changed": False, "generation": 3}))
    asked.shows_arguments = False
    answer = by_engine(asked, "baremetal.host_routing.node_info", gather=["engine"], bgp_passwords=SECRET)
    assert answer["generation"] == 3 and "invocation" not in answer


def test_nothing_is_logged_of_a_task_with_no_log() -> None:
    asked = action(printed=ran({}))
    asked._task.no_log = True
    by_engine(asked, "baremetal.host_routing.route_info")
    assert json.loads(asked.commands[0][1])["log"] is None


def test_a_secret_that_an_answer_repeats_is_hidden() -> None:
    """A secret is hidden in texts of an answer, also in nested ones; True, None and numbers stay."""
    answer = {"msg": f"refused: {SECRET}", "changed": True, "state": None, "bgp": {"x": [SECRET]}, "generation": 1}
    asked = action(printed=ran(answer))
    shown = by_engine(asked, "baremetal.host_routing.node_info", bgp_passwords=SECRET)
    assert SECRET not in json.dumps(shown)
    assert (shown["changed"], shown["state"], shown["generation"]) == (True, None, 1)
    assert shown["msg"] == "refused: ********"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"destination": "10.0.0.0/8", "devise": "x"},
            "Unsupported parameters for (baremetal.host_routing.route) module: devise. Supported parameters"
            " include: destination, device, gateway, mtu, onlink, purge, routes, state, table, type.",
        ),
        ({}, "one of the following is required: routes, destination"),
        ({"destination": "10.0.0.0/8", "routes": []}, "parameters are mutually exclusive: routes|destination"),
        (
            {"destination": "10.0.0.0/8", "mtu": "many"},
            "argument 'mtu' is of type str and we were unable to convert to int: \"'many'\" cannot be converted to an"
            " int",
        ),
        ({"destination": "10.0.0.0/8", "state": "gone"}, "value of state must be one of: present, absent, got: gone"),
    ],
)
def test_wrong_arguments_reach_no_host(args: dict[str, t.Any], message: str) -> None:
    asked = action()
    answer = by_engine(asked, **args)
    assert (answer["failed"], answer["msg"], asked.commands) == (True, message, [])


def test_a_path_of_the_node_is_not_the_controllers() -> None:
    spec = registry.spec("node")
    params = engine_call.validated(spec, "node", {"engine": "~/engine"}).params
    assert params["engine"] == "~/engine"


def test_an_answer_is_found_between_other_lines() -> None:
    answer = {"plan": ["+ route"], "changed": True}
    printed = f"Last login: today\n{{}}\n{ran(answer)}logout\n{engine_module.ANSWER}{{}}\n"
    assert engine_call.read(printed) == (True, json.dumps(answer), "")
    assert engine_call.read(f"{engine_module.STARTED}\r\n{engine_module.ANSWER}{{}}\r\n") == (True, "{}", "")


def test_a_large_answer_is_packed() -> None:
    answer = {"routes": [{"destination": f"10.{number}.0.0/16"} for number in range(5000)]}
    assert len(ran(answer)) < len(json.dumps(answer)) / 4
    assert json.loads(engine_call.read(ran(answer)).text) == answer


@pytest.mark.parametrize(
    "printed", ["", "{}", f"x{engine_module.STARTED}\n{engine_module.ANSWER}{{}}", f"{engine_module.ANSWER}{{}}\n"]
)
def test_output_that_does_not_say_so_is_no_start(printed: str) -> None:
    assert engine_call.read(printed)[:2] == (False, "")


def test_answers_that_cannot_be_unpacked_or_have_no_end_count_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = packed_json.pack_text(" " * (packed_json.LIMIT + 1))
    for packed in ("", "AAAA", "!", bomb, bomb[: len(bomb) // 2]):
        assert engine_call.read(f"{engine_module.STARTED}\n{engine_module.PACKED}{packed}\n")[:2] == (True, "")
    monkeypatch.setattr(packed_json, "LIMIT", 100)
    assert engine_call.read(ran({"msg": "x" * 200}))[:2] == (True, "")


def test_an_interpreter_that_is_to_be_discovered_is_discovered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = action(printed=ran({}), interpreter="auto")
    monkeypatch.setattr(engine_call, "discover_interpreter", lambda **dummy: "/usr/bin/python3.11")
    assert by_engine(asked, "baremetal.host_routing.route_info") is not None
    assert asked.commands[0][0].startswith("/usr/bin/python3.11 -I -B ")
    assert asked._discovered_interpreter_key == "discovered_interpreter_python"
    assert asked.task_vars["ansible_facts"] == {"discovered_interpreter_python": "/usr/bin/python3.11"}


def test_an_ansible_without_get_shebang_sends_the_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(engine_call.module_common, "_get_shebang")
    asked = action()
    assert by_engine(asked, "baremetal.host_routing.route_info") is None and asked.commands == []
