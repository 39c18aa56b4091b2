# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs that change resources in Calico. Here they print which variable of the inventory to change instead."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import typing as t

from ..errors import PROBLEMS, UsageError
from ..render import kinds
from ..render.kind import Kind

_LIMIT = 1 << 20  # the most characters that are read of a file
#: The least width of the column of kinds, in characters; a longer name widens it.
_WIDTH = 16
VERBS = ("apply", "create", "replace", "delete", "patch", "label")


#: A pattern that finds the kinds of the documents in a YAML or JSON file without parsing it.
_KIND = re.compile(r"""^[\s{,-]*["']?kind["']?\s*:\s*["']?(\w+)""", re.MULTILINE)


def refuse(verb: str, *rest: str) -> int:
    """Print to stderr which variables to change in place of `calicoctl verb rest...`; return exit status 1.

    The variables are those of the kinds that `rest` and the files in it name, or of all kinds if they name none.
    """
    named = dict.fromkeys(kind for word in rest for kind in _kinds(word))
    sys.stderr.write(
        f"calicoctl {verb} is not done here: the Ansible inventory says what this node is to have, and the "
        "next run would undo it. Change it there, and run playbooks/site.yml:\n"
    )
    shown = list(named or kinds.KINDS)
    width = max(_WIDTH, *(len(kind.name) for kind in shown))
    for kind in shown:
        sys.stderr.write(f"  {kind.name:<{width}}  {kind.variable}\n")
    return PROBLEMS


def _kinds(word: str) -> t.Iterator[Kind]:
    """Yield the kind that a word of the command line names, or those that occur in the file of that name, if it exists.

    Only the first 1,048,576 characters of the file are read, and a kind is yielded as often as it occurs in them. The
    name of a file that cannot be read is taken for a word. An option and any other word yield nothing.
    """
    if word.startswith("-"):
        return
    words = [word]
    if os.path.isfile(word):
        with contextlib.suppress(OSError), open(word, encoding="utf-8", errors="replace") as stream:
            words = _KIND.findall(stream.read(_LIMIT))
    for name in words:
        with contextlib.suppress(UsageError):
            yield kinds.find(name)
