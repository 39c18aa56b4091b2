# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths as messages show them."""

from __future__ import annotations

import os


def shown_path(path: str) -> str:
    """Return `path`, with or without a line number, relative to the current folder if it is in it, else unchanged."""
    relative = os.path.relpath(path)
    return path if relative.split(os.sep)[0] == os.pardir else relative
