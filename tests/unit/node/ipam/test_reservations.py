# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that are reserved before their workload comes: taken over, reserved again, undone with the disk."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import (
    AddressTaken,
    AllocationError,
    HandleTaken,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import IpamNotWritten

from tests.unit.node.ipam.test_local_ipam import Machine

OWNER = {"namespace": "default", "name": "box"}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def held(ipam):
    return {allocation.address: allocation.handle for allocation in ipam.allocations()}


def test_a_reserved_address_is_refused_to_others(machine):
    ipam = machine.start()
    assert ipam.reserve().address == "10.0.0.2"
    assert held(ipam) == {"10.0.0.2": "reserved:10.0.0.2"}
    assert ipam.reserved("10.0.0.2") is not None and ipam.reserved("10.0.0.3") is None and ipam.reserved("x") is None
    with pytest.raises(AddressTaken) as caught:
        ipam.assign("web", {}, address="10.0.0.2")
    assert str(caught.value) == (
        "10.0.0.2 belongs to reserved:10.0.0.2. Ask for another address, or for none to get a free one."
    )
    with pytest.raises(AddressTaken):
        ipam.assign_each("web", {}, addresses={4: "10.0.0.2"})
    assert ipam.reserve().address == "10.0.0.3"


def test_a_reservation_survives_a_restart(machine):
    ipam = machine.start()
    ipam.reserve(address="10.0.0.3")
    ipam.flush()
    ipam = machine.start()
    assert held(ipam) == {"10.0.0.3": "reserved:10.0.0.3"}
    ipam.assign_each("box", OWNER, addresses={4: "10.0.0.3"}, reserved=True)
    ipam.flush()
    assert held(machine.start()) == {"10.0.0.3": "box"}


def test_a_workload_takes_it_over_and_gives_it_back(machine):
    ipam = machine.start()
    ipam.reserve(address="10.0.0.3")
    (taken,) = ipam.assign_each("box", OWNER, addresses={4: "10.0.0.3"}, reserved=True)
    assert (taken.handle, taken.attributes) == ("box", {**OWNER, "reserved": "yes"})
    # The same again is the same.
    assert ipam.assign_each("box", OWNER, addresses={4: "10.0.0.3"}, reserved=True) == (taken,)
    assert ipam.reserved("10.0.0.3") is None
    assert [one.address for one in ipam.reserve_again("box")] == ["10.0.0.3"]
    assert held(ipam) == {"10.0.0.3": "reserved:10.0.0.3"}
    assert ipam.reserve_again("box") == []
    # A reservation itself is released.
    ipam.reserve_again("reserved:10.0.0.3")
    assert held(ipam) == {}


def test_reserve_again_releases_an_address_that_was_not_reserved(machine):
    ipam = machine.start()
    ipam.assign_each("web", OWNER, addresses={4: "10.0.0.2"}, reserved=True)
    ipam.reserve_again("web")
    assert held(ipam) == {}


def test_a_handle_with_another_address_leaves_the_reservation(machine):
    ipam = machine.start()
    ipam.reserve(address="10.0.0.3")
    ipam.assign("box", OWNER, address="10.0.0.2")
    with pytest.raises(HandleTaken):
        ipam.assign_each("box", OWNER, addresses={4: "10.0.0.3"}, reserved=True)
    assert held(ipam) == {"10.0.0.2": "box", "10.0.0.3": "reserved:10.0.0.3"}


def test_a_refusal_reserves_again(machine):
    """The second address is refused, so the first one is a reservation as before."""
    ipam = machine.start()
    ipam.reserve(address="10.0.0.3")
    with pytest.raises(AllocationError):
        ipam.assign_each("box", OWNER, addresses={4: "10.0.0.3", 6: "fd00::1"}, reserved=True)
    assert held(ipam) == {"10.0.0.3": "reserved:10.0.0.3"}


def test_a_disk_that_refuses_undoes_each_step(machine, monkeypatch):
    ipam = machine.start()
    ipam.reserve(address="10.0.0.3")
    ipam.flush()

    def refuse(records):
        raise IpamNotWritten("full")

    with monkeypatch.context() as patched:
        patched.setattr(ipam._journal, "append", refuse)
        ipam.assign_each("box", OWNER, addresses={4: "10.0.0.3"}, reserved=True)
        with pytest.raises(IpamNotWritten):
            ipam.flush()
        assert held(ipam) == {"10.0.0.3": "reserved:10.0.0.3"}
        ipam.reserve()
        with pytest.raises(IpamNotWritten):
            ipam.flush()
        assert held(ipam) == {"10.0.0.3": "reserved:10.0.0.3"}
    ipam.assign_each("box", OWNER, addresses={4: "10.0.0.3"}, reserved=True)
    ipam.flush()
    assert held(machine.start()) == {"10.0.0.3": "box"}


def test_passing_on_needs_no_cooldown_and_a_release_does(machine):
    ipam = machine.start()
    for address in ("10.0.0.2", "10.0.0.3"):
        ipam.reserve(address=address)
        ipam.assign_each(address, OWNER, addresses={4: address}, reserved=True)
        ipam.reserve_again(address)
    ipam.release("reserved:10.0.0.2")
    assert ipam.reserve().address == "10.0.0.4"  # of the next block: 10.0.0.2 rests
    machine.seconds += 60
    assert ipam.reserve().address == "10.0.0.2"


def test_a_full_node_reserves_the_address_that_rests_longest(machine):
    ipam = machine.start()
    reserved = []
    with pytest.raises(AllocationError):
        while True:
            reserved.append(ipam.reserve().address)
    for address in (reserved[2], reserved[0]):
        ipam.release(f"reserved:{address}")
        machine.seconds += 1
    assert [ipam.reserve().address for _ in range(2)] == [reserved[2], reserved[0]]
    with pytest.raises(AllocationError):
        ipam.reserve()
