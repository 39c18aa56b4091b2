# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs that change resources in Calico: here the inventory says what there is, so they say where to change it."""

from __future__ import annotations

import argparse
import sys

from . import kinds
from .errors import PROBLEMS, UsageError
from .sources import Sources

VERBS = ("apply", "create", "replace", "delete", "patch", "label")


def run(arguments: argparse.Namespace, dummy: Sources) -> int:
    kind = None
    for word in arguments.rest:
        if not word.startswith("-"):
            try:
                kind = kinds.find(word)
            except UsageError:
                continue
            break
    places = [kind] if kind else list(kinds.KINDS)
    sys.stderr.write(
        f"calicoctl {arguments.verb} is not done here: the Ansible inventory says what this node is to have, and the "
        "next run would undo it. Change it there, and run playbooks/site.yml:\n"
    )
    for place in places:
        sys.stderr.write(f"  {place.name:<16}  {place.variable}\n")
    return PROBLEMS
