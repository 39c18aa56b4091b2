# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules for one kind of object, on a FakeKernel; tests/integration runs them on a real one."""

from __future__ import annotations

from tests.unit.modules.suite_single_objects import *  # noqa: F403
