# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs test suites: all of them, those named (`run_suites.py unit lint`), or a part (`run_suites.py --part lab`).

Suites of one lane run one after the other, the lanes beside each other (see suites.py). Each suite has a log in
.build/logs/ and its JUnit files in .build/junit/. The output ends with a table, the skips, the failures, the names of
the failed tests and `N passed, N failed`. The table's CPU is the processor time in seconds of a suite's processes. The
time of daemons and of the lab's hosts, which outlive the process that starts them, is in the machine's sum alone. The
exit status is 0 only if nothing failed, nothing hung and nothing was skipped without a reason given in suites.py.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import math
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.run import junit
from tests.run.packages import install
from tests.run.suites import EITHER, FIRST, SECOND, SUITES, Suite

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / ".build" / "logs"
JUNIT = ROOT / ".build" / "junit"
BIN = ROOT / ".venv" / "bin"
MEMORY = pathlib.Path("/dev/shm")  # files here are kept in memory
ROOM = 2 << 30  # bytes that must be free there: the unit tests write less than 1 GiB

#: The limit of a run in CI, in seconds: what is left of 90 minutes after `make setup`. The aim is 55 minutes on two
#: idle processors. A person's run has none. It ends when its suites end, and each suite has a limit of its own.
TOTAL_LIMIT = 88 * 60
PROGRESS_EVERY = 20
GRACE = 20  # the most seconds between SIGTERM and SIGKILL
TAIL = 40  # lines of a failed suite's log that are shown
SLOWEST = 20  # slow tests that a suite's summary names
WHY = 8  # lines from each end of a failed test's message that the summary shows


@dataclasses.dataclass
class Result:
    suite: Suite
    passed: int = 0
    skipped: dict[str, int] = dataclasses.field(default_factory=dict)  # reason -> how many
    failures: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    processor: float = 0.0  # seconds, user and system
    slowest: list[junit.Case] = dataclasses.field(default_factory=list)  # at most SLOWEST, the slowest one first


class Run:
    """One run of some suites, in lanes. `budget` is the time in seconds for all of them, math.inf for no limit."""

    def __init__(self, suites: list[Suite], budget: float) -> None:
        self.suites = suites
        self.either = collections.deque(suite for suite in suites if suite.lane == EITHER)
        self.started = time.monotonic()
        self.machine = machine_seconds()
        self.deadline = self.started + budget
        self.results: dict[str, Result] = {}
        self.running: dict[str, tuple[subprocess.Popen[bytes], float, pathlib.Path]] = {}
        self.stopping = threading.Event()
        self.first_has_run = threading.Event()
        self.console = threading.Lock()

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        with self.console:
            print(f"[{minutes:02d}:{seconds:02d}] {text}", flush=True)

    def all(self) -> list[Result]:
        threads = [threading.Thread(target=self.lane, args=(lane,), daemon=True) for lane in (FIRST, SECOND, EITHER)]
        for thread in threads:
            thread.start()
        next_progress = time.monotonic() + PROGRESS_EVERY
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(0.2)
            if time.monotonic() >= next_progress:
                self.progress()
                next_progress = time.monotonic() + PROGRESS_EVERY
        return [self.results[suite.name] for suite in self.suites if suite.name in self.results]

    def progress(self) -> None:
        for name, (_process, started, log) in list(self.running.items()):
            self.say(f"{name:<16} {time.monotonic() - started:4.0f} s  {last_line(log)}")

    def lane(self, lane: str) -> None:
        """Run the lane's own suites, then those of EITHER. The lane EITHER begins when FIRST has run its own."""
        if lane == EITHER:
            self.first_has_run.wait()
        else:
            self.suites_of(collections.deque(suite for suite in self.suites if suite.lane == lane))
        if lane == FIRST:
            self.first_has_run.set()
        self.suites_of(self.either)

    def suites_of(self, queue: collections.deque[Suite]) -> None:
        """Run the suites of `queue` in their order until it is empty. Lanes may share a queue."""
        while queue and not self.stopping.is_set():
            try:
                suite = queue.popleft()
            except IndexError:  # another lane has taken the last one
                return
            try:
                self.results[suite.name] = self.one(suite)
            except Exception as error:  # noqa: BLE001 - a runner that dies must not look like a suite that passed
                self.results[suite.name] = Result(suite, failures=[f"the runner failed: {error!r}"])
            self.report(self.results[suite.name])

    def one(self, suite: Suite) -> Result:
        result = Result(suite)
        started = time.monotonic()
        folder = JUNIT / suite.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        log = LOGS / f"{suite.name}.log"
        if suite.root and os.geteuid() != 0:
            result.failures.append("not started: it needs root, for network namespaces")
            return result
        missing = install(suite.packages)
        if missing:
            result.failures.append(f"not started: {missing}")
            return result
        limit = min(suite.limit, self.deadline - started)
        if limit <= 0:
            result.failures.append(f"not started: the time for all suites ({TOTAL_LIMIT // 60} minutes) is over")
            return result
        self.say(f"{suite.name:<16} starts: {suite.about} (log {log.relative_to(ROOT)})")
        with temporary_folder() as temporary, log.open("wb") as output:
            process = subprocess.Popen(
                expand(suite.command, folder, temporary),
                cwd=ROOT,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.running[suite.name] = (process, started, log)
            try:
                ended = wait(process, limit)
                result.processor = processor_seconds(process)
                status: int | None = process.wait() if ended else None
                if status is None:
                    end(process)
                    if suite.clean_up:
                        subprocess.run(
                            expand(suite.clean_up, folder), cwd=ROOT, env=environment(folder), stdin=subprocess.DEVNULL,
                            stdout=output, stderr=subprocess.STDOUT, timeout=120, check=False,
                        )  # fmt: skip
            finally:
                del self.running[suite.name]
        result.seconds = time.monotonic() - started
        judge(result, status, limit, junit.read(folder))
        return result

    def report(self, result: Result) -> None:
        verdict = "FAILED" if result.failures else "ok"
        self.say(
            f"{result.suite.name:<16} {verdict}: {result.passed} passed, {len(result.failures)} failed, "
            f"{sum(result.skipped.values())} skipped in {result.seconds:.0f} s (CPU {result.processor:.0f} s)"
        )
        if result.slowest:
            self.say(f"{result.suite.name:<16} slowest: {slow(result.slowest)}")
        if result.failures:
            with self.console:
                print(indent(tail(LOGS / f"{result.suite.name}.log", TAIL)), flush=True)

    def stop(self) -> None:
        self.stopping.set()
        for name, (process, _started, _log) in list(self.running.items()):
            self.say(f"{name:<16} is stopped")
            end(process)
        for suite in self.suites:
            if suite.name not in self.results and suite.clean_up:
                command = expand(suite.clean_up, JUNIT)
                subprocess.run(command, cwd=ROOT, env=environment(JUNIT), timeout=120, check=False)


def wait(process: subprocess.Popen[bytes], limit: float) -> bool:
    """Wait at most `limit` seconds until the process has ended; return whether it has. Its status stays to be read."""
    descriptor = os.pidfd_open(process.pid)
    try:
        return bool(select.select([descriptor], [], [], None if limit == math.inf else limit)[0])
    finally:
        os.close(descriptor)


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds of a process whose status has not been read, and of its descendants that have ended.

    Descendants count once their parent has waited for them. Return 0 if the process does not exist.
    """
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """Return the seconds that all processors of this machine have worked since its start."""
    user, nice, system, _idle, _waiting, *interrupts = (
        int(word) for word in pathlib.Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:8]
    )
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def slow(cases: list[junit.Case]) -> str:
    """Return the cases as lines of their seconds and names, after an empty one."""
    return "".join(f"\n{case.seconds:>13.1f} s  {case.name}" for case in cases)


def shortened(text: str) -> str:
    """Return the lines that are not blank, of more than 16 the first and last eight, with "..." between them.

    A playbook's last lines say what went wrong.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines if len(lines) <= 2 * WHY else [*lines[:WHY], "...", *lines[-WHY:]])


def judge(result: Result, status: int | None, limit: float, cases: list[junit.Case]) -> None:
    """Fill `result` from the exit status (None: killed after `limit` seconds) and the cases; either can fail a suite.

    Cases of less than a second are not among the slowest.
    A skip that the suite does not declare is a failure. A suite that succeeds without cases counts as one passed test.
    """
    timed = [case for case in cases if case.seconds >= 1]
    result.slowest = sorted(timed, key=lambda case: -case.seconds)[:SLOWEST]
    for case in cases:
        if case.outcome == "passed":
            result.passed += 1
        elif case.outcome == "failed":
            result.failures.append(f"{case.name}\n{shortened(case.text)}" if case.text else case.name)
        else:
            declared = [reason for part, reason in result.suite.skips.items() if part in case.name]
            if declared:
                result.skipped[declared[0]] = result.skipped.get(declared[0], 0) + 1
                continue
            result.failures.append(f"{case.name}: skipped, and suites.py gives no reason why it may be ({case.text})")
    if status is None:
        result.failures.append(f"killed after {limit:.0f} s")
    elif status != 0 and not result.failures:
        result.failures.append(f"exit status {status}")
    elif status == 0 and not cases:
        result.passed = 1


def end(process: subprocess.Popen[bytes]) -> None:
    """End the suite and all processes of its process group: SIGTERM, and SIGKILL at most GRACE seconds later.

    SIGKILL comes at once if the suite's first process has ended. The wait for its end after SIGKILL is at most 5
    seconds, and a process that still runs then causes no error, nor does a group that has ended.
    """
    for number, wait in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(timeout=wait)
        except subprocess.TimeoutExpired:
            continue


def total_limit(environment: Mapping[str, str]) -> float:
    """Return the limit in seconds of a run of everything: TOTAL_LIMIT where CI is set and not empty, else math.inf."""
    return TOTAL_LIMIT if environment.get("CI") else math.inf


def expand(command: tuple[str, ...], folder: pathlib.Path, temporary: str = "") -> list[str]:
    words = {"root": str(ROOT), "bin": str(BIN), "junit": str(folder), "logs": str(LOGS), "temporary": temporary}
    return [word.format(**words) for word in command]


def environment(folder: pathlib.Path) -> dict[str, str]:
    env = dict(os.environ)
    env.update(
        PATH=f"{BIN}:{env.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}",
        LC_ALL="C.UTF-8",  # Ansible refuses other encodings than UTF-8, and a fresh machine may have none
        PYTHONUNBUFFERED="1",
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
        ANSIBLE_COLLECTIONS_PATH=str(ROOT / ".build" / "collections"),
        ANSIBLE_NOCOLOR="1",
        NO_COLOR="1",
        HOST_ROUTING_JUNIT=str(folder),
        # ssh starts each connection's ProxyCommand by this shell. bash would read ~/.bashrc, and wait for its programs.
        SHELL="/bin/sh",
    )
    for name in ("PYTEST_ADDOPTS", "PYTHONPATH", "ANSIBLE_FORCE_COLOR", "FORCE_COLOR", "PY_COLORS"):
        env.pop(name, None)
    # Images of containers often set it. Then each process of each suite would compile all modules that it imports.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for a suite's temporary files, in memory if that has ROOM and programs may be started there.

    The caller removes it. Its path is short, because the path of a socket has at most 107 bytes.
    """
    in_memory = False
    if MEMORY.is_dir():
        found = os.statvfs(MEMORY)
        in_memory = found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC
    return tempfile.TemporaryDirectory(prefix="", dir=MEMORY if in_memory else None, ignore_cleanup_errors=True)


def tail(log: pathlib.Path, lines: int) -> str:
    if not log.is_file():
        return ""
    return "\n".join(log.read_text("utf-8", "replace").rstrip().splitlines()[-lines:])


def last_line(log: pathlib.Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:110] if lines else ""


def indent(text: str) -> str:
    return "\n".join(f"    | {line}" for line in text.splitlines())


def summary(results: list[Result], wanted: list[Suite], seconds: float, machine: float = 0.0) -> bool:
    """Print the table, skips, failures and sums; return whether no result failed and all of `wanted` ran.

    `seconds` is the time of the whole run, `machine` the seconds that the machine's processors worked in it. `results`
    and `wanted` together have one suite or more.
    """
    done = {result.suite.name for result in results}
    results = results + [Result(suite, failures=["did not run"]) for suite in wanted if suite.name not in done]
    width = max(len(result.suite.name) for result in results)
    print()
    print(f"{'SUITE':<{width}}  {'PASSED':>6}  {'FAILED':>6}  {'SKIPPED':>7}  {'SECONDS':>7}  {'CPU':>6}")
    for result in results:
        skips = sum(result.skipped.values())
        print(
            f"{result.suite.name:<{width}}  {result.passed:>6}  {len(result.failures):>6}  {skips:>7}  "
            f"{result.seconds:>7.0f}  {result.processor:>6.0f}{'  <- failed' if result.failures else ''}"
        )
    skipped = [(result.suite.name, count, why) for result in results for why, count in result.skipped.items()]
    if skipped:
        print("\nSkipped on purpose:")
        for name, count, why in skipped:
            print(f"  {name}: {count}, {why}")
    failures = [(result.suite.name, text) for result in results for text in result.failures]
    if failures:
        print("\nFailed:")
        for name, text in failures:
            first, *reasons = text.splitlines()
            print(f"  {name}: {first[:300]}")
            for line in reasons:
                print(f"      {line[:300]}")
    passed = sum(result.passed for result in results)
    if failures:
        # Where only the end of a long output is kept, it still has the names and the beginnings of the reasons.
        print("\nRun again:")
        for name, text in failures:
            first, *reasons = text.splitlines()
            print(f"  {name}: {first[:300]}")
            if reasons:
                print(f"      {reasons[0][:120]}")
    processor = sum(result.processor for result in results)
    print(f"\nprocessor: {processor / 60:.1f} minutes of the suites, {machine / 60:.1f} minutes of the whole machine")
    print(f"in {seconds / 60:.1f} minutes")
    print(f"{passed} passed, {len(failures)} failed", flush=True)
    return not failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="suite", help="only these suites")
    parser.add_argument("--part", choices=sorted({suite.part for suite in SUITES}), help="only the suites of this part")
    parser.add_argument("--list", action="store_true", help="name the suites and stop")
    arguments = parser.parse_args()
    known = {suite.name: suite for suite in SUITES}
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no suite is called {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = [
        suite
        for suite in SUITES
        if (not arguments.names or suite.name in arguments.names)
        and (not arguments.part or suite.part == arguments.part)
    ]
    if arguments.list:
        for suite in wanted:
            print(f"{suite.name:<16} {suite.part:<11} {suite.lane:<7} {suite.limit:>5} s  {suite.about}")
        return 0
    if not wanted:
        parser.error(f"part {arguments.part} has none of the suites asked for")
    LOGS.mkdir(parents=True, exist_ok=True)
    run = Run(wanted, total_limit(os.environ))

    def interrupted(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupted)
    try:
        results = run.all()
    except KeyboardInterrupt:
        run.stop()
        results = list(run.results.values())
    well = summary(results, wanted, time.monotonic() - run.started, machine_seconds() - run.machine)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
