# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of other nodes, which come, change and go at random: in the datastore and in reports on the disk."""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import remote_endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.other_endpoints import OtherEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
)

from tests.unit.agent.remote_workloads import Live
from tests.unit.policy.random_policies import OTHER_NODE, World, random_world

NODES = (OTHER_NODE, "node3")
BLOCKS = ("10.65.0.0/16", "fd65::/32")


class Elsewhere:
    """What the datastore and the reports have of other nodes; `complete` are the nodes whose workloads are all known.

    A node stays complete: its workloads come and go one by one.
    """

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], Endpoint] = {}
        self.complete: set[str] = set()
        self._reports: dict[str, Collected] = {}
        self._number = 0

    def change_live(self, seed: int) -> tuple[Live, tuple[str, ...]]:
        """Change up to five workloads in the datastore; return the changes, and the nodes that became complete."""
        rng = random.Random(f"live {seed}")
        changes: Live = {}
        for dummy in range(rng.choice((1, 1, 1, 5))):
            node = rng.choice(NODES)
            if self.live and rng.random() < 0.4:
                changes[rng.choice(sorted(self.live))] = None
                continue
            for one in _workloads(rng, node)[:1]:
                changes[node, one.interface] = one
        for place, endpoint in changes.items():
            if endpoint is None:
                self.live.pop(place, None)
            else:
                self.live[place] = endpoint
        more = [node for node in NODES if node not in self.complete and rng.random() < 0.2]
        self.complete.update(more)
        return changes, tuple(more)

    def change_report(self, seed: int, folder: str) -> None:
        """Write a new report of one node into the file of the store `folder`, or remove that node's report from it."""
        rng = random.Random(f"report {seed}")
        node = rng.choice(NODES)
        self._number += 1
        if rng.random() < 0.2:
            self._reports.pop(node, None)
        else:
            when = f"2026-01-01T00:00:{self._number % 60:02}Z"
            self._reports[node] = Collected(when, tuple(_workloads(rng, node)), BLOCKS)
        remote_endpoints.save(folder, remote_endpoints.KnownEndpoints(RemoteEndpoints(dict(self._reports))))

    def from_nothing(self, others: t.Optional[RemoteEndpoints] = None) -> OtherEndpoints:
        """Return a new collection with all of it; `others` are the reports that the node accepts."""
        found = OtherEndpoints((others or RemoteEndpoints()).nodes)
        found.apply(self.live, frozenset(self.complete))
        return found


def _workloads(rng: random.Random, node: str) -> list[Endpoint]:
    """Return workloads of a node that are like those of random worlds; one may have the name of one of ours."""
    world: World = random_world(rng, host_endpoints=False)
    found = [one for one in world.endpoints if one.node == OTHER_NODE]
    if found and rng.random() < 0.1:
        found[0] = dataclasses.replace(found[0], name="default/a")
    return [dataclasses.replace(one, node=node) for one in found]
