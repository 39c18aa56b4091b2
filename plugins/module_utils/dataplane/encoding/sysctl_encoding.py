# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The encoder of sysctls: of a key as a path below /proc/sys/net, and of a value as the bytes to write."""

from __future__ import annotations

import functools
import re

from ...base.not_encodable import NotEncodable

PROTOCOL = "/proc/sys"

#: The beginning of each key; other settings of the kernel must not be changed.
_ROOT = "net/"

# Names of devices may have any characters but white space, '/' and ':' (dev_valid_name of the kernel).
_KEY = re.compile(r"net(?:/(?!\.\.?(?:/|$))[^\x00-\x20\x7f-\xa0/\ud800-\udfff]{1,64}){1,6}")
_VALUE = re.compile(r"[A-Za-z0-9 \t.:_,/+-]{0,255}", re.ASCII)


@functools.lru_cache(maxsize=65536)
def path(key: str) -> str:
    """Return the absolute path of a key.

    Raise NotEncodable unless it is `net/` and one to six clean names of at most 64 characters, other than "." and "..".
    """
    if not _KEY.fullmatch(key):
        allowed = f"Allowed is a path that begins with {_ROOT}, without '..', white space and control characters"
        raise NotEncodable(PROTOCOL, "a key", key, allowed)
    return f"/proc/sys/{key}"


@functools.lru_cache(maxsize=1024)
def value(text: str) -> bytes:
    """Return a value as the bytes to write.

    Raise NotEncodable for more than 255 characters, or for any but ASCII letters, digits, blanks, tabs and .:_,/+- .
    """
    if not _VALUE.fullmatch(text):
        raise NotEncodable(PROTOCOL, "a value", text, "Allowed are letters, digits, spaces and .:_,/+- in one line")
    return text.encode("ascii")
