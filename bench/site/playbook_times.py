# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seconds of a playbook's run and of its tasks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The configuration of Ansible for all measurements.
CONFIG = ROOT / "bench" / "ansible.cfg"


def environment_of(clone: Path, **more: str) -> dict[str, str]:
    """Return the environment in which Ansible's programs use the collection of `clone`; `more` overrides variables.

    The configuration is bench/ansible.cfg of this clone. Variables of Ansible and Python are left out, PATH and LC_ALL
    are fixed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"
    collections = str(clone / ".build" / "collections")
    ours = {"ANSIBLE_CONFIG": str(CONFIG), "ANSIBLE_COLLECTIONS_PATH": collections, "PATH": path, "LC_ALL": "C.UTF-8"}
    return {**kept, **ours, **more}


def play(playbook: str, inventory: t.Union[Path, str], environment: dict[str, str], *arguments: str) -> float:
    """Run a playbook and return the seconds that ansible-playbook took; exit if it fails.

    `environment` is all of its environment. `playbook` and a relative `inventory` are paths in this clone.
    """
    began = time.monotonic()
    command = ["ansible-playbook", "-i", str(inventory), playbook, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return time.monotonic() - began


def reporting(folder: os.PathLike[str]) -> dict[str, str]:
    """Return the variables that make Ansible's junit callback write the seconds of each task to `folder`.

    They come on top of the rest of an environment.
    """
    return {
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.junit",
        "JUNIT_OUTPUT_DIR": str(folder),
        "JUNIT_HIDE_TASK_ARGUMENTS": "true",
    }


def tasks(folder: Path) -> list[tuple[str, float]]:
    """Return (name, seconds) for each task and host in the reports (*.xml) in `folder`, and remove these.

    A name is what follows the last ": ", so it has no role. Raise ParseError for a file that is not XML.
    """
    found = []
    for report in folder.glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("name", "").partition("] ")[2].rpartition(": ")[2]
            found.append((name, float(case.get("time", "0"))))
        report.unlink()
    return found
