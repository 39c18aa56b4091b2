# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of every history of a fleet: nodes, pools and workloads come, go and change, and each run plans again."""

from __future__ import annotations

import dataclasses
import random
import typing as t

import netaddr
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    NodeAllocations,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.errors import PlanError
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.inputs import (
    NodeEntry,
    PoolRange,
    WorkloadRequest,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.plan import plan
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.ipam.reference_planner import Impossible, Reference

NODES = [f"node{number}" for number in range(1, 6)]
WORKLOADS = [f"web-{number}" for number in range(1, 7)]
RANGES = {"alpha": "10.0.0.0/28", "beta": "10.0.1.0/28", "gamma": "10.0.2.0/29", "six": "fd00::10/124"}
ENCAPSULATIONS = {"alpha": "ipip", "beta": "vxlan", "gamma": None, "six": "vxlan6"}
SELECTORS: dict[str, t.Callable[[t.Mapping[str, str]], bool]] = {
    "all": lambda labels: True,
    "rack a": lambda labels: labels.get("rack") == "a",
    "none": lambda labels: False,
}


@dataclasses.dataclass(frozen=True)
class Inventory:
    """An inventory: pools and nodes by name, workloads by (name, IP version).

    `allocated` and `opened` are the journals, by node.
    """

    pools: t.Mapping[str, PoolRange]
    nodes: t.Mapping[str, NodeEntry]
    workloads: t.Mapping[tuple[str, int], WorkloadRequest]
    spare_blocks: int = 1
    reservations: tuple[str, ...] = ()
    allocated: t.Mapping[str, t.Sequence[str]] = dataclasses.field(default_factory=dict)
    opened: t.Mapping[str, t.Sequence[str]] = dataclasses.field(default_factory=dict)
    unprobed: t.Collection[str] = ()

    def tunnels(self) -> dict[str, dict[str, list[str]]]:
        needs: dict[str, list[str]] = {}
        for name in self.pools:
            if ENCAPSULATIONS[name]:
                needs.setdefault(ENCAPSULATIONS[name], []).append(name)
        return dict.fromkeys(self.nodes, needs)

    def plan(
        self, previous: t.Optional[AllocationPlan], released: t.Collection[str] = (), seed: int = 0
    ) -> AllocationPlan:
        """Return the plan, made from most inputs in an order of `seed`; raise PlanError if it is refused."""
        probed = [name for name in self.pools if name not in self.unprobed]
        order = random.Random(seed)

        def shuffled(items: t.Iterable) -> list:
            return order.sample(found := list(items), len(found))

        if previous is not None:
            nodes = {name: previous.nodes[name] for name in shuffled(previous.nodes)}
            pools = {name: previous.pools[name] for name in shuffled(previous.pools)}
            previous = dataclasses.replace(previous, nodes=nodes, pools=pools)
        return plan(
            shuffled(self.pools.values()),
            shuffled(self.nodes.values()),
            previous,
            workloads=shuffled(self.workloads.values()),
            tunnels=dict(shuffled(self.tunnels().items())),
            spare_blocks=self.spare_blocks,
            released=shuffled(released),
            reservations=shuffled(self.reservations),
            allocated=dict(shuffled(self.allocated.items())),
            opened=self.opened,
            probes=dict.fromkeys(shuffled(self.nodes), shuffled(probed)),
        )

    def without_probes(
        self, previous: t.Optional[AllocationPlan], released: t.Collection[str] = ()
    ) -> dict[str, NodeAllocations]:
        """Return what nodes get if no pool is probed."""
        return dict(dataclasses.replace(self, unprobed=tuple(self.pools)).plan(previous, released).nodes)

    def reference(self, previous: t.Optional[AllocationPlan], released: t.Collection[str]) -> tuple[dict, tuple]:
        return Reference(
            self.pools.values(),
            self.nodes.values(),
            previous,
            self.workloads.values(),
            self.tunnels(),
            self.spare_blocks,
            released,
            self.reservations,
            self.allocated,
            self.opened,
        ).run()


def owners(found: AllocationPlan) -> dict[str, str]:
    """Return {block: node} of open, spare and quarantined blocks; raise AssertionError if a block has two owners."""
    result: dict[str, str] = {}
    entries = [(grant.cidr, name) for name, part in found.nodes.items() for grant in (*part.blocks, *part.spare_blocks)]
    entries += [(entry.cidr, entry.node) for entry in found.quarantine]
    for cidr, node in entries:
        assert cidr not in result, f"{cidr} belongs to {result[cidr]} and to {node}"
        result[cidr] = node
    return result


def of_own_blocks(inventory: Inventory, plan: AllocationPlan) -> Inventory:
    """Return `inventory` with only those entries of its journals that lie in blocks of their node in `plan`.

    These are its open, spare and quarantined blocks. Of `opened`, only whole blocks are kept.

    A run leaves out the other entries before it plans (module_utils/fleet/run/plan_inputs.py). They may come from a
    removed node whose blocks were released, and that comes again with its old journal.
    """
    owned: dict[str, list[netaddr.IPNetwork]] = {}
    for cidr, node in owners(plan).items():
        owned.setdefault(node, []).append(netaddr.IPNetwork(cidr))
    allocated = {
        node: [text for text in given if any(netaddr.IPAddress(text) in block for block in owned.get(node, ()))]
        for node, given in inventory.allocated.items()
    }
    opened = {
        node: [cidr for cidr in given if netaddr.IPNetwork(cidr) in owned.get(node, ())]
        for node, given in inventory.opened.items()
    }
    return dataclasses.replace(inventory, allocated=allocated, opened=opened)


class Fleet(RuleBasedStateMachine):
    @initialize(
        sizes=st.tuples(st.integers(29, 32), st.integers(30, 32), st.integers(30, 32), st.integers(125, 128)),
        uses=st.sampled_from([("Workload", "Tunnel"), ("Tunnel",), ("Workload",)]),
        racks=st.lists(st.sampled_from("ab"), min_size=2, max_size=len(NODES)),
        workloads=st.lists(st.integers(0, 1), max_size=len(WORKLOADS)),
        pools=st.sets(st.sampled_from(sorted(RANGES)), min_size=1),
        spare_blocks=st.integers(0, 2),
    )
    def start(
        self,
        sizes: tuple[int, int, int, int],
        uses: tuple[str, ...],
        racks: list[str],
        workloads: list[int],
        pools: set[str],
        spare_blocks: int,
    ) -> None:
        self.sizes = dict(zip(RANGES, sizes))
        self.gamma_uses = uses
        self.inventory = Inventory({}, {}, {}, spare_blocks)
        self.found = self.inventory.plan(None)
        for pool in sorted(pools):
            self.add_or_change_pool(pool, False, "all", True, 0)
        for name, rack in zip(NODES, racks):
            self.add_or_move_node(name, rack, 1)
        for name, node in zip(WORKLOADS, workloads):
            if NODES[node] in self.inventory.nodes:  # A node that did not fit into the pools is missing.
                self.run(workloads={**self.inventory.workloads, (name, 4): WorkloadRequest(name, NODES[node])})

    def run(self, seed: int = 0, released: t.Collection[str] = (), **changes: t.Any) -> None:
        """Plan the inventory with `changes` and compare with the reference; drop changes that both planners refuse.

        Otherwise keep the inventory and its plan. Fail the test if the two planners differ, or if something moved that
        must stay.
        """
        before = self.found
        changed = of_own_blocks(dataclasses.replace(self.inventory, **changes), before)
        try:
            expected = changed.reference(before, released)
        except Impossible:
            with pytest.raises(PlanError):
                changed.plan(before, released, seed)
            return
        after = changed.plan(before, released, seed)
        nodes = {
            name: (
                [(grant.cidr, grant.pool) for grant in part.blocks],
                [(grant.cidr, grant.pool) for grant in part.spare_blocks],
                dict(part.tunnels),
                dict(part.workloads),
                dict(part.workloads6),
            )
            for name, part in after.nodes.items()
        }
        assert nodes == expected[0]
        assert after.quarantine == expected[1]
        assert after.generation == before.generation + (not after.same_content(before))
        assert {
            name: dataclasses.replace(part, probes={}) for name, part in after.nodes.items()
        } == changed.without_probes(before, released)
        assert {name: part.probes for name, part in after.nodes.items()} == self._probes(before, after, changed)
        self._nothing_moved(before, after, changed, released)
        self.inventory, self.found = changed, after

    @staticmethod
    def _probes(before: AllocationPlan, after: AllocationPlan, inventory: Inventory) -> dict[str, dict[str, str]]:
        """Return the addresses that probe endpoints must have, by the blocks and other addresses of `after`."""
        found: dict[str, dict[str, str]] = {}
        for node, part in after.nodes.items():
            found[node] = {}
            taken = {*part.tunnels.values(), *part.workloads.values(), *part.workloads6.values()}
            old = before.nodes.get(node, NodeAllocations())
            freed = {*old.tunnels.values(), *old.workloads.values(), *old.workloads6.values()} - taken
            taken |= {*inventory.allocated.get(node, ())}
            for name, pool in inventory.pools.items():
                blocks = [netaddr.IPNetwork(grant.cidr) for grant in part.blocks if grant.pool == name]
                if "Workload" not in pool.allowed_uses or name in inventory.unprobed:
                    continue
                free = [
                    str(address)
                    for block in blocks
                    for address in sorted(netaddr.IPSet([block]), reverse=True)
                    if str(address) not in taken
                    and not any(address in netaddr.IPNetwork(cidr) for cidr in inventory.reservations)
                    and block.size > 1
                ]
                if free:
                    fresh = [address for address in free if address not in freed]
                    found[node][name] = old.probes[name] if old.probes.get(name) in free else (fresh or free)[0]
        return found

    def _nothing_moved(
        self, before: AllocationPlan, after: AllocationPlan, changed: Inventory, released: t.Collection[str]
    ) -> None:
        now = owners(after)
        for cidr, node in owners(before).items():
            if now.get(cidr) != node:
                assert node not in changed.nodes or released, f"{cidr} of {node} went to {now.get(cidr)}"
                assert released, f"{cidr} of {node} left quarantine"
        for name, part in before.nodes.items():
            if name not in changed.nodes:
                continue
            labels = changed.nodes[name].labels
            new = after.nodes[name]
            for grant in part.blocks:
                assert grant in new.blocks or not changed.pools[grant.pool].selects(labels)
            given = changed.allocated.get(name, ())
            for workload, address in part.addresses():
                request = changed.workloads.get((workload, 6 if ":" in address else 4))
                if (
                    request
                    and address not in given
                    and request.node == name
                    and request.address in (None, address)
                    and request.pool is None
                ):
                    assert (workload, address) in new.addresses()
            for kind, address in part.tunnels.items():
                pool = next(
                    p for p in changed.pools.values() if netaddr.IPAddress(address) in netaddr.IPNetwork(p.cidr)
                )
                if pool.selects(labels) and address not in given:
                    assert new.tunnels[kind] == address

    @rule(name=st.sampled_from(NODES), rack=st.sampled_from("ab"), seed=st.integers(0, 9))
    def add_or_move_node(self, name: str, rack: str, seed: int) -> None:
        self.run(seed, nodes={**self.inventory.nodes, name: NodeEntry(name, {"rack": rack})})

    @precondition(lambda self: len(self.inventory.nodes) > 1)
    @rule(data=st.data(), seed=st.integers(0, 9))
    def remove_node(self, data: st.DataObject, seed: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.inventory.nodes)))
        self.run(
            seed,
            nodes={node: entry for node, entry in self.inventory.nodes.items() if node != name},
            workloads={key: entry for key, entry in self.inventory.workloads.items() if entry.node != name},
        )

    @precondition(lambda self: self.inventory.nodes and self.inventory.pools)
    @rule(
        data=st.data(),
        name=st.sampled_from(WORKLOADS),
        how=st.sampled_from(["any", "any", "pool", "address"]),
        seed=st.integers(0, 9),
    )
    def add_or_change_workload(self, data: st.DataObject, name: str, how: str, seed: int) -> None:
        node = data.draw(st.sampled_from(sorted(self.inventory.nodes)))
        pool = data.draw(st.sampled_from(sorted(self.inventory.pools)))
        offset = data.draw(st.integers(0, 7))
        address = str(netaddr.IPNetwork(RANGES[pool])[offset])
        version = netaddr.IPNetwork(RANGES[pool]).version
        chosen = pool if how == "pool" else None
        request = WorkloadRequest(name, node, chosen, address if how == "address" else None, version)
        self.run(seed, workloads={**self.inventory.workloads, (name, version): request})

    @precondition(lambda self: self.inventory.workloads)
    @rule(data=st.data())
    def remove_workload(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.inventory.workloads)))
        self.run(workloads={key: entry for key, entry in self.inventory.workloads.items() if key != name})

    @rule(
        name=st.sampled_from(sorted(RANGES)),
        disabled=st.sampled_from([False, False, True]),
        selector=st.sampled_from(["all", "all", "rack a", "none"]),
        automatic=st.sampled_from([True, True, False]),
        seed=st.integers(0, 9),
    )
    def add_or_change_pool(self, name: str, disabled: bool, selector: str, automatic: bool, seed: int) -> None:
        uses = self.gamma_uses if name == "gamma" else ("Workload", "Tunnel")
        pool = PoolRange(name, RANGES[name], self.sizes[name], disabled, uses, SELECTORS[selector], automatic)
        self.run(seed, pools={**self.inventory.pools, name: pool})

    @rule(number=st.integers(0, 2))
    def change_spare_blocks(self, number: int) -> None:
        self.run(spare_blocks=number)

    @rule(
        chosen=st.sets(st.tuples(st.sampled_from(sorted(RANGES)), st.integers(0, 3)), max_size=3),
        longer=st.integers(0, 3),
        seed=st.integers(0, 9),
    )
    def change_reservations(self, chosen: set[tuple[str, int]], longer: int, seed: int) -> None:
        places = [(netaddr.IPNetwork(RANGES[pool]), offset) for pool, offset in chosen]
        ranges = {str(netaddr.IPNetwork(f"{pool[offset]}/{(29 if pool.version == 4 else 125) + longer}").cidr)
                  for pool, offset in places}  # fmt: skip
        self.run(seed, reservations=tuple(sorted(ranges)))

    @rule(pools=st.sets(st.sampled_from(sorted(RANGES)), max_size=2), seed=st.integers(0, 9))
    def change_unprobed_pools(self, pools: set[str], seed: int) -> None:
        self.run(seed, unprobed=tuple(sorted(pools)))

    @precondition(lambda self: any(part.blocks for part in self.found.nodes.values()))
    @rule(data=st.data(), count=st.integers(0, 6))
    def agent_gives_addresses_away(self, data: st.DataObject, count: int) -> None:
        """Plan again after the agent of one node has assigned up to `count` addresses of its open blocks.

        They replace those that its journal had. Some may be planned for workloads that the node does not know yet.
        """
        name = data.draw(st.sampled_from(sorted(name for name, part in self.found.nodes.items() if part.blocks)))
        own = [str(a) for grant in self.found.nodes[name].blocks for a in netaddr.IPSet([grant.cidr])]
        self.run(allocated={**self.inventory.allocated, name: data.draw(st.permutations(own))[:count]})

    @precondition(lambda self: any(part.spare_blocks for part in self.found.nodes.values()))
    @rule(data=st.data())
    def agent_opens_a_block(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, part in self.found.nodes.items() if part.spare_blocks)))
        cidr = self.found.nodes[name].spare_blocks[0].cidr
        before = self.found.generation
        self.run(opened={**self.inventory.opened, name: [cidr]})
        if cidr in self.inventory.opened.get(name, ()):
            assert cidr in [grant.cidr for grant in self.found.nodes[name].blocks] or self.found.quarantine
            assert self.found.generation == before + 1

    @precondition(lambda self: self.found.quarantine)
    @rule(data=st.data(), whole=st.booleans(), seed=st.integers(0, 9))
    def release(self, data: st.DataObject, whole: bool, seed: int) -> None:
        entry = data.draw(st.sampled_from(self.found.quarantine))
        self.run(seed, [entry.node if whole else entry.cidr])

    @invariant()
    def planning_again_changes_nothing(self) -> None:
        again = of_own_blocks(self.inventory, self.found).plan(self.found, seed=4)
        assert again == self.found

    @invariant()
    def the_lockfile_keeps_it_all(self) -> None:
        text = lockfile.dump(self.found)
        assert lockfile.load(text) == self.found
        assert lockfile.dump(lockfile.load(text)) == text

    @invariant()
    def everybody_has_what_is_promised(self) -> None:
        owners(self.found)
        seen = set()
        for name, part in self.found.nodes.items():
            own = [netaddr.IPNetwork(grant.cidr) for grant in part.blocks]
            held = (part.tunnels, part.workloads, part.workloads6, part.probes)
            for text in (text for addresses in held for text in addresses.values()):
                assert text not in seen
                assert text not in self.inventory.allocated.get(name, ())
                seen.add(text)
                assert any(netaddr.IPAddress(text) in block for block in own)
            labels = self.inventory.nodes[name].labels
            for pool in self.inventory.pools.values():
                if pool.automatic and not pool.disabled and pool.selects(labels):
                    assert any(grant.pool == pool.name for grant in part.blocks)
        placed = {(node, name, 4) for node, part in self.found.nodes.items() for name in part.workloads}
        placed |= {(node, name, 6) for node, part in self.found.nodes.items() for name in part.workloads6}
        assert placed == {(entry.node, entry.name, entry.version) for entry in self.inventory.workloads.values()}


TestFleet = Fleet.TestCase
TestFleet.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
