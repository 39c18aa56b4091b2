# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a watch over two paths between namespaces: cut, not cut, replaced, left alone, killed."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import probing, watch
from ansible_collections.baremetal.host_routing.plugins.modules import node, probe

from tests.integration.modules.test_node import STATE
from tests.pauses import pause

TARGETS = [{"name": "web-1", "address": "10.244.3.1"}, {"name": "web-2", "address": "10.244.3.2"}]


class Watched:
    """A host whose two workloads are the targets; its watch keeps its files in a folder of the test."""

    def __init__(self, host, path):
        self.host, self.file = host, path

    def probe(self, **params):
        answers = []

        def work():
            answers.append(self.host.run(probe, **params))

        thread = threading.Thread(target=lambda: self.host.kernel._there(work))
        thread.start()
        thread.join(60)
        return answers[0]

    def start(self, limit=60):
        """Start the watch, for `limit` seconds at most, and return its process ID; raise AssertionError on failure."""
        answer = self.probe(targets=TARGETS, count=2, interval=50, watch="start", limit=limit)
        assert answer["watch"] == {"running": True, "reason": "", "interval": 50.0}, answer
        return int(self.file.with_suffix(".lock").read_text())

    def bursts(self, count):
        """Wait until probes to web-1 have left in at least `count` bursts; raise AssertionError after a minute."""
        began, before = time.monotonic(), self._requests()
        while self._requests() < before + count:
            assert time.monotonic() < began + 60
            pause(began)

    def _requests(self):
        """Return the number of echo requests that the host has sent."""
        read = self.host.kernel.run(["cat", "/proc/net/snmp"]).output.splitlines()
        names, values = (line.split() for line in read if line.startswith("IcmpMsg:"))
        return int(dict(zip(names, values)).get("OutType8", 0))

    def collect(self, seconds=1):
        return self.probe(targets=TARGETS, seconds=seconds, watch="collect")

    def cut(self):
        """Make web-2 drop its answers, while packets still reach it; `mend` undoes it.

        Raise AssertionError if it is cut already.
        """
        done = self.host.kernel.inside("web-2").run(["ip", "route", "add", "blackhole", "10.10.1.0/24"])
        assert done.code == 0, done

    def mend(self):
        done = self.host.kernel.inside("web-2").run(["ip", "route", "del", "blackhole", "10.10.1.0/24"])
        assert done.code == 0, done


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def watched(host, tmp_path, monkeypatch):
    file = tmp_path / "run" / "watch.json"
    monkeypatch.setattr(watch, "PATH", str(file))
    host.run(node, state=STATE.to_dict())
    yield Watched(host, file)
    watch.stop()


def test_nothing_is_lost_on_paths_that_stand(watched):
    process = watched.start()
    time.sleep(1)
    answer = watched.collect()
    assert (answer["lost"], answer["changed"]) == (0, False)
    about = answer["watch"]
    assert (about["running"], about["complete"], about["reason"], about["interval"]) == (False, True, "", 50.0)
    assert about["seconds"] >= 2 and about["resolution"] >= 50
    for target in answer["targets"]:
        # The watch probes a target 20 times a second. A busy machine probes less often.
        assert 15 <= target["sent"] <= about["seconds"] * 20 + 3, target
        assert (target["longest_gap"], target["silent"], target["reason"]) == (0.0, 0.0, "")
        assert 0 < target["rtt_min"] <= target["rtt_max"]
    assert not alive(process)


def test_a_cut_of_300_ms_is_counted_and_measured(watched):
    watched.start()
    time.sleep(0.5)
    began = time.monotonic()
    watched.cut()
    time.sleep(0.3)
    watched.mend()
    lasted = (time.monotonic() - began) * 1000
    time.sleep(0.5)
    answer = watched.collect()
    first, second = answer["targets"]
    assert (first["lost"], first["longest_gap"]) == (0, 0.0)
    assert second["lost"] == answer["lost"] > 0
    resolution = answer["watch"]["resolution"]
    assert 300 - resolution <= second["longest_gap"] <= lasted + resolution, (lasted, answer)
    assert second["lost"] <= lasted / 50 + 1
    assert (second["reason"], second["by"]) == ("no answer", "")
    assert answer["watch"]["complete"] is True


def test_a_route_that_is_missing_for_a_moment_is_named(watched):
    watched.start()
    time.sleep(0.3)
    device = next(route.device for route in STATE.routes if route.destination == "10.244.3.2/32")
    assert watched.host.kernel.run(["ip", "route", "del", "10.244.3.2/32"]).code == 0
    watched.bursts(2)
    assert watched.host.kernel.run(["ip", "route", "add", "10.244.3.2/32", "dev", device]).code == 0
    second = watched.collect()["targets"][1]
    assert second["lost"] > 0 and second["reason"] == "no route", second


def test_a_path_that_was_down_before_is_not_held_against_the_change(watched):
    """A path that was down before does not count against the change.

    The watch is started without the module, which refuses to start one over a path that is down.
    """
    watched.cut()
    targets = [probing.Target(entry["address"], name=entry["name"]) for entry in TARGETS]
    thread = threading.Thread(target=lambda: watched.host.kernel._there(lambda: watch.start(targets, 60)))
    thread.start()
    thread.join(60)
    time.sleep(1.3)
    watched.mend()
    time.sleep(0.3)
    answer = watched.collect()
    assert answer["lost"] == 0, answer
    assert answer["targets"][0]["silent"] == 0.0
    assert 1000 <= answer["targets"][1]["silent"] < 5000


def test_the_soak_itself_tells_of_packets_of_full_size(watched):
    """The soak finds a path that drops full-size packets; the watch does not, because its packets are small."""
    targets = [TARGETS[0], {**TARGETS[1], "size": 1451}]
    watched.start()
    first, second = watched.probe(targets=targets, seconds=2, watch="collect")["targets"]
    assert (first["lost"], first["reason"], first["size"]) == (0, "", 84)
    assert (second["lost"], second["size"]) == (2, 1451) and second["sent"] > 20
    assert second["reason"] == "too large"


def test_nothing_is_watched_unless_all_paths_are_proven(watched):
    watched.cut()
    answer = watched.probe(targets=TARGETS, count=2, interval=50, timeout=200, watch="start")
    assert answer["watch"] == {"running": False, "reason": "not all targets answered"}
    assert not watched.file.exists()


def test_a_second_start_replaces_the_first_watch(watched):
    first = watched.start()
    watched.cut()
    time.sleep(0.3)
    watched.mend()
    second = watched.start()
    assert first != second and not alive(first) and alive(second)
    answer = watched.collect()
    assert answer["lost"] == 0, "what the first one lost is not the second one's"
    assert answer["watch"]["complete"] is True


def test_left_alone_it_ends_by_itself_and_leaves_its_counts(watched):
    process = watched.start(limit=1)
    until(lambda: not alive(process))
    left = json.loads(watched.file.read_text())
    assert left["state"] == "ended" and 1 <= left["seconds"] < 10
    assert [(entry["name"], entry["lost"], entry["sent"] > 0) for entry in left["targets"]] == [
        ("web-1", 0, True),
        ("web-2", 0, True),
    ]
    answer = watched.collect()
    assert (answer["watch"]["complete"], answer["watch"]["reason"]) == (False, "the watch came to its limit before")
    assert answer["sent"] == sum(entry["sent"] for entry in left["targets"]) + 20, "and it soaked ten times a second"


def test_a_killed_one_is_not_taken_for_one_that_lost_nothing(watched):
    process = watched.start()
    os.kill(process, signal.SIGKILL)
    until(lambda: not alive(process))
    answer = watched.collect()
    assert (answer["watch"]["complete"], answer["watch"]["reason"]) == (False, "the watch was killed")
    assert (answer["sent"], answer["lost"]) == (20, 0)
    watched.start()
    assert watched.collect()["watch"]["complete"] is True


def test_a_collected_watch_is_not_collected_again(watched):
    watched.start()
    watched.collect()
    again = watched.collect()
    assert (again["watch"]["complete"], again["watch"]["reason"]) == (False, "no watch was running")
    assert again["sent"] == 20


def test_the_soak_of_a_killed_run_lets_the_watch_of_the_next_one_be(watched):
    """The soak of a killed run, whose module continues on the node, leaves the next run's watch alone."""
    watched.start()
    late = threading.Thread(target=watched.collect, args=(2,))
    late.start()
    time.sleep(1)
    targets = [probing.Target(entry["address"], name=entry["name"]) for entry in TARGETS]
    thread = threading.Thread(target=lambda: watched.host.kernel._there(lambda: watch.start(targets, 60)))
    thread.start()
    thread.join(60)
    second = watch.running()
    late.join(60)
    assert not late.is_alive(), "the soak of the killed run does not end"
    assert second is not None and alive(second) and watch.running() == second


def test_a_watch_is_stopped_on_request(watched):
    process = watched.start()
    assert watched.probe(watch="stop")["watch"] == {"running": False, "reason": "stopped"}
    assert not alive(process)
    assert watched.probe(watch="stop")["watch"] == {"running": False, "reason": "there was none"}


def test_check_mode_starts_and_stops_nothing(watched):
    answers = []
    work = lambda: answers.append(watched.host.run(probe, check=True, targets=TARGETS, count=2, watch="start"))  # noqa: E731
    thread = threading.Thread(target=lambda: watched.host.kernel._there(work))
    thread.start()
    thread.join(60)
    assert answers[0]["lost"] == 0 and not watched.file.exists()


def test_it_holds_nothing_of_the_connection_that_it_was_started_by(watched):
    process = watched.start()
    folder = pathlib.Path(f"/proc/{process}/fd")
    held = {os.readlink(entry) for entry in folder.iterdir()}
    assert {name for name in held if not name.startswith("socket:")} == {
        "/dev/null",
        str(watched.file.with_suffix(".lock")),
    }
    assert sum(name.startswith("socket:") for name in held) == 1
    assert os.getsid(process) not in (os.getsid(0), 0)
    assert pathlib.Path(f"/proc/{process}/comm").read_text() == "calico-watch\n"


def test_a_watch_uses_little_processor_time(watched):
    process = watched.start()

    def used():
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    began, before = time.monotonic(), used()
    time.sleep(2)
    share = (used() - before) / (time.monotonic() - began)
    print(f"processor: {share:.1%}")
    assert share < 0.2


def test_a_path_that_comes_late_is_proven_by_a_later_attempt(watched):
    watched.cut()
    once = watched.probe(targets=TARGETS, count=2, interval=50, timeout=300)
    assert [entry["lost"] for entry in once["targets"]] == [0, 2]
    thread = threading.Timer(0.6, watched.mend)
    thread.start()
    answer = watched.probe(targets=TARGETS, count=2, interval=50, timeout=300, attempts=20)
    thread.join()
    assert [(entry["name"], entry["sent"], entry["lost"]) for entry in answer["targets"]] == [
        ("web-1", 2, 0),
        ("web-2", 2, 0),
    ]


def test_a_path_that_never_comes_is_what_its_last_attempt_says(watched):
    watched.cut()
    answer = watched.probe(targets=TARGETS, count=2, interval=50, timeout=200, attempts=3)
    assert [(entry["name"], entry["sent"], entry["lost"]) for entry in answer["targets"]] == [
        ("web-1", 2, 0),
        ("web-2", 2, 2),
    ]
    watched.mend()
