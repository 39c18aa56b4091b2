# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failsafes: ports of the host that no policy can close. Each table with policy for hosts has a chain per direction.

Two things differ from Felix. A failsafe for a network of the other IP version has no rule; Felix drops the network and
opens the port to all. The table raw cannot recognise replies by their connection, so they have rules of their own. For
an inbound failsafe with a network, these accept replies to that network, where Felix expects replies from it.
"""

from __future__ import annotations

import typing as t

from ...base import iptables_encoding as encoding
from ..model import Failsafe
from ..sets.ip_sets import is_of
from .rules import names
from .rules.rule import ACCEPT, Chains, IptablesRule
from .settings import ChainSettings


def chains(settings: ChainSettings, family: int, both_ways: bool = False) -> Chains:
    """Return a mapping with the chains FAILSAFE_IN and FAILSAFE_OUT for IP version `family`.

    With `both_ways` they also accept replies, by source port. This is needed before connection tracking.
    """
    incoming = list(_rules(settings.failsafe_inbound, family, "dport", "-s"))
    outgoing = list(_rules(settings.failsafe_outbound, family, "dport", "-d"))
    if both_ways:
        incoming += _rules(settings.failsafe_outbound, family, "sport", "-s")
        outgoing += _rules(settings.failsafe_inbound, family, "sport", "-d")
    return {names.FAILSAFE_IN: tuple(incoming), names.FAILSAFE_OUT: tuple(outgoing)}


def _rules(failsafes: t.Iterable[Failsafe], family: int, port: str, side: str) -> t.Iterator[IptablesRule]:
    for failsafe in failsafes:
        if failsafe.net and not is_of(family, failsafe.net):
            continue
        net = (f"{side} {encoding.cidr(failsafe.net)}",) if failsafe.net else ()
        protocol = encoding.word(failsafe.protocol)
        yield IptablesRule((f"-p {protocol}", *net, f"-m {protocol} --{port} {failsafe.port}"), ACCEPT)
