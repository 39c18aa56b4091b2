# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pause of Python's garbage collector while many lasting objects are created."""

from __future__ import annotations

import contextlib
import gc
import typing as t


@contextlib.contextmanager
def uncollected() -> t.Iterator[None]:
    """Disable the cyclic garbage collector inside the `with` block: it takes much of the time of compiling a fleet."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
