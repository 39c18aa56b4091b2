# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by root on another node through its BGP sessions: it announces a block that a third node has. Real BIRDs.

BGP does not say whose a block is, so that BIRD accepts such a route. The inventory says it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import PROTOCOL_BIRD
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.bird_routes import bird_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Pool

from tests.integration.bird.daemons import AS_NUMBER, Daemon, mesh, pool
from tests.integration.bird.debian_bird import debian_bird
from tests.integration.bird.interop import stranger
from tests.integration.bird.network import POOL, Network, wait_for

pytestmark = pytest.mark.root

VXLAN = "vxlan.calico"


@pytest.fixture(scope="module")
def network() -> t.Iterator[Network]:
    made = Network(5)
    yield made
    made.close()


class Claim:
    """A mesh of three nodes of one subnet: `owner` has a block, and `liar` announces it to `node`, beside its own."""

    def __init__(self, network: Network, folder: pathlib.Path, device: str) -> None:
        self.device = device
        self.owner, self.node, self.liar = nodes = network.nodes[2:]
        build = debian_bird("bookworm")
        self._birds = mesh(nodes, pool(device))
        self._daemons = {node.name: Daemon(build, node.space, folder, node.name) for node in nodes}
        self._birds[self.node.name] = dataclasses.replace(self._birds[self.node.name], merge_paths=True)
        for honest in (self.owner, self.node):
            self._daemons[honest.name].write(self._birds[honest.name])
        self._kernel = LinuxKernel(f"/proc/{self.node.space.pid}/ns/net")
        self._expected = tuple(
            BirdRoute(other.block, other.address, device, bool(device), other.name, next_hop=other.address)
            for other in (self.owner, self.liar)
        )

    def start(self, options: str = "") -> None:
        """Start all BIRDs, and wait until the node has both blocks. `options` are statements of the liar's session."""
        options = f"multihop; source address {self.liar.address}; {options}"
        session = stranger.neighbor("victim", self.node.address, AS_NUMBER, AS_NUMBER, options)
        says = [self.owner.block, self.liar.block]
        self._daemons[self.liar.name].config.write_text(stranger.configuration(self.liar, says, session))
        for daemon in self._daemons.values():
            daemon.start()
        wait_for("both blocks", lambda: self._routes().keys() == {self.owner.block, self.liar.block})

    def _routes(self) -> dict[str, set[str]]:
        """Return {destination: next hops} of the routes of the node's BIRD."""
        return {
            destination: {hop.gateway or "" for hop in attributes.next_hops}
            for destination, attributes in self._kernel.routes(protocol=PROTOCOL_BIRD, family=4)
        }

    def next_hops(self) -> set[str]:
        return self._routes()[self.owner.block]

    def stop_liar(self) -> None:
        self._daemons[self.liar.name].stop()

    def plan(self) -> list[str]:
        """Return the lines of a plan about the node's routes by BIRD."""
        node = self.node
        pools = (Pool("default-pool", POOL, 26, "None", True),)
        state = NodeState(
            node.name, f"{node.address}/24", pools=pools, bird=self._birds[node.name], bird_routes=self._expected
        )
        return [change.line() for change in bird_changes(self._kernel, state)]

    def by(self, address: str) -> str:
        return f"via {address} dev {self.device or 'eth0'}{' onlink' if self.device else ''}"

    def named(self, found: str) -> list[str]:
        """Return what a plan is to say of the owner's block, whose route in the kernel is `found`."""
        return [f"~ route    {self.owner.block}  {found}  ->  {self.by(self.owner.address)}    proto bird"]

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._kernel.close)
            for daemon in self._daemons.values():
                stack.callback(daemon.stop)
        self.node.space.run("ip", "-4", "route", "flush", "proto", "bird")


@pytest.fixture(params=[VXLAN, ""])
def claim(request: pytest.FixtureRequest, network: Network, tmp_path: pathlib.Path) -> t.Iterator[Claim]:
    made = Claim(network, tmp_path, request.param)
    yield made
    made.close()


def test_an_equal_path_to_another_nodes_block(claim: Claim) -> None:
    """Announce a third node's block, as good as that node does, to nodes that use equal paths.

    Gain: A share of the connections to that node's workloads, because these nodes use equal paths together.
    Precedent: RFC 7132, section 4.2 (false route origination).
    Closed: 0.3.0
    Result: BIRD uses both paths. Plan, status and run name the block, the wrong next hop and the right one.
    """
    claim.start()
    ends = (claim.owner.address, claim.liar.address)
    wait_for("both paths", lambda: claim.next_hops() == set(ends))
    assert claim.plan() == claim.named(" ".join(f"nexthop {claim.by(address)}" for address in ends))
    claim.stop_liar()
    wait_for("the owner's path alone", lambda: claim.next_hops() == {claim.owner.address})


def test_a_better_path_to_another_nodes_block(claim: Claim) -> None:
    """Announce a third node's block with a higher local preference than that node.

    Gain: All connections to that node's workloads.
    Precedent: RFC 7132, section 4.2 (false route origination).
    Closed: 0.3.0
    Result: BIRD uses this path. Plan, status and run name the block, the wrong next hop and the right one.
    """
    claim.start("default bgp_local_pref 200;")
    wait_for("the better path", lambda: claim.next_hops() == {claim.liar.address})
    assert claim.plan() == claim.named(claim.by(claim.liar.address))
