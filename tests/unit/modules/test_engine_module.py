# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of a module's start by the installed engine, with a real engine in processes of their own."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import engine_module, registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle, engine_start
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import engine_call

from tests.fakes.forged_engine import whole_engine

SOURCE = pathlib.Path(bundle.__file__).resolve().parents[2]
DIGEST = bundle.bundle_digest(str(SOURCE))
REQUEST = {"params": {}, "check": False, "diff": False, "environment": {}, "traceback": False, "log": None}
LOOPBACK = {**REQUEST, "params": {"interface": "lo"}}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lib") / "calico"
    assert bundle.install(whole_engine(), DIGEST, str(folder))
    return folder


def start(root, name, request, digest=DIGEST, before="pass"):
    """Run `start module <digest> <name>` of the engine in `root` with `request` as JSON on its stdin.

    `before` is Python code that runs first in the process. Return the CompletedProcess, also if it failed. Raise
    subprocess.TimeoutExpired after 60 seconds.
    """
    code = (
        f"import sys; {before}; sys.path.insert(0, {str(SOURCE / 'node' / 'engine')!r}); import engine_start;"
        f" sys.path.pop(0); sys.exit(engine_start.run_module({[digest, name]!r}, {str(root)!r}))"
    )
    return subprocess.run(
        [sys.executable, "-I", "-B", "-c", code],
        input=json.dumps(request), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def answer_of(done):
    output = engine_call.read(done.stdout)
    assert output.started, done
    return json.loads(output.text)


def test_a_module_runs_and_writes_nothing_into_its_engine(root):
    before = sorted(path for path in root.rglob("*"))
    done = start(root, "interface_sysctl_info", LOOPBACK)
    assert done.returncode == 0 and done.stderr == ""
    assert answer_of(done)["settings"]["forwarding"] in (0, 1, True, False)
    assert sorted(path for path in root.rglob("*")) == before


def test_nothing_but_the_standard_library_and_the_engine_is_imported(root):
    """Every module of the registry can be loaded from an installed engine, without Ansible."""
    for folder, name in sorted((folder, name) for name, folder in registry.FOLDERS.items()):
        assert (root / DIGEST / "host_routing" / "modules" / folder / f"{name}.py").exists()
    code = (
        f"import sys; sys.path.insert(0, {str(root / DIGEST)!r}); from host_routing.modules import registry;"
        "[registry.load(name) for name in registry.FOLDERS];"
        "sys.exit(any(name.startswith('ansible') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-I", "-B", "-S", "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("name", "most"), [("node_info", 140), ("node", 210), ("node_status_info", 120)])
def test_a_module_that_each_run_calls_loads_little(name, most):
    """A call's time is mostly that of loading code. A node without policy needs nothing of the datastore's."""
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); from module_utils.modules import registry;"
        f"registry.load({name!r}); print(*(name for name in sys.modules if name.startswith('module_utils')))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert len(loaded) <= most, len(loaded)
    rooms = {module.split(".")[1] for module in loaded if "." in module}
    assert not rooms & {"datastore", "resources"}


def test_loaded_code_is_no_garbage_to_look_for(root):
    seen = "import atexit, gc; atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count(), file=sys.stderr))"
    done = start(root, "interface_sysctl_info", LOOPBACK, before=seen)
    enabled, frozen = done.stderr.split()
    assert enabled == "True" and int(frozen) > 1000


def test_an_absent_engine_has_a_status_of_its_own(root):
    for digest in ("0123456789abcdef", "../../../../tmp", "current", ""):
        done = start(root, "route_info", REQUEST, digest=digest)
        assert (done.returncode, done.stdout) == (engine_start.ABSENT, "")
    assert start(root / "nowhere", "route_info", REQUEST).returncode == engine_start.ABSENT


def test_an_engine_that_others_may_write_or_that_was_changed_is_refused(root):
    source = root / DIGEST / "host_routing" / "base" / "naming.py"
    for path in (root, root / DIGEST, root / "manifests", root / "start", source):
        mode = path.stat().st_mode
        for more in (0o020, 0o002):
            path.chmod(mode | more)
            done = start(root, "route_info", REQUEST)
            path.chmod(mode)
            assert (done.returncode, done.stdout) == (engine_start.ALTERED, "")
    (byte_code,) = (root / DIGEST / "host_routing" / "base" / "__pycache__").glob("naming.*.pyc")
    for path in (source, byte_code):
        before, times = path.read_bytes(), path.stat()
        path.write_bytes(before + b"\n")
        done = start(root, "route_info", REQUEST)
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert (done.returncode, done.stdout) == (engine_start.ALTERED, "")
    assert start(root, "interface_sysctl_info", LOOPBACK).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_engine_of_another_user_is_refused(root):
    for path in (root / DIGEST, root / "start"):
        os.chown(path, 65534, 65534)
        done = start(root, "route_info", REQUEST)
        os.chown(path, 0, 0)
        assert (done.returncode, done.stdout) == (engine_start.ALTERED, "")


def test_an_interpreter_without_byte_code_is_refused(root):
    done = start(root, "route_info", REQUEST, before="sys.implementation.cache_tag = 'cpython-399'")
    assert (done.returncode, done.stdout) == (engine_start.UNKNOWN_INTERPRETER, "")


def test_output_that_a_module_prints_is_not_part_of_its_answer():
    code = (
        "import os, sys; from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import"
        " engine_module, registry\n"
        "class Loud:\n"
        "    def run(self, module):\n"
        f"        print('{engine_module.ANSWER}{{}}')\n"
        "        os.system('echo of a program')\n"
        "        os.write(1, b'{}')\n"
        "        module.warn('once')\n"
        "        module.warn('once')\n"
        "        module.exit_json(changed=False, plan=('+ x',), names={'b', 'a'}, token=os.environ['TOKEN'])\n"
        "registry.load = lambda name: Loud()\n"
        "sys.exit(engine_module.main(['route']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps({**REQUEST, "environment": {"TOKEN": "t"}}),
        capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    expected = {"changed": False, "plan": ["+ x"], "names": ["a", "b"], "token": "t", "warnings": ["once"]}
    assert answer_of(done) == expected, done.stderr
    assert "of a program" in done.stderr and "of a program" not in done.stdout


class Faulty:
    """A module whose `run` raises `error`."""

    def __init__(self, error):
        self.error = error

    def run(self, module):
        raise self.error


def test_a_fault_of_a_module_is_an_answer(monkeypatch):
    monkeypatch.setattr(registry, "load", lambda name: Faulty(KeyError("x")))
    assert engine_module.answer_to("route", REQUEST) == {"failed": True, "msg": "'x'"}
    with_traceback = engine_module.answer_to("route", {**REQUEST, "traceback": True})
    assert "KeyError: 'x'" in with_traceback["exception"]
    monkeypatch.setattr(registry, "load", lambda name: Faulty(RuntimeError()))
    assert engine_module.answer_to("route", REQUEST)["msg"] == "RuntimeError"


def test_the_end_of_a_module_passes_its_handlers(monkeypatch):
    class Careless:
        def run(self, module):
            try:
                module.fail_json(msg=ValueError("text"), code=3)
            except Exception:  # noqa: BLE001 - what is tested
                module.exit_json(changed=True)

    monkeypatch.setattr(registry, "load", lambda name: Careless())
    assert engine_module.answer_to("route", REQUEST) == {"failed": True, "msg": "text", "code": 3}


def test_the_log_has_no_secrets():
    params = {"state": "x" * 3000, "bgp_passwords": "secret", "url": "https://me:word@host/x", "n": 1}
    line = engine_module.logged(params, ["bgp_passwords"])
    assert line.startswith("Invoked with state=xxx") and len(line) < 1200
    assert line.endswith("bgp_passwords=NOT_LOGGING_PARAMETER url=https://********@host/x n=1")
    assert engine_module.logged({}, []) == "Invoked"


@pytest.mark.parametrize("before", range(985, 1025))
def test_the_log_has_no_secret_that_is_cut_off(before: int):
    assert "word" not in engine_module.logged({"url": "x" * before + " https://me:wordword@host/"}, [])


def test_hostile_text_is_ascii_in_an_answer():
    line = engine_module.line_of({"msg": "\x1b[2J\u2028\ud800\n"})
    assert line.isascii() and "\x1b" not in line and "\n" not in line


def test_the_engine_that_a_module_runs_from_is_checked_once(root, monkeypatch):
    """A module does not read all files of its engine again, and still sees another file in the place of start."""
    monkeypatch.setattr(engine_start, "checked", {(os.path.realpath(root), DIGEST)})
    monkeypatch.setattr(engine_start, "problems", lambda *dummy: pytest.fail("all files are read again"))
    assert bundle.damage(str(root)) == ()
    start_file = root / "start"
    before = start_file.read_text()
    start_file.write_text("")
    assert bundle.damage(str(root)) == (f"{start_file} is another file",)
    start_file.write_text(before)
