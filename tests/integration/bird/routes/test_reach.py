# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lint's answer on which node learns which blocks (fleet/lint/reach.py), compared with BIRDs of the same fleet."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import reach

from tests.integration.bird.daemons import Fleet
from tests.integration.bird.network import Network, wait_for
from tests.unit.fleet.fleets import pool
from tests.unit.fleet.lint import networks

pytestmark = pytest.mark.root

ONE, OTHER = "244.0.0.1", "244.0.0.2"


def only(*names: str) -> str:
    return f"kubernetes.io/hostname in {{{', '.join(repr(name) for name in names)}}}"


def between(one: str, other: str, **fields: t.Any) -> dict[str, t.Any]:
    return {"name": f"{one}-{other}", "nodeSelector": only(one), "peerSelector": only(other), **fields}


def chain(*clusters: str) -> dict[str, t.Any]:
    """Return the variables of a fleet node1 - node2 - node3 - node4, each peering with the next.

    `clusters` are their cluster IDs in this order, "" for none.
    """
    own = {
        f"node{index}": {"calico_node_route_reflector_cluster_id": cluster}
        for index, cluster in enumerate(clusters, 1)
        if cluster
    }
    peers = [between(f"node{index}", f"node{index + 1}") for index in range(1, 4)]
    return {"own": own, "bgp_peers": peers, "bgp_node_to_node_mesh": False}


def racks(second: str) -> dict[str, t.Any]:
    """Return the variables of a fleet in which reflector node2 serves node1 and reflector node3 serves node4.

    `second` is node3's cluster ID. node2 has the default one.
    """
    return {
        "reflectors": {"node2": "", "node3": ""},
        "own": {
            "node2": {"calico_node_route_reflector_clients": only("node1")},
            "node3": {
                "calico_node_route_reflector_clients": only("node4"),
                "calico_node_route_reflector_cluster_id": second,
            },
        },
    }


@pytest.mark.parametrize("build", ["bookworm", "forky"], indirect=True)
@pytest.mark.parametrize(
    "shape",
    [
        racks(ONE),
        racks(OTHER),
        chain("", ONE, ONE, ""),
        chain("", ONE, OTHER, ""),
        chain("", ONE, "", ""),
        chain("", "", "", ""),
    ],
    ids=["racks-one-cluster", "racks", "chain-one-cluster", "chain", "chain-broken", "chain-of-nodes"],
)
def test_each_node_learns_the_blocks_that_the_lint_predicts(
    fleet: Fleet, network: Network, shape: dict[str, t.Any]
) -> None:
    addresses = {node.name: f"{node.address}/24" for node in network.nodes}
    reflectors = {name: addresses[name] for name in shape.get("reflectors", ())}
    given = networks.network(pool(), nodes=addresses, workloads=[], **{**shape, "reflectors": reflectors})
    bits = {name: 1 << index for index, name in enumerate(addresses)}
    heard = reach.heard_of(given, 4, bits)
    wanted = {name: {other for other in bits if heard[name] & bits[other]} for name in bits}
    birds = {}
    for node in network.nodes:
        bird = compiler.node_state(given.fleet, node.name).bird
        assert bird is not None
        birds[node.name] = dataclasses.replace(bird, blocks=(node.block,))
    fleet.start(birds)
    fleet.wait_established()

    def found() -> dict[str, set[str]]:
        shown = {name: fleet[name].birdc("show", "route") for name in birds}
        return {name: {node.name for node in network.nodes if node.block in shown[name]} for name in birds}

    wait_for("all that will come", lambda: all(found()[name] >= wanted[name] for name in wanted))
    assert found() == wanted
