# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit tests of a part of the code: `rooms.py --room policy`, or `rooms.py --changed` for what differs from main.

`make unit ROOM=policy` and `make unit CHANGED=1` call it. mutants.py reads from here which tests belong to a room.
"""

from __future__ import annotations

import argparse
import ast
import functools
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = Path("plugins/module_utils")
UNIT = Path("tests/unit")
VALUES = "tests/unit/architecture/test_values.py"
#: The tests of the compiler's sentences about a wrong inventory.
BAD_INVENTORIES = "tests/unit/plugin_utils/sources/test_bad_inventories.py"
#: Folders of the engine whose files are mutated, and the tests that have to notice.
ROOMS = {
    "base": ("tests/unit/base", VALUES),
    "resources": ("tests/unit/resources", VALUES),
    "ipam": ("tests/unit/ipam", VALUES),
    "bgp": ("tests/unit/bgp", VALUES),
    "pathwatch": ("tests/unit/pathwatch",),
    "policy": ("tests/unit/policy", VALUES),
    "state": ("tests/unit/state", "tests/unit/fleet/node_answers/test_node_answers.py", VALUES),
    "fleet": ("tests/unit/fleet", BAD_INVENTORIES, "tests/unit/plugin_utils/sources/test_fleet_source.py", VALUES),
    "report": ("tests/unit/report", "tests/unit/plugin_utils/report/test_page.py", VALUES),
    "editing": ("tests/unit/editing", "tests/unit/live"),
    "migration": ("tests/unit/migration", VALUES),
    "files": ("tests/unit/files",),
    "dataplane/drivers": ("tests/unit/dataplane",),
    "node/change": ("tests/unit/node", "tests/unit/modules/node"),
    "node/host": ("tests/unit/node", "tests/unit/modules/node"),
}


def room_of(path: Path) -> str:
    """Return the name of the room, out of ROOMS, in which a file lies; raise ValueError if it lies in none."""
    return max((room for room in ROOMS if (ENGINE / room) in path.parents), key=len)


def importers(path: Path, room: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the sorted paths of unit tests that import a file by its name, without the tests of the file's room.

    `room` are these tests, as files and folders; without it those of the room of ROOMS. Only absolute `from` imports of
    files named test_*.py count, not those of their helpers. Raise ValueError for a file in no room, without `room`.
    """
    module = "." + ".".join(path.with_suffix("").parts)
    own = [ROOT / tests for tests in (ROOMS[room_of(path)] if room is None else room)]
    return tuple(
        str(test.relative_to(ROOT))
        for test, imported in imports_of_tests().items()
        if any(name.endswith(module) for name in imported) and not any(test.is_relative_to(part) for part in own)
    )


@functools.cache
def imports_of_tests() -> dict[Path, set[str]]:
    """Return {test_*.py of the unit tests: all that it imports with `from` and a module's name}, sorted by path.

    `from a.b import c` counts as `a.b` and as `a.b.c`; `from . import c` does not count.
    """
    found = {}
    for test in sorted((ROOT / UNIT).rglob("test_*.py")):
        nodes = ast.walk(ast.parse(test.read_text("utf-8")))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        modules = [(node.module, node.names) for node in imports if node.module]
        found[test] = {
            name for module, names in modules for name in (module, *(f"{module}.{one.name}" for one in names))
        }
    return found


def tests_of_room(room: str) -> tuple[str, ...]:
    """Return the unit tests of a folder of the engine, or of another folder below tests/unit, as files and folders.

    Raise ValueError for a name that is neither.
    """
    names = sorted(path.name for path in (ROOT / UNIT).iterdir() if path.is_dir() and path.name != "__pycache__")
    if room in ROOMS:
        return ROOMS[room]
    if room.split("/")[0] not in names or not (ROOT / UNIT / room).is_dir() or ".." in room:
        raise ValueError(f"ROOM={room} is no room with unit tests. Name one of {', '.join(sorted({*names, *ROOMS}))}.")
    return (str(UNIT / room),)


def tests_of_file(path: Path) -> tuple[str, ...]:
    """Return the unit tests that judge a file, as files and folders; `path` is relative to the root and need not exist.

    A test judges itself. What tests below one folder share is judged by these, and what all share by all.
    """
    if path.is_relative_to("tests"):
        if path.is_relative_to("tests/fakes") or path.parent in (Path("tests"), UNIT):
            return (str(UNIT),)
        if path.is_relative_to(UNIT):
            return (str(path if path.name.startswith("test_") else path.parent),)
        return (f"{UNIT}/lab",) if path.is_relative_to("tests/lab") else (f"{UNIT}/run", f"{UNIT}/architecture")
    if path.is_relative_to("plugins") and path.suffix == ".py":
        inside = path.relative_to(ENGINE if path.is_relative_to(ENGINE) else "plugins")
        folder = UNIT / inside.parts[0]
        own = next((ROOMS[room] for room in ROOMS if inside.is_relative_to(room)), None)
        if own is None:
            own = (str(folder),) if (ROOT / folder).is_dir() else (f"{UNIT}/plugin_utils",)
        return (*own, *importers(path, own), f"{UNIT}/architecture")
    return (f"{UNIT}/{path.parts[0]}",) if (ROOT / UNIT / path.parts[0]).is_dir() else (f"{UNIT}/architecture",)


def without_repetition(tests: Iterable[str]) -> tuple[str, ...]:
    """Return the existing ones of these files and folders, sorted, without those that lie in another one of them."""
    found = sorted({test for test in tests if (ROOT / test).exists()})
    return tuple(test for test in found if not any(Path(other) in Path(test).parents for other in found))


def changed_files() -> list[Path]:
    """Return the files that differ from where this branch left main, and new ones that git does not ignore.

    Without a branch main they are those that differ from the last commit. Raise CalledProcessError without git.
    """

    def git(*arguments: str, check: bool = True) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=ROOT, check=check, stdout=subprocess.PIPE, encoding="utf-8").stdout

    start = git("merge-base", "HEAD", "main", check=False).strip() or "HEAD"
    names = git("diff", "--name-only", "-z", start) + git("ls-files", "-z", "--others", "--exclude-standard")
    return [Path(name) for name in sorted(set(names.split("\0")) - {""})]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--room", help="a folder of plugins/module_utils or of tests/unit")
    which.add_argument("--changed", action="store_true", help="what judges the files that differ from main")
    options = parser.parse_args()
    try:
        tests = tests_of_room(options.room) if options.room else [test for path in changed_files() for test in
                                                                   tests_of_file(path)]  # fmt: skip
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    selected = without_repetition(tests)
    if not selected:
        print("Nothing differs from main.")
        return 0
    print(*selected, sep="\n", flush=True)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", *selected], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
