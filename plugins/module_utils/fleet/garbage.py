# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python's garbage collector, put off while much is made that stays."""

from __future__ import annotations

import contextlib
import gc
import typing as t


@contextlib.contextmanager
def uncollected() -> t.Iterator[None]:
    """Nothing is collected within. Compiling makes no cycles, but a third of its time went into looking for them among
    all that it had made already, which is also why it took more than in proportion with thousands of nodes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
