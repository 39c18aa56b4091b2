# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The return of free memory to the kernel, which the C library keeps otherwise."""

from __future__ import annotations

import ctypes
import functools
import typing as t


def give_back() -> None:
    """Return the free pages of the C library's heaps to the kernel, as far as it can. It takes some milliseconds."""
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> t.Optional[t.Callable[[int], int]]:
    """Return glibc's malloc_trim, None for a C library without it."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
