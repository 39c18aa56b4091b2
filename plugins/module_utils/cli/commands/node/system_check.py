# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl node checksystem`: the kernel's features that a node needs, and the findings of the preflight."""

from __future__ import annotations

import argparse
import os
import sys

from ....node.store.store import Store
from ....node.store.stored_file import StoreError
from ....preflight import features, judge, observe
from ....preflight.files import Files
from ...errors import DONE, PROBLEMS
from ...render import tables
from ...sources import Sources

_WORDS = {True: "OK", False: "FAIL", None: "SKIP"}


def run(dummy: argparse.Namespace, sources: Sources) -> int:
    machine = sources.machine
    sys.stdout.write("Checking kernel version...\n")
    sys.stdout.write(tables.columns((os.uname().release, "OK"), ()))
    sys.stdout.write("Checking kernel modules...\n")
    found = features.observe(Files(machine.root))
    sys.stdout.write("".join(f"{name:<20}{_WORDS[known]}\n" for name, known in found.items()))
    for name, known in found.items():
        if known is None:
            sys.stdout.write(f"WARNING: Unable to detect the {name} module as Loaded/Builtin module\n")
    problems = [] if all(known is not False for known in found.values()) else ["modules"]
    problems += _findings(sources)
    if problems:
        sys.stderr.write("system doesn't meet one or more minimum systems requirements to run Calico\n")
        return PROBLEMS
    sys.stdout.write("System meets minimum system requirements to run Calico!\n")
    return DONE


def _findings(sources: Sources) -> list[str]:
    """Print the preflight's findings about this node, none without a readable state; return the errors among them.

    Raise KernelError if the kernel does not answer, and ValueError if the version of a needed BIRD cannot be read.
    """
    machine = sources.machine
    try:
        stored = Store(machine.store).load()
    except (StoreError, OSError):
        stored = None
    if stored is None:
        return []
    findings = judge.judge(observe.observe(machine.kernel, machine.root), stored.state)
    for finding in findings:
        sys.stdout.write(f"{finding.severity.upper()}: {finding}\n")
    return [str(finding) for finding in findings if finding.severity == "error"]
