# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts with agents and a router between them, each in a network namespace."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import subprocess
import sys
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.inventory import HOSTS_TOO
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets.ip_sets import (
    ADDRESSES,
    PROBES,
    name_of,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    endpoint_sysctls,
    own_routes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_status
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import (
    PathDown,
    PathStatus,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_INTERFACE,
    PROBE_NETNS,
    Block,
    IpSet,
    NodeIpam,
    NodeState,
    Pool,
    Sysctl,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.host_under_test import HOST

#: The pools of IPv4: name and the beginning of its addresses. A block is below the number of its host.
POOLS4 = {"web": "10.244", "db": "10.245"}
SIX = "six"
#: All pools.
POOLS = (*POOLS4, SIX)


def probe_address(pool: str, host: int) -> str:
    return f"fd00:246:{host}::7" if pool == SIX else f"{POOLS4[pool]}.{host}.7"


def block(pool: str, host: int) -> str:
    return f"fd00:246:{host}::/122" if pool == SIX else f"{POOLS4[pool]}.{host}.0/29"


def underlay_address(pool: str, host: int, end: int) -> str:
    """Return the address of an end of a host's link: 1 is the router's, 2 the host's."""
    return f"fd77:{host}::{end}" if pool == SIX else f"10.77.{host}.{end}"


def state_of(host: int, nat: t.Optional[str] = None) -> NodeState:
    """Return the state of a host, 1 or 2, which tries a path of each pool.

    `nat` is the value of calico_nat_outgoing_exclusions, None for pools without natOutgoing.
    """
    own = {pool: probe_address(pool, host) for pool in POOLS}
    first, *further = (own[pool] for pool in POOLS4)
    endpoint = VethEndpoint(
        "probe",
        PROBE_INTERFACE,
        first,
        1500,
        "web",
        namespace="calico-system",
        netns=PROBE_NETNS,
        address6=own[SIX],
        pool6=SIX,
        further=tuple(further),
    )
    ipam = NodeIpam(1, tuple(Block(block(pool, host), pool) for pool in POOLS), probes=own)
    pools = (
        *(Pool(pool, f"{start}.0.0/16", 29, "None", bool(nat), workload_mtu=1500) for pool, start in POOLS4.items()),
        Pool(SIX, "fd00:246::/32", 122, "None", bool(nat), workload_mtu=1500),
    )
    probes = {4: [probe_address(pool, one) for pool in POOLS4 for one in (1, 2)]}
    probes[6] = [probe_address(SIX, one) for one in (1, 2)]
    members = tuple(
        FleetMember(
            f"node{one}",
            f"10.77.{one}.2/24",
            64512,
            address6=f"fd77:{one}::2/64",
            probes=tuple(probe_address(pool, one) for pool in POOLS),
        )
        for one in (1, 2)
    )
    excluded = pools if nat == HOSTS_TOO else ()
    sets = tuple(IpSet(name_of(version, PROBES), ADDRESSES, tuple(probes[version])) for version in (4, 6))
    return NodeState(
        node=f"node{host}",
        address=f"10.77.{host}.2/24",
        address6=f"fd77:{host}::2/64",
        plan="7f3a91",
        pools=pools,
        ipam=ipam,
        routes=own_routes(True, ipam, (endpoint,)),
        sysctls=(Sysctl("net/ipv4/ip_forward", "1"), *endpoint_sysctls(endpoint)),
        nodes=members,
        probe_endpoint=endpoint,
        ipsets=(*firewall.ipsets((), _bare(members), excluded=excluded), *sets),
        iptables=firewall.tables(pools, (), probed=(4, 6), excludes_hosts=bool(excluded)),
    )


def _bare(members: t.Iterable[FleetMember]) -> list[FleetMember]:
    """Return the members with addresses as fleets have them, without prefix lengths."""
    return [
        dataclasses.replace(one, address=one.address.partition("/")[0], address6=one.address6.partition("/")[0])
        for one in members
    ]


class Host:
    """One of the hosts. `run` runs a command in its namespace, `inside` in its probe endpoint's."""

    def __init__(self, number: int, daemon: Daemon) -> None:
        self.number = number
        self.name = f"node{number}"
        self.daemon = daemon

    def run(self, command: str) -> str:
        return _run(self.daemon.folder / "netns" / HOST, command)

    def inside(self, command: str) -> str:
        return _run(self.daemon.folder / "netns" / PROBE_NETNS, command)

    def paths(self) -> PathStatus:
        """Return what the agent says of its paths."""
        return path_status.decode(self.daemon.call("status")["paths"])

    def down(self) -> dict[str, PathDown]:
        """Return the paths that are down by their pools."""
        return {path.pool: path for path in self.paths().down}


class TwoHosts(t.NamedTuple):
    """The hosts and the namespace of the router between them, whose devices are to1 and to2."""

    first: Host
    second: Host
    netns: pathlib.Path

    def router(self, command: str) -> str:
        return _run(self.netns, command)


def _run(netns: pathlib.Path, command: str) -> str:
    done = subprocess.run(
        ["nsenter", f"--net={netns}", "sh", "-c", command], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@contextlib.contextmanager
def two_hosts(
    engine: pathlib.Path,
    folder: pathlib.Path,
    nat: t.Optional[str] = None,
    policy: t.Optional[PolicyState] = None,
) -> t.Iterator[TwoHosts]:
    """Yield two hosts with running agents whose paths are all up, and the router between them.

    `nat` is as for `state_of`, and `policy` is that of both hosts.
    """
    with contextlib.ExitStack() as stack:
        hosts = []
        for number in (1, 2):
            own = folder / f"host{number}"
            own.mkdir()
            state = dataclasses.replace(state_of(number, nat), policy=policy)
            hosts.append(Host(number, stack.enter_context(daemon_under_test(engine, own, state))))
        hosts[0].daemon.netns("router")
        found = TwoHosts(*hosts, folder / "host1" / "netns" / "router")
        forwarding = "sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        found.router(forwarding)
        for host, other in ((found.first, found.second), (found.second, found.first)):
            number = host.number
            host.run("ip link delete eth0")
            host.run(forwarding)
            host.run(f"ip link add eth0 type veth peer name to{number} netns {found.netns}")
            host.run("ip link set eth0 up")
            found.router(f"ip link set to{number} up")
            for pool, length in (("web", 24), (SIX, 64)):
                nodad = " nodad" if pool == SIX else ""
                host.run(f"ip address add {underlay_address(pool, number, 2)}/{length} dev eth0{nodad}")
                found.router(f"ip address add {underlay_address(pool, number, 1)}/{length} dev to{number}{nodad}")
            # The host answers ARP requests for the gateway only if its route to the gateway uses another device.
            host.run(f"ip route add default via 10.77.{number}.1")
            for pool in POOLS:
                host.run(f"ip route add {block(pool, other.number)} via {underlay_address(pool, number, 1)}")
                found.router(f"ip route add {block(pool, number)} via {underlay_address(pool, number, 2)}")
        for host in hosts:
            host.daemon.start()
        for host in hosts:
            Daemon.until(lambda host=host: _all_up(host), f"all paths of {host.name} are up")
        yield found


def _all_up(host: Host) -> bool:
    paths = host.paths()
    return paths.watched and sum(pool.up for pool in paths.pools) == len(POOLS)


def flood(hosts: TwoHosts, seconds: float) -> int:
    """Send forged requests, answers and errors from the second host's endpoint to the first one's; return how many."""
    address = probe_address("web", 1)
    script = f"""
import socket, struct, time
to, own = socket.inet_aton({address!r}), socket.inet_aton({probe_address("web", 2)!r})
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
def icmp(kind, code, rest):
    body = struct.pack("!BBH", kind, code, 0) + rest
    total = sum(struct.unpack("!%dH" % (len(body) // 2), body))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
quoted = b"E" + bytes(15) + own + struct.pack("!BBHHH", 8, 0, 0, 7, 1)
end, count = time.monotonic() + {seconds}, 0
while time.monotonic() < end:
    for number in range(20):
        head = struct.pack("!HH", (count * 7919) & 0xFFFF, count & 0xFFFF)
        magic = b"CALW" + bytes([1, 0, 0, 0]) + struct.pack("!QIdII", count, count & 0xFFFF, 1.0, 0, 0)
        for packet in (icmp(0, 0, head + magic), icmp(8, 0, head + magic), icmp(3, 1, bytes(4) + quoted)):
            raw.sendto(packet, ({address!r}, 0))
            count += 1
    time.sleep(0.01)
print(count)
"""
    netns = hosts.second.daemon.folder / "netns" / PROBE_NETNS
    command = ["nsenter", f"--net={netns}", sys.executable, "-c", script]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
