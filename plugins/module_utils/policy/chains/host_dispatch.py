# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dispatch of a host's packets to the chains of its HostEndpoints, by interface; there are few.

An interface without a HostEndpoint of its own goes to that of "*", if there is one. Workloads' interfaces are not its
either: "*" applies to what they send only where that comes in before DNAT. The loopback is nobody's.
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
    """`not_by_wildcard`: interfaces that "*" leaves out, besides the loopback."""
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
