# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler on a fake kernel and a virtual clock."""

from __future__ import annotations

import asyncio

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile import Reconciler
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.fake import FakeKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import (
    RouteOperation,
)

from tests.unit.agent.virtual_time import inline, run
from tests.unit.dataplane.drivers import underlay
from tests.unit.dataplane.suite_node import STATE, foreign, state_of


class Node:
    """A reconciler, its kernel, and what it told."""

    def __init__(self, state=STATE, **options):
        self.kernel = FakeKernel()
        underlay(self.kernel)
        self.state = state
        self.removals = True
        self.told = []
        self.turn = asyncio.Lock()
        self.reconciler = Reconciler(
            self.kernel,
            lambda: self.state,
            self.turn,
            removals=lambda: self.removals,
            on_change=lambda change, drift: self.told.append(("drift " if drift else "") + change.line()),
            **{"worker": inline, "chance": lambda: 0.5, **options},
        )

    async def start(self):
        self.task = asyncio.ensure_future(self.reconciler.run())
        await asyncio.sleep(0.5)
        assert self.reconciler.in_sync, self.reconciler.problems
        self.told.clear()

    def delete_route(self, destination):
        found = dict(self.kernel.routes(table=254))[destination]
        assert self.kernel.route_batch([RouteOperation("delete", destination, found)]) == []


def test_a_fresh_node_is_built_and_none_of_it_is_drift():
    async def scenario():
        node = Node()
        foreign(node.kernel)
        outcome = await node.reconciler.resync()
        assert outcome.problems == () and outcome.in_sync
        assert len(outcome.changes) == len(node.told) == 17
        assert not any(line.startswith("drift") for line in node.told)
        before = state_of(node.kernel)
        assert (await node.reconciler.resync()).changes == ()
        assert state_of(node.kernel) == before
        assert node.reconciler.in_sync

    run(scenario())
