# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a node's engine: `python3 -I /usr/local/lib/calico/start apply|agent ...`.

The units, calicoctl and the process that reverts a change run it so. Ansible's actions run `start module <digest>
<name>`; see `run_module`.

The installation copies this file out of the engine's folder. It compares every file of the engine, byte code included,
with the manifest that the installation wrote, looks at who may write the folders on the way to them, and then becomes
the engine. If something differs, it raises an alarm and starts the engine without its byte code, another one, or none;
see `choose`. It imports only the standard library, until it has checked the engine and runs a module of it.

Python 3.8 can parse and import this file, unlike the engine, so that an old Python gets one sentence (`too_old`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import re
import stat
import sys
import typing as t

ROOT = "/usr/local/lib/calico"
ALARM = "/run/calico/engine-alarm.json"
CURRENT = "current"
MANIFESTS = "manifests"
START = "start"
MAIN = "__main__.py"
PACKAGE = "host_routing"
#: The oldest Python that runs the engine, that of Debian 12.
OLDEST_PYTHON = (3, 11)
#: The first argument of a call of `run_module`.
MODULE = "module"
#: Exit statuses of `run_module` before the module has started: there is no engine of this digest; it is not as it was
#: installed, or others than root may write where it lies; it has no byte code for this interpreter.
ABSENT, ALTERED, UNKNOWN_INTERPRETER = 84, 85, 86

_DIGEST = re.compile(r"[0-9a-f]{16}")
#: A path without byte code: Python compiles an engine from its sources if its pycache_prefix is this path.
_NO_BYTE_CODE = "/proc/self/fdinfo/none"
_SHOWN = 3  # the most problems of an engine that an alarm describes; the others are only counted
_LONGEST_ALARM = 16 * 1024  # the most characters that are read of an alarm's file
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OWNERS = (0, os.geteuid())
#: Debian's group `staff`. It may own /usr/local and the folders in it (Debian policy, 9.1.2), where its members can
#: replace programs that root runs.
_STAFF = 50


#: The engines that this process need not check again, as (folder of engines, digest): the one whose module `run_module`
#: runs in it. Empty in all other processes.
checked: set[tuple[str, str]] = set()


def too_old() -> str:
    """Return a sentence about this Python if it is too old for the engine, else ""."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return ""
    found, needed = ".".join(map(str, sys.version_info[:3])), ".".join(map(str, OLDEST_PYTHON))
    return (
        f"Python {found} ({sys.executable}) is too old: baremetal.host_routing needs Python {needed} or newer on nodes,"
        " which Debian 12 and 13 have, or one that ansible_python_interpreter names."
    )


class EngineProblem(t.NamedTuple):
    """A difference of an engine, or of a folder around it, from what was installed, as a clause that names the file.

    `byte_code` is True if the sources of the engine can still be run: the file is byte code, or vouches for byte code.
    """

    text: str
    byte_code: bool = False


def sources_digest(content: t.Mapping[str, bytes]) -> str:
    """Return the 16 hex digits that name an engine, computed from its sources: a mapping from path to content."""
    total = hashlib.sha256()
    for name in sorted(content):
        total.update(f"{name}\0{len(content[name])}\0".encode())
        total.update(content[name])
    return total.hexdigest()[:16]


def manifest_path(root: str, digest: str) -> str:
    return os.path.join(root, MANIFESTS, f"{digest}.json")


def manifest_text(files: t.Mapping[str, bytes]) -> str:
    """Return the manifest of an engine with these files (path to content) as JSON: a mapping from path to sha256."""
    return json.dumps({name: _sha256(content) for name, content in files.items()}, sort_keys=True) + "\n"


def problems(root: str, digest: str) -> list[EngineProblem]:
    """Return what differs in the engine `digest` from what was installed; an empty list if nothing does.

    The digest of its sources must be the one that names it, and all byte code must be that of the manifest. Files and
    folders must belong to root or to this process's user, and must not be writable for any other. Symbolic links are
    problems. Without a manifest (an engine of an older release) all byte code is a problem. If a file cannot be read,
    that is the only problem. See `surroundings` for the folders around it.
    """
    folder = os.path.join(root, digest)
    try:
        files, found = _files(folder)
        found += [one._replace(byte_code=True) for one in _problems_of(manifest_path(root, digest), _check_mode)]
        recorded = _recorded(root, digest)
    except OSError as error:
        return [EngineProblem(f"{error.filename} cannot be read: {error.strerror}")]
    sources = {name: content for name, content in files.items() if not _is_byte_code(name)}
    if sources_digest(sources) != digest:
        changed = sorted(name for name, content in sources.items() if recorded.get(name, "") != _sha256(content))
        missing = sorted(name for name in recorded if name not in files and not _is_byte_code(name))
        found += [EngineProblem(f"{name} was changed or added") for name in changed]
        found += [EngineProblem(f"{name} is missing") for name in missing]
        if not changed and not missing:
            found.append(EngineProblem("its sources are not those that its name stands for"))
    for name, content in files.items():
        if _is_byte_code(name) and recorded.get(name, "") != _sha256(content):
            found.append(EngineProblem(f"{name} was changed or added", byte_code=True))
    found += [
        EngineProblem(f"{name} is missing", byte_code=True)
        for name in recorded
        if name not in files and _is_byte_code(name)
    ]
    return found


def surroundings(root: str) -> list[EngineProblem]:
    """Return where others than root could put something in the place of the engine.

    That is a wrong mode or owner of `root`, of a folder above it, or of `manifests` or `start` in it, a wrong owner of
    `current`, and a symbolic link as `manifests` or `start`. A missing path is no problem; an unreadable one is.
    """
    real = os.path.realpath(root)
    found = above(root)
    for path in (real, os.path.join(real, MANIFESTS), os.path.join(real, START)):
        found += _problems_of(path, _check_mode)
    return found + _problems_of(os.path.join(real, CURRENT), _check_owner)


def above(root: str) -> list[EngineProblem]:
    """Return the wrong modes and owners of the folders above `root` and its real path; unreadable ones are listed."""
    real = os.path.realpath(root)
    folders = {*_parents(root), *_parents(real)} | ({root} if os.path.islink(root) else set())
    return [problem for path in sorted(folders) for problem in _problems_of(path, _check_folder_above)]


def in_use(root: str) -> str:
    """Return the digest that the symbolic link `current` in `root` has as its target, "" if that is no engine there."""
    try:
        digest = os.readlink(os.path.join(root, CURRENT))
    except OSError:
        return ""
    return digest if _is_engine(root, digest) else ""


class EngineChoice(t.NamedTuple):
    """The engine to start, whether its byte code may be used, and the text of the alarm, "" if there is none."""

    digest: str
    byte_code: bool
    alarm: str


def choose(root: str) -> EngineChoice:
    """Return which engine to start: the one in use, or the newest other one with unchanged sources.

    The one in use is also refused if others than root could have put it there. If only the byte code of an engine
    differs, it is started without it: its name stands for its sources, and an older engine may refuse the state that it
    stored. Raise LookupError with the text of the alarm if none can be started, or OSError if `root` cannot be read.
    """
    current = in_use(root)
    others = sorted(
        (name for name in _names(root) if name != current and _is_engine(root, name)),
        key=lambda name: os.stat(os.path.join(root, name)).st_mtime,
        reverse=True,
    )
    found = {current: surroundings(root) + problems(root, current)} if current else {}
    if current and not found[current]:
        return EngineChoice(current, True, "")
    found.update((name, problems(root, name)) for name in others)
    trouble = (
        f"the engine {current} in {root} is not as it was installed: {_listed(found[current])}."
        if current
        else (f"{os.path.join(root, CURRENT)} leads to no engine.")
    )
    remedy = "Run site.yml, which installs it again, and find out who changed it."
    for name, differences in found.items():
        if all(one.byte_code for one in differences):
            running = "from its sources alone" if name == current else f"as the engine {name}"
            return EngineChoice(name, not differences, f"{trouble} It was started {running}. {remedy}")
    raise LookupError(f"{trouble} No other engine there is whole, and nothing was started. {remedy}")


def main(arguments: t.Sequence[str], root: str = ROOT, alarm: str = ALARM) -> int:
    """Replace this process by the engine that `choose` returns, with these arguments.

    Return 1 if none can be started. Then, and if it is not the engine in use with its byte code, raise an alarm; else
    remove that of an earlier start. Raise OSError if Python cannot be executed.
    """
    try:
        choice = choose(root)
    except (LookupError, OSError) as error:
        _raise_alarm(str(error), alarm)
        return 1
    if choice.alarm:
        _raise_alarm(choice.alarm, alarm)
    else:
        with contextlib.suppress(OSError):
            os.unlink(alarm)
    without = [] if choice.byte_code else ["-X", f"pycache_prefix={_NO_BYTE_CODE}"]
    # -B keeps the engine from writing byte code, which would differ from its manifest.
    command = [sys.executable, "-I", "-B", *without, os.path.join(root, choice.digest), *arguments]
    return os.execv(command[0], command)


def run_module(arguments: t.Sequence[str], root: str = ROOT) -> int:
    """Run a module in this process, by the engine of a digest. `arguments` are the digest and the module's name.

    The request is read from stdin and the answer goes to stdout; return 1 if the answer is a failure, else 0. The
    engine need not be the one in use: the controller names the one that has its own code. Without a word on stdout,
    return ABSENT if there is none of this digest, ALTERED if it was changed or others than root could have changed it,
    and UNKNOWN_INTERPRETER if it has no byte code for this interpreter. No other engine takes its place, because the
    caller has the code itself. Raise ValueError for other arguments or input, KeyError for a request without a key.
    """
    digest, name = arguments
    if not _is_engine(root, digest):
        return ABSENT
    if surroundings(root) or problems(root, digest):
        return ALTERED
    folder = os.path.join(os.path.realpath(root), digest)
    if not os.path.exists(importlib.util.cache_from_source(os.path.join(folder, PACKAGE, "__init__.py"))):
        return UNKNOWN_INTERPRETER
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
    # In the engine this file is another module, with a `checked` of its own, which the code of the engine reads.
    importlib.import_module(f"{PACKAGE}.node.engine.engine_start").checked.add((os.path.realpath(root), digest))
    return int(importlib.import_module(f"{PACKAGE}.modules.engine_module").main([name]))


def read_alarm(path: str = ALARM) -> str:
    """Return the text of the alarm that the last start raised or that its file is unreadable, "" if there is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            return str(json.loads(stream.read(_LONGEST_ALARM))["alarm"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return f"{path} holds an alarm that cannot be read. See journalctl -t calico-agent -p alert."


def _raise_alarm(sentence: str, path: str) -> None:
    """Write the alarm to standard error, with the journal's priority `alert`, and if possible to a file."""
    priority = "" if sys.stderr.isatty() else "<1>"  # `alert` in sd-daemon(3)
    sys.stderr.write(f"{priority}{sentence}\n")
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError):
        if not os.path.isdir(folder):
            os.mkdir(folder)
            os.chmod(folder, 0o755)  # because the umask may have taken rights from mkdir's mode
        handle = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o644)
            stream.write(json.dumps({"alarm": sentence}) + "\n")
        os.replace(f"{path}.new", path)


def _files(folder: str) -> tuple[dict[str, bytes], list[EngineProblem]]:
    """Return the content of all regular files below `folder` by relative path, and wrong kinds, modes and owners.

    Symbolic links are not followed: they are problems, as are special files.
    """
    contents: dict[str, bytes] = {}
    issues: list[EngineProblem] = []
    _check_mode(".", os.lstat(folder), issues)
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with os.scandir(os.path.join(folder, above)) as entries:
            for entry in entries:
                name = f"{above}{entry.name}"
                status = entry.stat(follow_symlinks=False)
                _check_mode(name, status, issues)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(f"{name}/")
                elif stat.S_ISREG(status.st_mode):
                    contents[name] = _content(entry.path, status.st_size)
                elif not stat.S_ISLNK(status.st_mode):
                    issues.append(EngineProblem(f"{name} is no file"))
    return contents, issues


def _content(path: str, size: int) -> bytes:
    """Return at most the first `size` + 1 bytes of a regular file: a file that has grown differs from its manifest."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        content = os.read(handle, size + 1)
    finally:
        os.close(handle)
    return content


def _problems_of(path: str, check: t.Callable[[str, os.stat_result, list[EngineProblem]], None]) -> list[EngineProblem]:
    """Return the problems that `check` finds at this path; none if it does not exist, one if it cannot be read."""
    found: list[EngineProblem] = []
    try:
        check(path, os.lstat(path), found)
    except FileNotFoundError:
        pass
    except OSError as error:
        found.append(EngineProblem(f"{path} cannot be read: {error.strerror}"))
    return found


def _parents(path: str) -> t.Iterator[str]:
    above = os.path.dirname(path)
    while above != path:
        yield above
        path, above = above, os.path.dirname(above)


def _check_folder_above(name: str, status: os.stat_result, issues: list[EngineProblem]) -> None:
    """Append to `issues` what is wrong with the mode and owner of a folder above the engines.

    Of a symbolic link to a folder, only the owner counts. A folder of Debian's group `staff` may be writable for its
    group. A sticky folder such as /tmp may be written by all: they cannot rename what root has in it.
    """
    mode = status.st_mode
    if not stat.S_ISLNK(mode) and not mode & stat.S_ISVTX:
        _check_writers(name, mode, issues, stat.S_IWOTH if status.st_gid == _STAFF else _OTHERS_MAY_WRITE)
    _check_owner(name, status, issues)


def _check_mode(name: str, status: os.stat_result, issues: list[EngineProblem]) -> None:
    if stat.S_ISLNK(status.st_mode):
        issues.append(EngineProblem(f"{name} is a symbolic link"))
    else:
        _check_writers(name, status.st_mode, issues)
    _check_owner(name, status, issues)


def _check_writers(name: str, mode: int, issues: list[EngineProblem], refused: int = _OTHERS_MAY_WRITE) -> None:
    if mode & refused:
        issues.append(EngineProblem(f"{name} may be written by others (mode {stat.S_IMODE(mode):04o})"))


def _check_owner(name: str, status: os.stat_result, issues: list[EngineProblem]) -> None:
    if status.st_uid not in _OWNERS:
        issues.append(EngineProblem(f"{name} belongs to user {status.st_uid}"))


def _recorded(root: str, digest: str) -> dict[str, str]:
    """Return the manifest's mapping from path to sha256; an empty one if there is no manifest or it is damaged."""
    try:
        with open(manifest_path(root, digest), encoding="utf-8") as stream:
            recorded = json.load(stream)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def _names(root: str) -> list[str]:
    return sorted(os.listdir(root)) if os.path.isdir(root) else []


def _is_engine(root: str, name: str) -> bool:
    return bool(_DIGEST.fullmatch(name)) and os.path.exists(os.path.join(root, name, MAIN))


def _is_byte_code(name: str) -> bool:
    """Return whether this is a .pyc file in a folder __pycache__: Python loads it only for a source beside it."""
    return name.endswith(".pyc") and name.split("/")[-2:-1] == ["__pycache__"]


def _listed(found: t.Sequence[EngineProblem]) -> str:
    shown = ", ".join(one.text for one in found[:_SHOWN])
    more = len(found) - _SHOWN
    return shown if more <= 0 else f"{shown} and {more} more"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    if too_old():
        raise SystemExit(too_old())
    raise SystemExit(run_module(sys.argv[2:]) if sys.argv[1:2] == [MODULE] else main(sys.argv[1:]))
