# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of a module's start by an engine that comes with the call, in processes of their own."""

from __future__ import annotations

import json
import marshal
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import carried_start
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import engine_call

from tests.fakes.forged_engine import forged, whole_engine

REQUEST = {
    "params": {"interface": "lo"},
    "check": False,
    "diff": False,
    "environment": {},
    "traceback": True,
    "log": None,
}
MODULE = "host_routing/modules/objects/interface_sysctl_info.py"
OTHER = "cpython-399 0123abcd"


def start(packed, request=REQUEST, folder="/", name="interface_sysctl_info"):
    """Run the controller's command for a module in a shell, and return the CompletedProcess, whatever its status."""
    command = engine_call.carrying_command(sys.executable, name, packed)
    given = engine_call.carried(packed) + json.dumps(request).encode()
    return subprocess.run(["sh", "-c", command], input=given, capture_output=True, check=False, timeout=60, cwd=folder)


def answer_of(done):
    output = engine_call.read(done.stdout.decode())
    assert output.started, done
    return json.loads(output.text)


def answering(text):
    """Return byte code of a module that answers every call with this text."""
    return compiled(f"def run(module):\n    module.exit_json(changed=False, said={text!r})\n")


def compiled(code):
    return bytes(carried_start.BYTE_CODE_HEAD) + marshal.dumps(compile(code, "forged.py", "exec"))


def test_a_module_runs_and_nothing_is_written(tmp_path):
    done = start(whole_engine(), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert answer_of(done)["settings"]["forwarding"] in (0, 1, True, False)
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_folder_in_which_it_starts_are_not_imported(tmp_path):
    for name in ("json.py", "hashlib.py", "host_routing.py"):
        (tmp_path / name).write_text("raise SystemExit('ATTACK')\n")
    assert start(whole_engine(), folder=tmp_path).returncode == 0


def test_byte_code_of_this_interpreter_is_run():
    assert answer_of(start(forged(whole_engine(), byte_code={MODULE: answering("byte code")})))["said"] == "byte code"


def test_the_module_finds_the_engine_that_came_with_its_call():
    code = compiled(
        "from ...node.engine import carried_start\n"
        "def run(module):\n"
        "    module.exit_json(said=[carried_start.arrived.sha256, carried_start.arrived.is_damaged()])\n"
    )
    packed = forged(whole_engine(), byte_code={MODULE: code})
    assert answer_of(start(packed))["said"] == [packed.sha256, False]


@pytest.mark.parametrize("interpreter", [OTHER, "", f"{sys.implementation.cache_tag} 0123abcd"])
def test_sources_are_compiled_for_another_interpreter(interpreter):
    packed = forged(whole_engine(), interpreter, byte_code={MODULE: answering("byte code")})
    assert "settings" in answer_of(start(packed))


def test_an_engine_that_is_not_the_one_of_its_sha256_runs_nothing():
    other = forged(whole_engine(), byte_code={MODULE: answering("byte code")})
    done = start(whole_engine()._replace(data=other.data))
    assert (done.returncode, done.stdout, done.stderr) == (carried_start.DAMAGED, b"", b"")


@pytest.mark.parametrize("interpreter", [None, OTHER])
def test_a_traceback_shows_files_and_lines_of_the_engine(interpreter):
    packed = forged(whole_engine(), interpreter) if interpreter else whole_engine()
    failure = answer_of(start(packed, {**REQUEST, "params": {}}))
    path = f"/usr/local/lib/calico/{engine_call.engine_digest()}/{MODULE}"
    assert f'File "{path}", line ' in failure["exception"]
    line = failure["exception"].partition(path)[2].splitlines()[1].strip()
    assert line in pathlib.Path(engine_call.SOURCE, MODULE.partition("/")[2]).read_text()
