# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel without IPv6. suite_hardening.py has the other tests of these settings, and runs on the real kernel too."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import hardening
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import tunnel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import PolicySet
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import NodePolicyTables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState, allow_all

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import OWN, converge, underlay
from tests.unit.dataplane.suites.suite_attach import WEB, host, state
from tests.unit.dataplane.suites.suite_hardening import VXLAN, settings
from tests.unit.fleet.fleets import build, pool, states


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


@pytest.mark.parametrize("mode", ["direct", "ipip", "vxlan"])
@pytest.mark.parametrize("policy", [False, True])
def test_a_whole_node_is_planned_and_reaches_its_state_without_ipv6(mode, policy):
    """On a kernel without IPv6, a node's plan is applied and nothing but bird.cfg is left; hardening does nothing, too.

    `mode` is the pool's; "direct" makes no tunnel device. `policy` says whether the node has policy.
    """
    kernel = FakeKernel()
    kernel.remove_ipv6()
    wanted = states(build(pool(mode), nodes={"node1": f"{OWN}/24", "node2": "10.10.1.99/24"}, workloads=[]))["node1"]
    underlay(kernel)
    if policy:
        wanted = dataclasses.replace(wanted, policy=PolicyState(PolicySet(profiles=(allow_all(),))))
        wanted = NodePolicyTables().with_policy(wanted)
    assert plan_node(kernel, wanted).changes
    apply_node(kernel, plan_node(kernel, wanted))
    assert [change for change in plan_node(kernel, wanted).changes if change.kind != "bird"] == []
    assert {table.family for table in wanted.iptables} == {4, 6}
    devices = [link for link in kernel.links() if link.alias.startswith("calico")]
    assert len(devices) == 1 + (mode != "direct")  # the probe endpoint's, and a tunnel
    for link in devices:
        hardening.close(kernel, link.name)
        hardening.forget_advertised(kernel, link)
        assert hardening.has_settings(kernel, link.name)
    assert hardening.advertised(kernel, [link.name for link in devices]) == {}
