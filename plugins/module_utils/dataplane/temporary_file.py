# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new file beside the one that it is to replace.

This is tempfile.mkstemp. That module imports others that take 0.7 MiB of the agent, which needs nothing else of it.
"""

from __future__ import annotations

import contextlib
import os

_ATTEMPTS = 100


def beside(path: str) -> tuple[int, str]:
    """Make a new, empty file in the folder of `path`, and return (its file descriptor, its path).

    It is open for reading and writing and has mode 0600. Its name is a dot, the name of `path`, a dot and eight random
    characters. Raise OSError if the folder is missing or refuses, or if 100 such names are all taken.
    """
    for dummy in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileExistsError):
            return _made(path)
    return _made(path)


def _made(path: str) -> tuple[int, str]:
    folder, name = os.path.split(path)
    candidate = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(candidate, flags, 0o600), candidate
