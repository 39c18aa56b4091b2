# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four nodes that peer only with two pure reflectors, one in each subnet."""

from __future__ import annotations

import time

import pytest

from tests.lab.measure import checks
from tests.lab.measure.checks import Fleet, Pool
from tests.lab.measure.observed import Runner, observe, send
from tests.lab.suite_converged import *  # noqa: F403
from tests.lab.suite_converged import NAMES, every_node

POOLS = (Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan-crosssubnet", nat_outgoing=True),)
WORKLOADS = {f"web-{number}": (f"node{number}", "default-ipv4-ippool") for number in (1, 2, 3, 4)}
REFLECTORS = ("node5", "node6")

every_reflector = pytest.mark.parametrize("name", REFLECTORS)


@every_node
def test_nodes_peer_with_both_reflectors_and_nobody_else(fleet: Fleet, name: str) -> None:
    assert set(fleet.nodes[name].sessions) == {"10.10.1.13", "10.10.2.13"}


@every_reflector
def test_reflectors_peer_with_all_nodes_and_each_other(fleet: Fleet, name: str) -> None:
    reflector = fleet.reflectors[name]
    assert len(reflector.sessions) == len(NAMES) + 1
    checks.check_sessions(fleet, reflector)


@every_node
def test_nodes_learn_each_block_from_both_reflectors(fleet: Fleet, name: str) -> None:
    learned = fleet.nodes[name].learned
    assert {block: len(protocols) for block, protocols in learned.items()} == dict.fromkeys(learned, 2)


@every_reflector
def test_reflectors_know_all_blocks(fleet: Fleet, name: str) -> None:
    checks.check_learned(fleet, fleet.reflectors[name])


@every_reflector
def test_reflectors_share_the_cluster_id(fleet: Fleet, name: str) -> None:
    config = fleet.reflectors[name].raw["bird_config"]
    assert config.count("rr client;") == len(NAMES)
    assert config.count("rr cluster id 244.0.0.1;") == len(NAMES)


@every_reflector
def test_pure_reflectors_have_no_part_in_forwarding(fleet: Fleet, name: str) -> None:
    reflector = fleet.reflectors[name]
    assert checks.pool_routes(fleet, reflector) == set()
    assert not [route for route in reflector.raw["tables"] if route.get("protocol") in ("bird", "calico")]
    assert "vxlan.calico" not in reflector.links
    assert not reflector.addresses.get("tunl0")
    assert not [link for link in reflector.links if link.startswith("cali")]
    assert not reflector.raw["namespaces"]
    assert not [chain for chain in reflector.chains if chain[1].startswith("cali-")]
    assert not reflector.ipsets
    checks.check_units(fleet, reflector)


def test_one_reflector_is_enough(fleet: Fleet, run: Runner) -> None:
    """The nodes keep their routes and reach each other while node5's sessions with them are disabled.

    All sessions are up again within 30 seconds after they are enabled. This test is the last one, because it takes the
    sessions down.
    """
    birdc = ("birdc", "-s", "/run/calico/bird.ctl")
    run("node5", [*birdc, "disable", '"Node_*"'])
    try:
        nodes = observe(run, NAMES)
        without = Fleet(fleet.pools, nodes, fleet.reflectors)
        for node in nodes.values():
            assert {address: session.state == "Established" for address, session in node.sessions.items()} == {
                "10.10.1.13": False,
                "10.10.2.13": True,
            }
            checks.check_routes(without, node)
        checks.check_pings(without, send(run, checks.pings(without)))
    finally:
        run("node5", [*birdc, "enable", '"Node_*"'])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        nodes = observe(run, NAMES)
        if all(session.state == "Established" for node in nodes.values() for session in node.sessions.values()):
            return
        time.sleep(1)
    raise AssertionError("the sessions with node5 do not come back")
