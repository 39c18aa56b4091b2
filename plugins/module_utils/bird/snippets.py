# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's own snippets: files that bird.cfg includes by a pattern and that this collection never writes."""

from __future__ import annotations

import glob
import os
import re
import typing as t

_INCLUDE = re.compile(r'^include "(/[^"]*\*[^"]*)";', re.MULTILINE)


def patterns(text: str) -> tuple[str, ...]:
    """Return the absolute paths with a `*` that the bird.cfg `text` includes, in their order."""
    return tuple(_INCLUDE.findall(text))


def last_touched(text: str) -> float:
    """Return when a snippet of the bird.cfg `text` last changed, in seconds since 1970; 0.0 if there is none to see.

    The folders of the patterns count as well: a removed snippet leaves no other trace.
    """
    return max((_modified(path) for path in _paths(text)), default=0.0)


def _paths(text: str) -> t.Iterator[str]:
    for pattern in patterns(text):
        yield from glob.glob(os.path.dirname(pattern))
        yield from glob.glob(pattern)


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:  # It was removed meanwhile: then its folder has changed, and counts. Or it is a dangling link.
        return 0.0
