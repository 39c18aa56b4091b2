# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dispatch of a host's packets to the chains of its HostEndpoints, with one rule per interface.

Packets of an interface without a HostEndpoint of its own go to the one of "*", if there is one. "*" does not include
the loopback. It includes interfaces of workloads for packets that they send, before DNAT, and for all forwarded packets
(Felix, rules/dispatch.go).
"""

from __future__ import annotations

import typing as t

from .. import model
from ..node_policy import LocalEndpoint
from .rules import names
from .rules.rule import RETURN, IptablesRule, comes_in_by, goes_out_by, goto

LOOPBACK = "lo"


def dispatch(
    endpoints: t.Iterable[LocalEndpoint],
    direction: str,
    *,
    forward: bool = False,
    not_by_wildcard: t.Iterable[str] = (),
) -> tuple[IptablesRule, ...]:
    """Return the rules that lead packets to the chain of the HostEndpoint of their interface, "*" last.

    `forward` selects the chains for forwarded packets. `not_by_wildcard` are interfaces, such as "cali+", that "*"
    leaves out besides the loopback.
    """
    by = comes_in_by if direction == model.INGRESS else goes_out_by
    rules: list[IptablesRule] = []
    wildcard: list[IptablesRule] = []
    for endpoint in endpoints:
        chain = names.host_chain(endpoint.interface, direction, forward)
        if endpoint.interface == model.WILDCARD:
            wildcard = [IptablesRule((by(interface),), RETURN) for interface in (LOOPBACK, *not_by_wildcard)]
            wildcard.append(IptablesRule((), goto(chain)))
        else:
            rules.append(IptablesRule((by(endpoint.interface),), goto(chain)))
    return (*rules, *wildcard)
