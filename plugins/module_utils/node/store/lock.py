# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's lock, which lets one process at a time change the node."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
import typing as t

from ...base.typed_json import open_table, parse, text, whole
from ...files import locks

PATH = "/run/calico/node.lock"
_HOLDER = open_table({"who": text(), "pid": whole(), "since": text()})
_STEP = 0.05  # seconds between two attempts to take the lock


class LockError(Exception):
    """The error for a lock that another process held for the whole time that the caller waits."""


class LockUnusable(LockError):
    """The error for a lock file that cannot be opened."""


@contextlib.contextmanager
def held(who: str, timeout: float = 60.0, path: str = PATH) -> t.Iterator[None]:
    """Hold the lock file `path`, which is created if it is missing, within a `with` block.

    The kernel releases the lock when the process ends. `who` names the holder in the file, if there is room, for the
    errors of processes that wait. Raise LockError if another process holds the lock for `timeout` seconds, or
    LockUnusable.
    """
    deadline = time.monotonic() + timeout
    handle = _opened(path)
    try:
        while True:
            if locks.take(handle):
                if _leads_to(path, handle):
                    break
                # A teardown removed the file that this process waited for, and others may lock another one now.
                os.close(handle)
                handle = -1
                handle = _opened(path)
            elif time.monotonic() >= deadline:
                raise LockError(_refusal(handle, path, timeout))
            else:
                time.sleep(_STEP)
        since = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        _name(handle, json.dumps({"who": who, "pid": os.getpid(), "since": since}))
        try:
            yield
        finally:
            _name(handle, "")
    finally:
        if handle >= 0:
            os.close(handle)


def _name(handle: int, holder: str) -> None:
    """Write the holder into the file, "" for none. A full disk leaves it out: the kernel alone keeps the lock."""
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, holder.encode(), 0)


def _opened(path: str) -> int:
    try:
        return locks.opened(path)
    except OSError as error:
        raise _unusable(path, error) from error


def _leads_to(path: str, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def taken(path: str) -> bool:
    """Return whether a process holds the lock file `path`; False if there is no such file. Raise LockUnusable."""
    try:
        return locks.is_taken(path)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: str, error: OSError) -> LockUnusable:
    return LockUnusable(
        f"the lock {path} cannot be opened: {error.strerror}. Nothing was changed. Run as root, and correct the file"
        " system or what is in its place, then run again."
    )


def _refusal(handle: int, path: str, timeout: float) -> str:
    try:
        holder = _HOLDER(parse(os.pread(handle, 4096, 0)))
        text = f"{holder['who']} (pid {holder['pid']}, since {holder['since']})"
    except (OSError, ValueError):
        text = "another process"
    return (
        f"this node is being changed by {text}. It holds {path} and did not let go within {timeout:g} seconds. "
        "Wait until it is done, or look at that process, then run again."
    )
