# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one test of a suite in the suite's lab, then a shell beside the lab, which goes down when the shell ends.

    make repro SUITE=lab-agent TEST=test_teardown_takes_all_of_it_away

TEST is an expression of pytest's option -k. The exit status is that of the test, or 2 for a suite without a lab.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.run.packages import install
from tests.run.run_suites import JUNIT, ROOT, environment, expand
from tests.run.suites import SUITES, Suite


def lab_of(suite: Suite) -> str:
    """Return the name of the suite's lab, "" if it has none or does not run by pytest."""
    if "pytest" not in suite.command or "--name" not in suite.clean_up:
        return ""
    return suite.clean_up[suite.clean_up.index("--name") + 1]


def find(name: str) -> Suite:
    """Return the suite of this name. Raise LookupError with a text for people unless it has a lab."""
    known = {suite.name: suite for suite in SUITES if lab_of(suite)}
    if name not in known:
        raise LookupError(f"SUITE={name} is no suite with a lab of its own. Choose one of: {', '.join(sorted(known))}.")
    return known[name]


def reproduce(suite: Suite, test: str) -> int:
    """Run the tests of `suite` that `test` selects, then a shell, then remove the lab. Return the tests' exit status.

    The shell is $SHELL, with the lab's name in HOST_ROUTING_LAB and the tools of .venv on its path.
    """
    folder = JUNIT / f"repro-{suite.name}"
    folder.mkdir(parents=True, exist_ok=True)
    env = {**environment(folder), "HOST_ROUTING_LAB": lab_of(suite), "HOST_ROUTING_LAB_KEEP": "1"}
    try:
        status = subprocess.run([*expand(suite.command, folder), "-k", test], cwd=ROOT, env=env, check=False).returncode
        print(
            f"The test's exit status is {status}. The lab {lab_of(suite)} is up until this shell ends: "
            "tests/lab/lab --help shows how to use it.",
            flush=True,
        )
        subprocess.run([os.environ.get("SHELL") or "/bin/bash"], cwd=ROOT, env=env, check=False)
    finally:
        subprocess.run(expand(suite.clean_up, folder), cwd=ROOT, env=env, check=False)
    return status


def main(name: str, test: str) -> int:
    try:
        suite = find(name)
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not test:
        sys.stderr.write("TEST is empty. Name the test to run, such as TEST=test_reboot.\n")
        return 2
    missing = install(suite.packages)
    if missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    return reproduce(suite, test)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
