# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the agent's memory with 1,000 workloads and 10,000 foreign routes, and after many deleted workloads."""

from __future__ import annotations

import os

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, NodeIpam, Route

from tests.integration.agent.daemon_under_test import Daemon
from tests.unit.agent.node_under_test import with_state

LARGE = "10.244.0.0/20"
STATE = with_state(ipam=NodeIpam(1, (Block(LARGE, "default-pool"),)), routes=(Route(LARGE, "blackhole"),))
LIMIT = 60 << 10  # the most memory that the agent may use, in KiB


def test_a_thousand_workloads_and_ten_thousand_foreign_routes(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(STATE)
    daemon.start()
    daemon.in_sync()
    bird = RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=12)
    other = RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4)
    for number in range(1000):
        daemon.add(f"w{number}", netns_owned=True)
    for low, attributes in ((0, bird), (5000, other)):
        routes = [f"100.{64 + n // 250}.{n % 250}.0/26" for n in range(low, low + 5000)]
        assert daemon.kernel.route_batch([RouteOperation("add", route, attributes) for route in routes]) == []
    assert daemon.call("resync")["in_sync"] is True
    assert daemon.call("node.plan")["changes"] == []
    assert daemon.memory() <= LIMIT
    before = daemon.destinations
    assert len(before) == 1001
    daemon.kill()
    daemon.start()
    daemon.in_sync()
    assert daemon.destinations == before and len(daemon.links) == 1000
    assert daemon.memory() <= LIMIT
    assert daemon.call("status")["workloads"] == 1000 and daemon.call("status")["drift"]["total"] == 0


def test_many_that_come_and_go_leave_nothing_in_memory(stopped_daemon: Daemon) -> None:
    """The agent's memory grows by less than 1 MiB while 400 workloads come and go, after 200 others.

    At most five more files and two more threads are open then, and the journal stays below 1 MiB.
    """
    daemon = stopped_daemon
    daemon.settings(cooldown=0.0, resync_interval=3600.0)
    daemon.start()
    daemon.in_sync()
    names = [f"w{number}" for number in range(50)]
    for name in names:
        daemon.netns(name)

    def come_and_go(times: int) -> tuple[int, int, int]:
        for number in range(times):
            daemon.add(names[number % len(names)])
            assert daemon.delete(names[number % len(names)])
        daemon.settled()
        process = f"/proc/{daemon.pid}"
        return daemon.memory("VmRSS"), len(os.listdir(f"{process}/fd")), len(os.listdir(f"{process}/task"))

    warm = come_and_go(200)
    later = come_and_go(400)
    # Open files and threads of the agent: a connection or a thread may still be ending.
    assert later[1] <= warm[1] + 5 and later[2] <= warm[2] + 2
    assert later[0] - warm[0] < 1024  # growth of the agent's memory, in KiB
    journal = daemon.folder / "lib" / "ipam" / "allocations"
    assert journal.stat().st_size < 1 << 20
