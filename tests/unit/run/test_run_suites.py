# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner behind `make test` must not call anything a pass that is not one."""

from __future__ import annotations

import math
import os
import pathlib
import sys
import time

import pytest

from tests.run import run_suites
from tests.run.suites import EITHER, SECOND, Suite

REPORT = """\
import pathlib, sys
pathlib.Path(sys.argv[1], "x.xml").write_text('<testsuites><testsuite>' + sys.argv[2] + '</testsuite></testsuites>')
sys.exit(int(sys.argv[3]))
"""
GOOD = '<testcase classname="a" name="good"/>'
BAD = '<testcase classname="a" name="bad"><failure message="2 is not 3"/></testcase>'
CLOSING = "processor: 0.0 minutes of the suites, 0.0 minutes of the whole machine\nin 0.0 minutes\n"
SKIPPED = '<testcase classname="a" name="left_out"><skipped message="no ipip"/></testcase>'


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGS", "JUNIT"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setattr(run_suites, name, folder)
    monkeypatch.setattr(run_suites, "ROOT", tmp_path)
    monkeypatch.setattr(run_suites, "GRACE", 1)


def reporting(cases: str, status: int, **more: object) -> Suite:
    return Suite("one", "", (sys.executable, "-c", REPORT, "{junit}", cases, str(status)), limit=90, **more)


def closing(suites: list[Suite], capsys: pytest.CaptureFixture[str], budget: float = 60) -> tuple[bool, str]:
    """Run `suites` within `budget` seconds; return whether all passed, and the last line of the closing table."""
    run = run_suites.Run(suites, budget)
    well = run_suites.summary(run.all(), suites, 0)
    return well, capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("suite", "well", "line"),
    [
        (reporting(GOOD + GOOD, 0), True, "2 passed, 0 failed"),
        (reporting(GOOD + BAD, 1), False, "1 passed, 1 failed"),
        (reporting(GOOD + BAD, 0), False, "1 passed, 1 failed"),
        (reporting(GOOD, 3), False, "1 passed, 1 failed"),
        (reporting(GOOD + SKIPPED, 0), False, "1 passed, 1 failed"),
        (reporting(GOOD + SKIPPED, 0, skips={"left_out": "shown elsewhere"}), True, "1 passed, 0 failed"),
        (reporting("<testcase", 0), False, "0 passed, 1 failed"),
        (Suite("one", "", ("true",), limit=90), True, "1 passed, 0 failed"),
        (Suite("one", "", ("false",), limit=90), False, "0 passed, 1 failed"),
        (Suite("one", "", ("/nowhere/to/be/found",), limit=90), False, "0 passed, 1 failed"),
    ],
    ids=("good bad bad-but-exit-0 good-but-exit-3 skip declared-skip broken-report true false missing").split(),
)
def test_a_suite_passes_only_with_good_reports_and_status_0(
    suite: Suite, well: bool, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert closing([suite], capsys) == (well, line)


def test_the_summary_says_why_a_test_failed(capsys: pytest.CaptureFixture[str]) -> None:
    long = "&#10;".join(f"line {number}" for number in range(40))
    bad = f'<testcase classname="a" name="bad"><failure message="2 is not 3&#10;{long}"/></testcase>'
    run = run_suites.Run([reporting(bad, 1)], 60)
    run_suites.summary(run.all(), run.suites, 0)
    shown = capsys.readouterr().out.partition("Failed:")[2]
    assert "  one: a::bad\n      2 is not 3\n      line 0\n" in shown
    assert "\n      ...\n" in shown and "\n      line 39\n" in shown and "line 20" not in shown
    assert shown.endswith("\nRun again:\n  one: a::bad\n      2 is not 3\n\n" + CLOSING + "0 passed, 1 failed\n")


def running(process: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_hung_suite_is_killed_with_its_children_and_failed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The child ignores SIGTERM, as a hung ansible would.
    script = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; wait; sleep 600"
    suite = Suite("hung", "", ("bash", "-c", script), limit=1, clean_up=("touch", str(tmp_path / "cleaned")))
    started = time.monotonic()
    assert closing([suite], capsys) == (False, "0 passed, 1 failed")
    assert time.monotonic() - started < 120
    assert (tmp_path / "cleaned").exists()
    child = int((tmp_path / "child").read_text())
    while running(child):  # a killed process ends only when it is next scheduled
        assert time.monotonic() - started < 180
        time.sleep(0.05)


def test_suites_for_which_no_time_is_left_are_failed(capsys: pytest.CaptureFixture[str]) -> None:
    late = Suite("late", "", ("true",), limit=90)
    assert closing([late], capsys, budget=0) == (False, "0 passed, 1 failed")


@pytest.mark.parametrize(("environment", "limit"), [({"CI": "true"}, 88 * 60), ({"CI": ""}, math.inf), ({}, math.inf)])
def test_a_run_of_everything_has_a_limit_in_ci_only(environment: dict[str, str], limit: float) -> None:
    assert run_suites.total_limit(environment) == limit


def test_a_run_without_a_limit_ends_when_its_suites_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert closing([Suite("one", "", ("true",), limit=90)], capsys, budget=math.inf) == (True, "1 passed, 0 failed")


def test_a_suite_names_its_slowest_tests(capsys: pytest.CaptureFixture[str]) -> None:
    """The 20 slowest tests follow a suite's result, the slowest one first; those of less than a second are left out."""
    times = [0.4, *range(1, 26), 0.9]
    cases = "".join(f'<testcase classname="a" name="t{number}" time="{number}"/>' for number in times)
    run_suites.Run([reporting(cases, 0)], 60).all()
    out = capsys.readouterr().out.splitlines()
    start = next(number for number, line in enumerate(out) if line.endswith("one              slowest: "))
    assert out[start + 1 : start + 21] == [f"{number:>13.1f} s  a::t{number}" for number in range(25, 5, -1)]
    assert "a::t5" not in "\n".join(out)


def test_a_suite_says_how_long_it_has_used_a_processor(capsys: pytest.CaptureFixture[str]) -> None:
    """The time counts a process that the suite's own process waited for."""
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    suite = Suite("busy", "", ("sh", "-c", '"$0" -c "$1"; :', sys.executable, busy), limit=60)
    run, before = run_suites.Run([suite], 100), run_suites.machine_seconds()
    (result,) = run.all()
    assert 0.4 < result.processor < 20
    assert run_suites.machine_seconds() - before > 0.4
    run_suites.summary([result], [suite], 0, 90)
    *_, row, _, total, _, _ = capsys.readouterr().out.splitlines()
    assert row.split() == ["busy", "1", "0", "0", f"{result.seconds:.0f}", f"{result.processor:.0f}"]
    assert total == "processor: 0.0 minutes of the suites, 1.5 minutes of the whole machine"


def test_lanes_run_beside_each_other(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Suites of two lanes run at once: each waits for the other's file, so the first would fail if it ran alone."""
    script = f"touch {tmp_path}/$0; for i in $(seq 600); do [ -e {tmp_path}/$1 ] && exit 0; sleep 0.1; done; exit 1"
    one = Suite("one", "", ("bash", "-c", script, "one", "other"), limit=90)
    other = Suite("other", "", ("bash", "-c", script, "other", "one"), limit=90, lane=SECOND)
    assert closing([one, other], capsys) == (True, "2 passed, 0 failed")


def test_a_lane_that_is_done_takes_suites_of_either(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While the first lane waits for both suites of EITHER, the second lane runs them in their order."""
    done = tmp_path / "done"
    wait = f'for i in $(seq 600); do [ "$(cat {done})" = "one two " ] && exit 0; sleep 0.1; done; exit 1'
    waiting = Suite("waiting", "", ("bash", "-c", wait), limit=90)
    either = [
        Suite(name, "", ("bash", "-c", f"echo -n '{name} ' >> {done}"), 90, lane=EITHER) for name in ("one", "two")
    ]
    assert closing([*either, waiting], capsys) == (True, "3 passed, 0 failed")


def test_three_suites_run_at_once_when_the_first_lane_is_done(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of three suites waits until all have begun; one alone has begun when the first lane's suite ends."""
    folder, names = tmp_path / "begun", ("one", "two", "three")
    folder.mkdir()
    first = Suite("first", "", ("bash", "-c", f'sleep 0.5; [ "$(ls {folder})" = second ] && touch {folder}/first'), 90)
    wait = f"for i in $(seq 600); do [ -e {folder}/$0 ] && exit 0; sleep 0.1; done; exit 1"
    second = Suite("second", "", ("bash", "-c", f"touch {folder}/second; {wait}", "first"), limit=90, lane=SECOND)
    either = [
        Suite(name, "", ("bash", "-c", f'touch {folder}/{name}; for n in "$@"; do bash -c "$0" $n || exit 1; done',
                         wait, *names), 90, lane=EITHER)
        for name in names
    ]  # fmt: skip
    assert closing([*either, first, second], capsys) == (True, "5 passed, 0 failed")


def test_a_suite_that_never_ran_is_failed(capsys: pytest.CaptureFixture[str]) -> None:
    ran, never = Suite("ran", "", ("true",), limit=90), Suite("never", "", ("true",), limit=90)
    assert not run_suites.summary([run_suites.Result(ran, passed=1)], [ran, never], 0)
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"


def test_suites_do_not_inherit_what_would_change_them(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A suite keeps byte code even if the environment forbids it."""
    changing = {"PYTEST_ADDOPTS": "-k nothing", "PYTHONDONTWRITEBYTECODE": "1"}
    for name, value in changing.items():
        monkeypatch.setenv(name, value)
    env = run_suites.environment(tmp_path)
    assert not changing.keys() & env.keys()
    assert env["PATH"].split(os.pathsep)[0].endswith(".venv/bin")


@pytest.mark.parametrize("room", [0, 1 << 60], ids=["room", "no room"])
def test_temporary_files_are_in_memory_where_it_has_room(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """A suite has an empty folder of its own for temporary files, gone afterwards, in memory if that has ROOM."""
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(run_suites, "MEMORY", memory)
    monkeypatch.setattr(run_suites, "ROOM", room)
    program = (
        "import os, pathlib, sys; assert not os.listdir(sys.argv[1]); pathlib.Path('said').write_text(sys.argv[1])"
    )
    suite = Suite("one", "", (sys.executable, "-c", program, "{temporary}"), limit=90)
    assert run_suites.Run([suite], 60).all()[0].failures == []
    folder = pathlib.Path((tmp_path / "said").read_text())
    assert (folder.parent == memory) == (room == 0)
    assert not folder.exists()
