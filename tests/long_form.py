# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether tests run in their long form, as `make soak` runs them."""

from __future__ import annotations

import os

#: Whether the tests with the mark `soak` are selected as well.
LONG = os.environ.get("HOST_ROUTING_TOUR") == "long"
