# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands with which files of the roles run a node's engine: all of them by the program that checks it first.

tests/integration/attacks/local_user/test_local_user_engine.py runs each of them with a changed engine.
"""

from __future__ import annotations

import re

from tests.conftest import ROOT

_ENGINES = "/usr/local/lib/calico/"
_COMMAND = re.compile(r"(?:Exec\w+=[-+!:@]*|exec )(\S*python3 .*)")


def engine_commands() -> dict[str, str]:
    """Return the commands of units and scripts of all roles that name a file below the folder of engines.

    The keys are "FILE:LINE". A line that continues another one is not read.
    """
    found = {}
    for path in sorted((ROOT / "roles").glob("*/*/**/*")):
        if path.is_file():
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                command = _COMMAND.match(line)
                if command and _ENGINES in line:
                    found[f"{path.name}:{number}"] = command.group(1)
    return found


def test_all_commands_run_the_engine_by_its_start() -> None:
    places = {place.partition(":")[0] for place in engine_commands()}
    assert places == {
        "calico-agent.service", "calico-docker.service", "calico-files.service", "calico-firewall.service",
        "calico-netns@.service", "calico-node-state.service", "calico-runtimes.service", "calicoctl",
    }  # fmt: skip
    started = f"/usr/bin/python3 -I {_ENGINES}start "
    assert [command for command in engine_commands().values() if not command.startswith(started)] == []


def test_the_engine_in_use_is_named_for_conditions_only() -> None:
    """No other line of a role leads to the engine past the check, however it is written."""
    lines = [
        (path.name, line)
        for path in sorted((ROOT / "roles").glob("*/*/**/*"))
        if path.is_file()
        for line in path.read_text("utf-8").splitlines()
        if f"{_ENGINES}current" in line
    ]
    assert [one for one in lines if not one[1].startswith("ConditionPathExists=")] == []
