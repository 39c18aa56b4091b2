# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus and promtool as Debian ships them, unpacked beside the machine; they need no library but the C one."""

from __future__ import annotations

import functools
import pathlib

from tests.integration.debian_archive import ROOT, unpacked

RELEASE = "bookworm"


@functools.cache
def debian_prometheus() -> pathlib.Path:
    """The folder with both programs, downloaded on first use. Raises RuntimeError with apt's words."""
    return unpacked(ROOT / ".build" / "prometheus" / RELEASE, RELEASE, "prometheus") / "usr" / "bin"
