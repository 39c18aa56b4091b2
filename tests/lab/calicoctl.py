# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run many calicoctl commands on a host of the lab in one process, because starting Python for each takes minutes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from .handle import BaseLab

_PROGRAM = """
import contextlib, io, json, os, sys
sys.path.insert(0, os.path.realpath("/usr/local/lib/calico/current"))
from host_routing.cli.command import main
found = []
for words in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main(words)
    found.append([status, said.getvalue()])
json.dump(found, sys.stdout)
"""


class Answer(NamedTuple):
    """The exit status of a command, and its stdout and stderr as they came."""

    status: int
    text: str


def run_each(lab: BaseLab, node: str, commands: Sequence[Sequence[str]]) -> list[Answer]:
    """Run the commands, each the words after `calicoctl`, in their order; return their answers in that order.

    A command that fails does not end the others. Raise CommandFailed if the host has no engine, or after 180 seconds.
    """
    done = lab.exec(node, ["python3", "-c", _PROGRAM], input=json.dumps(commands), timeout=180)
    return [Answer(status, text) for status, text in json.loads(done.stdout)]


def must_each(lab: BaseLab, node: str, commands: Sequence[Sequence[str]]) -> None:
    """Run the commands as `run_each` does; raise AssertionError with the answers of those that failed, if any did."""
    failed = [answer for answer in run_each(lab, node, commands) if answer.status != 0]
    assert not failed, failed
