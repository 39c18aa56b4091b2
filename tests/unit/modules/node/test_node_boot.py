# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the restore at boot, also for a node whose own records cannot be read."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.naming import interface_name
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import boot
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import RecordsUnreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import IpamUnreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    ALLOW,
    Endpoint,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    probe_endpoint,
    with_probe_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.unit.modules.node.test_node import STATE, params

ADMITTED = Policy("admitted", ingress=(PolicyRule(ALLOW),), selector="all()")
#: A HostEndpoint that has one of the host's addresses and names no interface.
HOST = Endpoint("HostEndpoint", "node1-host", "node1", addresses=("10.10.1.11",))
GUARDED = dataclasses.replace(STATE, bird=None, policy=PolicyState(policy_set(policies=[ADMITTED]), (HOST,)))


@pytest.fixture
def guarded(host):
    """A host with policy, two workloads, and chains as they are with the workloads' rules."""
    host.run(node, **params(GUARDED))
    host.attach("db")
    host.attach("web")
    boot.restore(host.machine)
    return host


def test_the_firewall_stays_if_the_allocations_cannot_be_read(guarded):
    before = guarded.kernel.snapshot()
    (guarded.folder / "calico/ipam/allocations").write_text("garbage\n")
    with pytest.raises(IpamUnreadable):
        boot.restore(guarded.machine)
    assert guarded.kernel.snapshot() == before


def test_a_record_that_cannot_be_read_closes_the_policy_of_its_workload_alone(guarded):
    before = guarded.kernel.snapshot()
    (guarded.folder / "run/workloads/default%2Fweb.json").write_text("{")
    with pytest.raises(RecordsUnreadable):
        boot.restore(guarded.machine)
    after = guarded.kernel.snapshot()
    sets, now = before.pop("sets"), after.pop("sets")
    assert after == before, "nothing is removed"
    lost = [(name, member) for name, found in sets.items() for member in found[-1] if member not in now[name][-1]]
    assert [member for dummy, member in lost] == [f"10.244.3.3,{interface_name('default', 'web')}"]


def test_the_probe_endpoint_is_restored(host):
    """A restart of the host removes the endpoint, its namespace and the marker, and the boot unit restores them."""
    probed = with_probe_endpoint(STATE, probe_endpoint(["10.244.3.60"], STATE.pools))
    host.run(node, **params(probed))
    before = host.kernel.snapshot()
    host.kernel.netns_delete("calico-probe")
    assert host.kernel.link("caliprobe") is None
    boot.restore(host.machine)
    after = host.kernel.snapshot()
    assert after["namespaces"].keys() == before["namespaces"].keys()
    assert host.kernel.netns_owners()["calico-probe"] == "calico-system/probe"
    assert [one.address for one in host.kernel.inside("calico-probe").addresses("eth0")] == ["10.244.3.60"]
    assert "10.244.3.60/32" in dict(host.kernel.routes())


def test_a_bird_cfg_that_is_as_it_shall_be_is_not_written(host):
    host.run(node, **params(STATE))
    config = host.folder / "bird.cfg"
    before = config.stat().st_ino
    boot.restore(host.machine)
    assert config.stat().st_ino == before
    config.write_text("# changed by hand\n")
    boot.restore(host.machine)
    assert "# changed by hand" not in config.read_text()
