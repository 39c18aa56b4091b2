# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run programs of the machine that carries the lab, and report progress on stderr."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .topology import LabError

_began = time.monotonic()


def progress(text: str) -> None:
    """Print one line of progress to stderr unless HOST_ROUTING_LAB_QUIET is set and not empty."""
    if not os.environ.get("HOST_ROUTING_LAB_QUIET"):
        print(f"lab {time.monotonic() - _began:6.1f}s  {text}", file=sys.stderr, flush=True)


def run(
    argv: Sequence[str | os.PathLike[str]], check: bool = True, timeout: float = 600, **more: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program and return its CompletedProcess with captured text.

    `timeout` is in seconds, `more` are options of subprocess.run; without `input` or `stdin` among them stdin is empty.
    Raise LabError if the program is missing or the time is over. If `check` is true, raise LabError also for a status
    other than 0, with the end of what it wrote to stderr, or to stdout if that is empty.
    """
    if "input" not in more:
        more.setdefault("stdin", subprocess.DEVNULL)
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout, errors="replace", check=False, **more
        )
    except FileNotFoundError:
        raise LabError(
            f"The program {words[0]!r} is missing; `tests/lab/lab up` installs what the lab needs."
        ) from None
    except subprocess.TimeoutExpired:
        raise LabError(f"No end after {timeout:.0f} s: {' '.join(words)}") from None
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise LabError(f"Exit status {done.returncode} of: {' '.join(words)}\n{said}")
    return done


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file inside the with block; report and wait while another process has it.

    File and folder are created if missing. There is no time limit.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            progress(f"waiting for another run that holds {path}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def wait_until(what: str, question: Any, timeout: float, step: float = 0.1) -> Any:
    """Call ``question()``, with pauses of `step` seconds, until its answer is true; return the answer.

    Raise LabError, which names `what` was waited for, after the first call that ends more than ``timeout`` seconds
    later without a true answer. Raise the errors of `question`.
    """
    end = time.monotonic() + timeout
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise LabError(f"Waited {timeout:.0f} s in vain: {what}.")
        time.sleep(step)
