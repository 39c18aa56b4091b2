# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running agent and IPv6, on the real kernel: what others break is repaired, and the workload answers at once."""

from __future__ import annotations

import dataclasses
import pathlib
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.probing import Target, probe
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    FdbEntry,
    Neighbor,
    RoutingRule,
    Sysctl,
    TunnelDevice,
)

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.unit.agent.workloads.test_dual_stack import BLOCK6, DUAL, FIRST6

VTEP, REMOTE, GATEWAY = "66:00:00:00:00:01", "66:00:00:00:00:02", "fe80::6400:ff:fe00:2"
FULL = dataclasses.replace(
    DUAL,
    devices=(TunnelDevice("vxlan-v6.calico", "vxlan", 1430, "fd00:10:10::11", "fd00:10:244::40", VTEP, 4096, 4789),),
    neighbors=(Neighbor("vxlan-v6.calico", GATEWAY, REMOTE),),
    fdb=(FdbEntry("vxlan-v6.calico", REMOTE, "fd00:10:10::12"),),
    rules=(RoutingRule(0xCA11, 179, 179, family=6),),
    sysctls=(*DUAL.sysctls, Sysctl("net/ipv6/conf/vxlan-v6.calico/forwarding", "1")),
)

#: {name of a change by another program: its command, in a shell on the node}. {host}, {address} and {netns} stand for
#: the workload's host end, its IPv6 address and the path of its namespace.
SABOTAGES = {
    "route": "ip -6 route del {address}",
    "blackhole": f"ip -6 route del blackhole {BLOCK6}",
    "route replaced": "ip -6 route replace {address} dev eth0 proto 12",
    "rule": "ip -6 rule del priority 179",
    "tunnel address": "ip address del fd00:10:244::40/128 dev vxlan-v6.calico",
    "neighbor": f"ip neighbor del {GATEWAY} dev vxlan-v6.calico",
    "fdb": f"bridge fdb del {REMOTE} dev vxlan-v6.calico dst fd00:10:10::12 self",
    "tunnel": "ip link del vxlan-v6.calico",
    "IPv6 off on the host end": "echo 1 > /proc/sys/net/ipv6/conf/{host}/disable_ipv6",
    "forwarding": "echo 0 > /proc/sys/net/ipv6/conf/{host}/forwarding",
    "address inside": "nsenter --net={netns} ip address del {address}/128 dev eth0",
    "IPv6 off inside": "nsenter --net={netns} sh -c 'echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6'",
    "route inside": "nsenter --net={netns} ip -6 route del default",
}


@pytest.fixture(scope="module")
def daemon(engine: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Daemon]:
    with daemon_under_test(engine, tmp_path_factory.mktemp("dual"), FULL) as found:
        found.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
        found.start()
        yield found


def answers(daemon: Daemon) -> bool:
    # Five pings, because the kernel's work queue needs milliseconds to make an address the workload's own.
    (answer,) = daemon.kernel._there(lambda: probe([Target(FIRST6)], count=5, interval=0.1, timeout=1.0))
    return answer.received > 0


def test_it_answers_as_soon_as_it_is_attached_and_whatever_is_broken_is_back(daemon: Daemon) -> None:
    workload = daemon.add("web")
    assert workload["addresses"][1] == FIRST6
    assert answers(daemon)  # without a wait for duplicate address detection
    daemon.in_sync()
    words = {"host": workload["interface"], "address": FIRST6, "netns": daemon.netns("web")}
    for name, script in SABOTAGES.items():
        counted = daemon.call("status")["drift"]["total"]
        done = daemon.kernel.run(["sh", "-ec", script.format(**words)])
        assert done.code == 0, (name, done.errors)
        for _beat in range(600):
            if daemon.call("status")["drift"]["total"] > counted:
                break
            time.sleep(0.01)
        else:
            raise AssertionError(f"{name} is not noticed")
        daemon.in_sync()
        assert daemon.call("resync")["changes"] == [], name
        assert answers(daemon), name
