# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in a child: it says what it finds out in time, holds nothing of its parent, and its end is always noticed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency import forked

_STILL: t.ContextManager[t.Any] = contextlib.nullcontext()


def test_the_parts_come_as_they_were_yielded() -> None:
    def work() -> t.Iterator[dict[str, t.Any]]:
        yield {"a": 1}
        yield {"b": ["\x1b", None]}

    assert forked.ask(work, 5, _STILL) == forked.ForkedAnswer(({"a": 1}, {"b": ["\x1b", None]}))
    assert forked.ask(lambda: (), 5, _STILL) == forked.ForkedAnswer(())


def test_what_is_not_known_in_time_is_missing() -> None:
    def work() -> t.Iterator[dict[str, t.Any]]:
        yield {"a": 1}
        time.sleep(60)

    begun = time.monotonic()
    assert forked.ask(work, 2, _STILL) == forked.ForkedAnswer(({"a": 1},), "the time was over")
    assert time.monotonic() - begun < 30


def test_an_answer_that_is_wanted_no_longer_is_not_waited_for() -> None:
    over = threading.Event()

    def work() -> t.Iterator[dict[str, t.Any]]:
        yield {"a": 1}
        time.sleep(60)

    timer = threading.Timer(1, over.set)
    timer.start()
    begun = time.monotonic()
    assert forked.ask(work, 50, _STILL, over.is_set).problem == "the time was over"
    assert time.monotonic() - begun < 30


def _killed() -> t.Iterator[dict[str, t.Any]]:
    yield {"a": 1}
    os.kill(os.getpid(), signal.SIGKILL)


def _failed() -> t.Iterator[dict[str, t.Any]]:
    yield {"a": 1}
    raise ValueError("no \x1b")


def _long() -> t.Iterator[dict[str, t.Any]]:
    yield {"a": 1}
    yield {"b": "x" * (2 << 20)}


@pytest.mark.parametrize(
    ("work", "problem"),
    [(_killed, "its process ended before it was done"), (_failed, "ValueError: no \x1b"), (_long, "it was too long")],
)
def test_a_child_that_does_not_end_well_is_noticed(work: t.Any, problem: str) -> None:
    assert forked.ask(work, 5, _STILL) == forked.ForkedAnswer(({"a": 1},), problem)


def test_the_child_is_slow_alone_and_holds_no_file(tmp_path: pathlib.Path) -> None:
    def work() -> t.Iterator[dict[str, t.Any]]:
        targets = {os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if int(name) > 2}
        yield {"nice": os.nice(0), "held": str(tmp_path / "lock") in targets, "threads": threading.active_count()}

    with open(tmp_path / "lock", "w", encoding="ascii"):
        answer = forked.ask(work, 5, _STILL)
    assert answer.parts == ({"nice": 19, "held": False, "threads": 1},)


def test_no_thread_changes_what_the_child_reads_halfway() -> None:
    lock, pair, ended = threading.Lock(), [0, 0], threading.Event()

    def change() -> None:
        while not ended.is_set():
            with lock:
                pair[0] += 1
                time.sleep(0.0002)
                pair[1] += 1

    def work() -> t.Iterator[dict[str, t.Any]]:
        with lock:
            yield {"pair": list(pair)}

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _round in range(10):
            (part,) = forked.ask(work, 5, lock).parts
            assert part["pair"][0] == part["pair"][1]
    finally:
        ended.set()
        thread.join()


def test_no_child_stays() -> None:
    forked.ask(_failed, 5, _STILL)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
