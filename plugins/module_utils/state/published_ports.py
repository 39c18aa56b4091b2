# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports: ports of the host that lead to a workload, as iptables rules. Pure.

    PREROUTING, OUTPUT   to an address of this host ──► cali-PUBLISHED ──► cali-pub-HASH, one a workload
                         DNAT to the workload; ports of one address of the host come before those of all
    POSTROUTING          such a packet on its way out to a workload ──► cali-PUBLISHED-SNAT
                         from 127.0.0.0/8, or from the workload itself: the source becomes an address of the host

cali-PUBLISHED has a rule for each workload and protocol, for the range of its ports. So a packet passes the rules of
few workloads, and a workload that comes or goes changes its own chain and a rule. Workloads with a port of one address
come first.

All other packets keep the source of the client, so policy on the workload sees it. A HostEndpoint's policy with preDNAT
sees the packet before DNAT. The host's ::1 cannot be rewritten to another address (RFC 4291 section 2.5.3): a proxy
serves it (sockets/loopback_proxy.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t

from ..base import iptables_encoding as encoding
from ..base.addresses import family_of, host
from ..base.published_port import PublishedPort, is_any
from .node_state import Hook, IptablesTable

_NAT = "nat"
CHAIN, SNAT_CHAIN = "cali-PUBLISHED", "cali-PUBLISHED-SNAT"
#: The beginning of the name of a workload's chain.
WORKLOAD_CHAIN = "cali-pub-"
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
    publishing = sorted((one for one in workloads if one.ports), key=lambda one: one.addresses)
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


class _OwnRules(t.NamedTuple):
    """The rules for one workload: its chain with its rules, those that lead there, and that for its own packets."""

    ports: tuple[PublishedPort, ...]
    addresses: tuple[str, ...]
    chain: str
    rules: tuple[str, ...]  # () for a workload without ports of this IP version
    leading: tuple[str, ...]
    hairpin: str
    is_specific: bool  # whether one of its ports is of one address of the host


#: The rules by IP version and the id of the ports that they are for. An entry holds these ports, so an id is that of
#: the same object. Their number is limited, so that those of workloads that are gone go as well.
_known: dict[tuple[int, int], _OwnRules] = {}
_KNOWN = 4096


def _own_rules(workload: PublishingWorkload, family: int) -> _OwnRules:
    """Return the rules for a workload, the same object as long as its ports are the same object.

    So a caller that compares objects need not compare the rules of a thousand workloads.
    """
    key = family, id(workload.ports)
    found = _known.get(key)
    if found is None or found.ports is not workload.ports or found.addresses != workload.addresses:
        if len(_known) >= _KNOWN:
            _known.clear()
        found = _known[key] = _made(workload, family)
    return found


def _made(workload: PublishingWorkload, family: int) -> _OwnRules:
    specific: list[str] = []
    general: list[str] = []
    numbers: dict[str, list[int]] = {}
    address = next((one for one in workload.addresses if family_of(one) == family), None)
    if address is None:
        return _OwnRules(workload.ports, workload.addresses, "", (), (), "", False)
    own = encoding.cidr(host(address))
    target = encoding.cidr(address)
    chain = WORKLOAD_CHAIN + hashlib.sha256(own.encode()).hexdigest()[:16]
    for port in sorted(workload.ports):
        if family not in port.families(workload.addresses):
            continue
        protocol = encoding.word(port.protocol)
        numbers.setdefault(protocol, []).append(port.host_port)
        match = f"-p {protocol} -m {protocol} --dport {port.host_port:d}"
        destination = f"{target}:{port.port:d}" if family == 4 else f"[{target}]:{port.port:d}"
        jump = f"-j DNAT --to-destination {destination}"
        if is_any(port.host_address):
            general.append(f"{match} {jump}")
        else:
            specific.append(f"-d {encoding.cidr(host(port.host_address))} {match} {jump}")
    leading = tuple(
        f"-p {protocol} -m {protocol} --dport {_range(found)} -j {chain}" for protocol, found in numbers.items()
    )
    hairpin = f"-s {own} -d {own} -j MASQUERADE"
    rules = (*specific, *general)
    return _OwnRules(workload.ports, workload.addresses, chain, rules, leading, hairpin, bool(specific))


def _range(numbers: t.Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    return f"{first:d}" if first == last else f"{first:d}:{last:d}"


def _chains(publishing: t.Iterable[PublishingWorkload], family: int) -> dict[str, tuple[str, ...]]:
    found = [_own_rules(workload, family) for workload in publishing]
    own = [one for one in found if one.chain]
    leading = [rule for one in own if one.is_specific for rule in one.leading]
    leading += [rule for one in own if not one.is_specific for rule in one.leading]
    loopback = [f"-s {_LOOPBACK4} -j MASQUERADE"] if family == 4 and own else []
    return {
        CHAIN: tuple(leading),
        SNAT_CHAIN: (*loopback, *(one.hairpin for one in own)),
        **{one.chain: one.rules for one in own if one.rules},
    }


def _hooks(family: int, interfaces: t.Iterable[str]) -> t.Iterator[Hook]:
    local = "-m addrtype --dst-type LOCAL"
    yield Hook("PREROUTING", f"{local} -j {CHAIN}")
    yield Hook("OUTPUT", f"{local} -j {CHAIN}" if family == 4 else f"! -d {_LOOPBACK6} {local} -j {CHAIN}")
    for interface in interfaces:
        yield Hook("POSTROUTING", f"-o {encoding.interface(interface)} -m conntrack --ctstate DNAT -j {SNAT_CHAIN}")
