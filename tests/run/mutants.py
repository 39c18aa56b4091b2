# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A random sample of small faults in the engine, and which of them its unit tests notice.

Usage: mutants.py [--seed N] [--count N] [--rooms bgp,ipam,...] [--all-tests]. `make mutants` calls it.

cosmic-ray makes the mutants: an operator, a constant or a `not` is changed. Each one is written into a copy of this
clone, and the unit tests of the mutated file's room run there until the first one fails. If none does, the unit tests
of other rooms that import the mutated file run as well, for some files are used mainly elsewhere. Mutants that
equivalent_mutants.txt lists are not drawn. The exit status is 1 when less than 92 of 100 fall, and 2 when a room's
tests fail without any mutant.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators import (
    binary_operator_replacement,
    boolean_replacer,
    break_continue,
    comparison_operator_replacement,
    number_replacer,
    unary_operator_replacement,
)
from cosmic_ray.operators.operator import Operator

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.run.rooms import ENGINE, ROOMS, ROOT, importers, room_of

EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
WANTED = 0.92
WORKERS = 2
#: A mutant may make a loop endless. Its tests are stopped after SLOWER times the time that they take without it, and
#: not before PATIENCE seconds.
SLOWER, PATIENCE = 6, 120
#: Seconds for the tests of other rooms that import a file: far more than all unit tests take on a busy machine.
ELSEWHERE = 3600
#: (operator, replacement), by cosmic-ray's names. Replacements that often mean the same (`is` for `==`) are left out.
COMPARISONS = {
    *(("Eq", "NotEq"), ("NotEq", "Eq"), ("Is", "IsNot"), ("IsNot", "Is")),
    *(("Lt", "LtE"), ("Lt", "GtE"), ("LtE", "Lt"), ("LtE", "Gt")),
    *(("Gt", "GtE"), ("Gt", "LtE"), ("GtE", "Gt"), ("GtE", "Lt")),
}
ARITHMETIC = {
    *(("Add", "Sub"), ("Sub", "Add"), ("Mul", "FloorDiv"), ("FloorDiv", "Mul"), ("Mod", "Mul"), ("Pow", "Mul")),
    *(("LShift", "RShift"), ("RShift", "LShift"), ("BitOr", "BitAnd"), ("BitAnd", "BitOr"), ("BitXor", "BitOr")),
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of one line, counted from 1; `code` is the whole mutated file.

    `before` and `after` are the stripped line. In `after`, each run of white space is one space.
    """

    path: Path
    line: int
    before: str
    after: str
    code: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {self.before}\n    + {self.after}"


def operators() -> Iterator[Operator]:
    """Yield cosmic-ray's operators that are used here: each finds its places in a file and makes a mutant of one."""
    for module, pairs in ((comparison_operator_replacement, COMPARISONS), (binary_operator_replacement, ARITHMETIC)):
        prefix = "ReplaceComparisonOperator" if pairs is COMPARISONS else "ReplaceBinaryOperator"
        for before, after in sorted(pairs):
            yield getattr(module, f"{prefix}_{before}_{after}")()
    yield unary_operator_replacement.ReplaceUnaryOperator_Delete_Not()
    yield unary_operator_replacement.ReplaceUnaryOperator_Delete_USub()
    yield boolean_replacer.AddNot()
    yield boolean_replacer.ReplaceTrueWithFalse()
    yield boolean_replacer.ReplaceFalseWithTrue()
    yield boolean_replacer.ReplaceAndWithOr()
    yield boolean_replacer.ReplaceOrWithAnd()
    yield break_continue.ReplaceBreakWithContinue()
    yield break_continue.ReplaceContinueWithBreak()
    yield number_replacer.NumberReplacer()


def nodes(tree: parso.tree.NodeOrLeaf) -> Iterator[parso.tree.NodeOrLeaf]:
    """Yield a syntax tree's nodes and leaves, in the order in which cosmic-ray counts them."""
    yield tree
    for child in getattr(tree, "children", ()):
        yield from nodes(child)


def places(path: Path, kinds: list[Operator]) -> Iterator[tuple[Path, Operator, int]]:
    """Yield what can be mutated in a file: its path, an operator, and the number (from 0) of its occurrence there."""
    found = list(nodes(parso.parse((ROOT / path).read_text("utf-8"))))
    for kind in kinds:
        for occurrence in range(sum(len(list(kind.mutation_positions(node))) for node in found)):
            yield path, kind, occurrence


def mutant(path: Path, kind: Operator, occurrence: int) -> Mutant | None:
    """Return the mutant, or None if it would change nothing or other than exactly one line.

    `occurrence` is counted from 0, as `places` yields it.
    """
    before = (ROOT / path).read_text("utf-8")
    after = mutate_code(before, kind, occurrence)
    if after is None or after == before:
        return None
    lines = list(zip(before.splitlines(), after.splitlines()))
    changed = [number for number, (old, new) in enumerate(lines) if old != new]
    if len(changed) != 1 or before.count("\n") != after.count("\n"):
        return None
    old, new = lines[changed[0]]
    return Mutant(path, changed[0] + 1, old.strip(), " ".join(new.split()), after)


def equivalents() -> set[tuple[str, str, str]]:
    """Return the mutants that EQUIVALENT lists as (path, line before, line after); the lines are stripped."""
    found, entry = set(), []
    for line in EQUIVALENT.read_text("utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        entry.append(line.strip())
        if line.startswith("    + "):
            path, before, after = entry[0], entry[-2].removeprefix("- "), entry[-1].removeprefix("+ ")
            found.add((path, before, after))
            entry = []
    return found


def draw(rooms: list[str], seed: int, count: int) -> list[Mutant]:
    """Return `count` mutants of the rooms' files, fewer if there are not so many; print their number.

    Every possible one that is not listed as equivalent has the same chance. A room is a folder below ENGINE; one that
    does not exist has none.
    """
    kinds = list(operators())
    files = sorted(
        path.relative_to(ROOT) for room in rooms for path in (ROOT / ENGINE / room).rglob("*.py") if path.stat().st_size
    )
    everything = [place for path in files for place in places(path, kinds)]
    random.Random(seed).shuffle(everything)
    listed = equivalents()
    drawn: list[Mutant] = []
    for place in everything:
        if len(drawn) == count:
            break
        found = mutant(*place)
        if found and (str(found.path), found.before, found.after) not in listed:
            drawn.append(found)
    print(f"{len(drawn)} of about {len(everything)} possible mutants of {len(files)} files, seed {seed}")
    return drawn


def copy_tree(folder: Path) -> None:
    """Copy the files that git knows, as they are in the work tree, to `folder`, and compile the engine and its tests.

    The copy is a git work tree without commits, for tests that list its files, and has links to this clone's .venv and
    to itself as a collection. Byte code is checked by the content of the source, not by its time. Raise
    CalledProcessError if this is not a git work tree, and FileExistsError if `folder` has a copy already; a failed
    compilation is no error.
    """
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    collections = folder / ".build/collections/ansible_collections/baremetal"
    collections.mkdir(parents=True)
    (collections / "host_routing").symlink_to("../../../..")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    compile_all = (
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "checked-hash",
        "plugins",
        "tests/unit",
        "tests/fakes",
    )
    subprocess.run([ROOT / ".venv/bin/python", *compile_all], cwd=folder, check=False)


def tests_pass(folder: Path, tests: tuple[str, ...], limit: float | None) -> bool | None:
    """Return whether the tests pass in a copy; None if they did not end within `limit` seconds and were killed.

    They end at the first failure. A `limit` of None is no limit.
    """
    command = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-x", "-q", "-n0", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "ANSIBLE_CONFIG": str(folder / "ansible.cfg")}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return None


class Copies:
    """Copies of this clone, one for each worker, in which tests run."""

    def __init__(self, work: Path) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(WORKERS):
            folder = work / f"copy{number}"
            folder.mkdir()
            copy_tree(folder)
            self._free.put(folder)

    def without_mutant(self, room: str) -> tuple[str, bool, float]:
        """Run a room's tests on the code as it is; return the room, whether they pass, and the seconds they take."""
        folder, began = self._free.get(), time.monotonic()
        try:
            return room, bool(tests_pass(folder, ROOMS[room], None)), time.monotonic() - began
        finally:
            self._free.put(folder)

    def with_mutant(self, entry: Mutant, limit: float, all_tests: bool) -> bool | None:
        """Return whether the tests of the mutant's room and those that import its file pass.

        With `all_tests` the whole unit suite has to pass as well, without a limit. Return None if the room's tests did
        not end within `limit` seconds, or the importing ones within ELSEWHERE seconds.
        """
        folder = self._free.get()
        original = (folder / entry.path).read_text("utf-8")
        try:
            (folder / entry.path).write_text(entry.code, "utf-8")
            passed = tests_pass(folder, ROOMS[room_of(entry.path)], limit)
            elsewhere = importers(entry.path) if passed else ()
            if elsewhere:
                passed = tests_pass(folder, elsewhere, ELSEWHERE)
            return tests_pass(folder, ("tests/unit",), None) if passed and all_tests else passed
        finally:
            (folder / entry.path).write_text(original, "utf-8")
            self._free.put(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="folders of plugins/module_utils")
    parser.add_argument("--all-tests", action="store_true", help="try survivors on the whole unit suite")
    options = parser.parse_args()
    mutants = draw(options.rooms.split(","), options.seed, options.count)
    survivors, stopped = 0, 0
    limits: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as work, concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        copies = Copies(Path(work))
        for room, passed, seconds in pool.map(copies.without_mutant, sorted({room_of(one.path) for one in mutants})):
            if not passed:
                print(f"{' '.join(ROOMS[room])}: fails without any mutant")
                return 2
            limits[room] = max(PATIENCE, SLOWER * seconds)
        tries = pool.map(
            lambda one: (one, copies.with_mutant(one, limits[room_of(one.path)], options.all_tests)), mutants
        )
        for entry, ended_well in tries:
            if ended_well:
                survivors += 1
                print(f"stands: {entry}", flush=True)
            elif ended_well is None:
                stopped += 1
                print(f"fell, since its tests did not end: {entry}", flush=True)
    fallen = len(mutants) - survivors
    print(f"{fallen} of {len(mutants)} fell ({stopped} to the time limit), seed {options.seed}")
    return 0 if fallen >= WANTED * len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
