# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine that this process runs. The agent tells it, and needs nothing else of `bundle`, which installs engines."""

from __future__ import annotations

import os
import typing as t

from . import engine_start


def digest(root: str = engine_start.ROOT) -> t.Optional[str]:
    """Return the digest of the engine that this process runs, else of the engine in use, None if there is neither."""
    folder = os.path.realpath(__file__)
    for _level in ("engine", "node", "host_routing", "the folder of the digest"):
        folder = os.path.dirname(folder)
    if os.path.dirname(folder) == os.path.realpath(root):
        return os.path.basename(folder)
    return engine_start.in_use(root) or None
