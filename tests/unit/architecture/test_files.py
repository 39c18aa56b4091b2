# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for files: licences, names, JSON, what galaxy.yml declares, a suite for each test."""

from __future__ import annotations

import ast
import json
import pathlib
import re
import runpy
import subprocess
import sys

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
# The string is in two parts, because `reuse lint` would take the whole for a header.
HEADER = "SPDX-License" + "-Identifier: "
HEADERLESS = {".cast", ".json", ".pcap", ".png", ".svg", ".txt", ".rst", ".tsv", ".gz"}
DECLARED = ("LICENSES", "changelogs", "tests/unit/cases", "tests/unit/fuzz/corpus")


def known_to_git() -> list[pathlib.Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    return [ROOT / name for name in sorted(set(listed.split("\0")) - {""}) if (ROOT / name).is_file()]


def name(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_file_has_a_licence_header() -> None:
    without = []
    for path in known_to_git():
        if path.suffix in HEADERLESS or any(path.is_relative_to(ROOT / folder) for folder in DECLARED):
            continue  # REUSE.toml has the licences of these, and `reuse lint` checks that
        head = path.read_bytes()[:1500].decode("utf-8", "replace")
        if path.stat().st_size and HEADER not in head:
            without.append(name(path))
    assert without == []


def test_no_file_is_a_drawer_for_everything() -> None:
    stems = {"utils", "util", "helper", "helpers", "manager", "misc", "common"}
    assert [name(path) for path in known_to_git() if path.stem.lower() in stems] == []


def test_the_engine_knows_its_release() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
    assert constant_of(ROOT / "plugins" / "module_utils" / "base" / "release.py", "VERSION") == galaxy["version"]


def test_every_module_is_in_the_action_group_and_no_other() -> None:
    group = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))["action_groups"]["host_routing"]
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if path.stem != "__init__"}
    assert set(group) == modules


def suites() -> list:
    folder = ROOT / "tests" / "run"
    sys.path.insert(0, str(folder))
    try:
        return list(runpy.run_path(str(folder / "suites.py"))["SUITES"])
    finally:
        sys.path.remove(str(folder))


def test_every_test_is_run_by_a_suite() -> None:
    """Every test file and molecule scenario is run by a suite."""
    covered = [ROOT / folder for suite in suites() for folder in suite.covers]
    tests = [path for path in known_to_git() if path.name.startswith("test_") and path.suffix == ".py"]
    tests += [path.parent for path in known_to_git() if path.name == "molecule.yml"]
    missed = [name(path) for path in tests if not any(path.is_relative_to(folder) for folder in covered)]
    assert missed == [], "name them in tests/run/suites.py"


def test_suites_cover_only_what_exists() -> None:
    missing = [folder for suite in suites() for folder in suite.covers if not (ROOT / folder).exists()]
    assert missing == []


def test_json_files_are_json() -> None:
    for path in known_to_git():
        if path.suffix == ".json":
            json.loads(path.read_text("utf-8"))


def test_every_module_says_what_its_attributes_are() -> None:
    """Every module documents its attributes, such as check_mode, through plugins/doc_fragments/attributes.py."""
    needed = {"baremetal.host_routing.attributes", "baremetal.host_routing.attributes.actiongroup_host_routing"}
    without = []
    for path in sorted((ROOT / "plugins" / "modules").glob("*.py")):
        document = yaml.safe_load(constant_of(path, "DOCUMENTATION"))
        if not needed <= set(document.get("extends_documentation_fragment", ())):
            without.append(name(path))
    assert without == []


def test_a_name_of_an_older_release_leads_to_one_of_this_release() -> None:
    """No variable or module has a name of an older release, and the name that its message suggests exists."""
    roles = [yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")]
    options = {option for role in roles for spec in role["argument_specs"].values() for option in spec["options"]}
    assert set(variables.RENAMED.values()) <= options | set(variables.BY_NAME)
    assert not set(variables.RENAMED) & (options | set(variables.BY_NAME))
    routing = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))["plugin_routing"]
    assert {old: entry for old, entry in routing["modules"].items() if "tombstone" in entry} == routing["action"]
    for old, entry in routing["action"].items():
        (new,) = re.findall(r"baremetal\.host_routing\.(\w+)", entry["tombstone"]["warning_text"])
        assert (ROOT / "plugins" / "modules" / f"{new}.py").exists(), old
        assert not (ROOT / "plugins" / "modules" / f"{old}.py").exists(), old


def constant_of(path: pathlib.Path, constant: str) -> str:
    """Return the literal that the file assigns to `constant` at top level, without running the file.

    Raise AssertionError if there is no such assignment, and ValueError if its value is no literal.
    """
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == constant:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{name(path)} has no {constant}")
