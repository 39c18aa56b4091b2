# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in a forked process with the lowest priority: it reads what this process knows, and holds nobody up.

The child has a copy of this process's memory, so nothing has to be handed over. It has one thread, and no file but the
pipe to its parent: neither locks nor sockets of this process stay in use when this process ends before the child.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import time
import typing as t

from ...base.typed_json import parse

Json = dict[str, t.Any]

_LOWEST = 19
_MOST_BYTES = 1 << 20  # of what a child says
_LOOK = 0.1  # seconds between two looks at whether the answer is still wanted
_SPARE = 5  # seconds after which a child ends by itself whose parent did not end it


class ForkedAnswer(t.NamedTuple):
    """The parts that a child has said in time. `problem` is why there may be more, "" if it has said all."""

    parts: tuple[Json, ...]
    problem: str = ""


def ask(
    work: t.Callable[[], t.Iterable[Json]],
    seconds: float,
    still: t.ContextManager[t.Any],
    is_over: t.Callable[[], bool] = lambda: False,
) -> ForkedAnswer:
    """Return the parts that `work` yields in a child within `seconds`, each a table for JSON. Block until then.

    `still` is held over the fork, in both processes: it has the locks of what `work` reads, so that no thread changes
    it halfway. `work` must open the files that it uses. The child is ended soon after `is_over` returns True.
    """
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stream:
        try:
            with still:
                child = os.fork()
        except OSError as error:
            os.close(writing)
            return ForkedAnswer((), f"no process could be started: {error.strerror}")
        if not child:
            _answer(work, writing, seconds)
        os.close(writing)
        try:
            data, problem = _read(stream.fileno(), time.monotonic() + seconds, is_over)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    *lines, _rest = data.split(b"\n")
    parts = [parse(line, once=False) for line in lines]
    for part in parts:
        problem = problem or part.pop("problem", "")
    if not problem and (not parts or parts[-1].pop("end", None) is None):
        problem = "its process ended before it was done"
    return ForkedAnswer(tuple(part for part in parts if part), problem)


def _read(pipe: int, until: float, is_over: t.Callable[[], bool]) -> tuple[bytes, str]:
    """Return what comes out of a pipe until its end, and why it was not read to that."""
    data = b""
    while len(data) <= _MOST_BYTES:
        left = until - time.monotonic()
        if left <= 0 or is_over():
            return data, "the time was over"
        if not select.select([pipe], [], [], min(left, _LOOK))[0]:
            continue
        more = os.read(pipe, 1 << 16)
        if not more:
            return data, ""
        data += more
    return data[: data.rfind(b"\n", 0, _MOST_BYTES) + 1], "it was too long"


def _answer(work: t.Callable[[], t.Iterable[Json]], pipe: int, seconds: float) -> t.NoReturn:
    """Write what `work` yields to a pipe, and end this process. Nothing of its parent is run at its end."""
    try:
        gc.disable()  # a collection would copy the memory that both have
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(seconds) + _SPARE)
        os.closerange(3, pipe)
        os.closerange(pipe + 1, _most_files())
        with contextlib.suppress(OSError):
            os.nice(_LOWEST)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
        try:
            for part in work():
                _write(pipe, part)
            _write(pipe, {"end": True})
        except Exception as error:  # noqa: BLE001  the parent gets it, as words
            _write(pipe, {"problem": f"{type(error).__name__}: {error}"[:500]})
    finally:
        os._exit(0)


def _most_files() -> int:
    """Return a number above those of all open files of this process."""
    try:
        return max(map(int, os.listdir("/proc/self/fd"))) + 1
    except OSError:
        return 65_536


def _write(pipe: int, part: Json) -> None:
    data = json.dumps(part).encode("ascii") + b"\n"
    while data:
        data = data[os.write(pipe, data) :]
