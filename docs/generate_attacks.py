# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the table of attacks of docs/explanation/security.md. With --check it only fails if the table is out of date.

The table is made of the docstrings of the tests in tests/integration/attacks: what is tried, and the fields Gain,
Precedent and Result. A test without one of them is an error.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "security.md"
TESTS = ROOT / "tests" / "integration" / "attacks"
MARKER = "<!-- Below: written by `make docs` from the docstrings of tests/integration/attacks. -->\n"
sys.path.insert(0, str(ROOT / "docs"))

from generate_variables import cell, written  # noqa: E402

#: The attacker of the tests in files whose names begin with the key.
ATTACKERS = {
    "test_another_node": "Another node",
    "test_etcd_member": "A member of the etcd cluster",
    "test_workload": "A workload",
    "test_neighbour": "A neighbour on the underlay",
    "test_reader": "A member of the group calico",
    "test_local_user": "A local user",
    "test_docker_user": "A user of Docker",
    "test_hostile_document": "A hostile document",
}
_FIELD = re.compile(r"^(Gain|Precedent|Result): ", re.MULTILINE)


class Attack(t.NamedTuple):
    """One test, `test` in the file named `file`. All other fields are from its docstring.

    `summary` is what is tried, and `gain` what it would have given. `precedent` names the kind of weakness (CWE) or
    known vulnerabilities of that kind. `result` is what comes of it here.
    """

    file: str
    test: str
    summary: str
    gain: str
    precedent: str
    result: str


def attacks(folder: pathlib.Path = TESTS) -> t.Iterator[Attack]:
    """Yield the attacks of all test files, sorted by file name.

    Raise ValueError for a docstring without a first line or without one of the fields Gain, Precedent and Result.
    """
    for path in sorted(folder.rglob("test_*.py"), key=lambda path: path.name):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield _attack(path.name, node)


def _attack(file: str, node: ast.FunctionDef) -> Attack:
    summary, *rest = _FIELD.split(ast.get_docstring(node) or "")
    fields = {name: _sentence(text) for name, text in zip(rest[::2], rest[1::2])}
    missing = [name for name in ("Gain", "Precedent", "Result") if not fields.get(name)]
    if not summary.strip() or missing:
        raise ValueError(f"{file}: the docstring of {node.name} lacks {', '.join(missing) or 'a first line'}")
    first = summary.strip().splitlines()[0]
    return Attack(file, node.name, first, fields["Gain"], fields["Precedent"], fields["Result"])


def _sentence(text: str) -> str:
    """Return the text on one line, with a capital letter first."""
    joined = " ".join(text.split())
    return joined[:1].upper() + joined[1:]


def table() -> str:
    """Return the table in Markdown, a section for each attacker that has tests.

    Raise ValueError if the name of a test file begins with none of ATTACKERS, or as `attacks` does.
    """
    found = list(attacks())
    unknown = sorted({one.file for one in found if not one.file.startswith(tuple(ATTACKERS))})
    if unknown:
        raise ValueError(f"no attacker is known for {', '.join(unknown)}: see ATTACKERS")
    lines: list[str] = []
    for prefix, attacker in ATTACKERS.items():
        own = [one for one in found if one.file.startswith(prefix)]
        if not own:
            continue
        lines += ["", f"### {attacker}", "", "| attack | gain | precedent | result |", "|---|---|---|---|"]
        lines += [
            f"| {cell(one.summary)} `{one.test}` | {cell(one.gain)} | {cell(one.precedent)} | {cell(one.result)} |"
            for one in own
        ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the whole page: the present text up to MARKER (all of it without one), MARKER and the table.

    Raise the errors of `table`.
    """
    return PAGE.read_text("utf-8").partition(MARKER)[0] + MARKER + table()


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
