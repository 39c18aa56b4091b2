# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line itself: help, typing errors, verbs that belong to the inventory, exit statuses."""

from __future__ import annotations

import argparse
import errno
import os
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import parser
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
    for name, inner in made._subparsers_of():
        found += [([name, *words], deeper) for words, deeper in commands(inner)]
    return found


@pytest.mark.parametrize("words", [words for words, dummy in commands(parser.build())], ids=" ".join)
def test_every_command_has_help(node: Node, words: list[str]) -> None:
    status, out, err = node.run(*words, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: {' '.join(['calicoctl', *words])} ")
    assert "Exit status: 0 done, 1 problems were found or it failed, 2 the command line was not understood." in out


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
            "calicoctl: unknown option '--shwo-blocks'. Did you mean --show-blocks? See `calicoctl --help`.",
        ),
        ("ipam check now", "calicoctl: unknown argument 'now'. See `calicoctl --help`."),
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
def test_what_was_mistyped(node: Node, line: str, error: str) -> None:
    assert node.run(*line.split()) == (2, "", f"{error}\n")


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
    ],
)
def test_verbs_of_the_inventory(node: Node, line: str, verb: str, kinds: list[str]) -> None:
    path = node.folder / "x.yaml"
    path.write_text('kind: IPPool\n---\nkind: "BGPPeer"\n---\nkind: IPPool\nspec:\n  kinds: Node\n')
    expected = REFUSED.format(verb) + places(*kinds)
    assert node.run(*line.replace("FILE", str(path)).split()) == (1, "", expected)


def test_verbs_of_the_inventory_without_a_kind_name_all_variables(node: Node) -> None:
    status, out, err = node.run("create", "-f", "/no/such/file")
    assert (status, out, err.count("\n")) == (1, "", 17)
    assert err.startswith(REFUSED.format("create") + places("Node", "IPPool", "BGPPeer", width=25))


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
        stdout=writer, stderr=subprocess.PIPE, check=False, timeout=30,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_the_program_of_nodes_is_a_shell_script_that_hands_everything_on() -> None:
    path = ROOT / "roles" / "calico_node" / "files" / "calicoctl"
    assert path.read_text().splitlines()[-1] == (
        'exec /usr/bin/python3 -I /usr/local/lib/calico/current calicoctl "$@"'
    )
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
