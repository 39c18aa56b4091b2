# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports: ports of the host that lead to a workload, as iptables rules. Pure.

    PREROUTING, OUTPUT   to an address of this host ──► cali-PUBLISHED            DNAT to the workload
    POSTROUTING          such a packet on its way out to a workload ──► cali-PUBLISHED-SNAT
                         from 127.0.0.0/8, or from the workload itself: the source becomes an address of the host

All other packets keep the source of the client, so policy on the workload sees it. A HostEndpoint's policy with preDNAT
sees the packet before DNAT. The host's ::1 cannot be rewritten to another address (RFC 4291 section 2.5.3): a proxy
serves it (sockets/loopback_proxy.py).
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base import iptables_encoding as encoding
from ..base.addresses import family_of, host
from ..base.published_port import PublishedPort, is_any
from .node_state import Hook, IptablesTable

_NAT = "nat"
CHAIN, SNAT_CHAIN = "cali-PUBLISHED", "cali-PUBLISHED-SNAT"
_LOOPBACK4, _LOOPBACK6 = "127.0.0.0/8", "::1/128"


class PublishingWorkload(t.NamedTuple):
    addresses: tuple[str, ...]
    ports: tuple[PublishedPort, ...]


def with_ports(
    tables: tuple[IptablesTable, ...],
    workloads: t.Iterable[PublishingWorkload],
    interfaces: t.Iterable[str],
    families: t.Collection[int] = (),
) -> tuple[IptablesTable, ...]:
    """Return `tables` with the rules for the ports of `workloads` in nat; the same object if there is none.

    `interfaces` are patterns of the workloads' host ends, such as "cali+". The IP versions `families` get the chains
    without ports, too: a rule can be removed from a chain at once, a chain not always.
    """
    publishing = sorted(one for one in workloads if one.ports)
    if not publishing and not families:
        return tables
    found = list(tables)
    for family in (4, 6):
        chains = _chains(publishing, family)
        if not chains[CHAIN] and family not in families:
            continue
        index = next((i for i, one in enumerate(found) if one.name == _NAT and one.family == family), None)
        table = IptablesTable(_NAT, family=family) if index is None else found[index]
        more = dataclasses.replace(
            table, chains={**table.chains, **chains}, hooks=(*table.hooks, *_hooks(family, interfaces))
        )
        if index is None:
            found.append(more)
        else:
            found[index] = more
    return tuple(found)


def _chains(publishing: t.Iterable[PublishingWorkload], family: int) -> dict[str, tuple[str, ...]]:
    specific: list[str] = []
    general: list[str] = []
    hairpin: list[str] = []
    for workload in publishing:
        address = next((one for one in workload.addresses if family_of(one) == family), None)
        if address is None:
            continue
        own = encoding.cidr(host(address))
        target = encoding.cidr(address)
        for port in sorted(workload.ports):
            if family not in port.families(workload.addresses):
                continue
            protocol = encoding.word(port.protocol)
            match = f"-p {protocol} -m {protocol} --dport {port.host_port:d}"
            destination = f"{target}:{port.port:d}" if family == 4 else f"[{target}]:{port.port:d}"
            jump = f"-j DNAT --to-destination {destination}"
            if is_any(port.host_address):
                general.append(f"{match} {jump}")
            else:
                specific.append(f"-d {encoding.cidr(host(port.host_address))} {match} {jump}")
        hairpin.append(f"-s {own} -d {own} -j MASQUERADE")
    loopback = [f"-s {_LOOPBACK4} -j MASQUERADE"] if family == 4 and hairpin else []
    return {CHAIN: (*specific, *general), SNAT_CHAIN: (*loopback, *hairpin)}


def _hooks(family: int, interfaces: t.Iterable[str]) -> t.Iterator[Hook]:
    local = "-m addrtype --dst-type LOCAL"
    yield Hook("PREROUTING", f"{local} -j {CHAIN}")
    yield Hook("OUTPUT", f"{local} -j {CHAIN}" if family == 4 else f"! -d {_LOOPBACK6} {local} -j {CHAIN}")
    for interface in interfaces:
        yield Hook("POSTROUTING", f"-o {encoding.interface(interface)} -m conntrack --ctstate DNAT -j {SNAT_CHAIN}")
