# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of the gate's program: module_utils is beside this file."""

from __future__ import annotations

import sys

from module_utils.datastore.gate.program import main

sys.exit(main(sys.argv[1:]))
