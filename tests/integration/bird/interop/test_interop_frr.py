# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""FRR as the switch of two racks (eBGP) and as route reflector (iBGP), with passwords, BFD, IPv6 and communities."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.integration.bird.interop.interop import (
    AS_OF_RACK,
    COMMUNITIES,
    GATEWAYS,
    PASSWORD,
    TOR_AS,
    Interop,
    birds,
    oldest_and_newest,
    peers,
)
from tests.integration.bird.interop.other_makes import Frr
from tests.integration.bird.network import Network, wait_for

pytestmark = pytest.mark.root


@pytest.fixture
def frr(network: Network, tmp_path: pathlib.Path) -> t.Iterator[Frr]:
    made = Frr(network.router, tmp_path / "frr")
    yield made
    made.stop()
    network.router.run("ip", "nexthop", "flush")  # removes all nexthop objects, and with them the routes that use them


def configuration(
    network: Network,
    own_as: int,
    as_of_rack: t.Mapping[int, int],
    *options: str,
    policy: str = "",
    password: str = PASSWORD,
    also: str = "",
) -> str:
    """Return the text of bgpd's configuration, with node1 and node3 as neighbors by both IP versions.

    `own_as` is bgpd's AS number, `as_of_rack` has the nodes'. `options` follow each `neighbor ADDRESS`, `policy` does
    so inside its address family. `also` is the end of the text.
    """
    lines = [f"router bgp {own_as}", " bgp router-id 10.10.1.1", " no bgp default ipv4-unicast"]
    lines += [" no bgp ebgp-requires-policy", " bgp graceful-restart"]
    families: dict[str, list[str]] = {"ipv4": [], "ipv6": []}
    for node in (network.nodes[0], network.nodes[2]):
        for family, address in (("ipv4", node.address), ("ipv6", node.address6)):
            lines.append(f" neighbor {address} remote-as {as_of_rack[node.rack]}")
            lines += [f" neighbor {address} {option}" for option in (f"password {password}", *options)]
            families[family] += [
                f"  neighbor {address} activate",
                *([f"  neighbor {address} {policy}"] if policy else []),
            ]
    for family, own in families.items():
        lines += [f" address-family {family} unicast", *own, " exit-address-family"]
    return "\n".join(lines) + f"\n{also}\n"


FAST = {"minRx": 100, "minTx": 100, "multiplier": 3}


@oldest_and_newest
def test_frr_as_the_switch_of_each_rack_exchanges_routes(interop: Interop, frr: Frr, network: Network) -> None:
    one, three = interop.one, interop.three
    marks = "route-map marked permit 10\n set community 65001:7 additive"
    frr.start(configuration(network, TOR_AS, AS_OF_RACK, "bfd 3 100 100", policy="route-map marked out", also=marks))
    interop.start(birds(network, "direct", AS_OF_RACK, bgp_peers=peers(TOR_AS, bfd=FAST), **COMMUNITIES))
    interop.established()

    # FRR has the nodes' blocks with their communities. Each node has the other node's block from FRR.
    for node in (one, three):
        wait_for(f"{node.block} at FRR", lambda n=node: frr.communities(n.block))
        assert frr.communities(node.block) == ["64512:100", "64512:1:2"]
        wait_for(f"{node.block6} at FRR", lambda n=node: frr.communities(n.block6) == ["64512:6"])
    for node, other in ((one, three), (three, one)):
        gateway = GATEWAYS[node.rack]
        wait_for("the route", lambda n=node, o=other: interop.kernel_route(n, o.block))
        assert interop.kernel_route(node, other.block) == f"{other.block} via {gateway} dev eth0"
        wait_for("the route", lambda n=node, o=other: interop.kernel_route(n, o.block6))
        assert f"{other.block6} via " in interop.kernel_route(node, other.block6)
        shown = interop.fleet[node.name].birdc("show", "route", other.block, "all")
        assert f"path: {TOR_AS} {AS_OF_RACK[other.rack]}" in shown
        assert "(65001,7)" in shown and "(64512,100)" in shown
    wait_for("workloads reach each other", lambda: interop.reaches(one, three) and interop.reaches(three, one))

    # When a node drops all packets, BFD has its routes withdrawn before the hold time of 90 s ends.
    sessions = wait_for("BFD", lambda: (s := frr.ask("bfdd", "show bfd peers")) and up(s) >= 4 and s)
    assert {session["peer"] for session in sessions} >= {one.address, three.address, one.address6, three.address6}
    three.space.run("iptables", "-I", "INPUT", "-j", "DROP")
    try:
        wait_for("withdrawn", lambda: not interop.kernel_route(one, three.block))
        wait_for("said", lambda: interop.why(three, "Node_10_10_2_1").startswith("BFD heard nothing of the peer"))
    finally:
        three.space.run("iptables", "-D", "INPUT", "-j", "DROP")
    interop.established()


def up(sessions: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    return sum(session["status"] == "up" for session in sessions)


@oldest_and_newest
def test_frr_as_route_reflector_reflects_routes(interop: Interop, frr: Frr, network: Network) -> None:
    one, three = interop.one, interop.three
    same = {1: 64512, 2: 64512}
    frr.start(configuration(network, 64512, same, policy="route-reflector-client"))
    interop.start(birds(network, "vxlan", same, bgp_peers=peers(64512)))
    interop.established()
    for node, other in ((one, three), (three, one)):
        interop.reflected(node, other)
    wait_for("workloads reach each other", lambda: interop.reaches(one, three) and interop.reaches(three, one))


@pytest.mark.parametrize("build", ["bookworm"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": "another"}, "most likely the passwords differ: the kernel just dropped "),
        ({"as_of_rack": {1: 64599, 2: 64599}}, "the peer refuses AS 6451"),
        ({"own_as": 65077}, "the peer is in another AS than 65001. "),
        # FRR's kernel drops packets with a TTL below 255, so the node names TTL security among the reasons of silence.
        ({"options": ("ttl-security hops 1",)}, "TTL security there and not here"),
    ],
    ids=["password", "AS of the nodes", "AS of the switch", "TTL security"],
)
def test_a_session_that_frr_refuses_names_its_reason(
    interop: Interop, frr: Frr, network: Network, changes: dict[str, t.Any], said: str
) -> None:
    own_as, as_of_rack = changes.get("own_as", TOR_AS), changes.get("as_of_rack", AS_OF_RACK)
    password = changes.get("password", PASSWORD)
    frr.start(configuration(network, own_as, as_of_rack, *changes.get("options", ()), password=password))
    interop.start(birds(network, "direct", AS_OF_RACK, bgp_peers=peers(TOR_AS, holdTime=9, keepaliveTime=3)))
    print(f"FRR: {interop.refused_is_said(said)}")
