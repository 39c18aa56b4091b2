# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload that comes back is recognized, and others are not taken for it."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import BlockGrant
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import (
    Allocation,
    Allocations,
    NoAddress,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.former_owners import FormerOwners
from hypothesis import given
from hypothesis import strategies as st

A, B, C = ((4, number) for number in (1, 2, 3))


def container(digits: str, name: str = "web", **others: str) -> Allocation:
    """Return the allocation of a container whose id consists of `digits`, as a runtime's plugin asks for it."""
    id = digits * 64
    attributes = {"namespace": "default", "name": f"{name}.{id[:12]}.eth0", "network": "calico", "interface": "eth0"}
    attributes.update(container=id, **others)
    return Allocation("10.0.0.1", f"{attributes['network']}.{id}.{attributes['interface']}", attributes, "p", "")


def had(owners: FormerOwners[Allocation], one: Allocation) -> list[tuple[int, int]]:
    return owners.addresses_of(one.handle, one.attributes, lambda key: key[1])


def test_a_container_comes_back_by_its_id_before_its_name() -> None:
    owners: FormerOwners[Allocation] = FormerOwners()
    owners.remember(A, container("a"))
    owners.remember(B, container("b"))
    assert had(owners, container("a")) == [A, B, A]
    assert had(owners, container("c")) == [B, A]  # another container of that name: the latest release first
    assert had(owners, container("c", "db")) == []
    assert had(owners, container("a", "db")) == [A]
    for other in ({"namespace": "prod"}, {"network": "back"}):
        assert had(owners, container("c", **other)) == []
    owners.forget(B)
    assert had(owners, container("c")) == [A]


def test_a_name_without_a_container_is_none() -> None:
    """A workload of the API comes back by its id; one whose name has the form of a container's is none of them."""
    owners: FormerOwners[Allocation] = FormerOwners()
    owners.remember(A, Allocation("10.0.0.1", "default/web", {"namespace": "default", "name": "web"}, "p", ""))
    assert owners.addresses_of("default/web", {}, lambda key: 1) == [A]
    assert owners.addresses_of("default/db", {"namespace": "default", "name": "web"}, lambda key: 1) == []
    owners.remember(B, container("a"))
    forged = {key: text for key, text in container("a").attributes.items() if key != "container"}
    assert owners.addresses_of("default/forged", forged, lambda key: 1) == []


def test_what_an_engine_asked_for_is_no_identity_of_two() -> None:
    owners: FormerOwners[Allocation] = FormerOwners()

    def reserved(pools: str, address: str = "10.0.0.1") -> Allocation:
        return Allocation(address, f"reserved:{address}", {"reserved": "yes", "asked": pools}, "p", "")

    owners.remember(A, reserved(""))
    owners.remember(C, reserved("p,q", "10.0.0.3"))
    assert had(owners, reserved("", "10.0.0.9")) == [A]
    assert had(owners, reserved("p", "10.0.0.9")) == []
    owners.remember(B, reserved("", "10.0.0.2"))
    assert had(owners, reserved("", "10.0.0.9")) == []
    # One of the two has been released too long ago.
    one = reserved("")
    assert owners.addresses_of(one.handle, one.attributes, lambda key: None if key == A else 1) == [B]


_CONTAINERS = st.builds(container, st.sampled_from("abcdef"), st.sampled_from(["web", "db"]))
_STEPS = st.lists(st.tuples(st.sampled_from([A, B, C]), st.none() | _CONTAINERS), max_size=40)


@given(_STEPS, _CONTAINERS)
def test_there_is_one_former_owner_of_each_address(steps: list, one: Allocation) -> None:
    """However many names there were: what is remembered is bounded by the addresses, and nothing else is found."""
    owners: FormerOwners[Allocation] = FormerOwners()
    model: dict[tuple[int, int], Allocation] = {}
    for key, former in steps:
        if former is None:
            owners.forget(key)
            model.pop(key, None)
        else:
            owners.remember(key, former)
            model[key] = former
    assert len(owners) == len(model) <= 3
    assert sum(len(keys) for keys in owners._by_name.values()) <= 2 * len(model)
    name = one.attributes["name"].partition(".")[0]
    mine = {
        key
        for key, former in model.items()
        if former.handle == one.handle or former.attributes["name"].partition(".")[0] == name
    }
    assert set(had(owners, one)) == mine


def granted(spares: int = 0) -> Allocations:
    """Return the allocations of a block of four addresses, and of spare ones, with a cooldown of 10 s; 60 s sticky."""
    allocations = Allocations(10, 60)
    allocations.grant(
        [BlockGrant("10.0.0.0/30", "p")], [BlockGrant(f"10.0.0.{4 * (n + 1)}/30", "p") for n in range(spares)], {}
    )
    return allocations


def full(allocations: Allocations) -> list[str]:
    return [allocations.assign(f"h{number}", {}, 0).address for number in range(4)]


def test_others_get_a_kept_address_only_if_no_other_is_left() -> None:
    allocations = granted(spares=1)
    held = full(allocations)
    for now, number in enumerate((2, 1, 3)):
        allocations.release(f"h{number}", now)
    assert [allocations.assign(f"new{number}", {}, 15).address for number in range(4)] == [
        f"10.0.0.{number}" for number in range(4, 8)
    ]
    # The earliest release first; a workload of an address has it before others.
    assert allocations.assign("h3", {}, 15).address == held[3]
    assert allocations.assign("x", {}, 15).address == held[2]
    assert allocations.assign("y", {}, 15).address == held[1]
    with pytest.raises(NoAddress):
        allocations.assign("z", {}, 15)


def test_nobody_else_gets_a_kept_address_during_its_cooldown() -> None:
    allocations = granted()
    held = full(allocations)
    allocations.release("h1", 0)
    with pytest.raises(NoAddress):
        allocations.assign("x", {}, 9)
    assert allocations.assign("h1", {}, 9).address == held[1]


def test_what_could_not_be_written_is_kept_as_before() -> None:
    """The undoing of a return, and of a release, leads to the former owner of before."""
    allocations = granted()
    full(allocations)
    allocations.release("h1", 0)
    allocations.take_events()
    before = allocations.snapshot()
    allocations.assign("h1", {}, 1)
    allocations.release("h1", 2)
    allocations.assign("other", {}, 20)
    allocations.release("other", 21)
    allocations.undo(allocations.take_events())
    assert allocations.snapshot() == before
    assert allocations.assign("h1", {}, 22).address == "10.0.0.1"
    allocations.release("h2", 23)
    allocations.undo(allocations.take_events()[-1:])
    assert [held.handle for held in allocations.all()] == ["h0", "h1", "h2", "h3"]


def test_a_shortened_journal_has_the_former_owners() -> None:
    allocations = granted()
    full(allocations)
    allocations.release("h1", 0)
    allocations.release("h3", 1)
    again = granted()
    again.replay(allocations.snapshot())
    again.usage(1)
    assert again.assign("h1", {}, 30).address == "10.0.0.1"
    assert again.assign("h3", {}, 60).address == "10.0.0.3"


def test_an_address_of_a_failed_add_is_kept_for_nobody() -> None:
    allocations = granted()
    held = full(allocations)
    allocations.release("h1", 0, returns=False)
    allocations.release("h2", 0)
    assert allocations.assign("h1", {}, 10).address == held[1]  # it is free like any other
    allocations.release("h1", 10, returns=False)
    assert allocations.assign("x", {}, 20).address == held[1]
