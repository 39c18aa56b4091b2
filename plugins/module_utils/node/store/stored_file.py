# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of JSON files in a node's store, and the errors that it raises."""

from __future__ import annotations

import typing as t

from ...base.typed_json import anything, by_name
from ...files import bounded

#: The name of the file with the state that the node must have.
STATE = "state.json"
PARTS = by_name(anything)
REMEDY = (
    "Use that release, or move the file away if the lockfile on the controller has this node's blocks; the next run "
    "then stores the state anew."
)


class StoreError(Exception):
    """The error for a stored file that is missing, although it is needed, or cannot be read."""


def unreadable(path: str, why: object, remedy: str) -> StoreError:
    """Return the error for a stored file that cannot be read, because of the exception or the words `why`.

    `remedy` is a sentence for a damaged file; the text has another one if only the rights are missing.
    """
    if isinstance(why, PermissionError):
        return StoreError(f"{path} may be read by root alone. Become root, then run again.")
    return StoreError(f"{path} cannot be read: {why}. It was damaged or written by another release. {remedy}")


def read(path: str, remedy: str = REMEDY) -> t.Optional[dict[str, t.Any]]:
    """Return the JSON object in a stored file, None if there is no such file. Raise StoreError with this remedy.

    What is in the object must not be changed.
    """
    try:
        return PARTS(bounded.read_shared_json(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise unreadable(path, error, remedy) from error
