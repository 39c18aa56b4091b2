# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers with IPv6, on FakeKernel.

The same suite runs on a real kernel: tests/integration/dataplane/test_ipv6.py.
"""

from __future__ import annotations

from tests.unit.dataplane.suites.suite_ipv6 import *  # noqa: F403
from tests.unit.dataplane.suites.suite_probe_endpoint import *  # noqa: F403
