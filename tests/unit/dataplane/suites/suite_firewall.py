# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the drivers of IP sets and of iptables, on any kernel."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset, iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    KernelError,
    MemberWrite,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    CachedDrivers,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Hook, IpSet, IptablesTable

from tests.unit.dataplane.suites.drivers import converge, fail

HOSTS = IpSet("cali40all-hosts-net", "hash:net", ("10.10.1.11", "10.10.1.12/32", "10.20.0.0/16"))
FILTER = IptablesTable(
    "filter",
    {
        "cali-INPUT": (
            "-p 4 -m set --match-set cali40all-hosts-net src -m addrtype --dst-type LOCAL -j ACCEPT",
            "-p 4 -m addrtype --dst-type LOCAL -j DROP",
        )
    },
    (Hook("INPUT", "-j cali-INPUT"),),
)
NAT = IptablesTable(
    "nat",
    {
        "cali-nat-outgoing": ("-d 10.244.0.0/16 -j RETURN", "-s 10.244.0.0/16 -j MASQUERADE --random-fully"),
        "cali-POSTROUTING": ("-j cali-nat-outgoing",),
    },
    (Hook("POSTROUTING", "-j cali-POSTROUTING"),),
)


def run(kernel, argv, stdin=""):
    done = kernel.run(argv, stdin=stdin)
    assert done.code == 0, done.errors
    return done.output


def rules(kernel, chain):
    return [line for line in run(kernel, ["iptables-save"]).splitlines() if line.startswith(f"-A {chain} ")]


def members(kernel, name):
    return {line.split()[2] for line in run(kernel, ["ipset", "save"]).splitlines() if line.startswith(f"add {name} ")}


def test_set_is_made_changed_and_deleted(kernel):
    assert converge(ipset, kernel, [HOSTS]) == ["+ ipset    cali40all-hosts-net  hash:net  3 members"]
    assert members(kernel, HOSTS.name) == {"10.10.1.11", "10.10.1.12", "10.20.0.0/16"}
    fewer = IpSet(HOSTS.name, "hash:net", ("10.10.1.11", "10.10.1.99"))
    assert converge(ipset, kernel, [fewer]) == [
        "~ ipset    cali40all-hosts-net  hash:net  3 members  ->  hash:net  2 members    1 in, 2 out"
    ]
    assert members(kernel, HOSTS.name) == {"10.10.1.11", "10.10.1.99"}
    assert converge(ipset, kernel, []) == ["- ipset    cali40all-hosts-net  hash:net  2 members"]
    assert "cali40" not in run(kernel, ["ipset", "save"])


def one_by_one(kernel, desired):
    """Apply the differences, and assert that no program but `ipset save` is run. Raise what `converge` raises."""
    with only_reading(kernel):
        converge(ipset, kernel, desired)


@contextlib.contextmanager
def only_reading(kernel):
    ran = kernel.run

    def only_reads(argv, stdin="", timeout=60.0):
        assert argv == ["ipset", "save"]
        return ran(argv, stdin, timeout)

    kernel.run = only_reads
    try:
        yield
    finally:
        kernel.run = ran


@pytest.mark.parametrize(
    ("name", "kind", "first", "second"),
    [
        ("cali40s:x", "hash:net", ("10.0.0.1", "10.1.0.0/16"), ("10.0.0.1", "10.2.0.0/15", "0.0.0.0/1")),
        ("cali60s:x", "hash:net", ("fd00::1", "2001:db8::/32"), ("fd00::1", "fd00::2", "2001:db8:1::/48")),
        ("cali40n:x", "hash:ip,port", ("10.0.0.1,tcp:80",), ("10.0.0.1,udp:53", "10.0.0.2,tcp:65535")),
        ("cali60n:x", "hash:ip,port", ("fd00::1,tcp:80",), ("fd00::1,sctp:80", "fd00::2,tcp:1")),
        ("cali40w:x", "hash:net,iface", ("10.0.0.1,cali1",), ("10.0.0.1,cali2", "10.0.0.2,cali0123456789a")),
    ],
)
def test_a_few_members_come_and_go_without_a_program(kernel, name, kind, first, second):
    converge(ipset, kernel, [IpSet(name, kind, first)])
    one_by_one(kernel, [IpSet(name, kind, second)])
    assert members(kernel, name) == set(second)
    one_by_one(kernel, [IpSet(name, kind, first)])
    assert members(kernel, name) == set(first)
    one_by_one(kernel, [])
    assert "cali" not in run(kernel, ["ipset", "save"])


@pytest.mark.parametrize(
    ("name", "kind", "only"),
    [
        ("cali40s:x", "hash:net", "10.0.0.1"),
        ("cali60s:x", "hash:net", "2001:db8::/32"),
        ("cali40p:x", "hash:ip", "10.0.0.1"),
        ("cali60n:x", "hash:ip,port", "fd00::1,tcp:80"),
        ("cali40w:x", "hash:net,iface", "10.0.0.1,cali1"),
        ("cali60w:x", "hash:net,iface", "fd00::1,cali1"),
    ],
)
def test_a_cached_driver_makes_a_new_set_without_a_program(kernel, name, kind, only):
    """It is like one that the program makes, once the program is known to be there."""
    drivers = CachedDrivers()
    converge(drivers.sets, kernel, [HOSTS])
    desired = [HOSTS, IpSet(name, kind, (only,))]
    with only_reading(kernel):
        drivers.sets.fill(kernel, drivers.sets.diff(desired, drivers.sets.observe(kernel, desired)))
    assert members(kernel, name) == {only}
    made = ipset.observe(kernel, [])
    run(kernel, ["ipset", "destroy", name])
    version = "6" if name.startswith("cali60") else ""
    run(kernel, ["ipset", "restore"], f"create {name} {kind} family inet{version} maxelem 1048576\n")
    assert made[name]._replace(members=frozenset()) == ipset.observe(kernel, [])[name]


def test_a_refused_set_member_raises_an_error(kernel):
    run(kernel, ["ipset", "restore"], f"create {HOSTS.name} hash:net maxelem 2\n")
    for kind, bad in (
        ("hash:net", "fd00::1"),
        ("hash:net", "10.0.0.1,eth0"),
        ("hash:net", "nowhere"),
        ("hash:ip,port", "10.0.0.1,tcp:65536"),
        ("hash:ip,port", "10.0.0.1,tcp:-1"),
    ):
        with pytest.raises((KernelError, ValueError)):
            kernel.ipset_write([MemberWrite("add", HOSTS.name, kind, bad)])
    with pytest.raises(KernelError):
        kernel.ipset_write([MemberWrite("add", "cali40nowhere", "hash:net", "10.0.0.1")])
    kernel.ipset_write([MemberWrite("add", HOSTS.name, "hash:net", "10.0.0.1")])
    kernel.ipset_write([MemberWrite("add", HOSTS.name, "hash:net", "10.0.0.1")])
    kernel.ipset_write([MemberWrite("del", HOSTS.name, "hash:net", "10.0.0.2")])
    assert members(kernel, HOSTS.name) == {"10.0.0.1"}
    run(kernel, ["ipset", "restore"], "create cali40other hash:net family inet6\n")
    assert "add cali40other 10.0.0.1" in fail(ipset, kernel, [IpSet("cali40other", "hash:net", ("10.0.0.1",))])


def test_an_impossible_set_member_is_left_out_and_reported(kernel):
    bad = "10.0.0.1\nadd cali40all-hosts-net 0.0.0.0/1"
    desired = [IpSet(HOSTS.name, "hash:net", ("10.10.1.11", bad, "fd00::1")), IpSet("cali40s:x", "hash:net")]
    assert converge(ipset, kernel, desired) == [
        "= ipset    cali40all-hosts-net    2 members left out: '10.0.0.1\\nadd cali40all-hosts-net 0.0.0.0/1' cannot be"
        " a member of a hash:net for ipset restore: Allowed is an address or CIDR of IPv4. 'fd00::1' cannot be a member"
        " of a hash:net for ipset restore: Allowed is an address or CIDR of IPv4. Correct what has that address; the"
        " rest of the set is in force.",
        "+ ipset    cali40all-hosts-net  hash:net  1 member",
        "+ ipset    cali40s:x  hash:net  0 members",
    ]
    assert members(kernel, HOSTS.name) == {"10.10.1.11"}
    for name, kind in (("cali40x\ny", "hash:net"), ("cali40x", "hash:net\nsave")):
        changes = ipset.diff([IpSet(name, kind), IpSet("cali40s:x", "hash:net")], ipset.observe(kernel, desired))
        assert [change.action for change in changes] == ["=", "-"]


def test_an_option_that_a_member_shall_not_have_is_taken_from_it(kernel):
    run(kernel, ["ipset", "restore"], f"create {HOSTS.name} hash:net\nadd {HOSTS.name} 10.20.0.0/16 nomatch\n")
    converge(ipset, kernel, [HOSTS])
    lines = [line for line in run(kernel, ["ipset", "save"]).splitlines() if line.startswith("add")]
    assert lines and not any("nomatch" in line for line in lines)


@pytest.mark.parametrize("exists", [False, True])
def test_a_rule_that_would_be_several_is_set_aside_with_its_chain(kernel, exists):
    if exists:
        converge(iptables, kernel, [IptablesTable("filter", {"cali-pi-bad": ("-s 10.9.0.0/16 -j ACCEPT",)})])
    bad = "-s 10.0.0.1 -j DROP\n-A INPUT -j ACCEPT"
    chains = {"cali-pi-bad": ("-s 10.1.0.0/16 -j ACCEPT", bad, "-j ACCEPT"), "cali-pi-good": ("-j DROP",)}
    text = fail(iptables, kernel, [IptablesTable("filter", chains, titles={"cali-pi-bad": "NetworkPolicy a/b"})])
    fate = (
        "Its former rules stay in force, and everything else is applied. Correct it, then run again."
        if exists
        else "Until that is right the chain has the 1 rules before it, and what they leave it drops; everything else is"
        " applied. Correct it, then run again."
    )
    line = f'-A cali-pi-bad {bad} -m comment --comment "host-routing:{iptables.hashes("cali-pi-bad", [bad])[0]}"'
    assert text == (
        "iptables filter cali-pi-bad: iptables-restore was not given NetworkPolicy a/b (chain cali-pi-bad) of table"
        f" filter at {line!r}: It has a line break or another control character. {fate}"
    )
    stand = ["-s 10.9.0.0/16 -j ACCEPT"] if exists else ["-s 10.1.0.0/16 -j ACCEPT", "-j DROP"]
    assert [iptables.bare(line.partition("cali-pi-bad ")[2]) for line in rules(kernel, "cali-pi-bad")] == stand
    assert len(rules(kernel, "cali-pi-good")) == 1
    assert rules(kernel, "INPUT") == []


def test_a_table_is_not_written_without_what_all_packets_pass(kernel):
    bad = IptablesTable("filter", {"cali-INPUT": ("-j ACCEPT\n-F",)}, (Hook("INPUT", "-j cali-INPUT"),))
    assert fail(iptables, kernel, [bad]) == (
        "iptables filter cali-INPUT: Nothing of table filter was changed, for chain cali-INPUT cannot be written: It"
        " has a line break or another control character. Correct it, then run again."
    )
    other = IptablesTable("nat\nfilter", {"cali-x": ("-j ACCEPT",)})
    assert fail(iptables, kernel, [other]) == (
        "iptables nat\nfilter cali-x: Nothing of table nat\nfilter was changed: 'nat\\nfilter' cannot be a table for"
        " iptables-restore: Allowed is one of filter, nat, mangle, raw, security. Correct it, then run again."
    )
    name = IptablesTable("filter", {"cali-x - [0:0]\nCOMMIT": ("-j ACCEPT",), "cali-y": ("-j DROP",)})
    assert "The chain was left out, everything else is applied." in fail(iptables, kernel, [name])
    assert len(rules(kernel, "cali-y")) == 1


def test_set_that_changes_altogether_is_swapped(kernel):
    converge(ipset, kernel, [IpSet(HOSTS.name, "hash:net", tuple(f"10.30.{n}.1" for n in range(200)))])
    converge(ipset, kernel, [IpSet(HOSTS.name, "hash:net", tuple(f"10.40.{n}.1" for n in range(200)))])
    assert members(kernel, HOSTS.name) == {f"10.40.{n}.1" for n in range(200)}
    assert "cali4t" not in run(kernel, ["ipset", "save"])


def test_set_of_another_type_is_made_anew(kernel):
    converge(ipset, kernel, [HOSTS])
    assert converge(ipset, kernel, [IpSet(HOSTS.name, "hash:ip", ("10.10.1.11",))]) == [
        "~ ipset    cali40all-hosts-net  hash:net  3 members  ->  hash:ip  1 member"
        "    deleted and made anew, for the type of a set cannot change"
    ]
    assert members(kernel, HOSTS.name) == {"10.10.1.11"}


def test_set_of_another_type_that_is_in_use_is_reported(kernel):
    converge(ipset, kernel, [HOSTS])
    converge(iptables, kernel, [FILTER])
    assert fail(ipset, kernel, [IpSet(HOSTS.name, "hash:ip", ("10.10.1.11",))]) == (
        "ipset cali40all-hosts-net: The set cali40all-hosts-net exists with type hash:net, and hash:ip is needed;"
        " the kernel cannot change a type in place, and the set is in use: Set cannot be destroyed: it is in use by a"
        " kernel component. Delete what refers to the set and the set (ipset destroy cali40all-hosts-net),"
        " then run again."
    )
    assert len(members(kernel, HOSTS.name)) == 3


def test_set_that_has_become_too_small_is_swapped_for_a_larger_one(kernel):
    run(kernel, ["ipset", "restore"], f"create {HOSTS.name} hash:net maxelem 2\nadd {HOSTS.name} 10.10.1.11\n")
    converge(iptables, kernel, [FILTER])
    assert converge(ipset, kernel, [HOSTS]) == [
        "~ ipset    cali40all-hosts-net  hash:net  1 member  ->  hash:net  3 members"
        "    2 in, 0 out, made anew with room for 1048576"
    ]
    assert len(members(kernel, HOSTS.name)) == 3
    assert "cali4t" not in run(kernel, ["ipset", "save"])


def test_full_set_gets_room_before_it_is_filled(kernel):
    run(kernel, ["ipset", "restore"], f"create {HOSTS.name} hash:net maxelem 1\nadd {HOSTS.name} 10.10.1.10\n")
    converge(ipset, kernel, [IpSet(HOSTS.name, "hash:net", ("10.10.1.11",))])
    assert members(kernel, HOSTS.name) == {"10.10.1.11"}


def test_sets_of_ipv6_and_of_ports(kernel):
    nets = IpSet("cali60s", "hash:net", ("fd00:0:0::1/128", "2001:DB8::/32", "::/0", "::ffff:10.0.0.1"))
    ports = IpSet("cali60p", "hash:ip,port", ("fd00:0::1,tcp:80", "fd00::2,udp:53"))
    everybody = IpSet("cali40e", "hash:net", ("0.0.0.0/0",))
    converge(ipset, kernel, [nets, ports, everybody])
    assert members(kernel, nets.name) == {"fd00::1", "2001:db8::/32", "::/1", "8000::/1", "::ffff:10.0.0.1"}
    assert members(kernel, ports.name) == {"fd00::1,tcp:80", "fd00::2,udp:53"}
    assert members(kernel, everybody.name) == {"0.0.0.0/1", "128.0.0.0/1"}
    many = tuple(f"fd00::{n:x}" for n in range(1, 200))
    converge(ipset, kernel, [IpSet(nets.name, "hash:net", many)])
    converge(ipset, kernel, [IpSet(nets.name, "hash:net", tuple(f"fd01::{n:x}" for n in range(1, 200)))])
    assert len(members(kernel, nets.name)) == 199
    converge(ipset, kernel, [])
    assert "cali6" not in run(kernel, ["ipset", "save"])


def test_set_that_is_refused_does_not_keep_others_from_being_written(kernel):
    run(kernel, ["ipset", "create", "cali40z", "hash:net"])
    wanted = [
        IpSet("cali40a", "hash:net", ("10.10.1.11",)),
        IpSet("cali40b", "hash:ip,port", ("10.10.1.11,tcp:80", "10.10.1.12,nope:80")),
        IpSet("cali40c", "hash:net", ("10.10.1.12",)),
    ]
    text = fail(ipset, kernel, wanted)
    assert text.startswith(
        "ipset cali40b: ipset restore refused 'add cali40b 10.10.1.12,nope:80': Syntax error: cannot parse 'nope' as a"
        " protocol"
    )
    assert text.endswith(
        ". The set is not as it should be, all others are."
        " See that the kernel has the modules ip_set and ip_set_hash_ipport, then run again."
    )
    assert members(kernel, "cali40a") == {"10.10.1.11"}
    assert members(kernel, "cali40c") == {"10.10.1.12"}
    assert "cali40z" not in run(kernel, ["ipset", "save"])


def test_sets_in_use_do_not_keep_others_from_being_deleted(kernel):
    names = [f"cali40{letter}" for letter in "abcd"]
    converge(ipset, kernel, [IpSet(name, "hash:net", ("10.10.1.11",)) for name in names])
    rules = "".join(f"-A INPUT -m set --match-set {name} src -j ACCEPT\n" for name in names[1:3])
    run(kernel, ["iptables-restore", "--noflush"], f"*filter\n{rules}COMMIT\n")
    text = fail(ipset, kernel, [])
    assert [line.split(":")[0] for line in text.splitlines()] == ["ipset cali40b", "ipset cali40c"]
    left = [line.split()[1] for line in run(kernel, ["ipset", "save"]).splitlines() if line.startswith("create")]
    assert left == ["cali40b", "cali40c"]


def test_sets_of_others_stay(kernel):
    run(kernel, ["ipset", "create", "theirs", "hash:ip"])
    converge(ipset, kernel, [HOSTS])
    converge(ipset, kernel, [])
    assert "create theirs " in run(kernel, ["ipset", "save"])


def test_set_in_use_is_not_deleted_and_said_so(kernel):
    converge(ipset, kernel, [HOSTS])
    converge(iptables, kernel, [FILTER])
    text = fail(ipset, kernel, [])
    assert text.startswith("ipset cali40all-hosts-net: The set cali40all-hosts-net could not be deleted:")
    assert "in use by a kernel component." in text
    assert text.endswith("A rule that is not ours may refer to it (iptables-save | grep it); the next run tries again.")


def test_chains_and_hooks_are_made_and_removed(kernel):
    converge(ipset, kernel, [HOSTS])
    assert converge(iptables, kernel, [FILTER, NAT]) == [
        "+ iptables filter cali-INPUT  2 rules",
        "+ iptables nat cali-nat-outgoing  2 rules",
        "+ iptables nat cali-POSTROUTING  1 rule",
        "+ iptables filter INPUT  -j cali-INPUT    first in the chain",
        "+ iptables nat POSTROUTING  -j cali-POSTROUTING    first in the chain",
    ]
    assert len(rules(kernel, "cali-INPUT")) == 2
    assert all('--comment "host-routing:' in rule for rule in rules(kernel, "cali-nat-outgoing"))
    assert converge(iptables, kernel, [NAT]) == [
        "- iptables filter INPUT  -j cali-INPUT",
        "- iptables filter cali-INPUT  2 rules",
    ]
    converge(iptables, kernel, [])
    assert "cali-" not in run(kernel, ["iptables-save"])


def test_comment_does_not_look_like_a_real_calico():
    assert not iptables.COMMENT.startswith("cali:")


@pytest.mark.parametrize(
    "sabotage",
    [
        "-F cali-nat-outgoing",
        "-A cali-nat-outgoing -j ACCEPT",
        "-I cali-nat-outgoing 1 -j ACCEPT",
        "-F POSTROUTING",
    ],
)
def test_a_nat_chain_broken_by_others_is_repaired(kernel, sabotage):
    converge(iptables, kernel, [NAT])
    good = run(kernel, ["iptables-save", "-t", "nat"]).splitlines()[1:-1]
    run(kernel, ["iptables-restore", "--noflush"], f"*nat\n{sabotage}\nCOMMIT\n")
    assert len(converge(iptables, kernel, [NAT])) == 1
    assert run(kernel, ["iptables-save", "-t", "nat"]).splitlines()[1:-1] == good


@pytest.mark.parametrize("kept", [(0, 1, 2), (3, 4, 5), (0, 2, 4, 5), (0, 1, 2, 3, 4)])
def test_a_chain_that_only_loses_rules_loses_these_alone(kernel, kept):
    """The kernel then need not check every jump of the table, and other rules keep their counters."""
    every = tuple(f"-s 10.244.1.{number}/32 -j ACCEPT" for number in range(6))
    converge(iptables, kernel, [IptablesTable("filter", {"cali-x": every})])
    (change,) = iptables.diff(
        [IptablesTable("filter", {"cali-x": tuple(every[number] for number in kept)})],
        iptables.observe(kernel, [FILTER]),
    )
    assert change.new.delta == tuple(f"-D cali-x {number + 1}" for number in reversed(range(6)) if number not in kept)
    iptables.apply(kernel, [change])
    assert [line.split()[3] for line in rules(kernel, "cali-x")] == [f"10.244.1.{number}/32" for number in kept]


def test_rules_in_another_order_are_rewritten(kernel):
    converge(iptables, kernel, [NAT])
    chain = NAT.chains["cali-nat-outgoing"]
    turned = IptablesTable("nat", {**NAT.chains, "cali-nat-outgoing": chain[::-1]}, NAT.hooks)
    assert converge(iptables, kernel, [turned]) == ["~ iptables nat cali-nat-outgoing  2 rules  ->  2 rules"]
    assert [rule.split()[2] for rule in rules(kernel, "cali-nat-outgoing")] == ["-s", "-d"]


def target(rule):
    """Return the target of a rule after `-j`. Raise IndexError if it has none.

    The fake kernel keeps the order in which a rule was written, the real one prints our comment before the target.
    """
    return rule.partition(" -j ")[2].split()[0]


def test_hook_comes_first_again_and_theirs_stay(kernel):
    converge(iptables, kernel, [NAT])
    theirs = (
        "*nat\n-I POSTROUTING 1 -s 192.0.2.0/24 -j MASQUERADE\n-A POSTROUTING -s 198.51.100.0/24 -j ACCEPT\nCOMMIT\n"
    )
    run(kernel, ["iptables-restore", "--noflush"], theirs)
    assert converge(iptables, kernel, [NAT]) == [
        "~ iptables nat POSTROUTING  -j cali-POSTROUTING  ->  -j cali-POSTROUTING    first in the chain again"
    ]
    assert [target(rule) for rule in rules(kernel, "POSTROUTING")] == ["cali-POSTROUTING", "MASQUERADE", "ACCEPT"]
    converge(iptables, kernel, [])
    assert [target(rule) for rule in rules(kernel, "POSTROUTING")] == ["MASQUERADE", "ACCEPT"]


def test_second_copy_of_a_hook_goes(kernel):
    converge(iptables, kernel, [NAT])
    copy = rules(kernel, "POSTROUTING")[0]
    run(kernel, ["iptables-restore", "--noflush"], f"*nat\n{copy}\nCOMMIT\n")
    converge(iptables, kernel, [NAT])
    assert len(rules(kernel, "POSTROUTING")) == 1


def test_chain_of_a_real_calico_is_not_deleted(kernel):
    rule = '-A cali-FORWARD -m comment --comment "cali:AbCdEfGhIjKlMnOp" -j ACCEPT'
    theirs = f"*filter\n:cali-FORWARD - [0:0]\n{rule}\nCOMMIT\n"
    run(kernel, ["iptables-restore", "--noflush"], theirs)
    assert converge(iptables, kernel, []) == []
    assert len(rules(kernel, "cali-FORWARD")) == 1


def test_rule_with_an_unknown_set_leaves_the_table_as_it_is(kernel):
    converge(iptables, kernel, [NAT])
    before = [line for line in run(kernel, ["iptables-save"]).splitlines() if line.startswith("-A")]
    text = fail(iptables, kernel, [FILTER, NAT])
    assert text.startswith("iptables filter cali-INPUT: iptables-restore refused table filter")
    assert "cali40all-hosts-net" in text
    assert text.endswith(
        "Nothing of the table was changed. See that the kernel has the modules which the rule names"
        " (xt_set, xt_comment, nf_nat), then run again."
    )
    after = [line for line in run(kernel, ["iptables-save"]).splitlines() if line.startswith("-A")]
    assert after == before
