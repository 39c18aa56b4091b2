# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Classes of addresses that policy does not tell apart, so that one path stands for those of many peers of a host."""

from __future__ import annotations

import typing as t

from ..chains.source_checks import LOOPBACK
from ..index.net_index import NetIndex
from ..model import EGRESS, INGRESS, Entity, Policy, PolicyProfile, PolicySet
from .packet_path import Paths


class AddressClasses:
    """The classes of addresses by all that `paths` looks at.

    Two flows have the same path if they differ in addresses alone, and these are of one class. An address at one of the
    hosts is a class of its own.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        settings = paths.settings
        entities = frozenset(_entities(paths.evaluator.policy_set))
        nets = {net for entity in entities for net in (*entity.nets, *entity.not_nets)}
        nets.update(one.net for one in (*settings.failsafe_inbound, *settings.failsafe_outbound) if one.net)
        nets.update(LOOPBACK.values())
        self._nets = NetIndex((net, net) for net in sorted(nets))
        selectors = {text for entity in entities for text in (entity.selects, entity.excludes) if text}
        self._selectors = sorted(selectors)
        self._known: dict[str, t.Hashable] = {}

    def of(self, address: str) -> t.Hashable:
        """Return the class of a canonical address. Raise SelectorError, and what `interface_to` of a host raises."""
        if address not in self._known:
            self._known[address] = address if self._paths.is_here(address) else self._class_of(address)
        return self._known[address]

    def _class_of(self, address: str) -> t.Hashable:
        index = self._paths.evaluator.addresses
        selected = [selector for selector in self._selectors if index.match(selector, address)]
        named = [(one.ports, tuple(sorted(one.labels.items()))) for one in index.of(address) if one.ports]
        other = ":" in address, address in self._paths.nodes, address in self._paths.settings.etcd_members
        nets, endpoints = tuple(self._nets.of(address)), self._paths.endpoints_to(address)
        return nets, tuple(selected), tuple(named), endpoints, other


def _entities(policy: PolicySet) -> t.Iterator[Entity]:
    owners: tuple[t.Union[Policy, PolicyProfile], ...] = (*policy.policies, *policy.profiles)
    for owner in owners:
        for rule in (*owner.rules(INGRESS), *owner.rules(EGRESS)):
            yield from (rule.source, rule.destination)
