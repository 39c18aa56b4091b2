# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real BIRDs of Debian's releases in network namespaces.

The tests need root, and Debian's archive the first time.
"""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest

from tests.integration.bird.interop.interop import Interop, leave_blocks_to_bgp
from tests.integration.bird.sessions.sequence import Streams

from .daemons import Fleet
from .debian_bird import EACH_RELEASE, Build, debian_bird
from .network import Network, Node


@pytest.fixture(scope="session", params=EACH_RELEASE[:2])
def build(request: pytest.FixtureRequest) -> Build:
    """The BIRD of each release that hosts may run; a test for other releases parametrizes this indirectly."""
    return debian_bird(request.param)


@pytest.fixture(scope="module")
def network() -> t.Iterator[Network]:
    assert os.geteuid() == 0, "network namespaces need root"
    network = Network()
    yield network
    network.close()


@pytest.fixture
def fleet(build: Build, network: Network, tmp_path: pathlib.Path) -> t.Iterator[Fleet]:
    """The network's daemons, not started; after the test they are stopped, and their routes removed."""
    fleet = Fleet(build, tmp_path, network.nodes)
    yield fleet
    fleet.stop()
    for node in network.nodes:
        node.space.run("ip", "-4", "route", "flush", "proto", "bird")
        node.space.run("ip", "-6", "route", "flush", "proto", "bird")


@pytest.fixture(scope="module")
def router_of_another_make(network: Network) -> Network:
    """The network without the router's own routes to blocks, because its router will be FRR or GoBGP."""
    leave_blocks_to_bgp(network)
    return network


@pytest.fixture
def interop(router_of_another_make: Network, fleet: Fleet) -> Interop:
    return Interop(router_of_another_make, fleet)


@pytest.fixture
def streams(network: Network) -> t.Callable[..., Streams]:
    """A function that returns Streams between the workloads of all nodes, or of `nodes`, both ways.

    `family` is the IP version, 4 or 6, `size` that of the packets in bytes, and `rate` the number of packets a second
    from each workload to each other one.
    """

    def make(nodes: t.Optional[t.Sequence[Node]] = None, size: int = 64, rate: int = 500, family: int = 4) -> Streams:
        chosen = network.nodes if nodes is None else nodes
        ends = [(node.workload_space, node.workload if family == 4 else node.workload6) for node in chosen]
        return Streams(
            [(space, own, [other for dummy, other in ends if other != own]) for space, own in ends],
            {address: space for space, address in ends},
            rate=rate,
            size=size,
        )

    return make
