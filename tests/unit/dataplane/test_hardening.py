# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel without IPv6. suite_hardening.py has the other tests of these settings, and runs on the real kernel too."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import attach, hardening
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import tunnel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.plan import plan_node

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import converge
from tests.unit.dataplane.suites.suite_attach import WEB, host, state
from tests.unit.dataplane.suites.suite_hardening import VXLAN, settings


def test_a_kernel_without_ipv6_has_none_of_its_keys():
    kernel = FakeKernel()
    kernel.remove_ipv6()
    host(kernel)
    attach.attach(kernel, WEB)
    assert plan_node(kernel, state(WEB)).changes == ()
    converge(tunnel, kernel, [VXLAN])
    for device in (WEB.interface, VXLAN.name):
        assert settings(kernel, device) == {
            setting: "0" if setting.startswith("ipv4/") else None for setting in hardening.SETTINGS
        }
