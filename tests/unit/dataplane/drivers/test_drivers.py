# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers on FakeKernel. The same suites run on a real kernel: tests/integration/dataplane/test_drivers.py."""

from __future__ import annotations

from tests.unit.dataplane.suites.suite_attach import *  # noqa: F403
from tests.unit.dataplane.suites.suite_chains import *  # noqa: F403
from tests.unit.dataplane.suites.suite_firewall import *  # noqa: F403
from tests.unit.dataplane.suites.suite_foreign_rules import *  # noqa: F403
from tests.unit.dataplane.suites.suite_handed_over import *  # noqa: F403
from tests.unit.dataplane.suites.suite_hardening import *  # noqa: F403
from tests.unit.dataplane.suites.suite_marks import *  # noqa: F403
from tests.unit.dataplane.suites.suite_node import *  # noqa: F403
from tests.unit.dataplane.suites.suite_route import *  # noqa: F403
from tests.unit.dataplane.suites.suite_set_drift import *  # noqa: F403
from tests.unit.dataplane.suites.suite_tunnel import *  # noqa: F403
from tests.unit.dataplane.suites.suite_workload import *  # noqa: F403
