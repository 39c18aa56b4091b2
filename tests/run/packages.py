# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs Debian's packages that tests and benches need on the machine itself.

Run as a program, it installs the packages of all suites: `make bench` and `make soak` begin with it.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.run.suites import SUITES

APT = threading.Lock()  # both lanes install packages, and apt runs only once at a time
#: Packages ask this program whether they may start a daemon: 101 means no (README.policy-rc.d of init-system-helpers).
POLICY = pathlib.Path("/usr/sbin/policy-rc.d")


@contextlib.contextmanager
def no_daemon_starts() -> t.Iterator[None]:
    """Keep packages from starting daemons within the context, by a policy-rc.d that is removed at its end.

    A policy-rc.d that exists already stays as it is, and decides. Raise OSError if it cannot be written.
    """
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()


def install(packages: tuple[str, ...]) -> str:
    """Install the packages that this machine lacks; return why apt-get failed, "" if it did not or nothing is missing.

    Wait for another thread that installs. Without root, raise OSError if a package is missing and there is no POLICY.
    """
    with APT:
        state = ("dpkg-query", "-W", "-f", "${db:Status-Status}")
        missing = [
            package
            for package in packages
            if subprocess.run([*state, package], capture_output=True, text=True, check=False).stdout != "installed"
        ]
        if not missing:
            return ""
        with no_daemon_starts():
            for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
                done = subprocess.run(
                    ["apt-get", "-q", *command], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                )  # fmt: skip
                if done.returncode:
                    return f"apt-get {' '.join(command)}: {(done.stderr or done.stdout).strip()[-500:]}"
        return ""


def main() -> int:
    """Install the packages of all suites; return the exit status, 1 after a failure that is printed."""
    failure = install(tuple(dict.fromkeys(package for suite in SUITES for package in suite.packages)))
    if failure:
        print(f"packages: {failure}", file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
