# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bird.cfg: checked by BIRD itself, put in place whole, and read by the BIRD that runs."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
import subprocess
import tempfile
import time
import typing as t

from ..bgp import passwords as bgp_passwords
from . import encoding, kernel_sync, secrets_file, snippets
from .client import SOCKET, BirdClient
from .errors import BirdError, CommandRefused, ConfigurationRefused, NotAnswering, ReloadNotFinished, SnippetRefused
from .version import PROGRAM

PATH = "/etc/calico/bird.cfg"

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


def check(text: str, path: str = PATH, program: str = PROGRAM, secrets: t.Iterable[str] = ()) -> None:
    """Have BIRD parse `text`, which is meant for `path`, with any passwords for the names in `secrets`.

    Raises ConfigurationRefused; writes nothing that stays, and no password.
    """
    with tempfile.TemporaryDirectory(prefix="calico-bird-") as folder:
        candidate = os.path.join(folder, "bird.cfg")
        _write(candidate, text)
        _write(secrets_file.beside(candidate), bgp_passwords.to_text(bgp_passwords.placeholders(secrets)))
        _parse(candidate, text, path, program)


def apply(
    text: str,
    path: str = PATH,
    socket: str = SOCKET,
    program: str = PROGRAM,
    seconds: float = 60.0,
    passwords: t.Optional[t.Mapping[str, str]] = None,
) -> Outcome:
    """Bring the file, and the BIRD that runs, to `text`; and the file beside it to `passwords`, None to leave it alone.

    Files that are equal already are not written; a BIRD that runs is told to read them if it has not. No BIRD at the
    socket is no error: the unit's start reads the files. Raises ConfigurationRefused (the old files are in force then),
    ReloadNotFinished after `seconds`, or another BirdError.
    """
    before, known = current(path), secrets_file.current(path)
    wanted = known if passwords is None else passwords
    if before == text and known == wanted and not secrets_file.open_to_others(path):
        if not unread(path, socket):
            return Outcome(False, False, before, text)
        _parse(path, text, path, program)  # a snippet may be what is new
        return Outcome(False, reload(socket, seconds), before, text)
    if passwords is not None:
        # First, and with those that the old bird.cfg needs: whichever of both files is there, BIRD can start with it.
        secrets_file.install(path, {**known, **wanted})
    try:
        if before != text:
            if kernel_sync.other_mtus(before, text):
                _write_routes_again(text, path, socket, program, seconds)
            install(text, path, program)
        reloaded = reload(socket, seconds)
    except (CommandRefused, ConfigurationRefused) as error:
        if passwords is not None:
            secrets_file.install(path, known)
        if isinstance(error, ConfigurationRefused):
            raise
        # The parse check had nothing to say, so this is about what only the running BIRD knows.
        _restore(before, path)
        raise ConfigurationRefused(path, None, error.answer.splitlines()[-1]) from error
    if passwords is not None:
        secrets_file.prune(path, wanted)
    return Outcome(before != text or known != wanted, reloaded, before, text)


def install(text: str, path: str = PATH, program: str = PROGRAM) -> None:
    """Put the file in place in one step, if BIRD can read it. Raises ConfigurationRefused or OSError."""
    with _candidate(text, path, program) as candidate:
        os.replace(candidate, path)


def reload(socket: str = SOCKET, seconds: float = 60.0) -> bool:
    """Have the running BIRD read its file again and wait until it is done. False if no BIRD runs.

    Raises CommandRefused with BIRD's words, or ReloadNotFinished.
    """
    try:
        with BirdClient(socket) as client:
            _configure(client, "configure", seconds)
            return True
    except NotAnswering as error:
        if _nobody_there(error):
            return False
        raise


def _configure(client: BirdClient, command: str, seconds: float) -> None:
    if kernel_sync.is_deaf(client):
        kernel_sync.wait_for_first_scan(client)
    end = time.monotonic() + seconds
    # 0003: done. 0004: in progress. 0005: an older one is in progress, this one follows.
    answer = client.ask(command)
    if answer.code == 3:
        return
    if answer.code not in (4, 5):
        raise CommandRefused(command, answer.code, answer.text)
    while "Reconfiguration in progress" in client.ask("show status").text:
        if time.monotonic() >= end:
            raise ReloadNotFinished(client.path, seconds)
        time.sleep(0.05)


def _write_routes_again(text: str, path: str, socket: str, program: str, seconds: float) -> None:
    """Before `text` is read for good: it says other MTUs of routes, and the BIRD that runs may leave the old ones.

    Stopped in the middle it leaves a BIRD that forwards as it shall, and the old file: the next run does it again.
    """
    try:
        with BirdClient(socket) as client:
            if kernel_sync.is_deaf(client):
                with _candidate(text, path, program):
                    pass  # before BIRD is told anything: what it refuses is to be about the text as it is meant
                with _candidate(kernel_sync.with_weights(text), path, program) as candidate:
                    _configure(client, f"configure {encoding.quoted(candidate)}", seconds)
                kernel_sync.scan(client)
    except NotAnswering as error:
        if not _nobody_there(error):
            raise


@contextlib.contextmanager
def _candidate(text: str, path: str, program: str) -> t.Iterator[str]:
    """A file beside `path` that BIRD can read, gone afterwards unless it was moved. Raises ConfigurationRefused."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, mode=0o755, exist_ok=True)
    handle, candidate = tempfile.mkstemp(prefix=".bird.cfg.", dir=folder)
    os.close(handle)
    try:
        _write(candidate, text)
        _parse(candidate, text, path, program)
        secrets_file.give_to_bird(candidate)
        yield candidate
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(candidate)


def unread(path: str = PATH, socket: str = SOCKET) -> bool:
    """Whether a file is newer than what the running BIRD goes by: a run was stopped between writing and reloading, or
    somebody changed a snippet.

    False if no BIRD runs. It compares times of the node's own clock; where that was set, a reload too many may follow.
    """
    try:
        written = max(os.stat(path).st_mtime, snippets.last_touched(current(path)))
        with contextlib.suppress(FileNotFoundError):
            written = max(written, os.stat(secrets_file.beside(path)).st_mtime)
        with BirdClient(socket) as client:
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
    """From `bird: FILE:3:1 syntax error...`; BIRD 3 puts a time and <FATAL> before the file. Before the last such
    line stand warnings: BIRD ends with the first error."""
    lines_named = list(re.finditer(r"(/[^\s:]+):(\d+):(?:\d+:?)? *(.*)", said))
    if not lines_named:
        return ConfigurationRefused(path, None, said.replace(candidate, path))
    found = lines_named[-1]
    file, line, reason = found.group(1), int(found.group(2)), found.group(3)
    if file == candidate:
        return ConfigurationRefused(path, line, reason, _line(text, line))
    if file == secrets_file.beside(candidate):
        return ConfigurationRefused(secrets_file.beside(path), line, reason)
    return SnippetRefused(file, line, reason, _line(current(file), line))


def _line(text: str, number: int) -> str:
    """Without passwords; "" where there is none of that number."""
    lines = text.splitlines()
    return _without_secrets(lines[number - 1].strip()) if 0 < number <= len(lines) else ""


def _without_secrets(line: str) -> str:
    return re.sub(r'password\s+"[^"]*"', 'password "..."', line)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _restore(text: str, path: str) -> None:
    if not text:
        os.unlink(path)
        return
    candidate = path + ".restored"
    _write(candidate, text)
    secrets_file.give_to_bird(candidate)
    os.replace(candidate, path)
