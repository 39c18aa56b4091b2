# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a state that the controller accepts from a node: the last values in them, and the first beyond them."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import node_info

from tests.unit.agent.node_under_test import with_state

POOL = {"name": "p", "cidr": "10.0.0.0/8", "block_size": 26, "encapsulation": "None"}
BIRD = {"router_id": "10.0.0.2", "address": "10.0.0.2", "as_number": 64512, "subnet": "10.0.0.0/24"}
PEER = {"name": "tor", "address": "10.0.0.1", "as_number": 65000, "kind": "external"}
BLOCK = {"cidr": "10.244.1.0/26", "pool": "p"}
#: The longest text of a CIDR: 39 characters of an IPv6 address, and 4 of its prefix length.
LONGEST = "fd00:1111:1111:1111:1111:1111:1111:1111/128"


def pools(*fields: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return {"pools": ...}, a part of a state, with one pool for each of `fields`, which replace those of POOL."""
    return {"pools": [{**POOL, **some} for some in fields]}


def bird(**fields: t.Any) -> dict[str, t.Any]:
    return {"bird": {**BIRD, **fields}}


def members(*probes: str) -> dict[str, t.Any]:
    """Return {"nodes": ...}, a part of a state, with one node, whose probe endpoint has these addresses."""
    return {"nodes": [{"name": "node2", "address": "10.10.1.12/24", "as_number": 64512, "probes": list(probes)}]}


def read(change: t.Mapping[str, t.Any]) -> str:
    """Return the error for the state of node1 with `change`, "" if it is accepted."""
    data = {**json.loads(json.dumps(with_state().to_dict())), **change}
    try:
        node_info.state("node1", {"state": data})
    except typed_json.Unreadable as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "change",
    [
        {"underlay_mtu": 68},
        {"underlay_mtu": 65535},
        pools(*({"name": str(number)} for number in range(1024))),
        pools({"name": "p" * 253}),
        *(pools({"encapsulation": one}) for one in ("IPIP", "IPIPCrossSubnet", "VXLAN", "VXLANCrossSubnet", "None")),
        *(pools({"cidr": "fd00::/48", "encapsulation": one}) for one in ("VXLAN", "VXLANCrossSubnet", "None")),
        {"ipam": {"generation": 0}},
        {"ipam": {"generation": 2**53}},
        {"ipam": {"blocks": [BLOCK] * 16_383, "spare_blocks": [BLOCK]}},
        {"ipam": {"tunnels": {"ipip": "10.0.0.1", "vxlan": "10.0.0.2", "vxlan6": "fd00::1"}}},
        {"ipam": {"probes": {f"pool-{number}": "10.0.0.1" for number in range(1024)}}},
        members("10.0.0.1", "fd00::1"),
        members(*["10.0.0.1"] * 1024),
        bird(blocks=[LONGEST]),
        bird(blocks=["10.244.1.0/26"] * 131_072),
        bird(peers=[PEER] * 16_384),
        bird(peers=[{**PEER, "node": "n" * 253}]),
        bird(pools=[{"cidr": "10.0.0.0/8", "device": one} for one in ("", "tunl0", "vxlan.calico")]),
        bird(pools=[{"cidr": "fd00::/48", "device": one} for one in ("", "vxlan-v6.calico")]),
        bird(pools=[{"cidr": "10.0.0.0/8", "device": one, "cross_subnet": True} for one in ("tunl0", "vxlan.calico")]),
        bird(pools=[{"cidr": "fd00::/48", "device": "vxlan-v6.calico", "cross_subnet": True}]),
        {"routes": [{"destination": "10.0.0.1/8", "device": "eth0"}]},  # it has no gateway, and is none of a block
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_state_up_to_its_limits_is_read(change: dict[str, t.Any]) -> None:
    """A state with the least or the greatest value, length or number of a thing is accepted."""
    assert read(change) == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"underlay_mtu": 67}, "underlay_mtu is 67, no MTU"),
        ({"underlay_mtu": 65536}, "underlay_mtu is 65536, no MTU"),
        (
            pools(*({"name": str(number)} for number in range(1025))),
            "pools is more than 1024, or two of one name",
        ),
        (pools({"name": "p" * 254}), "pools is 10.0.0.0/8, no pool"),
        (pools({"cidr": "10.0.0.1/8"}), "it is pools has 10.0.0.1/8, which is not a CIDR without host bits"),
        *(
            (pools({"cidr": "fd00::/48", "encapsulation": one}), f"pools p encapsulation is {one}, none that there is")
            for one in ("IPIP", "IPIPCrossSubnet", "GRE")
        ),
        (
            {"ipam": {"probes": {f"pool-{number}": "10.0.0.1" for number in range(1025)}}},
            "ipam.probes is more than 1024",
        ),
        ({"ipam": {"probes": {"lab": "10.0.0.1/32"}}}, "it is ipam.probes has 10.0.0.1/32, which is not an IP address"),
        (members(*["10.0.0.1"] * 1025), "nodes probes is more than 1024"),
        (members("10.0.0.1", ""), "nodes probes is '', no single address"),
        (members("10.0.0.1/32"), "nodes probes is 10.0.0.1/32, no single address"),
        (members("web; reboot"), "nodes probes is web; reboot, no single address"),
        ({"ipam": {"generation": 2**53 + 1}}, f"ipam.generation is {2**53 + 1}, no count"),
        ({"ipam": {"generation": True}}, "it is true is not of the type int"),
        (
            {"ipam": {"blocks": [BLOCK] * 16_384, "spare_blocks": [BLOCK]}},
            "ipam.blocks is more than 16384",
        ),
        (bird(peers=[{**PEER, "node": "n" * 254}]), f"bird.peers node is {'n' * 77}..., no name of a host"),
        (
            bird(pools=[{"cidr": "10.0.0.0/8", "device": "eth0"}]),
            "bird.pools device is eth0, no tunnel of an IPv4 pool's",
        ),
        (
            bird(pools=[{"cidr": "10.0.0.0/8", "device": "vxlan-v6.calico"}]),
            "bird.pools device is vxlan-v6.calico, no tunnel of an IPv4 pool's",
        ),
        *(
            (
                bird(pools=[{"cidr": "fd00::/48", "device": one}]),
                f"bird.pools device is {one}, no tunnel of an IPv6 pool's",
            )
            for one in ("tunl0", "vxlan.calico")
        ),
        (
            bird(pools=[{"cidr": "10.0.0.0/8", "cross_subnet": True}]),
            "bird.pools cross_subnet is true, and the pool has no tunnel",
        ),
        (bird(pools=[{"cidr": "10.0.0.1/8"}]), "bird.pools is 10.0.0.1/8, no pool"),
        (bird(subnet="junk"), "bird.subnet is junk, no subnet"),
        (bird(subnet6="fd00::1"), "bird.subnet6 is fd00::1, no subnet"),
        (bird(address="junk"), "bird.address is junk, no single address"),
        (bird(address6="fd00::/64"), "bird.address is fd00::/64, no single address"),
        (
            bird(backups=[{"destination": "10.0.0.0/26", "next_hop": "junk"}]),
            "bird.backups next_hop is junk, no single address",
        ),
        (bird(backups=[{"destination": "junk", "next_hop": ""}]), "bird.backups is junk, no block"),
        (
            {**bird(), "bird_routes": [{"destination": "10.0.0.0/26", "gateway": "", "next_hop": "junk"}]},
            "bird_routes next_hop is junk, no single address",
        ),
    ],
)
def test_a_state_beyond_a_limit_is_refused(change: dict[str, t.Any], words: str) -> None:
    """A state beyond one of its limits, or with a value that is none of a field's, is refused as a whole."""
    assert read(change) == words


@pytest.mark.parametrize(("answer", "words"), [([], "a list"), ("x", "x"), (7, "7")])
def test_a_state_is_a_table(answer: t.Any, words: str) -> None:
    """A state that is no table is refused, and an answer that is no table has no state."""
    with pytest.raises(typed_json.Unreadable) as caught:
        node_info.state("node1", {"state": answer})
    assert str(caught.value) == f"it is {words}, not a stored state"
    assert node_info.state("node1", answer) is None


@pytest.mark.parametrize("answer", [{}, {"state": None}, {"state": {}}])
def test_an_answer_without_a_state(answer: t.Any) -> None:
    """A node that was never configured has no state, which is no error."""
    assert node_info.state("node1", answer) is None
