# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expectations on a converged fleet, written without the collection's code and compared with its hosts.

The shapes are those of Calico's documents: routes as `ip route` prints them, devices, workloads, sessions. Tests of
molecule and of the lab share these checks. Each asserts about one node of `Fleet`, or about all of them.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..topology import OUTSIDE_ADDRESS, TORS, UNDERLAY_MTU
from .observed import Observed, Ping, Pong, Runner, send

HOST_MAC = "ee:ee:ee:ee:ee:ee"
FLEET_SET = "cali40all-hosts-net"
PROBE_INTERFACE = "caliprobe"
PROBE_NETNS = "calico-probe"


@dataclass(frozen=True)
class Pool:
    """An IP pool; `mode` is ipip, vxlan, either of these with -crosssubnet, or direct.

    `block_size` is the prefix length of its blocks.
    """

    name: str
    cidr: str
    mode: str
    block_size: int = 26
    nat_outgoing: bool = False

    @property
    def device(self) -> str:
        return {"ipip": "tunl0", "vxlan": "vxlan.calico", "direct": ""}[self.mode.partition("-")[0]]

    @property
    def mtu(self) -> int:
        return UNDERLAY_MTU - {"tunl0": 20, "vxlan.calico": 50, "": 0}[self.device]

    def holds(self, cidr: str) -> bool:
        own, given = ipaddress.ip_network(self.cidr), ipaddress.ip_network(cidr)
        return own.version == given.version and given.subnet_of(own)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Fleet:
    """The fleet to check: `nodes` hold workloads, `reflectors` only reflect.

    `bgp` False: nodes run no BIRD, and the collection writes the routes to other nodes. `external` is {node: addresses
    of routers outside the fleet that it peers with}. With `by_switches`, nodes peer within their rack and with its
    top-of-rack switches, which carry routes to other racks, and all have sessions of both IP versions.
    """

    pools: Sequence[Pool]
    nodes: Mapping[str, Observed]
    reflectors: Mapping[str, Observed] = field(default_factory=dict)
    bgp: bool = True
    external: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_switches: bool = False

    def pool(self, name: str) -> Pool:
        return next(pool for pool in self.pools if pool.name == name)

    def others(self, node: Observed) -> list[Observed]:
        return [other for other in self.nodes.values() if other.name != node.name]

    @property
    def devices(self) -> set[str]:
        return {pool.device for pool in self.pools} - {""}

    def tunnel_address(self, node: Observed, device: str) -> str:
        """Return the node's only address on `device`, without its prefix length; assert that there is exactly one."""
        addresses = node.addresses.get(device, [])
        assert len(addresses) == 1, f"{node.name}: {device} has {addresses or 'no address'}"
        return addresses[0].partition("/")[0]

    def tunnelled(self, node: Observed, other: Observed, pool: Pool) -> bool:
        """Return whether packets from `node` to workloads of `other` with addresses of `pool` are encapsulated."""
        return bool(pool.device) and not (pool.mode.endswith("crosssubnet") and node.node.rack == other.node.rack)


def vtep_mac(name: str) -> str:
    digest = hashlib.sha1(name.encode()).hexdigest()
    return "66:" + ":".join(digest[at : at + 2] for at in range(0, 10, 2))


# --- These functions check routes and blocks ------------------------------------------------------------------------


def expected_routes(fleet: Fleet, node: Observed) -> set[str]:
    """Return all IPv4 routes inside the pools that a node shall have, as `ip route` prints them.

    With `by_switches`, both switches of the rack are next hops to other racks. Without BGP, assert that each other node
    has one address on the tunnel device that a route needs.
    """
    hosts = {f"{workload['address']}/32": workload for workload in node.workloads}
    own = node.blocks if fleet.bgp else {**node.blocks, **node.spare_blocks}
    expected = {f"blackhole {_shown(block)} proto calico" for block in own if block not in hosts and ":" not in block}
    expected |= {
        f"{workload['address']} dev {workload['interface']} proto calico scope link" for workload in node.workloads
    }
    expected |= {
        f"{address} dev {PROBE_INTERFACE} proto calico scope link"
        for address in node.probes.values()
        if ":" not in address
    }
    writer = "bird" if fleet.bgp else "calico"
    for other in fleet.others(node):
        for block, name in (other.blocks if fleet.bgp else {**other.blocks, **other.spare_blocks}).items():
            pool = fleet.pool(name)
            if ":" in block:
                continue
            if fleet.tunnelled(node, other, pool):
                via = other.node.address if fleet.bgp else fleet.tunnel_address(other, pool.device)
                expected.add(f"{_shown(block)} via {via} dev {pool.device} proto {writer} onlink")
            elif fleet.by_switches and other.node.rack != node.node.rack:
                switches = [tor.address for tor in TORS.values() if tor.rack == node.node.rack]
                hops = " ".join(f"nexthop via {address} dev eth0 weight 1" for address in switches)
                expected.add(f"{_shown(block)} proto {writer} {hops}")
            else:
                via = other.node.address if other.node.rack == node.node.rack else node.node.gateway
                expected.add(f"{_shown(block)} via {via} dev eth0 proto {writer}")
    return expected


def _shown(cidr: str) -> str:
    return cidr[:-3] if cidr.endswith("/32") else cidr


def pool_routes(fleet: Fleet, node: Observed) -> set[str]:
    """Return the IPv4 routes inside the pools in the node's main table."""
    found = set()
    for line in node.routes:
        words = line.split()
        destination = words[1] if words[0] in ("blackhole", "unreachable", "prohibit", "throw") else words[0]
        if destination != "default" and any(pool.holds(destination) for pool in fleet.pools):
            found.add(line)
    return found


def check_routes(fleet: Fleet, node: Observed) -> None:
    expected, found = expected_routes(fleet, node), pool_routes(fleet, node)
    assert found == expected, f"{node.name} lacks {sorted(expected - found)} and has instead {sorted(found - expected)}"


def check_blocks(fleet: Fleet) -> None:
    """Assert that every block, also a spare one, lies in its pool, has the pool's size, and has one owner.

    Assert also that each workload's address lies in a block of its node that is not spare.
    """
    owners: dict[str, str] = {}
    for node in fleet.nodes.values():
        for block, name in {**node.blocks, **node.spare_blocks}.items():
            pool = fleet.pool(name)
            assert pool.holds(block) and block.endswith(f"/{pool.block_size}"), (node.name, block, pool)
            assert block not in owners, f"{block} belongs to {owners[block]} and to {node.name}"
            owners[block] = node.name
        for workload in node.workloads:
            blocks = [ipaddress.ip_network(block) for block in node.blocks]
            assert any(ipaddress.ip_address(workload["address"]) in block for block in blocks), (node.name, workload)


# --- These functions check devices and workloads --------------------------------------------------------------------


def check_devices(fleet: Fleet, node: Observed) -> None:
    present = {name for name in ("tunl0", "vxlan.calico") if node.addresses.get(name)}
    assert present == fleet.devices, f"{node.name} has addresses on {present}, wanted are {fleet.devices}"
    for device in fleet.devices:
        link = node.links[device]
        assert "UP" in link["flags"], link
        address = fleet.tunnel_address(node, device)
        assert node.addresses[device] == [f"{address}/32"], node.addresses[device]
        assert any(ipaddress.ip_address(address) in ipaddress.ip_network(block) for block in node.blocks), (
            f"{node.name}: {address} on {device} lies in none of its blocks {sorted(node.blocks)}"
        )
        assert address not in {workload["address"] for workload in node.workloads}
    if "tunl0" in fleet.devices:
        assert node.links["tunl0"]["mtu"] == UNDERLAY_MTU - 20
        assert node.links["tunl0"]["link_type"] == "ipip"
    if "vxlan.calico" in fleet.devices:
        link = node.links["vxlan.calico"]
        data = link["linkinfo"]["info_data"]
        assert (link["mtu"], link["address"]) == (UNDERLAY_MTU - 50, vtep_mac(node.name)), link
        assert (link["linkinfo"]["info_kind"], data["id"], data["port"]) == ("vxlan", 4096, 4789), data
        assert data["learning"] is False and data["local"] == node.node.address, data


def check_vteps(fleet: Fleet, node: Observed) -> None:
    """Assert that vxlan.calico has one permanent neighbour and one forwarding entry per other node, and no more.

    In a fleet without a VXLAN pool there must be none at all.
    """
    others = fleet.others(node) if "vxlan.calico" in fleet.devices else []
    neighbors = {
        (entry["dst"], entry["lladdr"]) for entry in node.raw["neighbors"] if entry.get("dev") == "vxlan.calico"
    }
    gateway = {
        other.name: other.node.address if fleet.bgp else fleet.tunnel_address(other, "vxlan.calico") for other in others
    }
    assert neighbors == {(gateway[other.name], vtep_mac(other.name)) for other in others}, (node.name, neighbors)
    entries = {
        (entry["mac"], entry.get("dst"))
        for entry in node.raw["fdb"]
        if entry.get("ifname") == "vxlan.calico" and "self" in entry["flags"]
    }
    assert entries == {(vtep_mac(other.name), other.node.address) for other in others}, (node.name, entries)


def check_workloads(fleet: Fleet, node: Observed) -> None:
    ours = {name for name in node.links if name.startswith("cali")}
    probe = {PROBE_INTERFACE} if node.probes else set()
    assert ours == {workload["interface"] for workload in node.workloads} | probe, (node.name, ours)
    for workload in node.workloads:
        digest = hashlib.sha1(f"{workload['namespace']}.{workload['name']}".encode()).hexdigest()
        assert workload["interface"] == f"cali{digest[:11]}", workload
        mtu = fleet.pool(workload["pool"]).mtu
        link = node.links[workload["interface"]]
        assert (link["address"], link["mtu"], link["linkinfo"]["info_kind"]) == (HOST_MAC, mtu, "veth"), link
        assert "UP" in link["flags"] and link["operstate"] == "UP", link
        inside = node.inside(workload["netns"])
        device = workload["peer_interface"]
        assert inside["addresses"][device] == [f"{workload['address']}/32"], (workload, inside["addresses"])
        assert inside["links"][device]["mtu"] == mtu, inside["links"][device]
        assert "UP" in inside["links"]["lo"]["flags"]
        assert set(inside["routes"]) == {
            f"default via 169.254.1.1 dev {device}",
            f"169.254.1.1 dev {device} scope link",
        }


def check_probe_endpoint(node: Observed) -> None:
    """Assert that the probe endpoint has an address of its own in the node's blocks of each pool that it names.

    Assert also that its namespace has these IPv4 addresses and no others.
    """
    taken = {workload["address"] for workload in node.workloads}
    taken |= {cidr.partition("/")[0] for cidrs in node.addresses.values() for cidr in cidrs}
    for pool, address in node.probes.items():
        own = [ipaddress.ip_network(block) for block, name in node.blocks.items() if name == pool]
        assert any(ipaddress.ip_address(address) in block for block in own), (node.name, pool, address, own)
        assert address not in taken, (node.name, pool, address)
    if node.probes:
        link = node.links[PROBE_INTERFACE]
        assert "UP" in link["flags"] and (link["address"], link["linkinfo"]["info_kind"]) == (HOST_MAC, "veth"), link
        inside = node.inside(PROBE_NETNS)["addresses"]
        found = {cidr for device, cidrs in inside.items() if device != "lo" for cidr in cidrs}
        assert found == {f"{address}/32" for address in node.probes.values() if ":" not in address}, (node.name, inside)


# --- the host -------------------------------------------------------------------------------------------------------


def check_sysctls(fleet: Fleet, node: Observed) -> None:
    expected = {"ip_forward": "1", "conf/eth0/rp_filter": "2"}
    expected |= {f"conf/{device}/rp_filter": "2" for device in fleet.devices}
    for workload in node.workloads:
        name = workload["interface"]
        expected |= {f"conf/{name}/proxy_arp": "1", f"conf/{name}/forwarding": "1", f"neigh/{name}/proxy_delay": "0"}
        expected[f"conf/{name}/rp_filter"] = "1"
    assert {key: node.sysctl(key) for key in expected} == expected, node.name


def check_iptables(fleet: Fleet, node: Observed) -> None:
    wanted: dict[tuple[str, str], str] = {}
    if fleet.devices:
        wanted["filter", "INPUT"] = "cali-INPUT"
        members = {other.node.address for other in (*fleet.nodes.values(), *fleet.reflectors.values())}
        assert node.ipsets.get(FLEET_SET) == members, (node.name, node.ipsets)
        rules = node.chains["filter", "cali-INPUT"]
        for device, match in (("tunl0", r"-p (4|ipencap) "), ("vxlan.calico", r"-p udp .*--dport 4789 ")):
            mine = [rule for rule in rules if re.search(match, rule)]
            if device in fleet.devices:
                assert len(mine) == 2 and FLEET_SET in mine[0], (node.name, rules)
                assert mine[0].endswith("-j ACCEPT") and mine[1].endswith("-j DROP"), mine
            else:
                assert not mine, (node.name, mine)
    if fleet.devices or any(pool.nat_outgoing for pool in fleet.pools):
        wanted["nat", "POSTROUTING"] = "cali-POSTROUTING"
    for place, target in wanted.items():
        assert node.chains[place] and node.chains[place][0].endswith(f"-j {target}"), (node.name, node.chains[place])
    outgoing = node.chains.get(("nat", "cali-nat-outgoing"), [])
    hidden = re.findall(r"^-s (\S+) .*-j MASQUERADE", "\n".join(outgoing), re.MULTILINE)
    assert set(hidden) == {pool.cidr for pool in fleet.pools if pool.nat_outgoing}, (node.name, outgoing)
    for (table, chain), rules in node.chains.items():
        for rule in rules:
            if chain.startswith("cali-"):
                # No comment begins with "cali:", because Calico takes rules with such a comment for its own.
                assert re.search(r'--comment "?host-routing:[\w-]{16}', rule), (node.name, table, chain, rule)
                assert '"cali:' not in rule and " cali:" not in rule


def check_units(fleet: Fleet, node: Observed) -> None:
    units = node.raw["units"]
    for boot in ("calico-firewall.service", "calico-node-state.service"):
        assert units[boot]["UnitFileState"] == "enabled", units
    agent = units["calico-agent.service"]
    if node.name in fleet.nodes:
        assert (agent["UnitFileState"], agent["ActiveState"], agent["NRestarts"]) == ("enabled", "active", "0"), units
    else:
        # A pure reflector has no workloads to manage.
        assert agent.get("UnitFileState") in ("disabled", "") and agent["ActiveState"] == "inactive", units
    bird = units["calico-bird.service"]
    if fleet.bgp:
        assert (bird["UnitFileState"], bird["ActiveState"], bird["NRestarts"]) == ("enabled", "active", "0"), units
        assert len(node.raw["bird_processes"]) == 1
    else:
        assert bird.get("UnitFileState") in ("disabled", "") and bird["ActiveState"] == "inactive", units
        assert node.raw["bird_processes"] == [], f"{node.name} runs a BIRD although BGP is disabled"
    # Debian's own service never starts: it would take the port and use its example configuration.
    assert units["bird.service"]["ActiveState"] == "inactive", units
    assert units["bird.service"]["UnitFileState"] in ("masked", "disabled", ""), units


def check_host(fleet: Fleet, node: Observed) -> None:
    """Assert that a node that is no reflector has the right routes, devices, workloads, sysctls, rules and units.

    Blocks, BGP sessions and what BIRD has learned are not checked.
    """
    check_routes(fleet, node)
    check_devices(fleet, node)
    check_vteps(fleet, node)
    check_workloads(fleet, node)
    check_probe_endpoint(node)
    check_sysctls(fleet, node)
    check_iptables(fleet, node)
    check_units(fleet, node)


# --- BGP ------------------------------------------------------------------------------------------------------------


def expected_peers(fleet: Fleet, node: Observed) -> set[str]:
    if fleet.reflectors:
        chosen = [*fleet.reflectors.values(), *(fleet.nodes.values() if node.name in fleet.reflectors else ())]
    else:
        chosen = list(fleet.nodes.values())
    if fleet.by_switches:
        hosts = [other.node for other in chosen if other.name != node.name]
        near = [one for one in (*TORS.values(), *hosts) if one.rack == node.node.rack]
        return {address for one in near for address in (one.address, one.address6)}
    return {other.node.address for other in chosen if other.name != node.name} | set(fleet.external.get(node.name, ()))


def check_sessions(fleet: Fleet, node: Observed) -> None:
    assert set(node.sessions) == expected_peers(fleet, node), (node.name, sorted(node.sessions))
    for session in node.sessions.values():
        assert session.state == "Established", (node.name, session)
        assert session.graceful_restart, f"{node.name}: {session.name} did not negotiate graceful restart"


def check_passive_sides(fleet: Fleet) -> None:
    """Assert that exactly one side of each session between members of the fleet is passive.

    Raise KeyError for a session that only one of its members has.
    """
    members = {**fleet.nodes, **fleet.reflectors}
    by_address = {member.node.address: member for member in members.values()}
    for member in members.values():
        for address, session in member.sessions.items():
            if address in by_address:
                back = by_address[address].sessions[member.node.address]
                assert session.passive != back.passive, (member.name, session, back)


def check_learned(fleet: Fleet, node: Observed) -> None:
    """Assert that BIRD has learned exactly the other nodes' blocks, without spare ones."""
    own = node.blocks if node.name in fleet.nodes else {}
    expected = {
        block for other in fleet.nodes.values() if other.name != node.name for block in other.blocks if block not in own
    }
    assert set(node.learned) == expected, (
        f"{node.name} was not told of {sorted(expected - set(node.learned))}, "
        f"and was told of {sorted(set(node.learned) - expected)}"
    )


# --- packets --------------------------------------------------------------------------------------------------------


def pings(fleet: Fleet, full_size: bool = True) -> list[Ping]:
    """Return the pings to try: between all workloads, both ways, and from each node itself to all workloads.

    With `full_size`, packets have the size of the smaller MTU of both workloads' pools; those from a node itself have
    the MTU of the target's pool. Otherwise the size is ping's default.
    """
    workloads = [(node, workload) for node in fleet.nodes.values() for workload in node.workloads]
    found = []
    for _, target in workloads:
        mtu = fleet.pool(target["pool"]).mtu
        for node, source in workloads:
            if source is not target:
                size = min(mtu, fleet.pool(source["pool"]).mtu)
                found.append(Ping(node.name, source["netns"], target["address"], size if full_size else None))
        found += [Ping(node.name, None, target["address"], mtu if full_size else None) for node in fleet.nodes.values()]
    return found


def pings_to_probes(fleet: Fleet) -> list[Ping]:
    """Return a ping to each probe address from each other probe endpoint, answered, and from each workload, dropped."""
    found = []
    for target in fleet.nodes.values():
        for address in target.probes.values():
            found += [Ping(node.name, PROBE_NETNS, address) for node in fleet.others(target)]
            found += [
                Ping(node.name, workload["netns"], address, answer=False)
                for node in fleet.nodes.values()
                for workload in node.workloads
            ]
    return found


def check_pings(fleet: Fleet, pongs: Iterable[Pong]) -> None:
    failed = [pong for pong in pongs if pong.received != pong.ping.answer]
    assert not failed, (
        "\n".join(
            f"{pong.ping} {'answered' if pong.received else 'did not answer'}: {pong.said.strip()}"
            for pong in failed[:5]
        )
        + f"\n{len(failed)} in all"
    )


def check_ttls(fleet: Fleet, pongs: Iterable[Pong]) -> None:
    """Assert that all pings between workloads got a reply with the right TTL; all other pings are left out.

    Each node on the way decrements the TTL, which is 64 at first. Between racks, the router or both switches do so if
    no tunnel hides the packet.
    """
    owner = {workload["address"]: (node, workload) for node in fleet.nodes.values() for workload in node.workloads}
    by_netns = {(node.name, workload["netns"]): workload for node, workload in owner.values()}
    for pong in pongs:
        if pong.ping.netns is None or pong.ping.address not in owner:
            continue
        source, (target, workload) = fleet.nodes[pong.ping.source], owner[pong.ping.address]
        # The TTL is the reply's, which takes the route of the pool of the workload that pinged.
        pool = fleet.pool(by_netns[source.name, pong.ping.netns]["pool"])
        hops = 1 if source is target else 2
        if source.node.rack != target.node.rack and not fleet.tunnelled(target, source, pool):
            hops += 2 if fleet.by_switches else 1
        assert pong.ttl == 64 - hops, f"{pong.ping} came back with ttl {pong.ttl}, not {64 - hops}: {workload}, {pool}"


def outgoing(fleet: Fleet) -> list[Ping]:
    """Return a ping from each workload to an address outside that has no route to any pool.

    The address answers only masqueraded packets: an answer is expected if the pool has nat_outgoing.
    """
    return [
        Ping(node.name, workload["netns"], OUTSIDE_ADDRESS, answer=fleet.pool(workload["pool"]).nat_outgoing)
        for node in fleet.nodes.values()
        for workload in node.workloads
    ]


def check_traffic(fleet: Fleet, run: Runner) -> None:
    pongs = send(run, pings(fleet))
    check_pings(fleet, pongs)
    check_ttls(fleet, pongs)
