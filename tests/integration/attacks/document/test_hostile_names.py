# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by names of nodes and workloads on the shell of an operator who completes them."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember

from tests.unit.cli.commands.shell.test_completion import typed_into_bash
from tests.unit.cli.conftest import STATE, WEB

ROOT = pathlib.Path(__file__).resolve().parents[4]
NAMES = (
    "$(touch PWNED)",
    "`touch PWNED`",
    "x;touch PWNED;",
    "x|touch PWNED",
    "x&touch PWNED",
    "x\ntouch PWNED\n",
    "-x",
)
#: calicoctl on the node in a folder of the test.
PROGRAM = """\
#!/bin/sh
exec python3 -I -c "import sys; sys.path.insert(0, '{root}/plugins')
from module_utils.cli.command import main
from module_utils.dataplane.kernel.port import Kernel
from module_utils.node.machine import Machine
sys.exit(main(sys.argv[1:], Machine(None, root='{folder}/root', store='{folder}/store', workloads='{folder}/workloads',
agent_socket='{folder}/no.sock')))" "$@"
"""


@pytest.mark.parametrize("line", ["calicoctl get nodes \t\t\r", "calicoctl workload del \t\t\r"])
def test_a_name_is_no_command_of_the_shell(tmp_path: pathlib.Path, line: str) -> None:
    """Name nodes and workloads so that a shell which inserts the name runs a command.

    Gain: a command as root, who completes a name and presses Enter.
    Precedent: CWE-78; completions that evaluate their words, as compgen -W does.
    Closed: 0.2.0
    Result: Only names that a shell reads as plain text are offered, by the program and again by the script.
    """
    nodes = tuple(FleetMember(name, "10.10.1.12/24", 64512) for name in (*NAMES, "node9"))
    Store(str(tmp_path / "store")).save(Stored(dataclasses.replace(STATE, nodes=nodes), None, (), "x", complete=True))
    records = Endpoints(str(tmp_path / "workloads"))
    for at, name in enumerate((*NAMES, "web-9")):
        records.save(dataclasses.replace(WEB, id=f"api.{at}", name=name, interface=f"cali{at}"))
    program = PROGRAM.format(root=ROOT, folder=tmp_path)
    shown = typed_into_bash(tmp_path, program, line, "9")
    assert "PWNED" not in shown and ("node9" in shown or "web-9" in shown)
    assert not (tmp_path / "PWNED").exists()
