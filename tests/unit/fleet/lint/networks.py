# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets to lint: those of tests/unit/fleet/fleets.py, with facts that only the controller has."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import rules
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import LintedFleet, UnderlayLink
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.written_inventory import (
    WrittenInventory,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan

from tests.unit.fleet.fleets import hosts


class Case(t.NamedTuple):
    """An inventory that breaks a rule, the whole texts of its findings, and a similar one that does not.

    `odd` and `good` are keyword arguments of `network`, with the pools as `pools`.
    """

    rule: str
    odd: t.Mapping[str, t.Any]
    texts: t.Sequence[str]
    good: t.Mapping[str, t.Any]


def network(
    *pools: t.Mapping[str, t.Any],
    outside: t.Sequence[Host] = (),
    ways: t.Mapping[str, str] = {},
    links: t.Mapping[str, t.Optional[UnderlayLink]] = {},
    links6: t.Mapping[str, t.Optional[UnderlayLink]] = {},
    previous: t.Optional[AllocationPlan] = None,
    written: t.Optional[t.Mapping[str, t.Any]] = None,
    **rest: t.Any,
) -> LintedFleet:
    """Return the fleet of `fleets.hosts(*pools, **rest)`, with a plan that continues `previous`, or a new one for None.

    `written` are the arguments of WrittenInventory but `hosts`; None for one without hosts. The other arguments are the
    facts of LintedFleet. Raise FleetError if the inventory is invalid or cannot be planned.
    """
    given = hosts(*pools, **rest)
    fleet = Fleet.build(inventory.read(given), previous)
    as_written = WrittenInventory() if written is None else WrittenInventory(given, **written)
    return LintedFleet(fleet, given, tuple(outside), ways, links, links6, as_written)


def found(given: LintedFleet, rule: str) -> list[str]:
    """Return the whole texts of the findings of the rule with this name; [] if it finds nothing or does not exist."""
    others = {one.name for one in rules.RULES} - {rule}
    return [str(finding) for finding in rules.findings(given, others)]
