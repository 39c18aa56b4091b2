# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a command is given with -f: files, folders, or - for stdin."""

from __future__ import annotations

import os
import typing as t

from ...base.document_limits import BeyondLimits
from ..errors import CommandError
from . import document_file
from .document_text import EXTENSIONS


def paths(names: t.Sequence[str], recursive: bool, skip_empty: bool = False) -> t.Iterator[str]:
    """Yield the paths that -f names: a file, "-" for stdin, or the files of resources in a folder, sorted.

    With `recursive`, those of the folders in it are among them. Raise CommandError for a folder without any, unless
    `skip_empty`.
    """
    for name in names:
        if name == "-" or not os.path.isdir(name):
            yield name
            continue
        found = []
        for folder, folders, entries in os.walk(name):
            if not recursive:
                folders.clear()
            found += [os.path.join(folder, entry) for entry in entries if entry.endswith(EXTENSIONS)]
        if not found and not skip_empty:
            raise CommandError(f"no resources specified in directory {name}. It has no file *.yaml, *.yml or *.json.")
        yield from sorted(found)


def read(path: str) -> str:
    """Return the text of a file, or of stdin for "-". Raise CommandError if it cannot be read or is too large."""
    try:
        return document_file.read_stdin() if path == "-" else document_file.read(path)
    except BeyondLimits as error:
        raise CommandError(f"{path} {error}") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 at byte {error.start}. Save it as UTF-8.") from error
