# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of BIRD: the installed one, and the ones that can be used."""

from __future__ import annotations

import re
import subprocess
import typing as t

from .errors import VersionUnknown

PROGRAM = "/usr/sbin/bird"

_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


class Version(t.NamedTuple):
    """A version of BIRD, which compares by number. `str` returns "2.0.12", or "2.17" if `patch` is 0."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (f".{self.patch}" if self.patch else "")

    @property
    def has_onlink(self) -> bool:
        """Whether filters know `onlink = true`: 2.0.12 and newer do, except 3.0 and 3.1."""
        return (2, 0, 12) <= self < (3, 0, 0) or self >= (3, 2, 0)

    @property
    def may_end_itself(self) -> bool:
        """Whether BIRD may end by an assertion of its own while it removes or restarts a session: 3.4 does.

        It frees the session's event loop while an event still waits there (docs/reference/bgp.md).
        """
        return self >= (3, 4, 0)


def parse(text: str) -> Version:
    """Return the first version in `text`, for example in `BIRD version 2.0.12` or a package's `2.17.5-0+deb13u1`.

    A missing third number is 0. Raises ValueError if there are no two numbers with a dot between.
    """
    found = _NUMBERS.search(text)
    if not found:
        raise ValueError(f"no version in {text!r}")
    return Version(int(found.group(1)), int(found.group(2)), int(found.group(3) or 0))


def installed(program: str = PROGRAM) -> t.Optional[Version]:
    """Return the version of the BIRD at the path `program`, None if there is no such file.

    Raises VersionUnknown if it cannot be run, takes more than 20 seconds, or reports no version.
    """
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VersionUnknown(program, str(error)) from error
    said = (done.stdout + done.stderr).strip()
    try:
        return parse(said)
    except ValueError:
        raise VersionUnknown(program, said) from None


def candidate(policy: str) -> t.Optional[Version]:
    """Return the version of BIRD that apt would install, or None if it has no candidate.

    `policy` is the output of `apt-cache policy bird2`. Raises ValueError as `parse` does.
    """
    found = re.search(r"^\s*Candidate:\s*(?:\d+:)?(\d\S*)", policy, re.MULTILINE)
    return parse(found.group(1)) if found else None
