# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conformance suite on an agent in memory."""

from __future__ import annotations

from tests.unit.runtimes.cni.suite_conformance import *  # noqa: F403
