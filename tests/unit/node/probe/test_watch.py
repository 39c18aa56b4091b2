# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the watch's arithmetic and files. tests/integration/modules/test_watch.py tests its packets and process."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import probing, watch


def tally(sent_at, answered):
    made = probing.Tally(probing.Target("10.244.7.0", name="node2"))
    made.sent = len(sent_at)
    made.sent_at.extend(sent_at)
    for sequence in answered:
        made.answered.add(sequence)
        made.rtts.append(0.0005)
    return made


def steady(count):
    return [100 + n * 0.05 for n in range(count)]


def found(sent_at, answered):
    entry = watch._found(tally(sent_at, answered), 0.05)
    return entry["sent"], entry["lost"], entry["longest_gap"], entry["silent"], entry["reason"]


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (range(40), (40, 0, 0.0, 0.0, "")),
        # A gap is from its first lost probe to the next one that was answered, or to the end.
        ({*range(40)} - {10, 11, 12, 13, 14, 15}, (40, 6, 300.0, 0.0, "no answer")),
        ({*range(40)} - {10, 20, 21, 30}, (40, 4, 100.0, 0.0, "no answer")),
        ({*range(40)} - {38, 39}, (40, 2, 100.0, 0.0, "no answer")),
        ((), (40, 40, 2000.0, 0.0, "no answer")),
    ],
)
def test_losses_and_the_longest_gap(answered, expected):
    assert found(steady(40), answered) == expected


def test_a_gap_is_as_long_as_the_time_that_passed():
    """A gap is measured in time: on a busy machine, three lost probes can be a gap of 900 ms.

    The report has the planned interval, and as resolution the longest that occurred, in milliseconds.
    """
    sent_at = [0.0, 0.05, 0.1, 0.6, 0.7, 1.0, 1.05]
    assert found(sent_at, {0, 1, 5, 6})[:3] == (7, 3, 900.0)
    report = watch._report("stopped", [tally(sent_at, range(7))], 0.0)
    assert (report["interval"], report["resolution"]) == (50.0, 500.0)


def test_a_path_that_was_down_before_counts_from_its_first_answer_on():
    assert found(steady(60), range(20, 60)) == (40, 0, 0.0, 1000.0, "")
    assert found(steady(60), {*range(20, 60)} - {30}) == (40, 1, 50.0, 1000.0, "no answer")
    # Less than a second without an answer at the start counts as loss: the path may have been up before the watch.
    assert found(steady(60), range(19, 60)) == (60, 19, 950.0, 0.0, "no answer")


def test_losses_are_counted_by_second():
    """Losses of all paths are counted by the second of the watch, without those of a path that was down before."""
    lossy = tally(steady(60), {*range(60)} - {10, 11, 40})
    down_before = tally(steady(60), {*range(30, 60)} - {45})
    whole = tally(steady(60), range(60))
    report = watch._report("stopped", [lossy, down_before, whole, tally([], ())], 99.9)
    assert report["lost_by_second"] == [[0, 2], [2, 2]]
    assert sum(count for dummy, count in report["lost_by_second"]) == sum(one["lost"] for one in report["targets"])
    assert watch._report("stopped", [whole], 100.0)["lost_by_second"] == []


def test_a_path_whose_turn_never_came():
    assert found([], ()) == (0, 0, 0.0, 0.0, "")


@pytest.mark.parametrize(("paths", "seconds"), [(1, 0.05), (10, 0.05), (20, 0.1), (100, 0.5), (3000, 15.0)])
def test_a_node_sends_at_most_200_a_second_and_10_to_each_of_20(paths, seconds):
    assert watch.interval(paths) == seconds
    assert paths / watch.interval(paths) <= 200.001


class FakeExchange:
    """An exchange with its own clock, which sleep() advances by its seconds, and each sent probe by `cost` seconds.

    It replaces the clocks and sleep() of the watch. `sent` has (number of the target, seconds since the start) of each
    probe. `width` is the number of targets.
    """

    def __init__(self, width, monkeypatch, cost=0.0):
        self.tallies = [None] * width
        self.sent = []
        self.received = 0
        self.now = self.used = 1000.0
        self.cost = cost
        for name in ("monotonic", "sleep", "process_time"):
            monkeypatch.setattr(watch.time, name, getattr(self, name))

    def monotonic(self):
        return self.now

    def process_time(self):
        return self.used

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds

    def send(self, number):
        self.now += self.cost
        self.used += self.cost
        self.sent.append((number, round(self.now - 1000, 3)))

    def receive(self):
        self.received += 1


@pytest.mark.parametrize(("width", "burst"), [(3, 3), (15, 10)])
def test_every_path_in_turn_at_a_steady_rate(width, burst, monkeypatch):
    exchange = FakeExchange(width, monkeypatch)
    watch._send_steadily(exchange, 1000.49, lambda: False)
    assert exchange.sent == [(n % width, round(n // burst * 0.05, 3)) for n in range(10 * burst)]
    assert exchange.received == 10, "it wakes up once for each burst"


def test_a_slow_machine_is_left_alone(monkeypatch):
    """A burst that takes 4 ms of the processor is sent every 200 ms, a share of a fiftieth; the slowest rate is 1/s."""
    exchange = FakeExchange(1, monkeypatch, cost=0.004)
    watch._send_steadily(exchange, 1001, lambda: False)
    assert [at for dummy, at in exchange.sent] == [0.004, 0.204, 0.404, 0.604, 0.804]
    exchange = FakeExchange(1, monkeypatch, cost=0.4)
    watch._send_steadily(exchange, 1003, lambda: False)
    assert [at for dummy, at in exchange.sent] == [0.4, 1.4, 2.4]


def test_a_delayed_sender_does_not_catch_up(monkeypatch):
    exchange = FakeExchange(1, monkeypatch)
    held_up = exchange.receive

    def receive():
        held_up()
        exchange.now += 0.5 if exchange.received == 2 else 0.0

    exchange.receive = receive
    watch._send_steadily(exchange, 1000.69, lambda: False)
    assert [at for dummy, at in exchange.sent] == [0.0, 0.05, 0.6, 0.65]


def test_the_watch_stops_when_it_is_asked_to(monkeypatch):
    exchange = FakeExchange(1, monkeypatch)
    watch._send_steadily(exchange, 1060, lambda: len(exchange.sent) == 4)
    assert len(exchange.sent) == 4


def test_without_a_watch_there_is_nothing_to_end_or_to_collect(tmp_path):
    path = str(tmp_path / "run" / "watch.json")
    assert watch.running(path) is None
    assert watch.stop(path) is False
    assert watch.collect(None, path) is None


def test_a_file_that_is_damaged_is_none(tmp_path):
    path = tmp_path / "watch.json"
    path.write_text("{")
    assert watch.collect(None, str(path)) is None
    path.write_text(json.dumps({"state": "ended"}))
    assert watch.collect(None, str(path)) == {"state": "ended"}


def test_the_number_of_another_process_is_never_signalled(tmp_path, monkeypatch):
    """A process that is no watch gets no signal, even if it holds the lock and the file has its process id."""
    path = str(tmp_path / "watch.json")
    holder = """
import fcntl, os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
os.pwrite(handle, str(os.getpid()).encode(), 0)
print("held", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path / "watch.lock")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(probing.ProbeError) as error:
            watch.stop(path, patience=0.3)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert str(error.value) == (
        f"the watch of an earlier change, process {process.pid}, did not end within 0.3 seconds. "
        "Look at that process, then run again."
    )
    assert watch.stop(path) is False


def test_a_watch_that_cannot_start_names_the_reason(tmp_path):
    def refused(targets):
        raise probing.ProbeError("probes need root's rights: a raw socket was refused. Set become: true.")

    path = str(tmp_path / "watch.json")
    with pytest.raises(probing.ProbeError) as error:
        watch.start([probing.Target("127.0.0.1")], 5, path, exchange=refused)
    assert str(error.value) == (
        "no watch could be started on this node: probes need root's rights: a raw socket was refused. Set become: true."
    )
    deadline = time.monotonic() + 60
    while watch.running(path) is not None:  # the watch's process ends a moment after it reported the refusal
        assert time.monotonic() < deadline
