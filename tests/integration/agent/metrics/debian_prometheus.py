# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus and promtool as Debian ships them, unpacked beside the machine; they need only the C library."""

from __future__ import annotations

import functools
import pathlib

from tests.integration.debian_archive import ROOT, unpacked

RELEASE = "bookworm"


@functools.cache
def debian_prometheus() -> pathlib.Path:
    """Return the folder with the programs `prometheus` and `promtool`.

    They are downloaded at the first use and kept below .build of the checkout. Another process that downloads them is
    waited for without a limit. Raise RuntimeError with the output of the failed command if they cannot be downloaded or
    unpacked, and subprocess.TimeoutExpired if one command takes more than 300 seconds.
    """
    return unpacked(ROOT / ".build" / "prometheus" / RELEASE, RELEASE, "prometheus") / "usr" / "bin"
