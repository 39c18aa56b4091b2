# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GoBGP as the switch of two racks (eBGP) and as route reflector (iBGP), with passwords, IPv6 and communities.

It writes no kernel routes, so the tests compare what it receives and announces, and send no packets.
"""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.integration.bird.interop.interop import (
    AS_OF_RACK,
    COMMUNITIES,
    PASSWORD,
    TOR_AS,
    Interop,
    birds,
    oldest_and_newest,
    peers,
)
from tests.integration.bird.interop.other_makes import GoBgp
from tests.integration.bird.network import Network, wait_for

pytestmark = pytest.mark.root


@pytest.fixture
def gobgp(network: Network, tmp_path: pathlib.Path) -> t.Iterator[GoBgp]:
    made = GoBgp(network.router, tmp_path / "gobgp")
    yield made
    made.stop()


def configuration(
    network: Network,
    own_as: int,
    as_of_rack: t.Mapping[int, int],
    more: str = "",
    password: str = PASSWORD,
) -> str:
    """Return GoBGP's configuration in TOML, with node1 and node3 as neighbors by both IP versions.

    `own_as` is GoBGP's AS number, `as_of_rack` has the nodes'. `more` is added to each neighbor.
    """
    parts = [f'[global.config]\nas = {own_as}\nrouter-id = "10.10.1.1"\n']
    for node in (network.nodes[0], network.nodes[2]):
        for family, address in ((4, node.address), (6, node.address6)):
            parts.append(
                f'[[neighbors]]\n[neighbors.config]\nneighbor-address = "{address}"\n'
                f'peer-as = {as_of_rack[node.rack]}\nauth-password = "{password}"\n{more}'
                f'[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = "ipv{family}-unicast"\n'
            )
    return "".join(parts)


@oldest_and_newest
def test_gobgp_as_the_switch_of_each_rack_exchanges_routes(interop: Interop, gobgp: GoBgp, network: Network) -> None:
    one, three = interop.one, interop.three
    gobgp.start(configuration(network, TOR_AS, AS_OF_RACK))
    interop.start(birds(network, "direct", AS_OF_RACK, bgp_peers=peers(TOR_AS), **COMMUNITIES))
    interop.established()

    def attributes(prefix: str) -> str:
        """Return the paths to a prefix with their attributes, as GoBGP prints them; "" if the command fails."""
        return gobgp.command("global", "rib", prefix, "-a", "ipv6" if ":" in prefix else "ipv4", check=False)

    for node in (one, three):
        wait_for(f"{node.block} at GoBGP", lambda n=node: gobgp.route(n.block))
        assert "{Communities: 64512:100}" in attributes(node.block)
        assert "{LargeCommunity: [ 64512:1:2]}" in attributes(node.block)
        wait_for(f"{node.block6} at GoBGP", lambda n=node: "64512:6" in attributes(n.block6))
    for node, other in ((one, three), (three, one)):
        wait_for("the route", lambda n=node, o=other: interop.kernel_route(n, o.block))
        assert interop.kernel_route(node, other.block) == f"{other.block} via {node.router} dev eth0"
        wait_for("the route", lambda n=node, o=other: interop.kernel_route(n, o.block6))
        assert interop.kernel_route(node, other.block6) == f"{other.block6} via {node.router6} dev eth0"
        shown = interop.fleet[node.name].birdc("show", "route", other.block, "all")
        assert f"path: {TOR_AS} {AS_OF_RACK[other.rack]}" in shown
        assert "(64512,100)" in shown and "(64512, 1, 2)" in shown
    # From a router a node accepts blocks inside the pools, and keeps their communities. It accepts no other prefix.
    gobgp.announce("10.244.200.0/26", "community", "65001:7")
    gobgp.announce("192.0.2.0/24")
    wait_for("a block of others", lambda: interop.kernel_route(one, "10.244.200.0/26"))
    assert "(65001,7)" in interop.fleet[one.name].birdc("show", "route", "10.244.200.0/26", "all")
    assert interop.kernel_route(one, "192.0.2.0/24") == ""


@oldest_and_newest
def test_gobgp_as_route_reflector_reflects_routes(interop: Interop, gobgp: GoBgp, network: Network) -> None:
    one, three = interop.one, interop.three
    same = {1: 64512, 2: 64512}
    reflecting = (
        '[neighbors.route-reflector.config]\nroute-reflector-client = true\nroute-reflector-cluster-id = "10.10.1.1"\n'
    )
    gobgp.start(configuration(network, 64512, same, reflecting))
    interop.start(birds(network, "vxlan", same, bgp_peers=peers(64512)))
    interop.established()
    for node, other in ((one, three), (three, one)):
        assert "cluster_list: 10.10.1.1" in interop.reflected(node, other)


TTL_SECURITY = "[neighbors.ttl-security.config]\nenabled = true\nttl-min = 255\n"


@pytest.mark.parametrize("build", ["bookworm"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": "another"}, "most likely the passwords differ: the kernel just dropped "),
        ({"as_of_rack": {1: 64599, 2: 64599}}, "the peer refuses AS 64512 of this node: "),
        ({"own_as": 65077}, "the peer is in another AS than 65001. "),
        ({"more": TTL_SECURITY}, "TTL security there and not here"),
    ],
    ids=["password", "AS of the nodes", "AS of the switch", "TTL security"],
)
def test_a_session_that_gobgp_refuses_names_its_reason(
    interop: Interop, gobgp: GoBgp, network: Network, changes: dict[str, t.Any], said: str
) -> None:
    gobgp.start(configuration(network, **{"own_as": TOR_AS, "as_of_rack": AS_OF_RACK, **changes}))
    interop.start(birds(network, "direct", AS_OF_RACK, bgp_peers=peers(TOR_AS, holdTime=9, keepaliveTime=3)))
    print(f"GoBGP: {interop.refused_is_said(said)}")
