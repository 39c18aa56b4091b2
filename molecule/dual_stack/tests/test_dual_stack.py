# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""inventories/dual-stack: the IPv6 objects on each host and in each workload, and packets of both families."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure import checks
from tests.lab.measure.checks import Fleet
from tests.lab.measure.observed import Observed
from tests.lab.suite_converged import (
    NAMES,
    every_node,
    test_probe_endpoints_answer_each_other_and_no_workload,  # noqa: F401
    test_the_probe_endpoint_has_an_address_of_each_pool_of_its_node,  # noqa: F401
)
from tests.lab.topology import NODES, OUTSIDE_ADDRESS, OUTSIDE_NET_IPV6, UNDERLAY_MTU

POOLS = (
    checks.Pool("overlay-ipv4", "10.244.0.0/17", "vxlan", nat_outgoing=True),
    checks.Pool("overlay-ipv6", "fd00:10:244::/64", "vxlan", 122, nat_outgoing=True),
    checks.Pool("plain-ipv4", "10.244.128.0/17", "direct"),
    checks.Pool("plain-ipv6", "fd00:10:244:8000::/64", "direct", 122),
)
#: The workloads, as {name: (node, pools)}.
WORKLOADS = {
    "web-1": ("node1", {"overlay-ipv4", "overlay-ipv6"}),
    "web-2": ("node3", {"overlay-ipv4", "overlay-ipv6"}),
    "edge-1": ("node2", {"plain-ipv4", "plain-ipv6"}),
    "edge-2": ("node4", {"plain-ipv4", "plain-ipv6"}),
    "legacy-1": ("node1", {"overlay-ipv4"}),
    "new-1": ("node4", {"overlay-ipv6"}),
}
#: {pool: bytes that its encapsulation adds to a packet}. VXLAN adds 50 over IPv4 and 70 over IPv6.
OVERHEAD = {"overlay-ipv4": 50, "overlay-ipv6": 70, "plain-ipv4": 0, "plain-ipv6": 0}

every_workload = pytest.mark.parametrize("name", WORKLOADS)


@dataclass(frozen=True)
class Workload:
    name: str
    node: str
    addresses: Mapping[str, str]  # {pool: address}
    interface: str

    @property
    def mtu(self) -> int:
        return UNDERLAY_MTU - max(OVERHEAD[pool] for pool in self.addresses)


@pytest.fixture(scope="module")
def found(fleet: Fleet) -> dict[str, Workload]:
    def addresses(entry: dict) -> dict[str, str]:
        both = {entry["pool"]: entry["address"], entry["pool6"]: entry["address6"]}
        return {pool: address for pool, address in both.items() if address}

    return {
        entry["name"]: Workload(entry["name"], node.name, addresses(entry), entry["interface"])
        for node in fleet.nodes.values()
        for entry in node.workloads
    }


def test_workloads_have_an_address_of_each_family_they_ask_for(found: dict[str, Workload]) -> None:
    assert {name: (one.node, set(one.addresses)) for name, one in found.items()} == WORKLOADS


def test_each_block_has_one_owner(fleet: Fleet) -> None:
    owners = [(block, pool) for node in fleet.nodes.values() for block, pool in node.blocks.items()]
    assert len(owners) == len(set(owners))
    for block, pool in owners:
        assert fleet.pool(pool).holds(block) and block.endswith(f"/{fleet.pool(pool).block_size}"), (block, pool)


@every_node
def test_sessions_of_both_families_stand(fleet: Fleet, name: str) -> None:
    own, sessions = NODES[name], fleet.nodes[name].sessions
    others = [NODES[other] for other in NAMES if other != name]
    expected = {address for other in others for address in (other.address, other.address6)}
    assert set(sessions) == expected | {own.gateway, own.gateway6}
    assert {session.state for session in sessions.values()} == {"Established"}


def routes(lab: BaseLab, node: str, family: int, pools: list[checks.Pool]) -> set[str]:
    """Return the node's routes of one IP version inside the pools, as `ip route` prints them, without the kernel's own.

    Default metric and preference, scope link and dev lo are left out of the text. Raise CommandFailed if `ip` fails.
    """
    ranges = [ipaddress.ip_network(pool.cidr) for pool in pools]
    kept = set()
    for line in lab.exec(node, ["ip", f"-{family}", "route", "show"]).stdout.splitlines():
        destination = re.sub(r"^blackhole ", "", line).split()[0]
        if destination == "default" or "proto kernel" in line:
            continue
        if any(ipaddress.ip_network(destination).subnet_of(one) for one in ranges):  # type: ignore[arg-type]
            kept.add(re.sub(r" (metric 1024|pref medium|scope link|dev lo(?= proto))", "", line.strip()))
    return kept


@pytest.mark.parametrize("family", [4, 6])
@every_node
def test_routes_of_each_family(fleet: Fleet, lab: BaseLab, found: dict[str, Workload], name: str, family: int) -> None:
    own = NODES[name]
    expected = set()
    for node in fleet.nodes.values():
        for block, pool_name in node.blocks.items():
            pool = fleet.pool(pool_name)
            if (":" in block) != (family == 6):
                continue
            other = NODES[node.name]
            if node.name == name:
                expected.add(f"blackhole {block} proto calico")
            elif pool.device:
                expected.add(f"{block} {tunnelled(node, family)} proto bird onlink")
            elif other.rack == own.rack:
                expected.add(f"{block} via {other.address6 if family == 6 else other.address} dev eth0 proto bird")
            else:
                expected.add(f"{block} via {own.gateway6 if family == 6 else own.gateway} dev eth0 proto bird")
    for one in found.values():
        if one.node == name:
            for address in one.addresses.values():
                if (":" in address) == (family == 6):
                    expected.add(f"{address} dev {one.interface} proto calico")
    for address in fleet.nodes[name].probes.values():
        if (":" in address) == (family == 6):
            expected.add(f"{address} dev {checks.PROBE_INTERFACE} proto calico")
    pools = [pool for pool in POOLS if (":" in pool.cidr) == (family == 6)]
    assert routes(lab, name, family, pools) == expected


def tunnelled(node: Observed, family: int) -> str:
    if family == 4:
        return f"via {node.node.address} dev vxlan.calico"
    mac = checks.vtep_mac(node.name).replace(":", "")
    interface = int(mac[:6] + "fffe" + mac[6:], 16) ^ (2 << 56)  # the MAC as an EUI-64 (RFC 4291, appendix A)
    return f"via {ipaddress.IPv6Address((0xFE80 << 112) + interface)} dev vxlan-v6.calico"


@every_node
def test_the_tunnel_of_ipv6(lab: BaseLab, name: str) -> None:
    (link,) = lab.json(name, ["ip", "-j", "-d", "link", "show", "vxlan-v6.calico"])
    data = link["linkinfo"]["info_data"]
    assert (link["mtu"], link["address"]) == (UNDERLAY_MTU - 70, checks.vtep_mac(name))
    assert (data["id"], data["port"], data["local6"], data["learning"]) == (4096, 4789, NODES[name].address6, False)


@every_workload
def test_inside_a_workload(lab: BaseLab, found: dict[str, Workload], name: str) -> None:
    one = found[name]
    addresses = lab.json(one.node, ["ip", "-j", "address", "show", "scope", "global"], netns=name)
    inside = {entry["local"] for link in addresses for entry in link.get("addr_info", ()) if entry}
    assert inside == set(one.addresses.values())
    (link,) = [link for link in lab.json(one.node, ["ip", "-j", "link"], netns=name) if link["ifname"] != "lo"]
    assert link["mtu"] == one.mtu
    gateways = set()
    for family in (4, 6):
        for route in lab.json(one.node, ["ip", f"-{family}", "-j", "route", "show", "default"], netns=name):
            gateways.add(route["gateway"])
    wanted = {"fe80::ecee:eeff:feee:eeee" if ":" in address else "169.254.1.1" for address in one.addresses.values()}
    assert gateways == wanted


def ping(lab: BaseLab, node: str, netns: str | None, address: str, size: int = 84) -> bool:
    """Return whether `address` answers at least one of two pings from the namespace `netns`, or from the host if None.

    Each answer may take 2 seconds. `size` is the size of the whole IP packet in bytes, which must not be fragmented.
    """
    payload = size - (48 if ":" in address else 28)
    words = ["ping", "-q", "-c", "2", "-i", "0.2", "-W", "2", "-M", "do", "-s", str(payload), address]
    return lab.exec(node, words, netns=netns, check=False).returncode == 0


def test_everybody_reaches_everybody_of_its_family_at_full_size(lab: BaseLab, found: dict[str, Workload]) -> None:
    wanted = [
        (source.node, source.name, address, min(source.mtu, target.mtu))
        for source in found.values()
        for target in found.values()
        for address in target.addresses.values()
        if source is not target and any((":" in address) == (":" in own) for own in source.addresses.values())
    ]
    hosts = [
        (node, None, address, target.mtu)
        for node in NAMES
        for target in found.values()
        for address in target.addresses.values()
    ]
    # Each family has five workloads. Each of them reaches four others, and four hosts reach each.
    assert (len(wanted), len(hosts)) == (40, 40)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda question: ping(lab, *question), wanted + hosts))
    assert [question for question, answer in zip(wanted + hosts, answers) if not answer] == []


@every_workload
def test_outgoing_packets_are_masqueraded_where_the_pool_says_so(
    lab: BaseLab, found: dict[str, Workload], name: str
) -> None:
    """Only packets of pools with masquerading get an answer: the host outside has no route to a pool."""
    one = found[name]
    for pool, address in one.addresses.items():
        outside = f"{OUTSIDE_NET_IPV6}10" if ":" in address else OUTSIDE_ADDRESS
        assert ping(lab, one.node, name, outside) == pool.startswith("overlay"), (name, pool)


def test_the_router_was_told_of_blocks_alone(fleet: Fleet, lab: BaseLab) -> None:
    shown = lab.router_exec(["birdc", "-s", "/run/bird/bird.ctl", "show", "route"]).stdout
    told = set(re.findall(r"^((?:10\.244\.|fd00:10:244:)\S+)", shown, re.MULTILINE))
    assert told == {block for node in fleet.nodes.values() for block in node.blocks}


@every_node
def test_ipv6_is_forwarded_and_its_tunnel_packets_taken_from_the_fleet_alone(lab: BaseLab, name: str) -> None:
    forwarding = lab.exec(name, ["cat", "/proc/sys/net/ipv6/conf/all/forwarding"]).stdout
    assert forwarding == "1\n"
    members = lab.exec(name, ["ipset", "list", "cali60all-hosts-net"]).stdout.partition("Members:")[2].split()
    assert set(members) == {NODES[node].address6 for node in NAMES}
    rules = lab.exec(name, ["ip6tables", "-S", "cali-INPUT"]).stdout.splitlines()
    vxlan = [rule for rule in rules if "--dport 4789" in rule]
    assert len(vxlan) == 2 and "cali60all-hosts-net" in vxlan[0] and vxlan[1].endswith("-j DROP"), rules
