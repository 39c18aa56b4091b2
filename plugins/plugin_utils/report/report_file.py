# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a report on the controller."""

from __future__ import annotations

import os

from ansible_collections.baremetal.host_routing.plugins.module_utils.files import replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

#: A file has these rights, less the process's umask, as any other file that a user makes.
_MODE = 0o644


def path_for(chosen: str) -> str:
    """Return the absolute path of the file; "~" is the user's home. Raise FleetError if it cannot be written there."""
    path = os.path.abspath(os.path.expanduser(chosen))
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        raise _error(chosen, "is a folder.", "Name a file in it, such as report.html.")
    if not os.path.isdir(folder):
        raise _error(
            chosen, f"cannot be written: the folder {folder} does not exist.", "Make it, or name another file."
        )
    if os.path.exists(path) and not os.path.isfile(path):
        raise _error(chosen, "is no ordinary file.", "Name another file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _error(chosen, f"cannot be written: you may not write in {folder}.", "Name a file in another folder.")
    return path


def write(path: str, content: str) -> None:
    """Replace the file, or the one that a link leads to, as a whole or not at all. Raise FleetError if that fails."""
    target = os.path.realpath(path)
    try:
        replacement.replace(target, content.encode("utf-8", "backslashreplace"), _MODE & ~_umask(), sync=False)
    except OSError as error:
        raise _error(path, f"cannot be written: {error.strerror}.", "Name another file.") from error


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _error(path: str, rule: str, remedy: str) -> FleetError:
    return FleetError("-e report=FILE", path, rule, remedy)
