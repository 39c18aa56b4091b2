# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Python that is too old for the engine says: one sentence, by files that Python 3.8 can parse."""

from __future__ import annotations

import ast
import importlib
import json
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import carried_start, engine_start

from tests.conftest import ROOT
from tests.fakes.forged_engine import whole_engine

ENGINE = ROOT / "plugins" / "module_utils"
#: All that runs on a node before the version of its Python has been looked at.
FIRST = (
    ENGINE / "__init__.py",
    ENGINE / "modules" / "__init__.py",
    ENGINE / "modules" / "archive_start.py",
    ENGINE / "node" / "__init__.py",
    ENGINE / "node" / "engine" / "__init__.py",
    ENGINE / "node" / "engine" / "carried_start.py",
    ENGINE / "node" / "engine" / "engine_start.py",
    *(ROOT / "plugins" / "modules").glob("*.py"),
)
GATE = ROOT / "roles" / "calico_etcd" / "files" / "gate" / "__main__.py"
SENTENCE = (
    f"Python 3.9.2 ({sys.executable}) is too old: baremetal.host_routing needs Python 3.11 or newer on nodes, which"
    " Debian 12 and 13 have, or one that ansible_python_interpreter names."
)


def by_old_python(program: str, *arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    """Run a program that takes its Python for 3.9.2; return its exit status, stdout and stderr."""
    old = f"import sys\nsys.version_info = (3, 9, 2, 'final', 0)\n{program}"
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", old, *arguments], input=given, capture_output=True, check=False, timeout=60
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("path", FIRST, ids=lambda path: str(path.relative_to(ROOT / "plugins")))
def test_files_that_run_first_can_be_parsed_by_python_3_8(path: pathlib.Path) -> None:
    ast.parse(path.read_bytes(), str(path), feature_version=(3, 8))


@pytest.mark.parametrize("path", FIRST, ids=lambda path: str(path.relative_to(ROOT / "plugins")))
def test_files_that_run_first_import_only_what_python_3_8_can_parse(path: pathlib.Path) -> None:
    """The modules import their own code last, after archive_start has looked at the version."""
    names: list[str] = []
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names += [f"{node.module or '.'}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    known = [name for name in names if name.split(".")[0] in sys.stdlib_module_names]
    others = [name for name in names if name not in known]
    if others and path.parent == ROOT / "plugins" / "modules":
        assert others[0] == "ansible.module_utils.basic.AnsibleModule"
        assert others[1].endswith(".module_utils.modules.archive_start")
    else:
        assert others in ([], ["node.engine.engine_start"])


def test_an_old_python_cannot_start_the_engine() -> None:
    program = f"import runpy; runpy.run_path({engine_start.__file__!r}, run_name='__main__')"
    for arguments in (("agent",), ("calicoctl", "version"), ("module", "0" * 16, "route_info")):
        assert by_old_python(program, *arguments) == (1, "", f"{SENTENCE}\n")


def test_an_old_python_cannot_start_an_engine_that_comes_with_the_call() -> None:
    packed = whole_engine()
    program = f"import runpy; runpy.run_path({carried_start.__file__!r}, run_name='__main__')"
    given = b"%d\n" % len(packed.data) + packed.data + json.dumps({}).encode()
    assert by_old_python(program, "0" * 16, packed.sha256, "route_info", given=given) == (1, "", f"{SENTENCE}\n")


def test_a_module_of_the_archive_fails_with_the_sentence() -> None:
    program = (
        f"sys.path.insert(0, {str(ROOT / '.build' / 'collections')!r})\n"
        "from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start\n"
        "print('this module goes on')"
    )
    status, output, error = by_old_python(program)
    assert (status, json.loads(output), error) == (1, {"failed": True, "msg": SENTENCE}, "")


def test_an_old_python_cannot_start_the_gate() -> None:
    ast.parse(GATE.read_bytes(), str(GATE), feature_version=(3, 8))
    sentence = SENTENCE.replace("baremetal", "the gate of baremetal").replace(" on nodes, which", ", which")
    sentence = sentence.replace(", or one that ansible_python_interpreter names", "")
    assert by_old_python(f"import runpy; runpy.run_path({str(GATE)!r})") == (1, "", f"{sentence}\n")


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 3), (4, 0, 0)])
def test_a_python_that_is_new_enough_is_not_refused(monkeypatch: pytest.MonkeyPatch, version: t.Any) -> None:
    monkeypatch.setattr(engine_start.sys, "version_info", version)
    assert engine_start.too_old() == ""


def test_the_oldest_python_is_one_fact() -> None:
    """Lint, ansible-test and the page of the project name the version that the engine asks for."""
    oldest = ".".join(map(str, engine_start.OLDEST_PYTHON))
    lint = importlib.import_module("tests.run.lint").checks()
    assert f"--target={oldest}-" in lint["vermin"]
    assert f"sys.version_info[:2] < {engine_start.OLDEST_PYTHON}" in GATE.read_text()
    assert f'python_requires: ">={oldest}"' in (ROOT / "tests" / "config.yml").read_text()
    settings = (ROOT / "pyproject.toml").read_text()
    assert f'target-version = "py{oldest.replace(".", "")}"' in settings and f'python_version = "{oldest}"' in settings
    assert re.search(rf"\| hosts \|.*Python {re.escape(oldest)}", (ROOT / "README.md").read_text())
