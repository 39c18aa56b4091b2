# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch, which counts lost packets while routes are replaced: probes at a steady rate from a detached process.

    /run/calico/watch.lock  locked by the process for as long as it lives; holds its process id
    /run/calico/watch.json  written at its start, and replaced at its end by what it found

There is one watch on a node: starting another one ends it. It ends by itself after its limit, so that a controller that
dies leaves only a file behind.
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

from ...files import bounded, locks
from ..store import atomic_file
from .probing import Exchange, ProbeError, Tally, Target

#: The file into which a node's watch writes its result, unless a function below gets another `path`.
PATH = "/run/calico/watch.json"

_NAME = "calico-watch"  # the name of the process in `ps` and `top`; 15 letters at most
_TICK = 0.05  # seconds from one burst to the next, at least
_BURST = 10  # the most probes in a burst: at most 200 a second from a node, however many paths it has
_SHARE = 0.02  # the share of one processor's time that bursts may take; if they take more, they are further apart
_SLOWEST_TICK = 1.0  # the most seconds between bursts that _SHARE causes
_LATE = 1.0  # seconds to wait for the last answers
_SILENT = 1.0  # seconds; a path whose first answered probe was sent later than that was down before the watch began
#: Seconds that the watch's process may take to begin, or to end, on a busy machine.
PATIENCE = 30.0


def interval(paths: int) -> float:
    """Return the planned seconds between two probes to one path: 0.05 for up to ten paths, `paths` / 200 for more."""
    return _TICK * max(1.0, paths / _BURST)


def start(
    targets: t.Sequence[Target],
    limit: float,
    path: t.Optional[str] = None,
    exchange: t.Callable[[t.Sequence[Target]], Exchange] = Exchange,
) -> None:
    """Start a watch of `targets` that sends for at most `limit` seconds, and end the one that may be running.

    Return when its process is ready to send. Wait at most 30 seconds for that, and before it 30 seconds for the end of
    the running watch. `path` is that of its result file, None for PATH. `exchange` opens the sockets, in that process.
    Raise ProbeError if any of this fails.
    """
    path = path or PATH
    stop(path)
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        raise ProbeError(f"no watch could be started on this node: {error.strerror}.") from error
    if not child:
        _detached(lambda: exchange(targets), limit, path, writing)
    os.close(writing)
    os.waitpid(child, 0)
    answer = ""
    with os.fdopen(reading, "rb") as stream:
        if select.select([stream], [], [], PATIENCE)[0]:
            answer = stream.read().decode(errors="replace")
    if answer != "ok":
        raise ProbeError(f"no watch could be started on this node: {answer or 'its process did not answer'}.")


def stop(path: t.Optional[str] = None, patience: float = PATIENCE) -> bool:
    """End the watch, wait at most `patience` seconds for the end of its process, and return whether one was running.

    Raise ProbeError if it does not end in time, or if the lock file cannot be opened.
    """
    with _opened(path or PATH) as lock:
        if locks.take(lock):
            return False
        deadline = time.monotonic() + patience
        holder, signalled = b"", False
        while time.monotonic() < deadline:
            holder = os.pread(lock, 32, 0).strip()
            if holder.isdigit() and not signalled and _name(int(holder)) == _NAME:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(holder), signal.SIGTERM)
                signalled = True
            if locks.take(lock):
                return True
            time.sleep(0.02)
    raise ProbeError(
        f"the watch of an earlier change, process {holder.decode(errors='replace') or 'unknown'}, did not end within "
        f"{patience:g} seconds. Look at that process, then run again."
    )


def running(path: t.Optional[str] = None) -> t.Optional[int]:
    """Return the process id of the running watch, 0 if it has not written its id yet, None if no watch runs.

    Raise ProbeError if the lock file, which is created if it is missing, cannot be opened.
    """
    with _opened(path or PATH) as lock:
        if locks.take(lock):
            return None
        holder = os.pread(lock, 32, 0).strip()
        return int(holder) if holder.isdigit() else 0


def collect(process: t.Optional[int], path: t.Optional[str] = None) -> t.Optional[dict[str, t.Any]]:
    """End the watch with the process id `process`, and return what it found, the dict that `_report` made.

    Its keys are state, seconds, interval and resolution (both in milliseconds), lost_by_second and targets. `state` is
    "stopped" if a call ended the watch, "ended" if it came to its limit, "running" if its process ended without a
    result: all counts are 0 then. `process` None means that no watch should run. If none runs, the file of the last one
    is returned. Return None if there is no file, or if it holds no JSON object. Return None also if the running watch
    is another process: it belongs to a later change, and goes on. Raise ProbeError if the watch does not end within 30
    seconds, or if the lock file cannot be opened, and OSError if the result cannot be read.
    """
    path = path or PATH
    if running(path) not in (None, process):
        return None
    stop(path)
    try:
        found = bounded.read_json(path)
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _name(process: int) -> str:
    try:
        with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


@contextlib.contextmanager
def _opened(path: str) -> t.Iterator[int]:
    handle = _open_lock(path)
    try:
        yield handle
    finally:
        os.close(handle)


def _open_lock(path: str) -> int:
    name = os.path.splitext(path)[0] + ".lock"
    try:
        return locks.opened(name)  # The file is never removed, so that two processes never lock two of one name.
    except OSError as error:
        raise ProbeError(
            f"{name} cannot be opened: {error.strerror}. Probes need root's rights: become: true."
        ) from error


def _detached(opened: t.Callable[[], Exchange], limit: float, path: str, writing: int) -> t.NoReturn:
    """Run the watch in a process apart from the session and the pipes of the connection that started it, then exit.

    An error before the first probe is written to `writing`, the pipe to the starter.
    """
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        # Objects of the parent process hold numbers of files that are closed below. Their collection could close files
        # of this process that have got the same numbers.
        gc.disable()
        os.chdir("/")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        for number in map(int, os.listdir("/proc/self/fd")):
            if number not in (0, 1, 2, writing):
                with contextlib.suppress(OSError):
                    os.close(number)
        _watch(opened, limit, path, writing)
    except BaseException as error:  # noqa: BLE001 - no caller could receive it
        with contextlib.suppress(OSError):
            os.write(writing, str(error).rstrip(".").encode())
        os._exit(1)
    os._exit(0)


def _watch(opened: t.Callable[[], Exchange], limit: float, path: str, writing: int) -> None:
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, dummy: signals.append(number))
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with open("/proc/self/comm", "w", encoding="ascii") as stream:
        stream.write(_NAME)
    lock = _open_lock(path)
    if not locks.take(lock):
        raise ProbeError("another one was started at the same time")
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    exchange = opened()
    started = time.monotonic()
    _write(path, "running", exchange, started)
    os.write(writing, b"ok")
    os.close(writing)
    _send_steadily(exchange, started + limit, lambda: bool(signals))
    exchange.receive_late(_LATE)
    _write(path, "stopped" if signals else "ended", exchange, started)


def _send_steadily(exchange: Exchange, deadline: float, done: t.Callable[[], bool]) -> None:
    width = len(exchange.tallies)
    burst = min(width, _BURST)
    number = 0
    now = time.monotonic()
    used = time.process_time()
    while now < deadline and not done():
        for dummy in range(burst):
            exchange.send(number)
            number = (number + 1) % width
        before, used = used, time.process_time()
        tick = min(_SLOWEST_TICK, max(_TICK, (used - before) / _SHARE))
        # A process that was held up does not catch up: with two bursts closer to each other than a tick, a short
        # interruption would count as a longer one.
        # There is one sleep, whatever arrives meanwhile: waking for each answer would cost as much as everything else.
        time.sleep(max(_TICK, now + tick - time.monotonic()))
        exchange.receive()
        now = time.monotonic()


def _write(path: str, state: str, exchange: Exchange, started: float) -> None:
    atomic_file.write(path, json.dumps(_report(state, exchange.tallies, started)), 0o644)


def _report(state: str, tallies: t.Sequence[Tally], started: float) -> dict[str, t.Any]:
    """Return what was found, with the keys that `collect` names; `started` is in monotonic seconds.

    `interval` is the planned milliseconds between two probes to one path, `resolution` the longest that occurred, or
    `interval` if none did. `targets` has the dict that `_found` returns for each of `tallies`.
    """
    apart = interval(len(tallies))
    widest = max(
        (later - earlier for tally in tallies for earlier, later in zip(tally.sent_at, tally.sent_at[1:])),
        default=apart,
    )
    return {
        "state": state,
        "seconds": round(time.monotonic() - started, 1),
        "interval": round(apart * 1000, 1),
        "resolution": round(widest * 1000, 1),
        "lost_by_second": _lost_by_second(tallies, started),
        "targets": [_found(tally, apart) for tally in tallies],
    }


def _lost_by_second(tallies: t.Sequence[Tally], started: float) -> list[list[int]]:
    """Return [whole seconds from `started` to the sending of probes, how many of these are lost], for all paths.

    Seconds without a loss are left out, and so are probes that `_first_counted` leaves out.
    """
    counts: dict[int, int] = {}
    for tally in tallies:
        first = _first_counted(tally)[0]
        for sequence in range(first, tally.sent):
            if sequence not in tally.answered:
                second = max(0, int(tally.sent_at[sequence] - started))
                counts[second] = counts.get(second, 0) + 1
    return [[second, count] for second, count in sorted(counts.items())]


def _first_counted(tally: Tally) -> tuple[int, float]:
    """Return the number of the first probe that counts, and for how many seconds no probe before it was answered.

    A path without an answer in its first second was down before the change: its probes count from the first answered
    one on. Otherwise the result is (0, 0.0).
    """
    first = min(tally.answered, default=0)
    silent = tally.sent_at[first] - tally.sent_at[0] if tally.answered else 0.0
    return (first, silent) if silent >= _SILENT else (0, 0.0)


def _found(tally: Tally, apart: float) -> dict[str, t.Any]:
    """Return the result for one target: the fields of ProbeResult, `lost`, and `silent`.

    `apart` is the planned seconds between two probes to it. `silent` is the milliseconds from the first probe to the
    first one that was answered, 0.0 if that is less than a second or none was answered. `longest_gap` is the most
    milliseconds from the first of some probes lost in a row until the next one was sent, or would have been. `reason`
    is "" if none was lost. Round-trip times are None.
    """
    answered = sorted(tally.answered)
    first, silent = _first_counted(tally)
    longest, expected = 0.0, first
    for sequence in [*answered, tally.sent]:
        if sequence > expected:
            again = tally.sent_at[sequence] if sequence < tally.sent else tally.sent_at[-1] + apart
            longest = max(longest, again - tally.sent_at[expected])
        expected = sequence + 1
    sent = tally.sent - first
    lost = sent - len(answered)
    answer = tally.answer(apart)._asdict()
    # Answers wait in the socket until the next burst. So the times at which they came are not known.
    answer.update(rtt_min=None, rtt_max=None)
    answer.update(sent=sent, lost=lost, longest_gap=round(longest * 1000, 1), silent=round(silent * 1000, 1))
    if not lost:
        answer["reason"] = ""
    return answer
