# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures and verdicts of bench/idle.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from bench import idle


def test_processor_time_is_that_of_the_process_and_of_its_ended_children() -> None:
    before = idle.processor_seconds(_stat())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    between = idle.processor_seconds(_stat())
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert between - before >= 0.15
    assert idle.processor_seconds(_stat()) - between >= 0.15


def test_a_name_with_spaces_and_parentheses_is_no_field() -> None:
    fields = " ".join(str(number) for number in range(4, 60))
    ticks = os.sysconf("SC_CLK_TCK")
    assert idle.processor_seconds(f"17 (a (b) c) S {fields}\n") == pytest.approx((14 + 15 + 16 + 17) / ticks)


def test_what_a_busy_process_takes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of a processor it gets: the measurement lasts until it has used 0.3 seconds of one."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        clock = (~busy.pid << 3) | 2  # the processor's time of that process, clock_getcpuclockid(3)
        pause = time.sleep

        def until_used(_seconds: float) -> None:
            end = time.clock_gettime(clock) + 0.3
            while time.clock_gettime(clock) < end:
                pause(0.01)

        monkeypatch.setattr(idle.time, "sleep", until_used)
        try:
            began = time.monotonic()
            found = idle.measured(busy.pid, 0.5)
            lasted = time.monotonic() - began
        finally:
            busy.kill()
    # /proc counts in hundredths of a second.
    assert 100 * 0.26 / lasted <= found["percent"] <= 115
    assert 0 < found["memory"] <= found["peak"]


@pytest.mark.parametrize(("percent", "status"), [(0.39, 0), (0.41, 1)])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_missed_goal_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: list[str], percent: float, status: int
) -> None:
    found = json.dumps({"percent": percent, "memory": 38.0, "peak": 40.0})
    done = subprocess.CompletedProcess([], 0, found)
    monkeypatch.setattr(idle.os, "geteuid", lambda: 0)
    monkeypatch.setattr(idle.os.path, "exists", lambda _: True)
    monkeypatch.setattr(idle.subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(sys, "argv", ["idle.py", "--shape", "100", *form])
    assert idle.main() == status
    out = capsys.readouterr().out
    if form:
        assert json.loads(out)["goals"] == {"100": status == 0}
        assert json.loads(out)["figures"]["100"]["percent"] == percent
    else:
        assert ("MISSED" in out) == (status == 1)
    done.returncode = 2
    assert idle.main() == 2


def _stat() -> str:
    with open("/proc/self/stat", encoding="ascii") as stream:
        return stream.read()
