# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of every history of a node, compared with a model without queues that looks at every address each time.

The model says who gets which address. Undoing, replaying or summing up the events makes no difference.
"""

from __future__ import annotations

import netaddr
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import BlockGrant
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import (
    AllocationError,
    Allocations,
    PoolUse,
)
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

COOLDOWN = 30
POOLS = {
    "p": PoolUse("10.0.0.0/28"),
    "q": PoolUse("10.0.1.0/30"),
    "m": PoolUse("10.0.2.0/31", assignment_mode="Manual"),
    "six": PoolUse("fd00::/125"),
}
BLOCKS = {f"10.0.0.{first}/30": "p" for first in (0, 4, 8, 12)} | {"10.0.1.0/31": "q", "10.0.1.2/31": "q"}
BLOCKS["10.0.2.0/31"] = "m"
BLOCKS.update(dict.fromkeys(("fd00::/126", "fd00::4/127", "fd00::6/127"), "six"))
UNIVERSE = [str(address) for cidr in BLOCKS for address in netaddr.IPNetwork(cidr)]
HANDLES = [f"h{number}" for number in range(12)]
RESERVATIONS = ["10.0.0.0/31", "10.0.0.5/32", "10.0.0.4/30", "10.0.1.0/24", "fd00::2/127"]


class Model:
    """The owners of addresses, and their former owners.

    `released` has (number of the release, its second, former owner) of each address that was released. For `sticky`
    seconds it is kept for its former owner.
    """

    def __init__(self, sticky):
        self.sticky = sticky
        self.blocks, self.spares, self.fixed, self.reservations = [], [], set(), []
        self.held, self.released, self.opened, self.count = {}, {}, [], 0

    def is_open(self, cidr):
        return cidr in self.blocks or (cidr in self.spares and cidr in self.opened)

    def reserved(self, address):
        return any(netaddr.IPAddress(address) in netaddr.IPNetwork(cidr) for cidr in self.reservations)

    def choices(self, cidr, now):
        """Return the addresses of a block that may be chosen at the second `now`, the next one first; [] for none."""
        found = []
        for address in map(str, netaddr.IPNetwork(cidr)):
            number, at, former = self.released.get(address, (0, -1000, None))
            if self.free(address) and at + COOLDOWN <= now and not (former and at + self.sticky > now):
                found.append((number, int(netaddr.IPAddress(address)), address))
        return [address for dummy, dummy, address in sorted(found)]

    def free(self, address):
        return not (address in self.held or address in self.fixed or self.reserved(address))

    def kept(self, own, now):
        """Return {address: former owner} for the addresses of blocks that are kept, the earliest release first."""
        return {
            address: former
            for address, (number, at, former) in sorted(self.released.items(), key=lambda item: item[1][0])
            if former
            and at + self.sticky > now
            and self.free(address)
            and any(address in netaddr.IPNetwork(cidr) for cidr in own)
        }

    def grant(self, blocks, spares, fixed, reservations):
        self.blocks, self.spares, self.fixed, self.reservations = blocks, spares, fixed, reservations
        for cidr in spares:
            if cidr not in self.opened and any(address in netaddr.IPNetwork(cidr) for address in self.held):
                self.opened.append(cidr)

    def assign(self, handle, now, address, pool, version):
        """Return the address that the handle has or is assigned at the second `now`, or None for a refusal.

        A new address is recorded, and so is its block if that was spare. `address` is a requested address, and decides
        the IP version in place of `version`. If `pool` is None, any pool serves, but "m" only for a requested address.
        An address that the handle has in the other IP version does not count. An address that is kept for the handle
        comes first, and one that is kept for another one last, when its cooldown is over.
        """
        if address is not None:
            version = 6 if ":" in address else 4

        def is_of(text):
            return (":" in text) == (version == 6)

        mine = [held for held, owner in self.held.items() if owner == handle and is_of(held)]
        if mine:
            return mine[0] if address in (None, mine[0]) else None
        own = [cidr for cidr in self.blocks + self.spares if pool in (None, BLOCKS[cidr]) and is_of(cidr)]
        if address is not None:
            if address in self.held or address in self.fixed:
                return None
            own = [cidr for cidr in own if address in netaddr.IPNetwork(cidr)]
        else:
            own = [cidr for cidr in own if pool or BLOCKS[cidr] != "m"]
            kept = self.kept(own, now)
            mine = [held for held, former in kept.items() if former == handle][-1:]
            rested = [held for held in kept if self.released[held][1] + COOLDOWN <= now]
            own = [cidr for cidr in own if self.choices(cidr, now)]
            own = [c for c in own if self.is_open(c)] or sorted(own, key=lambda c: BLOCKS[c])
            if mine or (rested and not own):
                address = (mine or rested)[0]
                own = [cidr for cidr in BLOCKS if address in netaddr.IPNetwork(cidr)]
        if not own:
            return None
        if not self.is_open(own[0]):
            self.opened.append(own[0])
        chosen = address or self.choices(own[0], now)[0]
        self.held[chosen] = handle
        self.released.pop(chosen, None)
        return chosen

    def release(self, handle, now):
        for address in [held for held, owner in self.held.items() if owner == handle]:
            del self.held[address]
            self.count += 1
            self.released[address] = self.count, now, handle


def state_of(allocations, now):
    return allocations.all(), allocations.usage(now), allocations.opened, allocations.snapshot()


class Node(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = 0
        self.log = []

    @initialize(data=st.data(), sticky=st.sampled_from([0, 10, 30, 60]))
    def start(self, data, sticky):
        self.model = Model(sticky)
        self.real = Allocations(COOLDOWN, sticky)
        self.grant(data)

    @rule(data=st.data())
    def grant(self, data):
        order = data.draw(st.permutations(sorted(BLOCKS)))
        opened, ahead = sorted(data.draw(st.tuples(*[st.integers(0, len(order))] * 2)))
        fixed = data.draw(st.sets(st.sampled_from(UNIVERSE), max_size=2))
        reservations = data.draw(st.lists(st.sampled_from(RESERVATIONS), max_size=2))
        self.granted = order[:opened], order[opened:ahead], sorted(fixed), reservations
        self.model.grant(*self.granted)
        self.apply_grant(self.real)
        self.keep()

    def apply_grant(self, allocations):
        blocks, spares, fixed, reservations = self.granted
        conflicts = allocations.grant(
            [BlockGrant(cidr, BLOCKS[cidr]) for cidr in blocks],
            [BlockGrant(cidr, BLOCKS[cidr]) for cidr in spares],
            dict.fromkeys(fixed[::2], "a tunnel"),
            reservations,
            POOLS,
            {f"pool-{number}": address for number, address in enumerate(fixed[1::2])},
        )
        mine = netaddr.IPSet(blocks + spares)
        lost = {netaddr.IPNetwork(held.block) for held in allocations.all() if held.address not in mine}
        assert len(conflicts) == len(lost) + len(self.model.held.keys() & set(fixed))

    def keep(self):
        events = self.real.take_events()
        self.log += events
        return events

    @rule(
        handle=st.sampled_from(HANDLES),
        address=st.none() | st.sampled_from(UNIVERSE),
        pool=st.none() | st.sampled_from(sorted(POOLS)),
        version=st.sampled_from([4, 4, 6]),
    )
    def assign(self, handle, address, pool, version):
        expected = self.model.assign(handle, self.now, address, pool, version)
        how = {"address": address, "version": version}
        pools = () if pool is None else (pool,)
        if expected is None:
            with pytest.raises(AllocationError):
                self.real.assign(handle, {}, self.now, pools=pools, **how)
            assert self.keep() == []
        else:
            assert self.real.assign(handle, {}, self.now, pools=pools, **how).address == expected
            self.keep()

    @rule(count=st.integers(1, 6))
    def assign_several(self, count):
        for handle in [handle for handle in HANDLES if handle not in self.model.held.values()][:count]:
            self.assign(handle, None, None, 4)

    @rule(handle=st.sampled_from(HANDLES))
    def release(self, handle):
        self.model.release(handle, self.now)
        self.real.release(handle, self.now)
        self.keep()

    @rule(seconds=st.sampled_from([1, 10, 29, 30, 100]))
    def wait(self, seconds):
        self.now += seconds

    @rule(wishes=st.lists(st.tuples(st.sampled_from(HANDLES), st.none() | st.sampled_from(UNIVERSE)), max_size=6))
    def do_and_undo(self, wishes):
        """Make changes and undo them, as if they could not be written, and assert that the state is as before.

        A wish is (handle, address or None). A handle that has an address is released, and another one is assigned one
        unless that is refused.
        """
        before = state_of(self.real, self.now)
        for handle, address in wishes:
            if self.real.by_handle(handle):
                self.real.release(handle, self.now)
            else:
                try:
                    self.real.assign(handle, {}, self.now, address=address)
                except AllocationError:
                    continue
        self.real.undo(self.real.take_events())
        assert state_of(self.real, self.now) == before

    @rule(summed_up=st.booleans())
    def start_again(self, summed_up):
        """Replay all events, or their snapshot if `summed_up`, and assert that the state is the same."""
        events = self.real.snapshot() if summed_up else self.log
        again = Allocations(COOLDOWN, self.model.sticky)
        again.replay(events)
        self.apply_grant(again)
        assert again.usage(self.now) == self.real.usage(self.now)
        assert again.opened == self.real.opened
        assert again.all() == self.real.all()
        self.real, self.log = again, [*events, *again.take_events()]
        if summed_up:  # a snapshot lacks the order of rested addresses outside of the node's blocks
            own = netaddr.IPSet(self.granted[0] + self.granted[1])
            self.model.released = {
                address: (number, at, former)
                for address, (number, at, former) in self.model.released.items()
                if address in own or at + COOLDOWN > self.now
            }

    @invariant()
    def agree(self):
        assert {held.address: held.handle for held in self.real.all()} == self.model.held
        assert self.real.opened == tuple(cidr for cidr in self.model.opened if cidr in self.model.spares)
        for use in self.real.usage(self.now):
            if use.cidr in self.model.blocks + self.model.spares:
                mine = set(map(str, netaddr.IPNetwork(use.cidr)))
                assert use.spare == (not self.model.is_open(use.cidr))
                assert use.free == len(self.model.choices(use.cidr, self.now))
                assert use.in_use == len(mine & (self.model.held.keys() | set(self.model.fixed)))
                assert use.reserved == sum(map(self.model.reserved, mine))


TestNode = Node.TestCase
TestNode.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
