# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real BIRDs of Debian's releases in network namespaces of our own. Needs root, and Debian's archive the first time."""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest

from .daemons import Fleet
from .debian_bird import Build, debian_bird
from .network import Network, Node
from .sequence import Streams


@pytest.fixture(scope="session", params=["bookworm", "trixie"])
def build(request: pytest.FixtureRequest) -> Build:
    """Each BIRD that hosts may run; a test that asks for other releases parametrizes this indirectly."""
    return debian_bird(request.param)


@pytest.fixture(scope="module")
def network() -> t.Iterator[Network]:
    assert os.geteuid() == 0, "network namespaces need root"
    network = Network()
    yield network
    network.close()


@pytest.fixture
def fleet(build: Build, network: Network, tmp_path: pathlib.Path) -> t.Iterator[Fleet]:
    """The network's daemons, not started; afterwards stopped, and what they wrote is gone."""
    fleet = Fleet(build, tmp_path, network.nodes)
    yield fleet
    fleet.stop()
    for node in network.nodes:
        node.space.run("ip", "-4", "route", "flush", "proto", "bird")


@pytest.fixture
def streams(network: Network) -> t.Callable[..., Streams]:
    """Datagrams between the workloads of all nodes, both ways; `nodes` and `size` may be given."""

    def make(nodes: t.Optional[t.Sequence[Node]] = None, size: int = 64, rate: int = 500) -> Streams:
        chosen = network.nodes if nodes is None else nodes
        return Streams(
            [
                (node.workload_space, node.workload, [other.workload for other in chosen if other is not node])
                for node in chosen
            ],
            {node.workload: node.workload_space for node in chosen},
            rate=rate,
            size=size,
        )

    return make
