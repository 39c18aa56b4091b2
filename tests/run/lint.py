# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks that judge the sources without running them: `lint.py` runs them all, `lint.py ruff mypy` only those."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.run import junit

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
COLLECTIONS = ROOT / ".build" / "collections"


def sources() -> list[pathlib.Path]:
    """Return the existing files that git knows or would take, as sorted paths relative to the root.

    Raise CalledProcessError if this is not a git work tree.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    names = sorted({name for name in listed.decode().split("\0") if name})
    return [pathlib.Path(name) for name in names if (ROOT / name).is_file()]


def scripts(interpreter: str) -> list[str]:
    """Return the paths of the scripts for `interpreter`: files of `sources` whose first line names it after `#!`.

    Only files without a suffix are searched, and only 200 bytes of the first line. Raise the errors of `sources`.
    """
    found = []
    for path in sources():
        if path.suffix:
            continue
        with (ROOT / path).open("rb") as file:
            first = file.readline(200)
        if first.startswith(b"#!") and interpreter.encode() in first:
            found.append(str(path))
    return found


def checks() -> dict[str, list[str]]:
    return {
        "ruff": ["ruff", "check", "--no-cache", ".", *scripts("python")],
        "prose": ["python", "tests/run/prose.py"],
        "mypy": ["mypy"],
        # Nodes have Python 3.11 or newer. Annotations count as if they were evaluated there.
        "vermin": ["vermin", "--quiet", "--target=3.11-", "--violations", "--no-parse-comments", "--eval-annotations",
                   "--backport", "dataclasses", "plugins"],
        "yamllint": ["yamllint", "--strict", *(str(path) for path in sources() if path.suffix in (".yml", ".yaml"))],
        "ansible-lint": ["ansible-lint", "--profile", "production", "--offline", "--nocolor", "-q"],
        "reuse": ["reuse", "lint", "--lines"],
        "changelog": ["antsibull-changelog", "lint"],
        "collection-docs": ["antsibull-docs", "lint-collection-docs", "--plugin-docs",
                            "--validate-collection-refs=self", "--skip-rstcheck", "."],
        "variables-doc": ["python", "docs/generate_variables.py", "--check"],
        "metrics-doc": ["python", "docs/generate_metrics.py", "--check"],
        "figures-doc": ["python", "docs/generate_figures.py", "--check"],
        "manual": ["python", "docs/generate_manual.py", "--check"],
        "security-doc": ["python", "docs/generate_attacks.py", "--check"],
        "shell-syntax": ["bash", "-n", *scripts("bash")],
    }  # fmt: skip


def main() -> int:
    known = checks()
    names = sys.argv[1:] or list(known)
    env = dict(
        os.environ,
        PATH=f"{BIN}:{os.environ['PATH']}",
        LC_ALL="C.UTF-8",
        ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS),
        ANSIBLE_HOME=str(ROOT / ".build" / "ansible"),
        NO_COLOR="1",
    )
    cases = []
    for name in names:
        started = time.monotonic()
        print(f"== {name}", flush=True)
        done = subprocess.run(
            known[name], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", check=False,
        )  # fmt: skip
        seconds = time.monotonic() - started
        failed = done.returncode != 0
        if failed:
            print(done.stdout.rstrip())
        print(f"   {'FAILED' if failed else 'ok'} in {seconds:.1f} s", flush=True)
        cases.append(junit.Case(name, "failed" if failed else "passed", done.stdout if failed else "", seconds))
    if "HOST_ROUTING_JUNIT" in os.environ:
        junit.write(pathlib.Path(os.environ["HOST_ROUTING_JUNIT"]) / "lint.xml", "lint", cases)
    failed_names = [case.name for case in cases if case.outcome == "failed"]
    print(f"{len(cases) - len(failed_names)} passed, {len(failed_names)} failed {' '.join(failed_names)}".rstrip())
    return 1 if failed_names else 0


if __name__ == "__main__":
    sys.exit(main())
