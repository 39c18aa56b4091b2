# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The digest of a NodeState, its stored form, its placeholders, and the overhead of encapsulations."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import bird_state
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import errors, node_state
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    UNDERLAY,
    UNDERLAY_GATEWAY,
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
    overhead,
)

BLOCK = Block("10.244.1.0/26", "p")
STATE = NodeState("node1", "10.10.1.11/24", routes=(Route(BLOCK.cidr, "blackhole"),), ipam=NodeIpam(blocks=(BLOCK,)))


def test_the_digest_is_that_of_earlier_releases() -> None:
    """The digest is that of earlier releases, because nodes store it and other releases compare it."""
    assert STATE.digest == "e0ede3c76d4ecea39cf97df6c97f83d55d5c339ba477cbd80ae1d84dc5c67d58"


def test_the_digest_ignores_fields_that_are_not_written_to_the_node() -> None:
    for change in (
        {"plan": "7f3a91c0ffee"},
        {"phase": "flip"},
        {"bird_routes": (BirdRoute("10.244.2.0/26", "10.10.1.12"),)},
        {"ipam": dataclasses.replace(STATE.ipam, generation=7)},
    ):
        assert dataclasses.replace(STATE, **change).digest == STATE.digest, change
    for change in ({"node": "node2"}, {"routes": ()}, {"ipam": NodeIpam()}):
        assert dataclasses.replace(STATE, **change).digest != STATE.digest, change


DEFAULTS = [
    (bird_state.Bfd, {"min_rx": 100, "min_tx": 100, "multiplier": 5}),
    (
        bird_state.Bird,
        {
            "listen_port": 179,
            "workload_node": True,
            "graceful_restart_time": 120,
            "hold_time": 90,
            "keepalive_time": 30,
            "backups_lead": False,
            "strict_bind": False,
            "merge_paths": False,
        },
    ),
    (bird_state.BirdPeer, {"passive": False, "multihop": True, "family": 4}),
    (bird_state.BirdPool, {"cross_subnet": False, "export": True}),
    (bird_state.BirdRoute, {"onlink": False}),
    (FleetMember, {"reflector": False}),
    (node_state.Hook, {"last": False}),
    (node_state.NodeIpam, {"generation": 0}),
    (node_state.IptablesTable, {"family": 4}),
    (node_state.NodeState, {"underlay_mtu": 1500, "workload_source_spoofing": False}),
    (
        node_state.Pool,
        {"nat_outgoing": False, "disabled": False, "disable_bgp_export": False, "workload_mtu": 1500},
    ),
    (node_state.Route, {"onlink": False, "table": 254}),
    (node_state.RoutingRule, {"family": 4}),
    (node_state.VethEndpoint, {"netns_owned": True, "source_spoofing": False}),
]


@pytest.mark.parametrize(("kind", "defaults"), DEFAULTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_field_missing_in_a_stored_state_has_its_former_meaning(kind: type, defaults: dict[str, t.Any]) -> None:
    """Fields that an earlier release did not store have defaults that mean what that release did."""
    found = {field.name: field.default for field in dataclasses.fields(kind)}
    assert {name: found[name] for name in defaults} == defaults


@pytest.mark.parametrize(
    ("encapsulation", "four", "six"),
    [
        ("None", 0, 0),
        ("VXLAN", 50, 70),
        ("VXLANCrossSubnet", 50, 70),
        ("IPIP", 20, None),
        ("IPIPCrossSubnet", 20, None),
    ],
)
def test_bytes_that_an_encapsulation_adds(encapsulation: str, four: int, six: t.Optional[int]) -> None:
    assert overhead(encapsulation, "10.244.0.0/16") == four
    if six is not None:
        assert overhead(encapsulation, "fd00::/48") == six


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("short", "short"),
        ("", "''"),
        (True, "true"),
        (5, "5"),
        ("a" * 80, "a" * 80),
        ("a" * 81, "a" * 77 + "..."),
        ("/" + "a" * 90, "/" + "a" * 90),
    ],
)
def test_errors_show_values_short(value: t.Any, shown: str) -> None:
    assert errors.shown(value) == shown


NETWORKS = {
    "pools": lambda text: {"pools": (Pool("p", text, 26, "None"),)},
    "ipam.blocks": lambda text: {"ipam": NodeIpam(blocks=(Block(text, "p"),))},
    "ipam.spare_blocks": lambda text: {"ipam": NodeIpam(spare_blocks=(Block(text, "p"),))},
    "ipam.reservations": lambda text: {"ipam": NodeIpam(reservations=(text,))},
    "bird_routes": lambda text: {"bird_routes": (BirdRoute(text, "10.10.1.12"),)},
}
ADDRESSES = {
    "ipam.tunnels": lambda text: {"ipam": NodeIpam(tunnels={"ipip": text})},
    "ipam.workloads": lambda text: {"ipam": NodeIpam(workloads={"w": text})},
    "ipam.workloads6": lambda text: {"ipam": NodeIpam(workloads6={"w": text})},
}


@pytest.mark.parametrize("place", [*NETWORKS, *ADDRESSES])
def test_a_state_with_a_cidr_or_an_address_that_is_none_is_refused(place: str) -> None:
    network = place in NETWORKS
    change = (NETWORKS if network else ADDRESSES)[place]
    for good in ("10.244.0.0/26", "fd00::/122") if network else ("10.244.0.1", "fd00::1"):
        state = dataclasses.replace(STATE, **change(good))
        assert NodeState.from_dict(state.to_dict()) == state
    for bad in ("x", "10.0.0.0/33", "10.0.0.1/26", "" if network else "10.0.0.0/32", "10.0.0.1" if network else ""):
        with pytest.raises(ValueError) as error:
            NodeState.from_dict(dataclasses.replace(STATE, **change(bad)).to_dict())
        kind = "a CIDR without host bits" if network else "an IP address"
        assert str(error.value) == f"{place} has {errors.shown(bad)}, which is not {kind}"


def test_placeholders_of_the_underlay_are_replaced_route_by_route() -> None:
    """Placeholders in routes and sysctls are replaced by the device of their IP version and the given gateways.

    An empty IPv6 device means that of IPv4. A route whose gateway is not given is left out, and no other route.
    """
    state = dataclasses.replace(
        STATE,
        routes=(
            Route("10.1.0.0/26", "blackhole"),
            Route("10.2.0.0/26", device=UNDERLAY, gateway=UNDERLAY_GATEWAY.format("10.10.2.13")),
            Route("10.3.0.0/26", device=UNDERLAY, gateway=UNDERLAY_GATEWAY.format("10.10.2.14")),
            Route("10.4.0.0/26", device=UNDERLAY, gateway="10.10.1.12"),
            Route("10.5.0.0/26", device="tunl0", gateway=UNDERLAY_GATEWAY.format("10.10.2.14")),
            Route("fd00:1::/122", device=UNDERLAY, gateway="fe80::1"),
            Route("10.6.0.0/26", device="tunl0", gateway="10.10.1.12"),
        ),
        sysctls=(
            Sysctl("net/ipv4/ip_forward", "1"),
            Sysctl(f"net/ipv4/conf/{UNDERLAY}/rp_filter", "2"),
            Sysctl(f"net/ipv6/conf/{UNDERLAY}/forwarding", "1"),
        ),
    )
    assert state.underlay_gateways == ("10.10.2.13", "10.10.2.14")
    for device6 in ("", "eth6"):
        found = state.resolve_underlay("eth0", {"10.10.2.14": "10.10.1.1"}, device6)
        assert [(route.destination, route.device, route.gateway) for route in found.routes] == [
            ("10.1.0.0/26", state.routes[0].device, state.routes[0].gateway),
            ("10.3.0.0/26", "eth0", "10.10.1.1"),
            ("10.4.0.0/26", "eth0", "10.10.1.12"),
            ("10.5.0.0/26", "tunl0", "10.10.1.1"),
            ("fd00:1::/122", device6 or "eth0", "fe80::1"),
            ("10.6.0.0/26", "tunl0", "10.10.1.12"),
        ]
        assert [sysctl.key for sysctl in found.sysctls] == [
            "net/ipv4/ip_forward",
            "net/ipv4/conf/eth0/rp_filter",
            f"net/ipv6/conf/{device6 or 'eth0'}/forwarding",
        ]
    assert [route.destination for route in state.resolve_underlay("eth0").routes] == [
        "10.1.0.0/26",
        "10.4.0.0/26",
        "fd00:1::/122",
        "10.6.0.0/26",
    ]
