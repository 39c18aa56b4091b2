# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file bird.cfg: its check by BIRD itself, its atomic replacement, and its reload by the running BIRD.

Functions that let BIRD parse a text raise ConfigurationRefused if it cannot read the text or a file that this includes,
and BirdError if `program` cannot be run or takes more than 60 seconds. All that read or write files raise OSError, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
import subprocess
import time
import typing as t

from ..bgp import passwords as bgp_passwords
from ..files import folders, replacement
from . import encoding, held_routes, kernel_sync, secrets_file, snippets
from .client import SOCKET, BirdClient
from .errors import BirdError, CommandRefused, ConfigurationRefused, NotAnswering, ReloadNotFinished, SnippetRefused
from .version import PROGRAM

PATH = "/etc/calico/bird.cfg"

_LAST_READ = re.compile(r"^Last reconfiguration on (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?)$", re.MULTILINE)
_SECRET = re.compile(r"((?:password|secret)\w*)(?!\w|\.conf|;).+?(;?)$", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of `apply`: the texts of bird.cfg `before` and `after`, and what was done.

    `changed`: the text of bird.cfg or a password was changed. `reloaded`: the running BIRD has read the files again,
    which also happens without a change, for instance if an earlier run was stopped before that.
    """

    changed: bool
    reloaded: bool
    before: str
    after: str


def current(path: str = PATH) -> str:
    """Return the content of the file at `path`, "" if there is none. What is not UTF-8 is replaced by U+FFFD."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def check(text: str, path: str = PATH, program: str = PROGRAM, secrets: t.Iterable[str] = ()) -> None:
    """Let BIRD parse `text`, a bird.cfg for `path`, with placeholder passwords for the secrets' names in `secrets`.

    Only temporary files are written; `path` occurs in errors only. Raises NotEncodable for an invalid name.
    """
    import tempfile  # Only here: the agent loads this file and never checks a configuration; see files/replacement.py.

    with tempfile.TemporaryDirectory(prefix="calico-bird-") as folder:
        candidate = os.path.join(folder, "bird.cfg")
        placeholders = bgp_passwords.to_text(bgp_passwords.placeholders(secrets))
        for name, content in ((candidate, text), (secrets_file.beside(candidate), placeholders)):
            replacement.replace(name, content.encode(), 0o600, sync=False)
        _parse(candidate, text, path, program)


def apply(
    text: str,
    path: str = PATH,
    socket: str = SOCKET,
    program: str = PROGRAM,
    seconds: float = 60.0,
    passwords: t.Optional[t.Mapping[str, str]] = None,
) -> Outcome:
    """Write `text` to bird.cfg and `passwords` to the file beside it, reload the running BIRD, and return the outcome.

    `passwords` None leaves the passwords as they are. A bird.cfg that is equal already is not written. If the passwords
    are equal, too, and their file has the mode 0640 or is absent, no file is written, and BIRD reloads only what it has
    not read yet. No BIRD at the socket is no error: its unit reads the files when it starts.

    Raises ConfigurationRefused if BIRD cannot read a file, or refuses a command while files are replaced: the old files
    are there again then. Raises ReloadNotFinished if a reload takes more than `seconds`, CommandRefused if BIRD refuses
    a command although nothing is to be written, or NotAnswering: files that were written until then stay. Also
    NotEncodable for a password that cannot be written.
    """
    before, known = current(path), secrets_file.current(path)
    wanted = known if passwords is None else passwords
    if before == text and known == wanted and not secrets_file.open_to_others(path):
        if not unread(path, socket):
            return Outcome(False, False, before, text)
        _parse(path, text, path, program)  # A snippet that BIRD has not read yet may be wrong.
        return Outcome(False, reload(socket, seconds), before, text)
    if passwords is not None:
        # The file of passwords is written before bird.cfg, and has the old passwords too. So BIRD can start with the
        # old bird.cfg and with the new one.
        secrets_file.install(path, {**known, **wanted})
    try:
        if before != text:
            if held_routes.other_merging(before, text):
                _change_merging(before, text, path, socket, program, seconds)
            if kernel_sync.other_mtus(before, text):
                _write_routes_again(text, path, socket, program, seconds)
            install(text, path, program)
        reloaded = reload(socket, seconds)
    except (CommandRefused, ConfigurationRefused) as error:
        if passwords is not None:
            secrets_file.install(path, known)
        if isinstance(error, ConfigurationRefused):
            raise
        # BIRD refused a command, such as the reload of a file that had passed the parse check.
        _restore(before, path)
        raise ConfigurationRefused(path, None, (error.answer.splitlines() or [f"code {error.code}"])[-1]) from error
    if passwords is not None:
        secrets_file.prune(path, wanted)
    return Outcome(before != text or known != wanted, reloaded, before, text)


def install(text: str, path: str = PATH, program: str = PROGRAM) -> None:
    """Replace the file at `path` atomically by one with `text` if BIRD can read it, else leave it.

    A missing folder is made. The file has mode 0640 and, if root runs this, owner root and BIRD's group.
    """
    with _candidate(text, path, program) as new:
        new.put()


def reload(socket: str = SOCKET, seconds: float = 60.0) -> bool:
    """Let the running BIRD read its file again and wait until it has; return True then, and False if no BIRD runs.

    Raises CommandRefused with BIRD's words if it refuses, ReloadNotFinished if it takes more than `seconds`, or
    NotAnswering. For a BIRD 3 that just started, up to 25 seconds pass before the reload.
    """
    try:
        with BirdClient(socket) as client:
            _configure(client, "configure", seconds)
            return True
    except NotAnswering as error:
        if error.nobody_there:
            return False
        raise


def restart_sessions(names: t.Iterable[str], socket: str = SOCKET) -> None:
    """Let the running BIRD end these sessions of its configuration and begin them again. Do nothing if no BIRD runs.

    Raises CommandRefused or NotAnswering.
    """
    with _if_it_runs(), BirdClient(socket) as client:
        for name in names:
            client.ask(f"restart {name}")


@contextlib.contextmanager
def _if_it_runs() -> t.Iterator[None]:
    """Let the body end where it meets no running BIRD, without the NotAnswering that says so."""
    try:
        yield
    except NotAnswering as error:
        if not error.nobody_there:
            raise


def _configure(client: BirdClient, command: str, seconds: float) -> None:
    if kernel_sync.is_deaf(client):
        kernel_sync.wait_for_first_scan(client)
    end = time.monotonic() + seconds
    # Codes of BIRD's answer: 3, the reconfiguration is done; 4, it is in progress; 5, it waits for an earlier one.
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
    """Make a running BIRD 3 rewrite all its kernel routes with the MTUs of `text`, before it reads `text` itself.

    `kernel_sync` says why. If the run is stopped here, BIRD may forward by `text` and the old file stays, so that the
    next run repeats this. Does nothing if no BIRD or a BIRD 2 runs.
    """
    with _if_it_runs(), BirdClient(socket) as client:
        if kernel_sync.is_deaf(client):
            with _candidate(text, path, program):
                pass  # `text` itself is checked first, so that a refusal is not about the text with weights
            _read_meanwhile(client, kernel_sync.with_weights(text), path, program, seconds)
            kernel_sync.scan(client)


def _change_merging(before: str, text: str, path: str, socket: str, program: str, seconds: float) -> None:
    """Make a running BIRD read `before` with the `merge paths` of `text`, without losing a route that it learned.

    `held_routes` says why. BIRD then has routes that hold the learned ones, until it reads `text` itself. If the run
    is stopped here, the old file stays, so that the next run repeats this. Does nothing if no BIRD runs.
    """
    with _if_it_runs(), BirdClient(socket) as client:
        with _candidate(text, path, program):
            pass  # `text` itself is checked first, so that a refusal is not about another text
        held, begun = held_routes.statics(client), held_routes.begun(client)
        for step in (before, held_routes.with_merging_of(before, text)):
            _read_meanwhile(client, f"{step}\n{held}", path, program, seconds)
        held_routes.wait(client, held, begun, kernel_sync.FIRST_SCAN, time.sleep)


def _read_meanwhile(client: BirdClient, text: str, path: str, program: str, seconds: float) -> None:
    """Let BIRD read `text` in a file beside `path`, which stays as it is, and wait until it has."""
    with _candidate(text, path, program) as new:
        _configure(client, f"configure {encoding.quoted(new.path)}", seconds)


@contextlib.contextmanager
def _candidate(text: str, path: str, program: str) -> t.Iterator[replacement.NewFile]:
    """Yield a new file with `text` beside `path`; remove it at the end unless the caller has put it in place."""
    folders.make(os.path.dirname(path) or ".")
    with replacement.beside(path, secrets_file.MODE, secrets_file.owner()) as new:
        new.write(text.encode())
        _parse(new.path, text, path, program)
        yield new


def unread(path: str = PATH, socket: str = SOCKET) -> bool:
    """Return whether bird.cfg, its passwords, a snippet or a snippet's folder changed after BIRD last read them.

    That is so if a run was stopped between writing and reloading, or if the operator changed a snippet or its folder.
    False if there is no bird.cfg, no BIRD runs, or BIRD states no time. Times are of the node's own clock: setting the
    clock can make the result wrong. Raises NotAnswering or CommandRefused.
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
        if error.nobody_there:
            return False
        raise
    return (
        bool(found) and written > datetime.datetime.fromisoformat(t.cast("re.Match[str]", found).group(1)).timestamp()
    )


def _parse(candidate: str, text: str, path: str, program: str) -> None:
    try:
        done = subprocess.run(
            [program, "-p", "-c", candidate],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # BIRD quotes bytes of snippets as they are.
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
    """Return, not raise, the error for BIRD's output `said`, with the real file's path in place of the candidate's.

    It is a SnippetRefused if BIRD names another file than `candidate` and the passwords beside it. BIRD writes `bird:
    FILE:3:1 syntax error...`, BIRD 3 a time and <FATAL> before the file. It stops at the first error, so the last such
    line is the error and lines before it are warnings.
    """
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
    """Return line `number` of `text`, counted from 1 and stripped; "" if there is no such line.

    What follows the first word with `password` or `secret` in it becomes "...": BIRD may have refused the quotes.
    """
    lines = text.splitlines()
    return _SECRET.sub(r'\1 "..."\2', lines[number - 1].strip()) if 0 < number <= len(lines) else ""


def _restore(text: str, path: str) -> None:
    if not text:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    replacement.replace(path, text.encode(), secrets_file.MODE, secrets_file.owner())
