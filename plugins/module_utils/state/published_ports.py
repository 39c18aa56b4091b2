# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports: ports of the host that lead to a workload, as iptables rules. Pure.

    PREROUTING, OUTPUT   to an address of this host ──► cali-PUBLISHED ──► cali-pub-HASH, one a workload
                         DNAT to the workload; its ports of one address of the host come before those of all
    POSTROUTING          such a packet on its way out to a workload ──► cali-PUBLISHED-SNAT
                         from 127.0.0.0/8, or from the workload itself: the source becomes an address of the host

cali-PUBLISHED has a rule for each workload and protocol, for the range of its ports. So a packet passes the rules of
few workloads, and a workload that comes or goes changes its own chain and a rule. Two workloads never have the same
port (published_port.collide), so the order of workloads has no effect: a new one comes last, which is fast.

Ports that follow each other and keep their numbers have one rule, a DNAT without a port. A range that is shifted, such
as 8000-8009:80-89, has a rule for each port. The kernel can shift a range in one rule, but if the client's port is in
use towards the workload's port already, because it came by another address of the host, it takes the next port of the
range: the client would reach another service.

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
#: The chains of table nat in which the order of rules has no effect.
UNORDERED = frozenset({CHAIN, SNAT_CHAIN})
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
        return _OwnRules(workload.ports, workload.addresses, "", (), (), "")
    own = encoding.cidr(host(address))
    target = encoding.cidr(address)
    chain = WORKLOAD_CHAIN + hashlib.sha256(own.encode()).hexdigest()[:16]
    for run in _runs(port for port in sorted(workload.ports) if family in port.families(workload.addresses)):
        first, host_ports = run[0], [port.host_port for port in run]
        protocol = encoding.word(first.protocol)
        numbers.setdefault(protocol, []).extend(host_ports)
        match = f"-p {protocol} -m {protocol} --dport {_range(host_ports)}"
        destination = f"{target}:{first.port:d}" if family == 4 else f"[{target}]:{first.port:d}"
        jump = f"-j DNAT --to-destination {destination if len(run) == 1 else target}"
        if is_any(first.host_address):
            general.append(f"{match} {jump}")
        else:
            specific.append(f"-d {encoding.cidr(host(first.host_address))} {match} {jump}")
    leading = tuple(
        f"-p {protocol} -m {protocol} --dport {_range(found)} -j {chain}" for protocol, found in numbers.items()
    )
    hairpin = f"-s {own} -d {own} -j MASQUERADE"
    rules = (*specific, *general)
    return _OwnRules(workload.ports, workload.addresses, chain, rules, leading, hairpin)


def _runs(ports: t.Iterable[PublishedPort]) -> list[list[PublishedPort]]:
    """Return sorted ports in groups for a rule each: one port, or several that keep their numbers."""
    runs: list[list[PublishedPort]] = []
    last: dict[tuple[str, str], list[PublishedPort]] = {}  # the last group of a protocol and an address of the host
    for port in ports:
        place = port.protocol, "" if is_any(port.host_address) else port.host_address
        run = last.get(place)
        if run and run[-1].host_port == run[-1].port == port.host_port - 1 == port.port - 1:
            run.append(port)
        else:
            last[place] = [port]
            runs.append(last[place])
    return runs


def _range(numbers: t.Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    return f"{first:d}" if first == last else f"{first:d}:{last:d}"


def _chains(publishing: t.Iterable[PublishingWorkload], family: int) -> dict[str, tuple[str, ...]]:
    found = [_own_rules(workload, family) for workload in publishing]
    own = [one for one in found if one.chain]
    leading = [rule for one in own for rule in one.leading]
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
