# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints how well the code is built, in figures: before, now, and the goal. `--measure` adds processor times.

    .venv/bin/python tests/run/figures.py             # what is counted
    .venv/bin/python tests/run/figures.py --measure   # and what a quiet machine can measure

Each count is a function here, whose docstring says what is counted. docs/generate_figures.py writes the table of
docs/contributing/figures.md from the same functions. There, a figure that has not met its goal is rounded, so that the
page does not change with each commit.
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import functools
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from tests.unit.architecture.test_dependencies import ENGINE, all_imports, room_of  # noqa: E402
from tests.unit.architecture.trees import tree_of  # noqa: E402

PLUGINS = ROOT / "plugins"
AGENT = ENGINE / "agent" / "agent.py"
PYTHON = "/usr/bin/python3"
#: The rooms in which folders have an order.
ROOMS = ("agent", "node", "dataplane", "policy")
#: The constants that are documentation for ansible-doc.
_DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
#: The link by which Ansible finds this clone.
_COLLECTION = ".build/collections/ansible_collections/baremetal/host_routing/"
_REPLACES = re.compile(r"\bos\.(?:replace|rename)\(")
_JSON = re.compile(r"\bjson\.loads?\(")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One row: what is counted, the counts on the commit 852642f0 and now, and the most that the goal allows.

    `step` is what `now` is rounded up to on the page while the goal is missed, so that the page stays as it is.
    """

    name: str
    before: int
    now: int
    goal: int
    step: int = 1

    @property
    def met(self) -> bool:
        return self.now <= self.goal

    @property
    def shown(self) -> str:
        """The figure as the page has it: the goal if it is met, else the next multiple of `step`."""
        if self.met:
            return f"at most {self.goal:,}" if self.goal else "0"
        return f"at most {-(-self.now // self.step) * self.step:,}" if self.step > 1 else f"{self.now:,}"


def _file_of(target: str) -> t.Optional[pathlib.Path]:
    """Return the file below module_utils that an import's dotted target names, None if it is none."""
    parts = target.split(".")
    for length in (len(parts), len(parts) - 1):
        stem = ENGINE.joinpath(*parts[:length])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None


@functools.lru_cache
def folder_arrows(room: str) -> frozenset[tuple[str, str]]:
    """Return the pairs (folder, folder that it imports) of a room. The room's own files are the folder "."."""

    def folder(path: pathlib.Path) -> str:
        inner = path.relative_to(ENGINE / room).parts
        return inner[0] if len(inner) > 1 else "."

    found = set()
    for entry in all_imports():
        target = _file_of(entry.target) if entry.relative and room_of(entry.path) == room else None
        if target is not None and room_of(target) == room and folder(target) != folder(entry.path):
            found.add((folder(entry.path), folder(target)))
    return frozenset(found)


def arrows_up(room: str) -> int:
    """Return how few arrows between the room's folders run up, if the folders stand in the best order."""
    arrows = folder_arrows(room)
    names = sorted({name for arrow in arrows for name in arrow})
    # The fewest arrows up for each set of folders that stand below all others, extended by one folder at a time.
    fewest = {frozenset[str](): 0}
    for size in range(1, len(names) + 1):
        larger: dict[frozenset[str], int] = {}
        for below, count in fewest.items():
            for name in names:
                if len(below) != size - 1 or name in below:
                    continue
                upward = sum((low, name) in arrows for low in below)
                whole = below | {name}
                larger[whole] = min(larger.get(whole, count + upward), count + upward)
        fewest = larger
    return min(fewest.values())


def mutual_folders() -> int:
    """Return how many pairs of folders of one room import each other, in ROOMS."""
    arrows = [(room, *arrow) for room in ROOMS for arrow in folder_arrows(room)]
    return sum(here < there and (there, here) in folder_arrows(room) for room, here, there in arrows)


def lines_of(path: pathlib.Path) -> tuple[int, int]:
    """Return the numbers of lines of code and of docstrings in a file.

    Blank lines, comments, imports, and the documentation for ansible-doc count as neither.
    """
    text = path.read_text("utf-8")
    left_out: set[int] = set()
    docstrings: set[int] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docstrings |= _lines(first)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (
            isinstance(node, ast.Assign) and any(ast.unparse(name) in _DOCUMENTATION for name in node.targets)
        ):
            left_out |= _lines(node)
    written = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    return len(written - left_out - docstrings), len(docstrings & written)


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


@functools.lru_cache
def lines() -> tuple[int, int]:
    """Return the numbers of lines of code and of docstrings in all Python below plugins/."""
    counts = [lines_of(path) for path in PLUGINS.rglob("*.py")]
    return sum(code for code, dummy in counts), sum(docstring for dummy, docstring in counts)


def imports_of_agent() -> int:
    """Return the number of names that agent/agent.py imports, `annotations` aside."""
    return sum(entry.path == AGENT and entry.target != "__future__" for entry in all_imports())


def files_with(pattern: re.Pattern[str]) -> int:
    """Return how many files of module_utils have the pattern."""
    return sum(bool(pattern.search(path.read_text("utf-8"))) for path in ENGINE.rglob("*.py"))


@functools.lru_cache
def files_of_add() -> int:
    """Return the number of files below module_utils whose functions an agent calls while it attaches a workload.

    An agent in memory attaches one workload after another one, on a node without policy. The kernel is a fake: what it
    calls itself is not among them, and neither is code for the real kernel, for the socket or of the CNI plugin.
    """
    from tests.unit.agent.node_under_test import Node
    from tests.unit.agent.virtual_time import run

    ran: set[str] = set()
    fakes = str(ROOT / "tests" / "fakes")

    def callers(frame: t.Any) -> t.Iterator[str]:
        while frame is not None:
            yield frame.f_code.co_filename
            frame = frame.f_back

    def watch(frame: t.Any, event: str, dummy: t.Any) -> None:
        if event == "call" and not any(name.startswith(fakes) for name in callers(frame)):
            ran.add(frame.f_code.co_filename)

    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as folder:
            node = Node(pathlib.Path(folder))
            agent = await node.start()
            await agent.transactions.add(node.request("first"))
            request = node.request("second")
            sys.setprofile(watch)
            try:
                await agent.transactions.add(request)
            finally:
                sys.setprofile(None)
            await node.kill()

    run(asyncio.wait_for(scenario(), 600))
    return len({pathlib.Path(name).resolve() for name in ran if "module_utils" in name})


@functools.lru_cache
def modules_of(*words: str) -> int:
    """Return how many modules of the collection `calicoctl words...` imports."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from module_utils.cli import command\n"
        "command.main(sys.argv[2:])\n"
        "sys.exit(str(sum(name.startswith('module_utils') for name in sys.modules)))"
    )
    done = subprocess.run(
        [PYTHON, "-I", "-B", "-c", program, str(PLUGINS), *words], capture_output=True, text=True, check=False
    )
    return int(done.stderr.splitlines()[-1])


def without_mypy() -> int:
    """Return how many folders of plugins/, tests/run and tests/lab are not among the files of mypy's settings."""
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    (files,) = re.findall(r"^files = \[(.*?)\]", settings, re.MULTILINE | re.DOTALL)
    named = re.findall(r'"([^"]+)"', files)
    checked = [one.removeprefix(_COLLECTION) for one in named]
    folders = [f"plugins/{path.name}" for path in PLUGINS.iterdir() if any(path.glob("**/*.py"))]
    return sum(
        not any(f"{folder}/".startswith(f"{one}/") for one in checked)
        for folder in (*folders, "tests/run", "tests/lab")
    )


def behind_python() -> int:
    """Return by how many minor releases the oldest Python that lint accepts is older than 3.11."""
    (minor,) = re.findall(r"--target=3\.(\d+)", (ROOT / "tests" / "run" / "lint.py").read_text("utf-8"))
    return 11 - int(minor)


def counted() -> list[Figure]:
    """Return all figures that do not depend on the machine."""
    code, docstrings = lines()
    return [
        *(
            Figure(f"arrows up between folders of `{room}/`, in their best order", before, arrows_up(room), 0)
            for room, before in zip(ROOMS, (9, 3, 2, 3))
        ),
        Figure("pairs of folders in these rooms that import each other", 17, mutual_folders(), 0),
        Figure("files whose code runs while an agent attaches a workload", 34, files_of_add(), 22, 5),
        Figure("`agent/agent.py`: lines", 671, len(AGENT.read_text("utf-8").splitlines()), 350, 50),
        Figure("`agent/agent.py`: imported names", 66, imports_of_agent(), 20, 10),
        Figure("files of `module_utils` that replace a file (`os.replace`, `os.rename`)", 11, files_with(_REPLACES), 5),
        Figure("files of `module_utils` that read JSON themselves", 34, files_with(_JSON), 25, 5),
        Figure("lines of code below `plugins/`", 53636, code, 50000, 1000),
        Figure("lines of docstrings below `plugins/`", 13434, docstrings, 11500, 500),
        Figure("folders of `plugins/`, `tests/run` and `tests/lab` that mypy does not see", 7, without_mypy(), 0),
        Figure("releases of Python between the oldest accepted one and 3.11", 2, behind_python(), 0),
        Figure("own modules that `calicoctl --help` imports", 243, modules_of("--help"), 60),
        Figure("own modules that `calicoctl get nodes` imports", 243, modules_of("get", "nodes"), 60, 20),
    ]


#: What needs a quiet machine, or is counted by hand: (what, on 852642f0, now, goal, how).
MEASURED = (
    (
        "processor of `calicoctl --help`, in times that of `python3 -I -c pass`",
        "31", "3.0: met", "3", "`figures.py --measure`",
    ),
    (
        "processor of `calicoctl get nodes`, in times that of `python3 -I -c pass`",
        "31", "5.3 on a node, 5.0 without a state: met", "6", "`figures.py --measure`",
    ),
    ("seconds of `make unit` on two idle processors", "200 to 260", "90: met", "95", "`time make unit`"),
    ("minutes of `make test` in CI", "59 to 62", "58, with 17,179 tests: missed", "40", "the summary of `make test`"),
    (
        "minutes of processor of `make test`",
        "115.6", "52.6 on a46d691a, in CI: met", "65", "the summary of `make test`",
    ),
    (
        "mutants that tests notice, of 100",
        "95 and 92", "84 on 77d00e05; 12 of 16 survivors are in `report/`, new in the draw: missed", "the same",
        "`make mutants`",
    ),
    (
        "stops from a key of etcd to a member of an IP set",
        "26", "20: met", "20", "the table of [Policy](architecture.md#policy), which a test compares with a run",
    ),
    (
        "debug logs of the agent",
        "2 calls, no switch", "each transaction, and `calicoctl log-level`: met",
        "each transaction, and a switch at run time", "`grep -rn 'transaction(' plugins/module_utils/agent`",
    ),
)  # fmt: skip


def table(figures: t.Iterable[Figure], page: bool = False) -> str:
    """Return the table of counts. On the page, counts that miss their goal are rounded up."""
    rows = ["| counted | on 852642f0 | now | goal | |", "|---|---|---|---|---|"]
    for one in figures:
        now = one.shown if page else f"{one.now:,}"
        rows.append(f"| {one.name} | {one.before:,} | {now} | {one.goal:,} | {'met' if one.met else 'missed'} |")
    return "\n".join(rows) + "\n"


def measured_table() -> str:
    """Return the table of MEASURED."""
    rows = ["| measured or counted by hand | on 852642f0 | now | goal | how |", "|---|---|---|---|---|"]
    rows += [f"| {' | '.join(row)} |" for row in MEASURED]
    return "\n".join(rows) + "\n"


def processor(command: t.Sequence[str], runs: int = 21) -> float:
    """Return the median of the seconds of processor that a command takes, user and system."""
    seconds = []
    for dummy in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return sorted(seconds)[runs // 2]


def measure() -> None:
    """Print the processor times of calicoctl, of an engine that is installed with byte code in a temporary folder."""
    sys.path.insert(0, str(PLUGINS))
    # The engine carries byte code of the interpreter that packs it.
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from module_utils.node.engine import bundle; "
        "source, root = sys.argv[2:]; digest = bundle.bundle_digest(source); "
        "bundle.install(bundle.build(source), digest, root); print(digest)"
    )
    with tempfile.TemporaryDirectory() as root:
        done = subprocess.run(
            [PYTHON, "-I", "-B", "-c", program, str(PLUGINS), str(ENGINE), root],
            capture_output=True,
            text=True,
            check=True,
        )
        engine = os.path.join(root, done.stdout.strip())
        least = processor([PYTHON, "-I", "-c", "pass"])
        print(f"python3 -I -c pass: {least:.3f} s of processor")
        for words in (["--help"], ["get", "nodes"]):
            seconds = processor([PYTHON, "-I", "-B", engine, "calicoctl", *words])
            print(f"calicoctl {' '.join(words)}: {seconds:.3f} s of processor, {seconds / least:.1f} times as much")


def main() -> int:
    print(table(counted()))
    print(measured_table())
    if "--measure" in sys.argv[1:]:
        measure()
    return 0


if __name__ == "__main__":
    sys.exit(main())
