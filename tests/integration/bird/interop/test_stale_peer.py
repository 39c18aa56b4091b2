# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A peer with wrong announcements, by mistake or from an earlier configuration: our blocks, foreign ones, workloads."""

from __future__ import annotations

import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import status

from tests.integration.bird.daemons import AS_NUMBER, Fleet, mesh, pool
from tests.integration.bird.interop import stranger
from tests.integration.bird.network import Network, wait_for

pytestmark = pytest.mark.root


def test_a_stale_peer_takes_nothing(fleet: Fleet, network: Network) -> None:
    one, two, liar = network.nodes[0], network.nodes[1], network.nodes[3]
    birds = mesh(network.nodes, pool("vxlan.calico"))
    for node in network.nodes[:3]:
        fleet[node.name].write(birds[node.name])
        fleet[node.name].start()
    claimed = [
        one.block,
        "10.244.1.2/32",
        "10.244.1.0/27",
        liar.block,
        "10.244.4.9/32",
        "10.244.0.0/16",
        "192.168.1.0/24",
    ]
    options = f"multihop; source address {liar.address};"
    sessions = [
        stranger.neighbor(f"to_{other.name}", other.address, AS_NUMBER, AS_NUMBER, options)
        for other in network.nodes[:3]
    ]
    fleet[liar.name].config.write_text(stranger.configuration(liar, claimed, *sessions))
    fleet[liar.name].start()
    wait_for("the liar's sessions", lambda: fleet[liar.name].established() == 3)
    fleet.wait_established()
    wait_for("the liar's own block", lambda: len(one.space.routes("proto", "bird")) == 3)

    # node1 refuses the liar's routes inside node1's block, logs each of them, and still announces its block.
    assert f"blackhole {one.block} proto 179" in one.space.routes()
    assert one.space.routes("proto", "bird") == [
        "10.244.2.0/26 via 10.10.1.12 dev vxlan.calico onlink",
        "10.244.3.0/26 via 10.10.2.13 dev vxlan.calico onlink",
        "10.244.4.0/26 via 10.10.2.14 dev vxlan.calico onlink",
    ]
    log = fleet[one.name].log.read_text()
    for prefix in ("10.244.1.0/26", "10.244.1.2/32", "10.244.1.0/27"):
        assert f"calico: refused {prefix} from {liar.address}: it is inside a block of this node" in log
    # On node1's session with the liar, all prefixes except the liar's own block count as refused.
    sessions = {session.description: session for session in status.observe(fleet[one.name].socket).sessions}
    assert [sessions[name].refused for name in ("node2", "node3", "node4")] == [0, 0, len(claimed) - 1]
    exported = fleet[one.name].birdc("show", "route", "export", "Mesh_10_10_1_12")
    assert re.findall(r"^(\d+\S+)", exported, re.MULTILINE) == [one.block]

    # Other nodes accept the liar's own block, but no single workload, whole pool or prefix outside the pools.
    def learned() -> list[str]:
        shown = fleet[two.name].birdc("show", "route", "where", "source = RTS_BGP", "primary")
        return sorted(re.findall(r"^(\d+\S+)", shown, re.MULTILINE))

    wait_for("the liar's own block on node2", lambda: len(learned()) == 3)
    assert learned() == [one.block, "10.244.3.0/26", liar.block]
