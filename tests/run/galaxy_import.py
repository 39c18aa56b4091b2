# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The import of the artifact by galaxy-importer, the program by which Ansible Galaxy accepts a release.

Usage: galaxy_import.py ARTIFACT. The exit status is 0 if the importer accepts the artifact without a warning.

The importer's ansible-test is off, because the suite `sanity` runs it. Its flake8, one process for each plugin, is off
as well: it is off on Galaxy, and ruff checks the same rules.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tests" / "run" / "galaxy_importer.requirements.txt"
VENV = ROOT / ".build" / "galaxy_importer"
STAMP = VENV / "requirements.txt"  # a copy of REQUIREMENTS, written when they are installed

SETTINGS = {
    "RUN_ANSIBLE_DOC": "true",
    "RUN_ANSIBLE_LINT": "true",
    "OFFLINE_ANSIBLE_LINT": "true",
    "CHECK_CHANGELOG": "true",
    "CHECK_REQUIRED_TAGS": "true",
    "RUN_ANSIBLE_TEST": "false",
    "RUN_FLAKE8": "false",
}
ACCEPTED = "Importer processing completed successfully"
#: The last step before ACCEPTED. An import without it has skipped ansible-lint.
LINTED = "...ansible-lint run complete"
#: Starts the importer. It gives its ansible-lint 180 seconds, too little on a busy machine; the suite has a limit.
START = """
import subprocess, sys
from galaxy_importer import main
from galaxy_importer.loaders import collection

class Unlimited(subprocess.Popen):
    def communicate(self, input=None, timeout=None):
        return super().communicate(input)

collection.Popen = Unlimited
sys.exit(main.main(sys.argv[1:]))
"""
_COMPLAINT = re.compile(r"(WARNING|ERROR|CRITICAL): ")


def provide_importer() -> None:
    """Install REQUIREMENTS into VENV, unless they are there. Raise CalledProcessError if that fails."""
    wanted = REQUIREMENTS.read_text("utf-8")
    if STAMP.is_file() and STAMP.read_text("utf-8") == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    command = ["-m", "pip", "install", "--quiet", "--no-input", "-r", str(REQUIREMENTS)]
    subprocess.run([VENV / "bin" / "python", *command], check=True)
    STAMP.write_text(wanted, "utf-8")


def environment() -> dict[str, str]:
    """Return the importer's environment: its own tools first, SETTINGS, and no other setting of Ansible."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GALAXY_IMPORTER_"))}
    env.update(PATH=f"{VENV / 'bin'}:{env['PATH']}", LC_ALL="C.UTF-8", PYTHONUNBUFFERED="1")
    env.update({f"GALAXY_IMPORTER_{name}": value for name, value in SETTINGS.items()})
    return env


def complaints(output: str) -> list[str]:
    """Return what is wrong by the importer's output: each warning and error, and each step that is missing."""
    lines = output.splitlines()
    missing = [f"the importer did not say: {step}" for step in (LINTED, ACCEPTED) if step not in lines]
    return [line for line in lines if _COMPLAINT.match(line)] + missing


def main() -> int:
    artifact = pathlib.Path(sys.argv[1]).resolve()
    provide_importer()
    done = subprocess.run(
        [VENV / "bin" / "python", "-c", START, artifact],
        cwd=artifact.parent,  # it writes importer_result.json here
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    found = complaints(done.stdout)
    if done.returncode or found:
        print(done.stdout)
        print(f"FAILED: galaxy-importer, exit status {done.returncode}", *found, sep="\n  ")
        return 1
    print("ok: galaxy-importer accepts the artifact without a warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
