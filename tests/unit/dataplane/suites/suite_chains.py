# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many and long chains: single lines, both IP versions, the other backend, and chains that are refused."""

from __future__ import annotations

import random
import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Hook, IptablesTable

from tests.unit.dataplane.suites.drivers import converge, lines

BAD = "-j TCPMSS --set-mss 1400"  # The kernel accepts it with -p tcp only.


def run(kernel, argv, stdin=""):
    done = kernel.run(argv, stdin=stdin)
    assert done.code == 0, done.errors
    return done.output


def dispatch(count, family=4):
    """Return (rules, chains): `count` different rules, and {name: rules} of two chains to which they jump by turns.

    `family` is the IP version of the addresses in the two chains.
    """
    chains = {f"cali-tw-{n:03}": (f"-s 10.0.{n // 250}.{n % 250}/32 -j ACCEPT",) for n in (0, 1)}
    if family == 6:
        chains = {f"cali-tw-{n:03}": (f"-s fd00::{n:x}/128 -j ACCEPT",) for n in (0, 1)}
    return [f"-o cali{n:03} -j cali-tw-{n % 2:03}" for n in range(count)], chains


def filtering(entries, chains, family=4, **more):
    everything = {**chains, "cali-to-wl": tuple(entries), "cali-FORWARD": ("-j cali-to-wl",)}
    return IptablesTable("filter", everything, (Hook("FORWARD", "-j cali-FORWARD"),), family, **more)


def shown(kernel, chain, program="iptables"):
    """Return the rules of a chain without `-A <chain>` and our comments, as `<program>-save` prints them.

    Raise AssertionError if the program fails.
    """
    saved = run(kernel, [f"{program}-save"]).splitlines()
    return [iptables.bare(line.split(None, 2)[2]) for line in saved if line.startswith(f"-A {chain} ")]


def restored(kernel, desired):
    """Apply the differences, and return the inputs of all programs whose names end with `-restore`.

    Raise what `converge` raises.
    """
    texts = []
    ran = kernel.run

    def watch(argv, stdin="", timeout=60.0):
        if argv[0].endswith("-restore"):
            texts.append(stdin)
        return ran(argv, stdin, timeout)

    kernel.run = watch
    try:
        converge(iptables, kernel, desired)
    finally:
        kernel.run = ran
    return texts


def test_one_rule_of_a_long_chain_is_one_line(kernel):
    entries, chains = dispatch(60)
    converge(iptables, kernel, [filtering(entries, chains)])
    for changed in (
        [*entries[:30], "-o cali999 -j DROP", *entries[30:]],
        [*entries[:30], *entries[31:]],
        [*entries[:30], "-o cali999 -j DROP", *entries[31:]],
        ["-o cali999 -j DROP", *entries],
        [*entries, "-o cali999 -j DROP"],
    ):
        (text,) = restored(kernel, [filtering(changed, chains)])
        assert len(text.splitlines()) == 3, text
        assert shown(kernel, "cali-to-wl") == changed
        converge(iptables, kernel, [filtering(entries, chains)])


def test_rules_that_come_to_a_short_chain_are_inserted(kernel):
    """New rules of a short chain are added by -A or -I alone. If rules change places, the chain is written anew."""
    entries, chains = dispatch(8)
    have = [entries[5]]
    converge(iptables, kernel, [filtering(have, chains)])
    chance = random.Random(3)
    while len(have) < len(entries):
        known = set(have)
        come = chance.sample([entry for entry in entries if entry not in known], 1)
        have = [entry for entry in entries if entry in known or entry in come]
        (text,) = restored(kernel, [filtering(have, chains)])
        assert [line.split()[0] in ("-A", "-I") for line in text.splitlines()[1:-1]] == [True] * len(come), text
        assert shown(kernel, "cali-to-wl") == have
    (text,) = restored(kernel, [filtering(["-j RETURN", *entries[::-1]], chains)])
    assert ":cali-to-wl - [0:0]" in text.splitlines(), "rules that change places are written anew"
    assert shown(kernel, "cali-to-wl") == ["-j RETURN", *entries[::-1]]


def test_lines_of_a_long_chain_at_random(kernel):
    chance = random.Random(7)
    entries, chains = dispatch(40)
    spare = [f"-o cali{n:03} -j DROP" for n in range(100, 130)]
    have = list(entries)
    converge(iptables, kernel, [filtering(have, chains)])
    for dummy in range(12):
        for dummy in range(chance.randint(1, 8)):
            what = chance.choice(["insert", "delete", "replace", "move"])
            at = chance.randrange(len(have))
            if what == "insert":
                have.insert(at, chance.choice(spare))
            elif what == "delete":
                del have[at]
            elif what == "replace":
                have[at] = chance.choice(spare)
            else:
                have.append(have.pop(at))
        converge(iptables, kernel, [filtering(have, chains)])
        assert shown(kernel, "cali-to-wl") == have


def test_long_chain_that_differs_in_much_is_written_anew(kernel):
    entries, chains = dispatch(60)
    converge(iptables, kernel, [filtering(entries, chains)])
    (text,) = restored(kernel, [filtering(entries[::-1], chains)])
    assert ":cali-to-wl - [0:0]" in text.splitlines()
    assert not re.search("^-[IDR]", text, re.MULTILINE)


def test_only_what_differs_is_written_and_nothing_when_nothing_does(kernel):
    entries, chains = dispatch(30)
    tables = [filtering(entries, chains), IptablesTable("nat", {"cali-nat": ("-j RETURN",)})]
    assert len(restored(kernel, tables)) == 2
    assert restored(kernel, tables) == []
    (text,) = restored(kernel, [filtering(entries, {**chains, "cali-tw-001": ("-j DROP",)}), tables[1]])
    assert [line.split()[0] for line in text.splitlines()] == ["*filter", ":cali-tw-001", "-A", "COMMIT"]


def test_chains_of_both_families_are_made_and_removed(kernel):
    v4, v6 = (filtering(*dispatch(3, family), family) for family in (4, 6))
    planned = lines(iptables.diff([v4, v6], iptables.observe(kernel, [v4, v6])))
    assert [line for line in planned if "FORWARD  -j" in line or "FORWARD (IPv6)  -j" in line] == [
        "+ iptables filter FORWARD  -j cali-FORWARD    first in the chain",
        "+ iptables filter FORWARD (IPv6)  -j cali-FORWARD    first in the chain",
    ]
    converge(iptables, kernel, [v4, v6])
    assert shown(kernel, "cali-tw-001") == ["-s 10.0.0.1/32 -j ACCEPT"]
    assert shown(kernel, "cali-tw-001", "ip6tables") == ["-s fd00::1/128 -j ACCEPT"]
    converge(iptables, kernel, [v4])
    assert "cali-" not in run(kernel, ["ip6tables-save"])
    converge(iptables, kernel, [])


def test_hooks_at_both_ends(kernel):
    chains = {"cali-FORWARD": ("-j RETURN",)}
    hooks = (
        Hook("FORWARD", "-m mark --mark 0x10000/0x10000 -j ACCEPT", last=True),
        Hook("FORWARD", "-j cali-FORWARD"),
        Hook("FORWARD", "-j MARK --set-xmark 0x10000/0x10000", last=True),
    )
    table = IptablesTable("filter", chains, hooks)
    ours = [hooks[1].rule, hooks[0].rule, hooks[2].rule]
    theirs = ["-s 192.0.2.1/32 -j ACCEPT", "-s 192.0.2.2/32 -j ACCEPT"]
    run(kernel, ["iptables-restore"], f"*filter\n-A FORWARD {theirs[0]}\nCOMMIT\n")
    assert converge(iptables, kernel, [table])[1].endswith("    first and last in the chain")
    assert shown(kernel, "FORWARD") == [ours[0], theirs[0], *ours[1:]]
    run(kernel, ["iptables-restore", "--noflush"], f"*filter\n-A FORWARD {theirs[1]}\nCOMMIT\n")
    assert converge(iptables, kernel, [table])[0].endswith("    first and last in the chain again")
    assert shown(kernel, "FORWARD") == [ours[0], *theirs, *ours[1:]]
    converge(iptables, kernel, [])
    assert shown(kernel, "FORWARD") == theirs


def test_leftovers_in_the_other_backend_go(kernel):
    table = filtering(*dispatch(3))
    used = iptables.backends(kernel).used
    other = {"nft": "legacy", "legacy": "nft"}[used]
    converge(iptables, kernel, [table])
    ours = run(kernel, ["iptables-save"])
    run(kernel, [f"iptables-{other}-restore"], "\n".join(line for line in ours.splitlines() if line[0] != "#") + "\n")
    assert sorted(converge(iptables, kernel, [table])) == [
        f"- iptables filter FORWARD ({other})  -j cali-FORWARD",
        f"- iptables filter cali-FORWARD ({other})  1 rule",
        f"- iptables filter cali-to-wl ({other})  3 rules",
        f"- iptables filter cali-tw-000 ({other})  1 rule",
        f"- iptables filter cali-tw-001 ({other})  1 rule",
    ]
    assert "cali-" not in run(kernel, [f"iptables-{other}-save"])
    assert len(shown(kernel, "cali-to-wl")) == 3


def test_backend_with_clearly_more_rules_of_others_is_used(kernel):
    table = filtering(*dispatch(3))
    used = iptables.backends(kernel).used
    other = {"nft": "legacy", "legacy": "nft"}[used]
    assert iptables.observe(kernel, []).backend == used

    def theirs(program, rules):
        text = "".join(f"-A INPUT -s 192.0.2.{n}/32 -j ACCEPT\n" for n in range(rules))
        run(kernel, [f"{program}-restore", "--noflush"], f"*filter\n-F INPUT\n{text}COMMIT\n")

    theirs(f"iptables-{other}", 9)
    assert iptables.observe(kernel, []).backend == used
    theirs(f"iptables-{other}", 10)
    observed = iptables.observe(kernel, [])
    assert (observed.backend, observed.programs[6]) == (other, f"ip6tables-{other}")
    theirs("iptables", 10)
    assert iptables.observe(kernel, []).backend == used
    converge(iptables, kernel, [table])
    theirs(f"iptables-{other}", 11)
    converge(iptables, kernel, [table])
    assert "cali-" not in run(kernel, ["iptables-save"])
    assert len(shown(kernel, "cali-to-wl", f"iptables-{other}")) == 3


def refuse(kernel, desired):
    """Return the ApplyError that applying the differences raises. Fail the test if none is raised."""
    with pytest.raises(ApplyError) as caught:
        iptables.apply(kernel, iptables.diff(desired, iptables.observe(kernel, desired)))
    return caught.value


GOOD = {
    "cali-pi-a": ("-s 10.1.0.0/16 -j ACCEPT",),
    "cali-pi-b": ("-s 10.2.0.0/16 -j ACCEPT", "-s 10.3.0.0/16 -j ACCEPT"),
    "cali-pi-c": ("-s 10.4.0.0/16 -j ACCEPT",),
    "cali-tw-1": ("-j cali-pi-a", "-j cali-pi-b", "-j cali-pi-c", "-j DROP"),
    "cali-FORWARD": ("-o cali1 -j cali-tw-1",),
}
TITLES = {"cali-pi-b": "NetworkPolicy default/web, ingress"}


def policies(**changed):
    chains = {**GOOD, **{f"cali-pi-{name}": rules for name, rules in changed.items()}}
    return IptablesTable("filter", chains, (Hook("FORWARD", "-j cali-FORWARD"),), titles=TITLES)


@pytest.mark.parametrize("bad", [BAD, "-m set --match-set cali40gone src -j ACCEPT", "-j cali-gone"])
def test_new_policy_that_is_refused_is_closed_and_the_others_apply(kernel, bad):
    error = refuse(kernel, [policies(b=(GOOD["cali-pi-b"][0], bad, GOOD["cali-pi-b"][1]))])
    assert isinstance(error, iptables.SetAside)
    text = str(error)
    assert text.startswith(
        "iptables filter cali-pi-b: iptables-restore refused NetworkPolicy default/web, ingress (chain cali-pi-b) of"
        f" table filter at '-A cali-pi-b {bad} -m comment --comment \"host-routing:"
    )
    assert text.endswith(
        ". Until that is right the chain has the 1 rules before it, and what they leave it drops; everything else is"
        " applied. Correct it, then run again."
    )
    assert shown(kernel, "cali-pi-b") == [GOOD["cali-pi-b"][0], "-j DROP"]
    for chain in ("cali-pi-a", "cali-pi-c", "cali-tw-1", "cali-FORWARD"):
        assert shown(kernel, chain) == list(GOOD[chain])
    assert shown(kernel, "FORWARD") == ["-j cali-FORWARD"]
    assert "cali-trial" not in run(kernel, ["iptables-save"])
    assert len(converge(iptables, kernel, [policies()])) == 1


@pytest.mark.parametrize("bad", [BAD, "-m set --match-set cali40gone src -j ACCEPT", "-j cali-gone"])
def test_policy_that_is_refused_stays_as_it_was(kernel, bad):
    converge(iptables, kernel, [policies()])
    text = str(refuse(kernel, [policies(b=(bad,), c=("-j ACCEPT",))]))
    assert text.endswith(
        ". Its former rules stay in force, and everything else is applied. Correct it, then run again."
    )
    assert shown(kernel, "cali-pi-b") == list(GOOD["cali-pi-b"])
    assert shown(kernel, "cali-pi-c") == ["-j ACCEPT"]


def test_several_policies_that_are_refused(kernel):
    error = refuse(kernel, [policies(a=(BAD,), b=("-p tcp -m tcp --dport 99999 -j ACCEPT",), c=("-j cali-gone",))])
    assert sorted(change.subject for change, _reason in error.failures) == [
        "filter cali-pi-a",
        "filter cali-pi-b",
        "filter cali-pi-c",
    ]
    assert [shown(kernel, f"cali-pi-{name}") for name in "abc"] == [["-j DROP"]] * 3
    assert shown(kernel, "cali-tw-1") == list(GOOD["cali-tw-1"])


def test_a_refused_chain_of_all_packets_is_not_replaced_by_drop(kernel):
    table = IptablesTable("filter", {"cali-INPUT": (BAD,)}, (Hook("INPUT", "-j cali-INPUT"),))
    error = refuse(kernel, [table])
    assert not isinstance(error, iptables.SetAside)
    assert "Nothing of the table was changed." in str(error)
    assert "cali-INPUT" not in run(kernel, ["iptables-save"])


def test_hook_that_is_refused_fails_the_table(kernel):
    table = IptablesTable("filter", {"cali-INPUT": ("-j RETURN",)}, (Hook("INPUT", BAD),))
    assert "Nothing of the table was changed." in str(refuse(kernel, [table]))


def test_chain_that_others_use_stays_and_the_rest_goes(kernel):
    converge(iptables, kernel, [policies()])
    run(kernel, ["iptables-restore", "--noflush"], "*filter\n-A INPUT -j cali-pi-b\nCOMMIT\n")
    text = str(refuse(kernel, []))
    assert text.startswith("iptables filter cali-pi-b: The chain cali-pi-b of table filter could not be deleted: ")
    assert text.endswith(
        ". A rule that is not ours may refer to it (iptables-save | grep it); the next run tries again."
    )
    saved = run(kernel, ["iptables-save"]).splitlines()
    assert [line.split()[0] for line in saved if line.startswith(":cali-")] == [":cali-pi-b"]
