# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of files with a given content and mode, and of the modes of folders.

A reader always sees the whole old file or the whole new one. OSError is raised if a file or folder cannot be read.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
import typing as t

from ...files import replacement
from ..change import Change, Failures


class WantedFile(t.NamedTuple):
    """A desired file.

    `content` None means that there must be no such file. A plan does not show the content of `secret` files.
    """

    path: str
    content: t.Optional[str]
    mode: int = 0o644
    secret: bool = False


class WantedFolder(t.NamedTuple):
    """The mode that an existing folder must have. A missing folder is made with the first file in it."""

    path: str
    mode: int


class Observed(t.NamedTuple):
    content: str
    mode: int


def changes(desired: t.Sequence[WantedFile]) -> list[Change]:
    """Return the changes that give the host these files. Raise OSError if one of them cannot be read."""
    return diff(desired, observe(desired))


def observe(desired: t.Iterable[WantedFile]) -> dict[str, Observed]:
    """Return a mapping from path to content and mode, with those of these files that exist, wanted or unwanted.

    The content is decoded as UTF-8; invalid bytes become surrogates. Symbolic links are followed.
    """
    observed: dict[str, Observed] = {}
    for wanted in desired:
        try:
            with open(wanted.path, "rb") as stream:
                mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
                observed[wanted.path] = Observed(stream.read().decode("utf-8", errors="surrogateescape"), mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return observed


def folder_mode(path: str) -> t.Optional[int]:
    """Return the mode of the folder `path`, None if there is no such folder. A symbolic link is followed."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISDIR(status.st_mode) else None


def folder_changes(desired: t.Iterable[WantedFolder]) -> list[Change]:
    """Return the changes of existing folders to the modes that they must have."""
    changes = []
    for wanted in desired:
        have = folder_mode(wanted.path)
        if have is not None and have != wanted.mode:
            texts = f"folder, mode {have:04o}", f"folder, mode {wanted.mode:04o}"
            detail = f"--- {wanted.path}/\n+++ {wanted.path}/\n-mode {have:04o}\n+mode {wanted.mode:04o}\n"
            changes.append(Change("file", "~", f"{wanted.path}/", *texts, "", have, wanted, detail))
    return changes


def _text(content: str, mode: int) -> str:
    return f"{len(content.splitlines())} lines, mode {mode:04o}"


def diff(desired: t.Iterable[WantedFile], observed: t.Mapping[str, Observed]) -> list[Change]:
    changes: list[Change] = []
    for wanted in desired:
        have = observed.get(wanted.path)
        if wanted.content is None:
            if have is not None:
                changes.append(Change("file", "-", wanted.path, _text(*have), None, "", wanted))
            continue
        want = Observed(wanted.content, wanted.mode)
        if have == want:
            continue
        old = have.content if have else ""
        detail = "" if wanted.secret else unified_diff(wanted.path, old, wanted.content, have is not None)
        after = _text(*want)
        if have is None:
            changes.append(Change("file", "+", wanted.path, None, after, "", None, wanted, detail))
        else:
            changes.append(Change("file", "~", wanted.path, _text(*have), after, "", have, wanted, detail))
    return changes


def unified_diff(path: str, old: str, new: str, existed: bool = True) -> str:
    return "".join(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), path if existed else "/dev/null", path, n=3
        )
    )


def apply(changes: t.Iterable[Change]) -> None:
    failures = Failures()
    for change in changes:
        try:
            if change.action == "-":
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(change.subject)
            elif isinstance(change.new, WantedFolder):
                os.chmod(change.new.path, change.new.mode)
            elif change.action in ("+", "~"):
                replacement.store(change.new.path, change.new.content, change.new.mode)
        except replacement.NotSynced as error:
            reason = f"It is written, but a power failure may undo that: its folder cannot be synced: {error.strerror}."
            failures.add(change, f"{reason} Correct the file system.")
        except OSError as error:
            reason = f"It could not be written: {error.strerror or error}. See that its folder exists and is writable."
            failures.add(change, reason)
    failures.raise_if_any()
