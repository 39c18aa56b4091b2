# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counting what is lost while routes are replaced: probes at a steady rate from a process that outlives its starter.

    /run/calico/watch.lock  locked by the process for as long as it lives; holds its number
    /run/calico/watch.json  what it found, written whole at its end

There is one watch on a node: another start ends it. It ends by itself after its limit, so a controller that dies leaves
a file behind and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import time
import typing as t

from ..store import atomic_file
from .probing import Exchange, ProbeError, Tally, Target

#: Where a node has its watch: the default of `path` below.
PATH = "/run/calico/watch.json"

_NAME = "calico-watch"  # as `ps` and `top` show it; 15 letters at most
_TICK = 0.05  # seconds between two bursts
_BURST = 10  # probes in a burst: 200 a second from a node, however many paths it has
_SHARE = 0.02  # of a processor; where a burst costs more, they are further apart
_SLOWEST_TICK = 1.0  # seconds
_LATE = 1.0  # seconds that the last answers have
_SILENT = 1.0  # seconds; see _found
#: Seconds for a process to begin or to end, on a machine that has no time.
PATIENCE = 30.0


def interval(paths: int) -> float:
    """Seconds between two probes to one path: a twentieth up to ten paths, then as the limit of the node allows."""
    return _TICK * max(1.0, paths / _BURST)


def start(
    targets: t.Sequence[Target],
    limit: float,
    path: t.Optional[str] = None,
    exchange: t.Callable[[t.Sequence[Target]], Exchange] = Exchange,
) -> None:
    """Start a watch of `targets` that ends after `limit` seconds at the latest; stop the one that may be running.

    Returns when the watch sends. Raises ProbeError, also for what `exchange` raises in the watch's process.
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
    told = ""
    with os.fdopen(reading, "rb") as stream:
        if select.select([stream], [], [], PATIENCE)[0]:
            told = stream.read().decode(errors="replace")
    if told != "ok":
        raise ProbeError(f"no watch could be started on this node: {told or 'its process did not answer'}.")


def stop(path: t.Optional[str] = None, patience: float = PATIENCE) -> bool:
    """End the watch and wait, at most `patience` seconds, until its file is written; return whether one was running.

    Raises ProbeError.
    """
    with _opened(path or PATH) as lock:
        if _taken(lock):
            return False
        deadline = time.monotonic() + patience
        holder, told = b"", False
        while time.monotonic() < deadline:
            holder = os.pread(lock, 32, 0).strip()
            if holder.isdigit() and not told and _name(int(holder)) == _NAME:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(holder), signal.SIGTERM)
                told = True
            if _taken(lock):
                return True
            time.sleep(0.02)
    raise ProbeError(
        f"the watch of an earlier change, process {holder.decode(errors='replace') or 'unknown'}, did not end within "
        f"{patience:g} seconds. Look at that process, then run again."
    )


def running(path: t.Optional[str] = None) -> t.Optional[int]:
    """Return the number of the process that watches, None when there is none."""
    with _opened(path or PATH) as lock:
        if _taken(lock):
            return None
        holder = os.pread(lock, 32, 0).strip()
        return int(holder) if holder.isdigit() else 0


def collect(process: t.Optional[int], path: t.Optional[str] = None) -> t.Optional[dict[str, t.Any]]:
    """End the watch of `process`; return what it found (see _report), None where there is none that left a file.

    `state` is "stopped" when it counted until now, "ended" when it came to its limit before, "running" when its process
    was killed: then nothing was counted. A watch of another process than the one that was running belongs to a later
    change, whose controller came after ours was killed: it is let be, and the answer is None.
    """
    path = path or PATH
    if running(path) not in (None, process):
        return None
    stop(path)
    try:
        with open(path, encoding="utf-8") as stream:
            return t.cast("dict[str, t.Any]", json.load(stream))
    except (FileNotFoundError, ValueError):
        return None


def _name(process: int) -> str:
    """Of a process by its number; "" when there is none. The number may be left from one that is long gone."""
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
        os.makedirs(os.path.dirname(name), mode=0o755, exist_ok=True)
        # Never replaced or removed: two processes must not lock two files of one name.
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ProbeError(
            f"{name} cannot be opened: {error.strerror}. Probes need root's rights: become: true."
        ) from error


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _detached(opened: t.Callable[[], Exchange], limit: float, path: str, writing: int) -> t.NoReturn:
    """The rest of the child's life: away from the session and the pipes of the connection that it was started by."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        # Objects of the starter must not close what has the numbers of their files now.
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
    except BaseException as error:  # noqa: BLE001 - nobody is above to whom it could go
        with contextlib.suppress(OSError):
            os.write(writing, str(error).rstrip(".").encode())
        os._exit(1)
    os._exit(0)


def _watch(opened: t.Callable[[], Exchange], limit: float, path: str, writing: int) -> None:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, dummy: told.append(number))
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with open("/proc/self/comm", "w", encoding="ascii") as stream:
        stream.write(_NAME)
    lock = _open_lock(path)
    if not _taken(lock):
        raise ProbeError("another one was started at the same time")
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    exchange = opened()
    started = time.monotonic()
    _write(path, "running", exchange, started)
    os.write(writing, b"ok")
    os.close(writing)
    _send_steadily(exchange, started + limit, lambda: bool(told))
    exchange.receive_late(_LATE)
    _write(path, "stopped" if told else "ended", exchange, started)


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
        # A process that was held up does not make up for it: with two bursts that are nearer to each other than a tick,
        # a short cut would count as a longer one.
        # One sleep, whatever comes meanwhile: waking for each answer would cost as much as all the rest.
        time.sleep(max(_TICK, now + tick - time.monotonic()))
        exchange.receive()
        now = time.monotonic()


def _write(path: str, state: str, exchange: Exchange, started: float) -> None:
    atomic_file.write(path, json.dumps(_report(state, exchange.tallies, time.monotonic() - started)), 0o644)


def _report(state: str, tallies: t.Sequence[Tally], seconds: float) -> dict[str, t.Any]:
    """`interval` and `resolution` are in milliseconds: between two probes to one path as planned, and at most."""
    apart = interval(len(tallies))
    widest = max(
        (later - earlier for tally in tallies for earlier, later in zip(tally.sent_at, tally.sent_at[1:])),
        default=apart,
    )
    return {
        "state": state,
        "seconds": round(seconds, 1),
        "interval": round(apart * 1000, 1),
        "resolution": round(widest * 1000, 1),
        "targets": [_found(tally, apart) for tally in tallies],
    }


def _found(tally: Tally, apart: float) -> dict[str, t.Any]:
    """An Answer's fields, `lost`, the gap by the times of sending, and `silent`: milliseconds until the first answer.

    A path that answered nothing for its first second was down before the change; it counts from its first answer on.
    One that never answers is lost altogether.
    """
    answered = sorted(tally.answered)
    first = answered[0] if answered else 0
    silent = tally.sent_at[first] - tally.sent_at[0] if answered else 0.0
    if silent < _SILENT:
        first, silent = 0, 0.0
    longest, expected = 0.0, first
    for sequence in [*answered, tally.sent]:
        if sequence > expected:
            again = tally.sent_at[sequence] if sequence < tally.sent else tally.sent_at[-1] + apart
            longest = max(longest, again - tally.sent_at[expected])
        expected = sequence + 1
    sent = tally.sent - first
    lost = sent - len(answered)
    answer = tally.answer(apart)._asdict()
    # Answers lie in the socket until the next burst: how long they took is not known.
    answer.update(rtt_min=None, rtt_max=None)
    answer.update(sent=sent, lost=lost, longest_gap=round(longest * 1000, 1), silent=round(silent * 1000, 1))
    if not lost:
        answer["reason"] = ""
    elif answer["reason"].endswith(" not answered"):
        answer["reason"] = f"{lost} not answered"
    return answer
