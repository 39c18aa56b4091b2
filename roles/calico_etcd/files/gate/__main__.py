# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of the gate's program: module_utils is beside this file.

Python 3.8 can parse this file, unlike module_utils, so that an old Python gets one sentence.
"""

from __future__ import annotations

import sys

if sys.version_info[:2] < (3, 11):  # noqa: UP036 - the host has what it has
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(
        f"Python {found} ({sys.executable}) is too old: the gate of baremetal.host_routing needs Python 3.11 or newer, "
        "which Debian 12 and 13 have."
    )

from module_utils.datastore.gate.program import main

sys.exit(main(sys.argv[1:]))
