# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache of the byte code that Python imports from zip archives, kept on a lab host until it goes down.

Ansible sends a module as an archive of more than a hundred sources, and compiling them takes half of each start. The
cache saves only the tests' time. Byte code is found by the content of its source and the Python that compiled it. A
.pth file imports this module whenever Python starts, so it uses only modules that are loaded by then.
"""

from __future__ import annotations

import _imp
import marshal
import posix
import sys
import zipimport

FOLDER = "/run/zip-byte-code"
PYTHON = f"{sys.implementation.cache_tag}-{sys.flags.optimize}"


def keep() -> None:
    """Make zipimport look for cached byte code before it compiles, and cache what it has compiled."""
    compiled = zipimport._compile_source  # type: ignore[attr-defined]

    def byte_code(path: str, source: bytes) -> object:
        kept = f"{FOLDER}/{_imp.source_hash(len(source), source).hex()}-{len(source)}-{PYTHON}"
        try:
            with open(kept, "rb") as file:
                code = marshal.loads(file.read())
            _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]  # tracebacks name the archive of this call
        except (OSError, EOFError, ValueError, TypeError):
            code = compiled(path, source)
            write(kept, marshal.dumps(code))
        return code

    zipimport._compile_source = byte_code  # type: ignore[attr-defined]


def write(target: str, content: bytes) -> None:
    """Write a file completely or not at all; raise nothing if it cannot be written."""
    half = f"{target}.{posix.getpid()}"
    try:
        if not posix.access(FOLDER, posix.F_OK):
            posix.mkdir(FOLDER, 0o700)
        with open(half, "wb") as file:
            file.write(content)
        posix.rename(half, target)
    except OSError:
        pass


keep()
