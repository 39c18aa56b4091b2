# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that outlives its starter, whose pipes close all the same."""

from __future__ import annotations

import os
import subprocess
import sys

START = (
    "from ansible_collections.baremetal.host_routing.plugins.module_utils.node import left_behind;"
    "left_behind.start(['sh', '-c', 'read line < gate; echo $(pwd) $(ps -o sid= -p $$) > out'.replace("
    "'gate', {gate!r}).replace('out', {out!r})])"
)


def test_it_goes_on_in_a_session_of_its_own(tmp_path):
    gate, out = str(tmp_path / "gate"), str(tmp_path / "out")
    for path in (gate, out):
        os.mkfifo(path)
    paths = os.pathsep.join(path for path in sys.path if path)
    starter = subprocess.run(
        [sys.executable, "-c", START.format(gate=gate, out=out)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (starter.stdout, starter.stderr) == ("", ""), "it ended, and so did its pipes"
    with open(gate, "w", encoding="utf-8") as stream:
        stream.write("go\n")
    with open(out, encoding="utf-8") as stream:
        folder, session = stream.read().split()
    assert folder == "/"
    assert int(session) != os.getsid(0)
