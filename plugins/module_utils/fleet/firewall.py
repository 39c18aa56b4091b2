# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The iptables rules and IP sets that a node needs without policy: encapsulation, forwarding, NAT, forged sources.

A node accepts encapsulated packets from the fleet's nodes only. Otherwise any sender of IPIP or VXLAN could inject
packets with any source address past the node's policy. Felix has the same rules in its chain cali-INPUT. The table raw
checks sources as it does with policy (`policy/chains/source_checks.py`).

dockerd and others set the policy of FORWARD to DROP. What comes from workloads and goes to them is accepted at the end
of that chain, so that rules of others can still deny it. With policy, the packets that it allows are accepted there.
The probe endpoint is no exception, but most of its packets are dropped at the beginning of the chain.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base import iptables_encoding as encoding
from ..base.addresses import family_of
from ..policy.chains import probe_rules, source_checks
from ..policy.chains.policy_chains import RuleWriter
from ..policy.chains.rules.marks import marks
from ..policy.chains.rules.rule import Chains, jump
from ..policy.chains.settings import ChainSettings
from ..policy.chains.tables import RAW
from ..policy.sets.ip_sets import ETCD_MEMBERS, PROBES, name_of
from ..state.attachment import WORKLOAD_INTERFACES
from ..state.derived import outgoing_nat
from ..state.fleet_list import Addressed, FleetMember
from ..state.node_state import Hook, IpSet, IptablesTable, Pool, TunnelDevice

#: A mapping from IP version to the name of the IP set with the addresses of all nodes.
ALL_HOSTS = {4: "cali40all-hosts-net", 6: "cali60all-hosts-net"}


def ipsets(
    devices: t.Iterable[TunnelDevice],
    nodes: t.Iterable[Addressed],
    earlier: t.Iterable[str] = (),
    excluded: t.Iterable[Pool] = (),
) -> tuple[IpSet, ...]:
    """Return the IP sets of the addresses of all the fleet's `nodes`, one for each IP version that needs one.

    These are the versions that tunnels cross, and those of the pools `excluded`, whose natOutgoing excludes nodes.
    `earlier` are other IPv4 addresses of nodes, from which they may send tunnels.
    """
    versions = {*(_version(device) for device in devices), *(family_of(one.cidr) for one in excluded)}
    if not versions:
        return ()
    everybody = list(nodes)
    members = {
        4: sorted({*(node.address for node in everybody if node.address), *earlier}),
        6: sorted(node.address6 for node in everybody if node.address6),
    }
    return tuple(IpSet(ALL_HOSTS[version], "hash:net", tuple(members[version])) for version in sorted(versions))


def etcd_members(addresses: t.Sequence[str]) -> tuple[IpSet, ...]:
    """Return the IP sets of the addresses of hosts with a member of etcd: one for each IP version that they have."""
    return _by_version(ETCD_MEMBERS, addresses)


def probes(nodes: t.Iterable[FleetMember], versions: t.Collection[int] = (4, 6)) -> tuple[IpSet, ...]:
    """Return the IP sets of the addresses of all probe endpoints of `nodes`.

    There is one for each IP version in `versions` in which they have addresses.
    """
    return _by_version(PROBES, [one for node in nodes for one in node.probes if family_of(one) in versions])


def _by_version(name: str, addresses: t.Sequence[str]) -> tuple[IpSet, ...]:
    """Return the IP sets `name` of `addresses`, without those that would be empty."""
    of_version = {version: sorted({one for one in addresses if family_of(one) == version}) for version in (4, 6)}
    return tuple(
        IpSet(name_of(version, name), "hash:net", tuple(found)) for version, found in of_version.items() if found
    )


def sources(settings: ChainSettings) -> tuple[IptablesTable, ...]:
    """Return the table raw for IPv4 and for IPv6, which checks the sources of packets and logs nothing.

    Both are needed whichever IP versions the node's pools have, because a workload may send either. Raise ValueError if
    the mark mask in `settings` has fewer than five bits.
    """
    settings = dataclasses.replace(settings, nflog_group=0)
    found = []
    for version in (4, 6):
        write = RuleWriter(settings, marks(settings.mark_mask), version, RAW)
        chains = {"cali-PREROUTING": tuple(source_checks.rules(write, WORKLOAD_INTERFACES))}
        chains.update(source_checks.chains(write, WORKLOAD_INTERFACES))
        texts = {name: tuple(rule.render() for rule in chains[name]) for name in sorted(chains)}
        found.append(IptablesTable(RAW, texts, (Hook("PREROUTING", jump("cali-PREROUTING")),), version))
    return tuple(found)


def tables(
    pools: t.Sequence[Pool],
    devices: t.Sequence[TunnelDevice],
    bgp_ports: t.Iterable[int] = (),
    probed: t.Collection[int] = (),
    excludes_hosts: bool = False,
) -> tuple[IptablesTable, ...]:
    """Return the tables filter and nat of both IP versions, without those that would be empty.

    filter accepts encapsulated packets from the fleet's nodes only, and forwarded packets from and to workloads for the
    IP versions of `pools`. For the IP versions `probed`, which have an IP set of probe endpoints, it restricts packets
    of the node's own probe endpoint. nat has the outgoing NAT of `pools`, except for TCP to port 179 and `bgp_ports`
    (the fleet's), for BFD and, if `excludes_hosts`, for the addresses of nodes. It also rewrites the source of packets
    that the host itself sends into a tunnel to the tunnel's address.
    """
    ports = outgoing_nat.exemptions(bgp_ports)
    found = []
    for version in (4, 6):
        exempt = (outgoing_nat.to_hosts(version), *ports) if excludes_hosts else ports
        here = [device for device in devices if _version(device) == version]
        own = [pool for pool in pools if family_of(pool.cidr) == version]
        nat = _nat(own, here, version, exempt)
        # Connections are tracked already where nat has rules.
        restricted = probe_rules.without_policy(version, bool(nat.chains)) if version in probed else {}
        found += [_filter(here, version, bool(own), restricted), nat]
    return tuple(table for table in found if table.chains or table.hooks)


def _version(device: TunnelDevice) -> int:
    """Return the IP version (4 or 6) of the packets that `device` sends on the underlay."""
    return family_of(device.local)


def _filter(devices: t.Sequence[TunnelDevice], version: int, forwards: bool, restricted: Chains) -> IptablesTable:
    """Return the table filter. `restricted` are the chains for the probe endpoint, {} for none."""
    rules: list[str] = []
    for device in devices:
        match = "-p 4" if device.kind == "ipip" else f"-p udp -m udp --dport {device.port}"
        rules.append(f"{match} -m set --match-set {ALL_HOSTS[version]} src -m addrtype --dst-type LOCAL -j ACCEPT")
        rules.append(f"{match} -m addrtype --dst-type LOCAL -j DROP")
    chains = {name: tuple(rule.render() for rule in found) for name, found in restricted.items()}
    if rules:
        chains["cali-INPUT"] = (*rules, *chains.get("cali-INPUT", ()))
    hooks = [Hook(name, jump(f"cali-{name}")) for name in ("INPUT", "FORWARD") if f"cali-{name}" in chains]
    patterns = WORKLOAD_INTERFACES if forwards else ()
    hooks += [Hook("FORWARD", f"-{way} {one} -j ACCEPT", last=True) for one in patterns for way in "io"]
    return IptablesTable("filter", dict(sorted(chains.items())), tuple(hooks), version)


def _nat(
    pools: t.Sequence[Pool], devices: t.Sequence[TunnelDevice], version: int, exempt: tuple[str, ...]
) -> IptablesTable:
    chains: dict[str, tuple[str, ...]] = {}
    jumps: list[str] = []
    outgoing = [pool for pool in pools if pool.nat_outgoing]
    if outgoing:
        inside = [f"-d {encoding.cidr(pool.cidr)} -j RETURN" for pool in pools]
        masquerade = [f"-s {encoding.cidr(pool.cidr)} -j MASQUERADE --random-fully" for pool in outgoing]
        chains[outgoing_nat.CHAIN] = (*inside, *exempt, *masquerade)
        jumps.append(f"-j {outgoing_nat.CHAIN}")
    for device in devices:
        if device.address:
            # The host may choose another source address before the route selects the tunnel. Replies to that address
            # would not take the tunnel, so the rule replaces it by the tunnel's address.
            jumps.append(
                f"-o {encoding.interface(device.name)} -m addrtype ! --src-type LOCAL --limit-iface-out"
                " -m addrtype --src-type LOCAL -j MASQUERADE --random-fully"
            )
    if not jumps:
        return IptablesTable("nat", family=version)
    chains["cali-POSTROUTING"] = tuple(jumps)
    return IptablesTable("nat", chains, (Hook("POSTROUTING", "-j cali-POSTROUTING"),), version)
