# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MTUs of both ends of a workload's pair after every single write, while the MTU changes."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import VethEndpoint

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import converge, underlay


@pytest.mark.parametrize(("before", "after"), [(1450, 1500), (1500, 1450)])
def test_the_host_never_sends_what_the_other_end_drops(kernel: FakeKernel, before: int, after: int) -> None:
    underlay(kernel)
    web = VethEndpoint("web-1", "cali111", "10.244.1.5", before, "default", netns="web-1")
    converge(workload, kernel, [web])
    seen: list[tuple[int, int]] = []

    def look(now: FakeKernel) -> None:
        host, inner = kernel.link("cali111"), kernel.inside("web-1").link("eth0")
        assert host is not None and inner is not None
        seen.append((host.mtu, inner.mtu))

    kernel.watch(look)
    converge(workload, kernel, [dataclasses.replace(web, mtu=after)])
    kernel.watch(None)
    assert seen[-1] == (after, after)
    assert all(host <= inner for host, inner in seen)
