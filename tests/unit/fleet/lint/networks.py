# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories to lint: those of tests/unit/fleet/fleets.py, with what only the controller knows."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import rules
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import Link, Network
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan

from tests.unit.fleet.fleets import hosts


class Case(t.NamedTuple):
    """`odd` and `good` are arguments of network, pools under `pools`."""

    rule: str
    odd: t.Mapping[str, t.Any]
    texts: t.Sequence[str]
    good: t.Mapping[str, t.Any]


def network(
    *pools: t.Mapping[str, t.Any],
    outside: t.Sequence[Host] = (),
    ways: t.Mapping[str, str] = {},
    links: t.Mapping[str, t.Optional[Link]] = {},
    links6: t.Mapping[str, t.Optional[Link]] = {},
    previous: t.Optional[AllocationPlan] = None,
    **rest: t.Any,
) -> Network:
    """As `fleets.hosts`."""
    given = hosts(*pools, **rest)
    return Network(Fleet.build(inventory.read(given), previous), given, tuple(outside), ways, links, links6)


def found(given: Network, rule: str) -> list[str]:
    """What one rule says, each whole."""
    others = {one.name for one in rules.RULES} - {rule}
    return [str(finding) for finding in rules.findings(given, others)]
