# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The completion of shells: its words, and bash itself with the script, in a terminal."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import pty
import select
import shutil
import subprocess
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import parser
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.shell import asked_words, completion
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember

from tests.unit.cli.commands.test_inventory_resources import ANSWER
from tests.unit.cli.conftest import POD, STATE, WEB, Node, answering
from tests.unit.cli.fake_fleet import fleet_of, publish_workloads
from tests.unit.cli.test_command import commands

ROOT = pathlib.Path(__file__).resolve().parents[5]
SECONDS = 20


def words(node: Node, line: str) -> list[str]:
    """Return the words that are offered for the last one of a line, which is empty behind a space."""
    status, out, err = node.run(asked_words.ASK, *line.split(" "))
    assert (status, err) == (0, "")
    return out.splitlines()


@pytest.fixture
def known(node: Node) -> Node:
    node.store()
    records = Endpoints(node.machine.workloads)
    records.save(WEB)
    records.save(POD)
    return node


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("wo", ["workload"]),
        ("node ", ["checksystem", "diags", "status"]),
        ("get ipp", ["ippool", "ippools"]),
        ("get ippools ", ["default-ipv4-ippool", "lab"]),
        ("get ippool lab ", ["default-ipv4-ippool"]),
        ("get ippool/l", ["ippool/lab"]),
        ("get ippool/lab node/", ["node/node1", "node/node2", "node/node3"]),
        ("get nodes node", ["node1", "node2", "node3"]),
        ("get wep ", ["db", "web-1"]),
        ("get -n prod wep ", ["shop"]),
        ("get nodes -n ", ["default", "prod"]),
        ("get pods ", []),
        ("get ippools -o y", ["yaml"]),
        ("get ippools --output=y", ["--output=yaml"]),
        ("get ippools --output = y", ["yaml"]),
        ("get ippools -o c", ["custom-columns="]),
        ("ipam show -o ", ["json", "text"]),
        ("ipam show --show-b", ["--show-blocks"]),
        ("workload del ", ["db", "prod/shop", "web-1"]),
        ("workload add ", []),
        ("policy explain --from ", ["db", "node1", "node2", "node3", "prod/shop", "web-1"]),
        ("validate -f ", [asked_words.FILES]),
        ("-i ", [asked_words.FILES]),
        ("-i hosts get ipp", ["ippool", "ippools"]),
        ("completion ", ["bash", "fish", "zsh"]),
        ("log-level w", ["warning"]),
        ("help ipam re", ["release"]),
        ("nothing ", []),
        ("ipam nothing ", []),
    ],
)
def test_words_follow_from_the_parser_and_the_node(known: Node, line: str, expected: list[str]) -> None:
    assert words(known, line) == expected


def test_all_commands_and_options_are_offered(node: Node) -> None:
    for path, made in commands(parser.build()):
        line = "".join(f"{word} " for word in path)
        below = sorted(name for name, dummy in made.subparsers())
        if below:
            assert words(node, line) == below
        if path == ["help"]:
            continue
        offered = words(node, f"{line}--")
        assert offered == sorted(option for option in made._option_string_actions if option.startswith("--"))


def test_without_a_state_commands_are_offered_all_the_same(node: Node) -> None:
    assert words(node, "get nodes ") == []
    assert words(node, "ver") == ["version"]
    (node.folder / "calico").mkdir()
    (node.folder / "calico" / "state.json").write_text("{")
    assert words(node, "workload del ") == []


HOSTILE = (
    "$(touch PWNED)",
    "`touch PWNED`",
    "a;touch PWNED",
    "-rf",
    "a b",
    "a\nb",
    "~root",
    "x'",
    'x"',
    "\x1b[2J",
    "*",
)


def test_a_name_that_a_shell_would_read_as_code_is_not_offered(node: Node) -> None:
    """Names come from other parts of the fleet. Nothing of them may run when they stand on a command line."""
    members = tuple(FleetMember(name, "10.10.1.12/24", 64512) for name in (*HOSTILE, "node9"))
    node.store(dataclasses.replace(STATE, nodes=(*STATE.nodes, *members)))
    records = Endpoints(node.machine.workloads)
    for at, name in enumerate(HOSTILE):
        records.save(dataclasses.replace(WEB, id=f"api.{at}", name=name, interface=f"cali{at}"))
    assert words(node, "get nodes ") == ["node1", "node2", "node3", "node9"]
    assert words(node, "workload del ") == ["db"]


def typed_into_bash(folder: pathlib.Path, program: str, keys: str, until: str) -> str:
    """Return what an interactive bash with the completion shows, after the program's lines, until `until` appears."""
    (folder / "calicoctl").write_text(program)
    (folder / "calicoctl").chmod(0o755)
    (folder / "completion").write_text(completion.script("bash"))
    (folder / "rc").write_text(
        f"PATH={folder}:$PATH; PS1='ready> '; source {folder}/completion; cd {folder}\n"
        "bind 'set show-all-if-ambiguous on'; bind 'set enable-bracketed-paste off'; bind 'set page-completions off'\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execvp("bash", ["bash", "--noprofile", "--rcfile", str(folder / "rc"), "-i"])
    try:
        shown, sent, end = "", False, time.monotonic() + SECONDS
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536).decode("utf-8", "replace")
            if not sent and "ready> " in shown:
                os.write(terminal, keys.encode())
                sent, shown = True, ""
            elif sent and until in shown:
                break
        return shown
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def test_bash_completes_by_the_script(known: Node, tmp_path: pathlib.Path) -> None:
    """A Tab in an interactive bash inserts what the program answers."""
    start = "from module_utils.cli.command import main"
    program = (
        f"#!/bin/sh\nexec python3 -I -c \"import sys; sys.path.insert(0, '{ROOT}/plugins'); {start}; "
        'sys.exit(main(sys.argv[1:]))" "$@"\n'
    )
    shown = typed_into_bash(tmp_path, program, "calicoctl get ippoo\t\t -o nam\t", "name ")
    assert "calicoctl get ippool" in shown and "ippools" in shown and "-o name " in shown


@pytest.mark.parametrize("line", ["$(touch PWNED)", "`touch PWNED`", "x;touch PWNED", "a b", ":files\n:files"])
def test_bash_neither_runs_nor_inserts_hostile_words(tmp_path: pathlib.Path, line: str) -> None:
    """Even a program that answers with shell code gets none of it onto the command line."""
    (tmp_path / "answer").write_text(f"{line}\nsafe-word\n")
    program = '#!/bin/sh\n[ "$1" != __complete ] || cat answer\n'
    shown = typed_into_bash(tmp_path, program, "calicoctl get \t\r", "safe-word")
    assert "calicoctl get safe-word" in shown and "touch" not in shown
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_script_is_printed(node: Node, shell: str) -> None:
    """tests/docs_site/test_completion_shells.py runs those of zsh and fish."""
    assert node.run("completion", shell) == (0, completion.script(shell), "")


def test_an_unknown_shell(node: Node) -> None:
    status, out, err = node.run("completion", "tcsh")
    assert (status, out) == (2, "") and "tcsh" in err


def test_paths_are_completed_by_bash_itself(tmp_path: pathlib.Path) -> None:
    (tmp_path / "inventory.yml").touch()
    shown = typed_into_bash(tmp_path, "#!/bin/sh\necho :files\n", "calicoctl -i inv\t", "inventory.yml")
    assert "inventory.yml" in shown


def test_an_answer_that_takes_too_long_ends(tmp_path: pathlib.Path) -> None:
    """A name that cannot be read in time is not waited for: the process ends by itself."""
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from module_utils.cli import command, parser\n"
        "from module_utils.cli.commands.shell import asked_words, node_names\n"
        "asked_words._SECONDS = 1; node_names.NodeNames.nodes = lambda self: time.sleep(60)\n"
        "sys.exit(command.main(['__complete', 'policy', 'explain', '--from', '']))"
    )
    start = time.monotonic()
    subprocess.run([shutil.which("python3") or "python3", "-I", "-c", program, str(ROOT / "plugins")], check=False)
    assert time.monotonic() - start < SECONDS


# --- on the controller ---


@pytest.fixture
def inventory(node: Node, program: pathlib.Path) -> str:
    """An inventory whose names are noted, since `get` has read it once."""
    node.controller = True
    program.write_text(answering(json.dumps({"lines": [], "answer": ANSWER})))
    assert node.run("get", "ippools", "-i", str(node.folder / "hosts"))[0] == 0
    program.write_text("#!/bin/sh\ntouch ran\n")
    return str(node.folder / "hosts")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-i {} get ippool ", ["lab"]),
        ("get ippool/ -i {}", [asked_words.FILES]),
        ("get -i {} ippool/", ["ippool/lab"]),
        ("get -i{} nodes ", ["node1"]),
        ("get --inventory={} nodes ", ["node1"]),
        ("get -i {} -n prod wep ", ["web"]),
        ("get -i {} wep ", []),
        ("get -i {} nodes -n ", ["prod"]),
        ("patch -i {} ippool ", ["lab"]),
        ("delete ippool -i {} ", ["lab"]),
        ("policy explain -i {} --from ", ["node1", "prod/web"]),
        ("-i /elsewhere get ippool ", []),
        ("get ippool ", []),
    ],
)
def test_names_of_an_inventory_are_those_of_the_last_command(
    node: Node, inventory: str, line: str, expected: list[str]
) -> None:
    """A Tab does not run Ansible, which would run code of the inventory."""
    assert words(node, line.format(inventory)) == expected
    assert not pathlib.Path("ran").exists()


def test_names_that_are_noted_are_the_users_own(node: Node, inventory: str) -> None:
    line = f"-i {inventory} get ippool "
    (path,) = (node.folder / "cache" / "calicoctl").iterdir()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "10.245.0.0" not in path.read_text()  # names alone
    whole = path.read_bytes()
    path.chmod(0o622)
    assert words(node, line) == []
    for hostile in (b"[" * 100_000, b"{}", b'{"IPPool": [["", "x"], 7]}', b'{"IPPool": [["", "a;b"]]}', b"\xff"):
        path.unlink()
        path.write_bytes(hostile)
        path.chmod(0o600)
        assert words(node, line) == []
    path.unlink()
    (node.folder / "elsewhere").write_bytes(whole)
    path.symlink_to(node.folder / "elsewhere")
    assert words(node, line) == []


def test_hostile_names_of_an_inventory_are_not_offered(node: Node, inventory: str) -> None:
    (path,) = (node.folder / "cache" / "calicoctl").iterdir()
    path.write_text(json.dumps({"IPPool": [["", name] for name in (*HOSTILE, "good")]}))
    assert words(node, f"-i {inventory} get ippool ") == ["good"]


@pytest.mark.parametrize("cache", ["", "relative", "/proc/none"])
def test_a_command_answers_where_names_cannot_be_noted(
    node: Node, inventory: str, program: pathlib.Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", "")
    program.write_text(answering(json.dumps({"lines": [], "answer": ANSWER})))
    assert node.run("get", "ippools", "-o", "name", "-i", inventory) == (0, "ippool/lab\n", "")
    assert words(node, f"-i {inventory} get ippool ") == []


def test_the_datastore_has_names_on_the_controller(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_workloads(fleet_of(node, monkeypatch))
    node.controller = True
    assert words(node, "get nodes ") == ["node1", "node2", "node3"]
    assert words(node, "get wep ") == ["db-2", "gone", "web-2"]
    assert words(node, "workload list --node ") == ["node1", "node2", "node3"]
    assert words(node, "get ippools ") == []
