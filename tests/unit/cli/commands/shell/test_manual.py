# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""calicoctl(1): all of the command line is in it."""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import parser
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.command_parser import Parser
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.shell import manual

from tests.unit.cli.test_command import commands

ROOT = pathlib.Path(__file__).resolve().parents[5]
PAGE = ROOT / "roles" / "calico_node" / "files" / "shell" / "calicoctl.1"


def test_the_manual_has_every_command_and_option() -> None:
    """Each command with a function has a section, with all its own options."""
    text = PAGE.read_text("utf-8").replace("\\-", "-")
    sections = dict(re.findall(r'^\.SS "([^"]*)"\n(.*?)(?=^\.S)', text, re.MULTILINE | re.DOTALL))
    assert list(sections) == [
        " ".join(words) for words, made in commands(parser.build()) if not list(made.subparsers())
    ]
    for words, made in commands(parser.build()):
        for action in made._actions:
            if action.option_strings and " ".join(words) in sections and action.dest not in _EVERYWHERE:
                assert f"\\fB{action.option_strings[-1]}\\fR" in sections[" ".join(words)]


_EVERYWHERE = ("help", "allow_version_mismatch")


def test_text_of_a_parser_is_no_macro() -> None:
    """Help that begins with a dot, or has a backslash or quotes, is shown as it is."""
    root = Parser("calicoctl")
    made = root.add_subparsers().add_parser("x", help="h", description=".so /etc/passwd\n'br \\fBbold")
    made.add_argument("--one", help='.de a "b"', metavar="-A")
    made.add_argument("--hidden", help=argparse.SUPPRESS)
    lines = manual.page(root).splitlines()
    assert "\\&.so /etc/passwd" in lines and "\\&'br \\efBbold" in lines and "\\&.de a \\(dqb\\(dq" in lines
    assert "\\fB\\-\\-one\\fR \\fI\\-A\\fR" in lines and "hidden" not in "".join(lines)


def test_the_files_of_the_role_are_up_to_date() -> None:
    program = [sys.executable, str(ROOT / "docs" / "generate_manual.py"), "--check"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
