# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bird.cfg: checked by BIRD itself, put in place whole, and read by the BIRD that runs."""

from __future__ import annotations

import dataclasses
import datetime
import grp
import os
import re
import subprocess
import tempfile
import time
import typing as t

from .client import SOCKET, Client
from .errors import BirdError, CommandRefused, ConfigurationRefused, NotAnswering, ReloadNotFinished
from .version import PROGRAM

PATH = "/etc/calico/bird.cfg"
#: Debian's user and group for BIRD; it has to read the file again at each reload, nobody else has to.
GROUP = "bird"
MODE = 0o640

_LAST_READ = re.compile(r"^Last reconfiguration on (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`changed`: the file differs from what it was. `reloaded`: a running BIRD was made to read it, and has done so.

    Reloaded without changed: an earlier run wrote the file and was stopped before BIRD read it.
    """

    changed: bool
    reloaded: bool
    before: str
    after: str


def current(path: str = PATH) -> str:
    """What stands in the file, "" where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def check(text: str, path: str = PATH, program: str = PROGRAM) -> None:
    """Have BIRD parse `text`, which is meant for `path`. Raises ConfigurationRefused; writes nothing that stays."""
    with tempfile.TemporaryDirectory(prefix="calico-bird-") as folder:
        candidate = os.path.join(folder, "bird.cfg")
        _write(candidate, text)
        _parse(candidate, text, path, program)


def apply(
    text: str,
    path: str = PATH,
    socket: str = SOCKET,
    program: str = PROGRAM,
    seconds: float = 60.0,
) -> Outcome:
    """Bring the file, and the BIRD that runs, to `text`.

    A file that is equal already is not written; a BIRD that runs is told to read it if it has not. No BIRD at the
    socket is no error: the unit's start reads the file. Raises ConfigurationRefused (the old file is in force then),
    ReloadNotFinished after `seconds`, or another BirdError.
    """
    before = current(path)
    if before == text:
        return Outcome(False, unread(path, socket) and reload(socket, seconds), before, text)
    install(text, path, program)
    try:
        reloaded = reload(socket, seconds)
    except CommandRefused as error:
        # The parse check had nothing to say, so this is about what only the running BIRD knows.
        _restore(before, path)
        raise ConfigurationRefused(path, None, error.answer.splitlines()[-1]) from error
    return Outcome(True, reloaded, before, text)


def install(text: str, path: str = PATH, program: str = PROGRAM) -> None:
    """Put the file in place in one step, if BIRD can read it. Raises ConfigurationRefused or OSError."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, mode=0o755, exist_ok=True)
    handle, candidate = tempfile.mkstemp(prefix=".bird.cfg.", dir=folder)
    os.close(handle)
    try:
        _write(candidate, text)
        _parse(candidate, text, path, program)
        _own(candidate)
        os.replace(candidate, path)
    except BaseException:
        os.unlink(candidate)
        raise


def reload(socket: str = SOCKET, seconds: float = 60.0) -> bool:
    """Have the running BIRD read its file again and wait until it is done. False if no BIRD runs.

    Raises CommandRefused with BIRD's words, or ReloadNotFinished.
    """
    end = time.monotonic() + seconds
    try:
        with Client(socket) as client:
            # 0003: done. 0004: in progress. 0005: an older one is in progress, this one follows.
            answer = client.ask("configure")
            if answer.code == 3:
                return True
            if answer.code not in (4, 5):
                raise CommandRefused("configure", answer.code, answer.text)
            while "Reconfiguration in progress" in client.ask("show status").text:
                if time.monotonic() >= end:
                    raise ReloadNotFinished(socket, seconds)
                time.sleep(0.05)
            return True
    except NotAnswering as error:
        if _nobody_there(error):
            return False
        raise


def unread(path: str = PATH, socket: str = SOCKET) -> bool:
    """Whether the file is newer than what the running BIRD goes by: a run was stopped between writing and reloading.

    False if no BIRD runs. It compares times of the node's own clock; where that was set, a reload too many may follow.
    """
    try:
        written = os.stat(path).st_mtime
        with Client(socket) as client:
            found = _LAST_READ.search(client.ask("show status").text)
    except FileNotFoundError:
        return False
    except NotAnswering as error:
        if _nobody_there(error):
            return False
        raise
    return (
        bool(found) and written > datetime.datetime.fromisoformat(t.cast("re.Match[str]", found).group(1)).timestamp()
    )


def _nobody_there(error: NotAnswering) -> bool:
    """No socket, or only what a BIRD left behind."""
    return isinstance(error.__cause__, (FileNotFoundError, ConnectionRefusedError))


def _parse(candidate: str, text: str, path: str, program: str) -> None:
    try:
        done = subprocess.run(
            [program, "-p", "-c", candidate],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BirdError(
            f"BIRD could not be asked to check its configuration. `{program} -p -c {path}`: {error}. "
            "Install the package bird2 of Debian 12 or 13."
        ) from error
    if done.returncode:
        raise _refusal((done.stderr or done.stdout).strip(), candidate, text, path)


def _refusal(said: str, candidate: str, text: str, path: str) -> ConfigurationRefused:
    """From `bird: FILE:3:1 syntax error...`; BIRD 3 puts a time and <FATAL> before the file."""
    found = re.search(re.escape(candidate) + r":(\d+):(?:\d+:?)? *(.*)", said)
    if not found:
        return ConfigurationRefused(path, None, said.replace(candidate, path))
    line = int(found.group(1))
    lines = text.splitlines()
    source = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return ConfigurationRefused(path, line, found.group(2), _without_secrets(source))


def _without_secrets(line: str) -> str:
    return re.sub(r'password\s+"[^"]*"', 'password "..."', line)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _own(path: str) -> None:
    os.chmod(path, MODE)
    group = _group()
    if group is not None and os.geteuid() == 0:
        os.chown(path, 0, group)


def _group() -> t.Optional[int]:
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return None


def _restore(text: str, path: str) -> None:
    if not text:
        os.unlink(path)
        return
    candidate = path + ".restored"
    _write(candidate, text)
    _own(candidate)
    os.replace(candidate, path)
