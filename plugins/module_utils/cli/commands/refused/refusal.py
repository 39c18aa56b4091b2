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

from ...errors import PROBLEMS, UsageError
from ...render import kinds
from ...render.document_text import EXTENSIONS
from ...render.kind import Kind

_LIMIT = 1 << 20  # the most characters that are read of a file
#: The least width of the column of kinds, in characters; a longer name widens it.
_WIDTH = 16
_FILE = ("-f", "--filename")

#: A pattern that finds the kinds of the documents in a YAML or JSON file without parsing it.
_KIND = re.compile(r"""^[\s{,-]*["']?kind["']?\s*:\s*["']?(\w+)""", re.MULTILINE)


def refuse(verb: str, *rest: str) -> int:
    """Print to stderr which variables to change in place of `calicoctl verb rest...`; return exit status 1.

    The variables are those of the kinds that `rest` and the files in it name, or of all kinds if they name none. Files
    (-f) that cannot be read come first.
    """
    words = list(rest)
    for name in _given(rest):
        try:
            words += _kinds_in(name)
        except FileNotFoundError:
            sys.stderr.write(f"calicoctl {verb}: -f {name} does not exist.\n")
        except OSError as error:
            sys.stderr.write(f"calicoctl {verb}: -f {name} cannot be read: {error.strerror}.\n")
    named = dict.fromkeys(kind for word in words for kind in _kind(word))
    sys.stderr.write(
        f"calicoctl {verb} is not done here: the Ansible inventory says what this node is to have, and the "
        "next run would undo it. Change it there, and run playbooks/site.yml:\n"
    )
    shown = list(named or kinds.KINDS)
    width = max(_WIDTH, *(len(kind.name) for kind in shown))
    for kind in shown:
        sys.stderr.write(f"  {kind.name:<{width}}  {kind.variable}\n")
    return PROBLEMS


def _given(words: t.Sequence[str]) -> t.Iterator[str]:
    """Yield the values of the options -f and --filename among the words, but not "-", which is stdin."""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word in _FILE:
            found = words[index + 1] if index + 1 < len(words) else "-"
        elif equals and name in _FILE:
            found = value
        elif re.match("-f.", word):
            found = word[2:]
        else:
            continue
        if found != "-":
            yield found


def _kinds_in(name: str) -> list[str]:
    """Return the kinds of the documents in a file or folder, from the first 1,048,576 characters of each file."""
    paths = [name]
    if os.path.isdir(name):
        paths = [os.path.join(name, entry) for entry in sorted(os.listdir(name)) if entry.endswith(EXTENSIONS)]
    found = []
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as stream:
            found += _KIND.findall(stream.read(_LIMIT))
    return found


def _kind(word: str) -> t.Iterator[Kind]:
    with contextlib.suppress(UsageError):
        yield kinds.find(word)
