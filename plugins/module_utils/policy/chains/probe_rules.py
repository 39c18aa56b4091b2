# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules for packets from and to the node's probe endpoint, on every workload node, with or without policy.

    cali-from-probe      lets echo requests and replies to other probe endpoints pass, and drops all else
    cali-to-probe        lets echo requests and replies of other probe endpoints pass, and ICMP errors; drops all else
                         (without policy, both also let later fragments pass)
    cali-probe-to-host   IPv6 without policy: lets the messages pass that IPv6 needs, and drops all else

No user's policy for workloads applies to the probe endpoint. Apart from that, its packets take a workload's way: source
checks, connection tracking, and applyOnForward policy of host endpoints apply to both. An error from the host itself
leaves through OUTPUT, and so meets none of these chains.
"""

from __future__ import annotations

import typing as t

from ...base.naming import PROBE_INTERFACE
from ..sets.ip_sets import PROBES, name_of
from .rules import names
from .rules.rule import DROP, RETURN, Chains, IptablesRule, comes_in_by, goes_out_by, goto, in_set, jump, state
from .settings import NEIGHBOR_DISCOVERY

#: The ICMP types of echo requests and replies, by IP version.
ECHOES = {4: (8, 0), 6: (128, 129)}
#: The ICMP types of errors that say why a probe was lost: unreachable, too big, time exceeded. The first of IPv4 says
#: too big as well (RFC 792, RFC 4443).
ERRORS = {4: (3, 11), 6: (1, 2, 3)}

#: The conditions on a packet from or to the probe endpoint, and the chains to which they lead.
WAYS = ((comes_in_by(PROBE_INTERFACE), names.FROM_PROBE), (goes_out_by(PROBE_INTERFACE), names.TO_PROBE))


def echoes(family: int, side: str, action: str) -> t.Iterator[IptablesRule]:
    """Yield the rules that give `action` to echo requests and replies whose other end is a probe endpoint.

    `side`, "src" or "dst", is the other end. The rules refer to the IP set PROBES of IP version `family`.
    """
    other_end = in_set(name_of(family, PROBES), side)
    for kind in ECHOES[family]:
        yield IptablesRule((*_icmp(family, kind), other_end), action)


def later_fragments(family: int, side: str, action: str) -> t.Iterator[IptablesRule]:
    """Yield the rules that give `action` to fragments without an ICMP header, by or to a probe endpoint as in `echoes`.

    They belong behind all rules that let ICMP messages pass: those of IPv6 drop each message whose header is there.
    Without connection tracking, packets are not whole before these rules. The kernel's reply to a request of full size
    is in fragments for up to ten minutes after its path had a smaller MTU (mtu_expires in ip-sysctl.rst).
    """
    other_end = in_set(name_of(family, PROBES), side)
    if family == 4:
        yield IptablesRule(("-p 1", "-f", other_end), action)
    else:
        # The match icmp6 applies to no later fragment; the type 255 is reserved (RFC 4443).
        yield IptablesRule(("-p 58", "-m icmp6 ! --icmpv6-type 255"), DROP)
        yield IptablesRule(("-p 58", other_end), action)


def errors(family: int, tracked: bool, action: str) -> t.Iterator[IptablesRule]:
    """Yield the rules that give `action` to ICMP errors, with `tracked` only to those about a known connection."""
    related = (state("RELATED"),) if tracked else ()
    for kind in ERRORS[family]:
        yield IptablesRule((*_icmp(family, kind), *related), action)


def without_policy(family: int, tracked: bool) -> Chains:
    """Return the chains of a node without policy, and the rules of cali-FORWARD and cali-INPUT that lead to them.

    Packets that pass return, so that rules of others can still deny them. Without `tracked` no rule looks at
    connections: it would make the kernel track all packets of the host.
    """
    dropped = (IptablesRule((), DROP),)
    incoming = comes_in_by(PROBE_INTERFACE)
    found: Chains = {
        "cali-FORWARD": tuple(IptablesRule((way,), jump(chain)) for way, chain in WAYS),
        "cali-INPUT": (IptablesRule((incoming,), DROP),),
        names.FROM_PROBE: (*echoes(family, "dst", RETURN), *later_fragments(family, "dst", RETURN), *dropped),
        names.TO_PROBE: (
            *echoes(family, "src", RETURN),
            *errors(family, tracked, RETURN),
            *later_fragments(family, "src", RETURN),
            *dropped,
        ),
    }
    if family == 6:
        found["cali-INPUT"] = (IptablesRule((incoming,), goto(names.PROBE_TO_HOST)),)
        needed = (IptablesRule(_icmp(family, kind), RETURN) for kind in NEIGHBOR_DISCOVERY)
        found[names.PROBE_TO_HOST] = (*needed, *dropped)
    return found


def _icmp(family: int, kind: int) -> tuple[str, str]:
    return ("-p 1", f"-m icmp --icmp-type {kind}") if family == 4 else ("-p 58", f"-m icmp6 --icmpv6-type {kind}")
