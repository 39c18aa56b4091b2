# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and limits of the driver of IP sets: room for members, few and many changes, refusals, and sets in use."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.ipset import Observed
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.encoding import ipset_encoding
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import IpSet

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import converge, lines

NAME = "cali40s:x"
ROOM = 1048576


def nets(*numbers: int, name: str = NAME) -> IpSet:
    return IpSet(name, "hash:net", tuple(f"10.{n // 65536}.{n // 256 % 256}.{n % 256}" for n in numbers))


def change(have: t.Optional[Observed], want: Observed) -> Change:
    return Change("ipset", "~", NAME, None, None, "", have, (NAME, want))


def sized(first: int, end: int, room: int = ROOM) -> Observed:
    """Return an observed set with the members `first` to `end` - 1, and room for `room` members.

    Numbers take the place of addresses where only their count matters.
    """
    return Observed("hash:net", t.cast(t.FrozenSet[str], frozenset(range(first, end))), room)


def restored(kernel: FakeKernel, desired: t.Sequence[IpSet]) -> list[str]:
    """Apply the differences, and return the lines that programs received as input; only `ipset restore` has any.

    Raise what `converge` raises.
    """
    run, inputs = kernel.run, []

    def watch(argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> t.Any:
        inputs.extend(stdin.splitlines())
        return run(argv, stdin, timeout)

    kernel.run = watch  # type: ignore[method-assign]
    converge(ipset, kernel, desired)
    kernel.run = run  # type: ignore[method-assign]
    return inputs


@pytest.mark.parametrize(
    ("have", "want", "room"),
    [
        (sized(0, 2, 3), sized(1, 3), 3),
        (sized(0, 2, 2), sized(1, 3), ROOM),
        (sized(0, 2, 4), sized(2, 4), 4),
        (sized(0, 2, 3), sized(2, 4), ROOM),
        (sized(0, 2, 2), sized(0, 2), 2),
    ],
    ids=["one in both, just enough", "one in both, too small", "all new, just enough", "all new, too small", "same"],
)
def test_a_set_keeps_its_size_while_members_before_and_after_fit_into_it(
    have: Observed, want: Observed, room: int
) -> None:
    assert ipset.filled(change(have, want)) == Observed("hash:net", have.members | want.members, room)
    assert ipset.drained(change(have, want)).max_elements == room


@pytest.mark.parametrize(("members", "room"), [(ROOM, ROOM), (ROOM + 1, 2 * ROOM)])
def test_the_room_of_a_set_doubles_if_its_members_do_not_fit(members: int, room: int) -> None:
    assert ipset.filled(change(sized(0, members - 1, 1), sized(members - 1, members))).max_elements == room


@pytest.mark.parametrize(("members", "room", "differs"), [(3, 3, False), (3, 2, True), (3, 4, False)])
def test_a_set_without_room_for_its_members_is_made_anew(members: int, room: int, differs: bool) -> None:
    """A set is made anew if its room is less than its members, and stays if it is full with exactly its members."""
    want = nets(*range(members))
    have = ipset.wanted(want)._replace(max_elements=room)
    assert lines(ipset.diff([want], {NAME: have})) == [
        f"~ ipset    {NAME}  hash:net  3 members  ->  hash:net  3 members"
        f"    0 in, 0 out, made anew with room for {ROOM}"
    ] * int(differs)


def test_blank_lines_and_sets_of_others_are_no_sets_of_ours() -> None:
    output = f"\ncreate theirs hash:net family inet\n \ncreate {NAME} hash:net maxelem 9\n\nadd {NAME} 10.0.0.1\n"
    assert ipset.parse(output) == {NAME: Observed("hash:net", frozenset(["10.0.0.1"]), 9)}


@pytest.mark.parametrize(("members", "program"), [(4000, False), (4001, True)])
def test_up_to_four_thousand_members_come_without_a_program(kernel: FakeKernel, members: int, program: bool) -> None:
    converge(ipset, kernel, [nets(0)])
    assert bool(restored(kernel, [nets(*range(members + 1))])) == program


@pytest.mark.parametrize(
    ("have", "gone", "swapped"),
    [(64, 64, False), (65, 65, True), (129, 65, True), (130, 65, False), (200, 100, False), (200, 101, True)],
)
def test_a_set_is_swapped_if_more_than_half_of_many_members_go(
    kernel: FakeKernel, have: int, gone: int, swapped: bool
) -> None:
    """A set is swapped if more than 64 members and more than half of them go; otherwise they are removed singly.

    Members that stay are in the set at every moment, because a swap is one step.
    """
    converge(ipset, kernel, [nets(*range(have))])
    text = restored(kernel, [nets(*range(gone, have))])
    assert any(line.startswith("swap ") for line in text) == swapped
    assert not (swapped and any(line.startswith("del ") for line in text))


@pytest.mark.parametrize(("bad", "written"), [(50, True), (51, False)])
def test_fifty_sets_may_be_refused_before_the_rest_is_given_up(kernel: FakeKernel, bad: int, written: bool) -> None:
    refused = [IpSet(f"cali40n:{number}", "hash:ip,port", ("10.10.1.12,nope:80",)) for number in range(bad)]
    desired = [*refused, nets(1, name="cali40s:last")]
    with pytest.raises(ApplyError) as caught:
        ipset.apply(kernel, ipset.diff(desired, ipset.observe(kernel, desired)))
    assert [kind.subject for kind, _words in caught.value.failures[:50]] == [one.name for one in refused[:50]]
    made = {one.name for one in desired} - {kind.subject for kind, _words in caught.value.failures}
    assert [kind.subject for kind in caught.value.unmade] == ([] if written else sorted(made))
    found = ipset.observe(kernel, desired)
    assert ("cali40s:last" in found) == written
    assert not any(name.startswith("cali40n") for name in found), "a set that was refused is not left half filled"


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_set_that_the_kernel_releases_late_is_deleted_within_a_fifth_of_a_second(
    kernel: FakeKernel, after: int
) -> None:
    converge(ipset, kernel, [nets(1)])
    text = f"*filter\n-A INPUT -m set --match-set {NAME} src -j ACCEPT\nCOMMIT\n"
    assert kernel.run(["iptables-restore"], stdin=text).code == 0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == after:
            kernel.run(["iptables-restore"], stdin="*filter\n-F INPUT\nCOMMIT\n")

    ipset.apply(kernel, ipset.diff([], ipset.observe(kernel, [])), sleep)
    assert ipset.observe(kernel, []) == {}
    assert len(slept) == after and sum(slept) <= 0.2


def test_a_set_that_stays_in_use_is_given_up_after_a_fifth_of_a_second(kernel: FakeKernel) -> None:
    converge(ipset, kernel, [nets(1)])
    text = f"*filter\n-A INPUT -m set --match-set {NAME} src -j ACCEPT\nCOMMIT\n"
    assert kernel.run(["iptables-restore"], stdin=text).code == 0
    slept: list[float] = []
    with pytest.raises(ApplyError, match="could not be deleted"):
        ipset.apply(kernel, ipset.diff([], ipset.observe(kernel, [])), slept.append)
    assert sum(slept) == pytest.approx(0.2)


@pytest.mark.parametrize(("member", "ipv6"), [("0.0.0.0/0", False), ("::/0", True)])
def test_all_addresses_without_an_interface_are_no_member_of_a_set_with_interfaces(member: str, ipv6: bool) -> None:
    assert ipset_encoding.members("hash:net,iface", ipv6, [member]) == ipset_encoding.Members(frozenset(), (member,))
    assert ipset_encoding.members("hash:net", ipv6, [member]).refused == ()


@pytest.mark.parametrize(("bad", "more"), [(1, ""), (5, ""), (6, " And 1 more."), (8, " And 3 more.")])
def test_five_members_that_were_left_out_are_named_and_others_counted(bad: int, more: str) -> None:
    want = ipset.wanted(IpSet(NAME, "hash:net", ("10.0.0.1", *(f"no-{number}" for number in range(bad)))))
    text = ipset.left_out(NAME, want)
    assert text.startswith(f"{bad} member{'s' if bad > 1 else ''} left out: 'no-0' cannot be a member")
    assert text.count("cannot be a member") == min(bad, 5)
    assert text.endswith(f"of IPv4.{more} Correct what has that address; the rest of the set is in force.")


@pytest.mark.parametrize(
    ("member", "ipv6", "saved"),
    [
        ("10.0.0.1/32", False, "10.0.0.1"),
        ("10.0.0.1/32,tcp:80", False, "10.0.0.1,tcp:80"),
        ("10.0.0.0/31", False, "10.0.0.0/31"),
        ("fd00:0::1/128", True, "fd00::1"),
        ("FD00::/64", True, "fd00::/64"),
        ("fd00::1,tcp:80", True, "fd00::1,tcp:80"),
        ("no-address", True, "no-address"),
    ],
)
def test_a_member_is_compared_as_ipset_saves_it(member: str, ipv6: bool, saved: str) -> None:
    assert ipset.canonical(member, ipv6) == saved
