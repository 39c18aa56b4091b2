# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the passwords of sessions, beside bird.cfg, which includes it.

Only root and BIRD's group may read it. `config` is the path of bird.cfg. Functions that use the file raise OSError, and
those that write it NotEncodable for a name or password that cannot be written; the old file stays then.
"""

from __future__ import annotations

import contextlib
import grp
import os
import stat
import typing as t

from ..bgp import passwords
from ..bgp.passwords import Passwords
from ..files import folders, replacement

#: The name of the password file in the include of bird.cfg. BIRD looks for it in bird.cfg's folder.
NAME = "bird.secrets.conf"
#: Debian's group for BIRD, which may read the password file: BIRD reads its files again at each reload.
GROUP = "bird"
MODE = 0o640


def beside(config: str) -> str:
    """Return the path of the password file for the bird.cfg at `config`."""
    return os.path.join(os.path.dirname(config), NAME)


def current(config: str) -> Passwords:
    """Return the passwords in the file beside the bird.cfg at `config`, by name; no passwords if there is no file."""
    try:
        with open(beside(config), encoding="utf-8", errors="surrogateescape") as stream:
            return passwords.from_text(stream.read())
    except FileNotFoundError:
        return Passwords()


def open_to_others(config: str) -> t.Optional[str]:
    """Return the password file's permissions as text ("0644") if it exists and they are not 0640, else None."""
    try:
        mode = stat.S_IMODE(os.stat(beside(config)).st_mode)
    except FileNotFoundError:
        return None
    return None if mode == MODE else f"{mode:04o}"


def install(config: str, values: t.Mapping[str, str], written: t.Optional[int] = None) -> None:
    """Replace the password file atomically by one with the passwords `values`, or remove it if there are none.

    A missing folder is made for a new file, which has mode 0640 and, if root runs this, owner root and BIRD's group.
    `written` is the modification time to set, in nanoseconds since 1970, for a change that the running BIRD need not
    read (`configuration.unread` compares times).
    """
    path = beside(config)
    if not values:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    folders.make(os.path.dirname(path) or ".")
    with replacement.beside(path, MODE, owner()) as new:
        new.write(passwords.to_text(values).encode("utf-8", "surrogateescape"))
        if written is not None:
            os.utime(new.handle, ns=(written, written))
        new.put()


def prune(config: str, values: t.Mapping[str, str]) -> None:
    """Remove the passwords that `values` does not have from the password file, which must contain all of `values`.

    It keeps its modification time, so BIRD need not read it again.
    """
    if current(config) != values:
        install(config, values, os.stat(beside(config)).st_mtime_ns)


def owner() -> t.Optional[replacement.Owner]:
    """Return root and the group of BIRD, as the owner of files of BIRD.

    None, for the usual owner of new files, unless root runs this and there is a group `bird`.
    """
    with contextlib.suppress(KeyError):
        if os.geteuid() == 0:
            return 0, grp.getgrnam(GROUP).gr_gid
    return None
