# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line itself: help, typing errors, verbs that belong to the inventory, exit statuses."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import parser
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.refused import absent
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import features

from tests.unit.cli.conftest import Node

ROOT = pathlib.Path(__file__).resolve().parents[3]
REFUSED = (
    "calicoctl {} is not done here: the Ansible inventory says what this node is to have, and the next run would undo "
    "it. Change it there, and run playbooks/site.yml:\n"
)
PLACES = {
    "Node": "calico_node_address and calico_node_labels of the host (host_vars)",
    "IPPool": "calico_ip_pools (group_vars)",
    "BGPPeer": "calico_bgp_peers (group_vars) or calico_node_bgp_peers (host_vars)",
}


def places(*kinds: str, width: int = 16) -> str:
    return "".join(f"  {kind:<{width}}  {PLACES[kind]}\n" for kind in kinds)


def commands(made: parser.Parser) -> list[tuple[list[str], parser.Parser]]:
    """Return (words that lead to it, its parser) for `made` and for each command below it."""
    found = [([], made)]
    for name, inner in made.subparsers():
        found += [([name, *words], deeper) for words, deeper in commands(inner)]
    return found


@pytest.mark.parametrize("words", [words for words, dummy in commands(parser.build())], ids=" ".join)
def test_every_command_has_help(node: Node, words: list[str]) -> None:
    status, out, err = node.run(*words, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: {' '.join(['calicoctl', *words])} ")
    assert "Exit status: 0 done, 1 problems were found or it failed, 2 the command line was not understood." in out


@pytest.mark.parametrize("command", ["", "xyz", "get", "label"])
def test_a_parser_for_one_command_lists_all(command: str) -> None:
    """A parser that builds one command, or none, has the help of the parser that builds all."""
    assert parser.build(command=command).format_help() == parser.build().format_help()


def test_newer_pythons_ask_a_listed_command_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is only listed takes every question of argparse: Python 3.14 checks the help of each."""
    add = argparse._SubParsersAction.add_parser

    def checking(self: t.Any, name: str, **named: t.Any) -> t.Any:
        made = add(self, name, **named)
        t.cast("t.Any", made)._check_help(None)
        return made

    monkeypatch.setattr(argparse._SubParsersAction, "add_parser", checking)
    monkeypatch.setattr(argparse.ArgumentParser, "_check_help", lambda *dummy: None, raising=False)
    parser.build(command="get")


def test_every_command_leads_to_a_function() -> None:
    """The parser names functions that exist, except for commands that are parsed for their help alone.

    Those about live policy alone have a function that `main` is given.
    """
    for words, made in commands(parser.build()):
        if made.get_default("run") == parser.LIVE:
            assert words[0] in ("diff", "history", "rollback")
        elif made.get_default("run"):
            module, dummy, function = made.get_default("run").rpartition(".")
            assert callable(getattr(importlib.import_module(f"..commands.{module}", parser.__name__), function))
        else:
            assert list(made.subparsers()) or words[0] in {*absent.VERBS, "help"}


@pytest.mark.parametrize(
    ("words", "most"), [(["--help"], 60), (["get", "--help"], 60), (["xyz"], 60), (["get", "nodes"], 120)]
)
def test_a_command_imports_little(words: list[str], most: int) -> None:
    """Help and errors need few of the modules of this collection, because a call's time is mostly that of imports."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from module_utils.cli import command\n"
        "command.main(sys.argv[2:])\n"
        "sys.exit(str(sum(name.startswith('module_utils') for name in sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(ROOT / "plugins"), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert int(done.stderr.splitlines()[-1]) <= most


def test_every_option_and_argument_that_is_not_obvious_is_described() -> None:
    for dummy, made in commands(parser.build()):
        for action in made._actions:
            plain = isinstance(action, argparse._SubParsersAction) or action.metavar in ("NAME", "ADDRESS", "KIND")
            assert action.help or plain or action.dest == "namespace", action


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("gte nodes", "calicoctl: unknown command 'gte'. Did you mean get? See `calicoctl --help`."),
        ("xyz", "calicoctl: unknown command 'xyz'. See `calicoctl --help`."),
        ("ipam shwo", "calicoctl ipam: unknown command 'shwo'. Did you mean show? See `calicoctl ipam --help`."),
        (
            "ipam show --shwo-blocks",
            "calicoctl ipam show: unknown option '--shwo-blocks'. Did you mean --show-blocks? "
            "See `calicoctl ipam show --help`.",
        ),
        (
            "workload add web --ip 10.244.3.9",
            "calicoctl workload add: unknown option '--ip'. Did you mean --address? See `calicoctl workload add "
            "--help`.",
        ),
        (
            "workload add web --ip6=fd00::9",
            "calicoctl workload add: unknown option '--ip6'. Did you mean --address6? See `calicoctl workload add "
            "--help`.",
        ),
        (
            "ipam show --address 10.244.3.9",
            "calicoctl ipam show: unknown option '--address'. Did you mean --ip? See `calicoctl ipam show --help`.",
        ),
        ("ipam check now", "calicoctl ipam check: unknown argument 'now'. See `calicoctl ipam check --help`."),
        (
            "validate hosts.yml",
            "calicoctl validate: unknown argument 'hosts.yml'. Did you mean -i hosts.yml? See `calicoctl validate "
            "--help`.",
        ),
        ("validate hosts", "calicoctl validate: unknown argument 'hosts'. See `calicoctl validate --help`."),
        ("--verison", "calicoctl: The following arguments are required: COMMAND. See `calicoctl --help`."),
        (
            "--verison ipam check",
            "calicoctl: unknown option '--verison'. Did you mean --version? See `calicoctl --help`.",
        ),
        ("-o json get nodes", "calicoctl: unknown command 'json'. See `calicoctl --help`."),
        ("help gte", "calicoctl: unknown command 'gte'. Did you mean get? See `calicoctl --help`."),
        (
            "workload list -i hosts",
            "calicoctl workload list: unknown option '-i'. This command is about one node: run it there. -i INVENTORY "
            "is for `get`, `export`, `ipam show`, `ipam check`, `policy explain`, `scale`, `validate`, and for `apply` "
            "and its like. See `calicoctl workload list --help`.",
        ),
        (
            "node status --config=/etc/calico.cfg",
            "calicoctl node status: unknown option '--config'. This command asks no datastore: leave it out. "
            "See `calicoctl node status --help`.",
        ),
        (
            "-l debug get nodes",
            "calicoctl get: unknown option '-l'. Nothing is logged here: errors are on stderr. Leave it out. "
            "See `calicoctl get --help`.",
        ),
        (
            "--inventory=hosts status",
            "calicoctl status: unknown option '--inventory'. This command is about one node: run it there. "
            "-i INVENTORY is for `get`, `export`, `ipam show`, `ipam check`, `policy explain`, `scale`, `validate`, "
            "and for `apply` and its like. See `calicoctl status --help`.",
        ),
        ("-i hosts", "calicoctl: unknown command 'hosts'. See `calicoctl --help`."),
        (
            "--allow-version-mismatch",
            "calicoctl: The following arguments are required: COMMAND. See `calicoctl --help`.",
        ),
        (
            "ipam show --show-borrowed",
            "calicoctl ipam show: unknown option '--show-borrowed'. No address is borrowed here: a node takes those of "
            "its own blocks alone. See `calicoctl ipam show --help`.",
        ),
        (
            "version --poll 5s",
            "calicoctl version: unknown option '--poll'. Repeat the command by `watch`. "
            "See `calicoctl version --help`.",
        ),
        ("", "calicoctl: The following arguments are required: COMMAND. See `calicoctl --help`."),
        (
            "ipam release",
            "calicoctl ipam release: The following arguments are required: --ip. See `calicoctl ipam release --help`.",
        ),
        (
            "workload add x --mtu big",
            "calicoctl workload add: Argument --mtu: invalid int value: 'big'. See `calicoctl workload add --help`.",
        ),
    ],
)
def test_an_unknown_command_or_option_is_refused_with_a_hint(node: Node, line: str, error: str) -> None:
    assert node.run(*line.split()) == (2, "", f"{error}\n")


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        (
            "node --allow-version-mismatch run --node-image=x",
            "there is no command `node run` here: playbooks/site.yml makes hosts nodes; on them systemd runs BIRD and "
            "the agent (calico-bird, calico-agent).",
        ),
        (
            "ipam configure --strictaffinity=true",
            "there is no command `ipam configure` here: blocks are always strict here, as "
            "`calicoctl ipam show --show-configuration` shows. The inventory sets the rest: calico_spare_blocks "
            "(group_vars) and calico_node_agent_address_cooldown.",
        ),
        (
            "--allow-version-mismatch cluster diags --help",
            "there is no command `cluster` here: `calicoctl node diags` gathers what helps of one node, and "
            "playbooks/status.yml looks at all nodes.",
        ),
        (
            "datastore migrate export",
            "there is no command `datastore` here: the inventory and its lockfile are the data. Keep both in git, "
            "print them by `calicoctl export -i INVENTORY`, and make them from a Calico's documents by `calicoctl "
            "import FILE... --to FOLDER`.",
        ),
        (
            "convert -f old.yaml",
            "there is no command `convert` here: documents are projectcalico.org/v3, here as in Calico. `calicoctl "
            "import FILE... --to FOLDER` also reads those that Kubernetes stores, crd.projectcalico.org/v1.",
        ),
        ("checksystem", "there is no command `checksystem` here: it is `calicoctl node checksystem`."),
    ],
)
def test_an_absent_calico_command_names_what_replaces_it(node: Node, line: str, instead: str) -> None:
    assert node.run(*line.split()) == (2, "", f"calicoctl: {instead}\n")


def test_no_existing_command_is_answered_as_absent() -> None:
    """A command of the parser is never answered by the table of commands that do not exist here."""
    assert [words for words, dummy in commands(parser.build()) if absent.instead(words)] == []


def test_the_commands_that_take_an_inventory_are_those_that_are_named() -> None:
    found = [words for words, made in commands(parser.build()) if "--inventory" in made._option_string_actions]
    of_changes, words = set(absent.VERBS), set(map(" ".join, found))
    assert sorted(words - of_changes) == [
        "export",
        "get",
        "ipam check",
        "ipam show",
        "policy explain",
        "scale",
        "validate",
    ]
    assert of_changes <= words


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("help", "--help"),
        ("help get", "get --help"),
        ("help ipam show", "ipam show --help"),
        ("ipam help", "ipam --help"),
        ("help apply", "apply --help"),
    ],
)
def test_help_is_a_command_too(node: Node, line: str, same: str) -> None:
    answer = node.run(*line.split())
    assert answer == node.run(*same.split())
    assert (answer[0], answer[2]) == (0, "")


def test_the_version_is_an_option_too(node: Node) -> None:
    assert node.run("--version") == (0, f"calicoctl {VERSION}\n", "")


def test_an_option_of_calico_changes_nothing(node: Node) -> None:
    node.store()
    plain = node.run("get", "ippools")
    assert node.run("get", "ippools", "--allow-version-mismatch") == plain
    assert node.run("--allow-version-mismatch", "get", "ippools") == plain
    assert plain[0] == 0


def test_a_controller_is_no_node(node: Node) -> None:
    """On a host that is no node, the collection's calicoctl says so, and how to go on."""
    node.controller = True
    none = "calicoctl: this host is no node: it has no NODE/calico/state.json and no engine in NODE/engine. "
    ask = "Name the inventory to ask with -i INVENTORY, or run this on a node.\n"
    assert node.run("get", "nodes") == (1, "", none + ask)
    assert node.run("ipam", "show") == node.run("ipam", "check") == (1, "", none + ask)
    assert node.run("policy", "explain", "--from", "a", "--to", "b", "--port", "1/tcp") == (2, "", none + ask)
    there = "Run this on a node. For all nodes there are playbooks/status.yml and `calicoctl get -i INVENTORY`.\n"
    for line in ("status", "node status", "node diags"):
        assert node.run(*line.split()) == (1, "", none + there)
    way = "Name a file with the way to the fleet's datastore with -c FILE, or run this on a node.\n"
    assert node.run("workload", "list") == (1, "", none + way)
    assert node.run("scale", "5")[0] == 0
    (node.folder / "engine" / ("0" * 16)).mkdir(parents=True)
    (node.folder / "engine" / ("0" * 16) / "__main__.py").touch()
    (node.folder / "engine" / "current").symlink_to("0" * 16)
    assert node.run("get", "nodes")[2].startswith("calicoctl: this node has no state yet: ")
    node.store()
    assert node.run("get", "nodes")[0] == 0


def test_output_formats_are_named(node: Node) -> None:
    status, out, err = node.run("node", "status", "-o", "xml")
    assert (status, out) == (2, "")
    assert err == (
        "calicoctl node status: unrecognized output format 'xml'. Use text or json. "
        "See `calicoctl node status --help`.\n"
    )


@pytest.mark.parametrize(
    ("line", "verb", "kinds"),
    [
        ("delete ippool default-ipv4-ippool", "delete", ["IPPool"]),
        ("label nodes node1 rack=b --overwrite", "label", ["Node"]),
        ("patch bgpp x -p {}", "patch", ["BGPPeer"]),
        ("apply -f FILE", "apply", ["IPPool", "BGPPeer"]),
        ("apply --filename FILE", "apply", ["IPPool", "BGPPeer"]),
        ("--allow-version-mismatch -c cfg apply -f FILE", "apply", ["IPPool", "BGPPeer"]),
    ],
)
def test_verbs_of_the_inventory(node: Node, line: str, verb: str, kinds: list[str]) -> None:
    path = node.folder / "x.yaml"
    path.write_text('kind: IPPool\n---\nkind: "BGPPeer"\n---\nkind: IPPool\nspec:\n  kinds: Node\n')
    expected = REFUSED.format(verb) + places(*kinds)
    assert node.run(*line.replace("FILE", str(path)).split()) == (1, "", expected)


def test_verbs_of_the_inventory_without_a_kind_name_all_variables(node: Node) -> None:
    status, out, err = node.run("create")
    assert (status, out, err.count("\n")) == (1, "", 19)
    assert err.startswith(REFUSED.format("create") + places("Node", "IPPool", "BGPPeer", width=25))


@pytest.mark.parametrize("line", ["-f {}", "--filename {}", "--filename={}", "-f{}"])
def test_a_file_that_does_not_exist_comes_first(node: Node, line: str) -> None:
    (node.folder / "there").mkdir()
    (node.folder / "there" / "x.yaml").write_text("kind: IPPool\n")
    (node.folder / "there" / "x.txt").write_text("kind: Node\n")
    first, second = (line.format(node.folder / name).split() for name in ("there", "gone.yaml"))
    expected = "calicoctl apply: -f NODE/gone.yaml does not exist.\n" + REFUSED.format("apply") + places("IPPool")
    assert node.run("apply", *second, *first) == (1, "", expected)


def test_a_reader_that_has_seen_enough(tmp_path: pathlib.Path) -> None:
    """A reader that closes the pipe early, as in `calicoctl get pools | true`, causes status 1 and no traceback."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from host_routing.cli.command import main; "
        "sys.exit(main(['get', '-o', 'yaml', 'pools'], None))"
    )
    (tmp_path / "host_routing").symlink_to(ROOT / "plugins" / "module_utils")
    program = program.replace(
        "None",
        "__import__('host_routing.node.machine', fromlist=['x']).Machine(None, store=sys.argv[2])",
    )
    from tests.unit.cli.conftest import STATE, Store, Stored

    Store(str(tmp_path / "calico")).save(Stored(STATE, None, (), "x", complete=True))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path), str(tmp_path / "calico")],
        stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_the_program_of_nodes_is_a_shell_script_that_hands_everything_on() -> None:
    path = ROOT / "roles" / "calico_node" / "files" / "calicoctl"
    assert path.read_text().splitlines()[-1] == ('exec /usr/bin/python3 -I /usr/local/lib/calico/start calicoctl "$@"')
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0


def test_a_kernel_that_refuses_is_no_fault_of_the_program(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal of the kernel is an error in words, with exit status 1, which a fault of the program has as well."""

    def refuse(*dummy: object) -> None:
        raise KernelError(errno.EPERM, "read devices")

    monkeypatch.setattr(features, "observe", refuse)
    assert node.run("node", "checksystem")[::2] == (
        1,
        f"calicoctl: the kernel cannot be asked: {KernelError(errno.EPERM, 'read devices')}. Run calicoctl as root.\n",
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "a file or the output cannot be read or written: No space"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x cannot be read or written: Permission denied"),
        (OSError("odd"), "a file or the output cannot be read or written: odd"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    node: Node, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    """An error of the file system is an error in words, and not called a fault of the program."""

    def refuse(*dummy: object) -> None:
        raise error

    monkeypatch.setattr(features, "observe", refuse)
    status, dummy, said = node.run("node", "checksystem")
    assert status == 1
    assert said.startswith(f"calicoctl: {message}")
