# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time on a node."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import time
import typing as t

PATH = "/run/calico/node.lock"
_STEP = 0.05  # seconds between two attempts


class LockError(Exception):
    """Somebody else holds the lock for longer than we wait."""


@contextlib.contextmanager
def held(who: str, timeout: float = 60.0, path: str = PATH) -> t.Iterator[None]:
    """Holds the lock for the length of a `with`. The kernel lets go of it when the process ends, however it ends.

    `who` is what others read while they wait; `timeout` is in seconds. Raises LockError.
    """
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    # Never replaced or removed: two processes must not lock two files of one name.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LockError(_refusal(handle, path, timeout)) from None
                time.sleep(_STEP)
        since = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        holder = {"who": who, "pid": os.getpid(), "since": since}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(holder).encode(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def taken(path: str) -> bool:
    """Whether somebody holds the lock now. Makes no file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _refusal(handle: int, path: str, timeout: float) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        text = f"{holder['who']} (pid {holder['pid']}, since {holder['since']})"
    except (ValueError, KeyError, TypeError):
        text = "another process"
    return (
        f"this node is being changed by {text}. It holds {path} and did not let go within {timeout:g} seconds. "
        "Wait until it is done, or look at that process, then run again."
    )
