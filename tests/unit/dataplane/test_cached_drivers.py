# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers with caches, compared with drivers that read everything each time."""

from __future__ import annotations

import dataclasses
import gc
import random
import types

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import (
    ipset,
    iptables,
    iptables_saved,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    TRUSTED,
    CachedDrivers,
    CachedSets,
    CachedTables,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.registry import REGISTRY
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Hook, IpSet, IptablesTable

from tests.unit.dataplane.suites.drivers import fail, lines, underlay
from tests.unit.dataplane.suites.suite_chains import BAD, dispatch, filtering, policies, shown
from tests.unit.dataplane.suites.suite_node import STATE


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def ran(kernel):
    """The names of the programs that were run, in their order and without arguments: a list that grows."""
    programs = []
    run = kernel.run

    def watch(argv, stdin="", timeout=60.0):
        programs.append(argv[0])
        return run(argv, stdin, timeout)

    kernel.run = watch
    return programs


def settle(driver, fresh, kernel, desired):
    """Apply the differences. Assert that neither `driver` nor `fresh` finds one afterwards.

    `driver` has a cache, and `fresh` reads everything. Raise ApplyError if a change fails.
    """
    driver.apply(kernel, driver.diff(desired, driver.observe(kernel, desired)))
    assert lines(driver.diff(desired, driver.observe(kernel, desired))) == []
    assert lines(fresh.diff(desired, fresh.observe(kernel, desired))) == []


def theirs(kernel, text, program="iptables"):
    done = kernel.run([f"{program}-restore", "--noflush"], stdin=f"*filter\n{text}\nCOMMIT\n")
    assert done.code == 0, done


def test_unchanged_tables_and_sets_are_neither_read_nor_written(kernel, ran):
    tables, sets = CachedTables(), CachedSets()
    entries, chains = dispatch(20)
    settle(tables, iptables, kernel, [filtering(entries, chains)])
    settle(sets, ipset, kernel, [IpSet("cali40a", "hash:net", ("10.0.0.1",))])
    ran.clear()
    for desired in ([filtering(entries, chains)], [filtering(list(entries), dict(chains))]):
        tables.apply(kernel, tables.diff(desired, tables.observe(kernel, desired)))
    desired = [IpSet("cali40a", "hash:net", ("10.0.0.1",))]
    sets.apply(kernel, sets.diff(desired, sets.observe(kernel, desired)))
    assert ran == []


def test_a_changed_chain_is_written_without_a_read(kernel, ran):
    tables = CachedTables()
    entries, chains = dispatch(20)
    settle(tables, iptables, kernel, [filtering(entries, chains)])
    for changed in ([*entries, "-o cali999 -j DROP"], entries[:5], entries):
        ran.clear()
        desired = [filtering(changed, chains)]
        tables.apply(kernel, tables.diff(desired, tables.observe(kernel, desired)))
        assert ran == ["iptables-restore"]
        assert shown(kernel, "cali-to-wl") == changed


def held(driver):
    """Return all texts that a driver refers to, as far as they are in its own values."""
    seen, todo, found = set(), [driver.__dict__], []
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (type, types.ModuleType, types.FunctionType)):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            found.append(one)
        todo += gc.get_referents(one)
    return found


def test_a_rule_that_was_read_is_in_memory_once_and_gone_with_its_chain(kernel):
    tables = CachedTables()
    entries, chains = dispatch(20)
    desired = [filtering(entries, chains)]
    settle(tables, iptables, kernel, desired)
    tables.forget()
    assert tables.diff(desired, tables.observe(kernel, desired)) == []
    assert len([text for text in held(tables) if entries[7] in text]) == 1
    tables.apply(kernel, tables.diff([], tables.observe(kernel, [])))
    del desired, chains
    assert not [text for text in held(tables) if entries[7] in text]


@pytest.fixture
def hashed(monkeypatch):
    """The names of the chains whose rules were hashed, in their order: a list that grows."""
    names = []
    hashes = iptables_saved.hashes

    def watch(chain, rules, *known):
        names.append(chain)
        return hashes(chain, rules, *known)

    monkeypatch.setattr(iptables_saved, "hashes", watch)
    return names


def test_only_chains_with_other_rules_are_hashed(kernel, hashed):
    """Whatever state is compared: the one in force, another one, the one in force after a change."""
    tables = CachedTables()
    entries, chains = dispatch(20)
    everything = {**chains, "cali-to-wl": tuple(entries), "cali-FORWARD": ("-j cali-to-wl",)}
    desired = [IptablesTable("filter", everything, (Hook("FORWARD", "-j cali-FORWARD"),))]
    changed = [dataclasses.replace(desired[0], chains={**everything, "cali-to-wl": tuple(entries[:5])})]
    settle(tables, iptables, kernel, desired)
    hashed.clear()
    tables.diff(desired, tables.observe(kernel, desired))
    assert hashed == []
    tables.differences(changed, tables.observe(kernel, changed))
    assert hashed == ["cali-to-wl"]
    tables.forget()  # The rules that are read then are other objects, the desired ones are the same.
    assert len(tables.diff(changed, tables.observe(kernel, changed))) == 1
    assert hashed == ["cali-to-wl"]


def test_foreign_writes_are_seen_at_the_next_observation(kernel):
    tables = CachedTables()
    desired = [filtering(*dispatch(20))]
    settle(tables, iptables, kernel, desired)
    for sabotage in ("-F FORWARD", "-F cali-to-wl", "-I FORWARD 1 -j ACCEPT", "-A cali-tw-000 -j ACCEPT"):
        theirs(kernel, sabotage)
        assert len(tables.diff(desired, tables.observe(kernel, desired))) == 1
        settle(tables, iptables, kernel, desired)


def test_lines_are_not_counted_on_when_others_wrote_meanwhile(kernel):
    """If others wrote to a chain since the plan, it is written whole: numbers of lines may have changed."""
    tables = CachedTables()
    entries, chains = dispatch(20)
    settle(tables, iptables, kernel, [filtering(entries, chains)])
    desired = [filtering([*entries[:10], *entries[11:]], chains)]
    changes = tables.diff(desired, tables.observe(kernel, desired))
    assert changes[0].new.delta == ("-D cali-to-wl 11",)
    theirs(kernel, "-I cali-to-wl 1 -j DROP")
    tables.apply(kernel, changes)
    assert shown(kernel, "cali-to-wl") == [*entries[:10], *entries[11:]]


def test_a_foreign_write_during_our_own_write_is_seen(kernel):
    tables = CachedTables()
    entries, chains = dispatch(20)
    settle(tables, iptables, kernel, [filtering(entries, chains)])
    run = kernel.run

    def both(argv, stdin="", timeout=60.0):
        kernel.run = run
        done = run(argv, stdin, timeout)
        theirs(kernel, "-F cali-tw-000")
        return done

    desired = [filtering(entries[:-1], chains)]
    changes = tables.diff(desired, tables.observe(kernel, desired))
    kernel.run = both
    tables.apply(kernel, changes)
    assert [change.subject for change in tables.diff(desired, tables.observe(kernel, desired))] == [
        "filter cali-tw-000"
    ]


def refused(kernel, tables, desired):
    """Apply the differences, which must raise SetAside; return its text."""
    with pytest.raises(iptables.SetAside) as caught:
        tables.apply(kernel, tables.diff(desired, tables.observe(kernel, desired)))
    return str(caught.value)


def test_a_refused_chain_is_read_again_but_not_tried_again(kernel, ran):
    tables = CachedTables()
    settle(tables, iptables, kernel, [policies()])
    bad = [policies(b=(BAD,), c=("-j DROP",))]
    reason = refused(kernel, tables, bad)
    ran.clear()
    assert tables.diff(bad, tables.observe(kernel, bad)) == []
    assert "iptables-save" in ran
    assert tables.set_aside == (reason,)
    ran.clear()
    assert tables.diff(bad, tables.observe(kernel, bad)) == []
    assert ran == []
    settle(tables, iptables, kernel, [policies()])
    assert tables.set_aside == ()


def test_a_refused_chain_is_tried_again_if_changed_or_on_request(kernel):
    tables = CachedTables()
    settle(tables, iptables, kernel, [policies()])
    for rules in ((BAD,), (BAD, "-j DROP")):
        bad = [policies(b=rules)]
        refused(kernel, tables, bad)
        assert tables.diff(bad, tables.observe(kernel, bad)) == []
    tables.retry()
    refused(kernel, tables, bad)
    assert tables.diff(bad, tables.observe(kernel, bad)) == []
    good = [policies(b=("-j DROP",))]
    settle(tables, iptables, kernel, good)
    assert tables.set_aside == ()


def test_a_deletion_that_a_jump_prevented_is_tried_again_without_the_jump(kernel):
    """The kernel refuses to delete a chain while a rule leads to it, and deletes it after the rule is gone."""
    tables = CachedTables()
    jumping = [IptablesTable("filter", {"cali-from": ("-j cali-to",), "cali-to": ("-j DROP",)})]
    settle(tables, iptables, kernel, jumping)
    without = [IptablesTable("filter", {"cali-from": ("-j ACCEPT",)})]
    changes = tables.diff(without, tables.observe(kernel, without))
    with pytest.raises(iptables.SetAside):
        tables.apply(kernel, [change for change in changes if change.action == "-"])
    left = tables.diff(without, tables.observe(kernel, without))
    assert lines(left) == lines(change for change in changes if change.action == "~")
    tables.apply(kernel, left)
    assert lines(tables.diff(without, tables.observe(kernel, without))) == ["- iptables filter cali-to  1 rule"]
    settle(tables, iptables, kernel, without)
    assert tables.set_aside == ()


def test_a_deleted_table_with_a_refused_chain_is_written_again(kernel):
    """If others delete a table in which a chain was refused, the table is written again, with that chain as -j DROP.

    Other chains jump to the refused chain, so nothing of the table could be written without it.
    """
    tables = CachedTables()
    settle(tables, iptables, kernel, [policies()])
    bad = [policies(b=(BAD,))]
    refused(kernel, tables, bad)
    kernel.netfilter.tables["nft", "iptables"].pop("filter")
    kernel.netfilter.generation += 1
    refused(kernel, tables, bad)
    assert tables.diff(bad, tables.observe(kernel, bad)) == []
    assert shown(kernel, "cali-pi-b") == ["-j DROP"]


def test_a_chain_that_lacked_a_set_is_tried_again_with_it(kernel):
    underlay(kernel)
    both = CachedDrivers()
    rule = "-m set --match-set cali40s:app src -j ACCEPT"
    state = dataclasses.replace(STATE, ipsets=(), iptables=(policies(),))
    kinds = ("ipset", "iptables")

    def bring(state):
        apply_node(kernel, plan_node(kernel, state, kinds, registry=both.registry))

    bring(state)
    state = dataclasses.replace(state, iptables=(policies(b=(rule,)),))
    with pytest.raises(iptables.SetAside):
        bring(state)
    bring(state)
    assert both.tables.set_aside != ()
    bring(dataclasses.replace(state, ipsets=(IpSet("cali40s:app", "hash:net", ("10.0.0.1",)),)))
    assert both.tables.set_aside == ()
    assert shown(kernel, "cali-pi-b") == [rule]


def test_plans_of_other_states_leave_no_trace(kernel, ran):
    both = CachedDrivers()
    entries, chains = dispatch(20)
    desired, sets = [filtering(entries, chains)], [IpSet("cali40a", "hash:net", ("10.0.0.1",))]
    settle(both.tables, iptables, kernel, desired)
    settle(both.sets, ipset, kernel, sets)
    ran.clear()
    other = [IpSet("cali40a", "hash:net", ("10.0.0.2",)), IpSet("cali40b", "hash:net", ())]
    driver, fresh = both.others.driver("ipset"), ipset.diff(other, ipset.observe(kernel, []))
    assert lines(driver.diff(other, driver.observe(kernel, other))) == lines(fresh)
    driver = both.others.driver("iptables")
    assert len(driver.diff([filtering(entries[:5], chains)], driver.observe(kernel, desired))) == 1
    ran.clear()
    assert both.tables.diff(desired, both.tables.observe(kernel, desired)) == []
    assert both.sets.diff(sets, both.sets.observe(kernel, sets)) == []
    assert ran == []


@pytest.mark.parametrize("backend", ["nft", "legacy"])
def test_a_doubt_has_read_what_no_generation_vouches_for(kernel, ran, backend):
    kernel.netfilter.default = backend
    both = CachedDrivers(Clock())
    desired = [filtering(*dispatch(3))]
    settle(both.tables, iptables, kernel, desired)
    settle(both.sets, ipset, kernel, [IpSet("cali40a", "hash:net", ("10.0.0.1",))])
    assert both.tables.backend == backend
    ran.clear()
    both.suspect({"ipset", "iptables"})
    both.tables.observe(kernel, desired)
    both.sets.observe(kernel, [])
    assert ran.count("ipset") == 1
    assert ("iptables-save" in ran) == (backend == "legacy")


def test_legacy_tables_are_read_again_in_time(kernel, ran):
    kernel.netfilter.default = "legacy"
    clock = Clock()
    tables = CachedTables(clock)
    desired = [filtering(*dispatch(3))]
    settle(tables, iptables, kernel, desired)
    theirs(kernel, "-R cali-tw-000 1 -j DROP")  # The table keeps its size, which is all that is compared each time.
    ran.clear()
    clock.now += TRUSTED - 0.1
    assert tables.diff(desired, tables.observe(kernel, desired)) == []
    assert ran == []
    clock.now += 0.1
    settle(tables, iptables, kernel, desired)
    theirs(kernel, "-R cali-tw-000 1 -j DROP")
    tables.forget()
    settle(tables, iptables, kernel, desired)
    theirs(kernel, "-F cali-tw-000")
    settle(tables, iptables, kernel, desired)


def test_legacy_tables_that_take_long_to_read_are_read_seldom(kernel, ran):
    kernel.netfilter.default = "legacy"
    clock = Clock()
    run = kernel.run

    def slow(argv, stdin="", timeout=60.0):
        clock.now += 0.2 * argv[0].endswith("-save")
        return run(argv, stdin, timeout)

    kernel.run = slow
    tables = CachedTables(clock)
    desired = [filtering(*dispatch(3))]
    tables.observe(kernel, desired)
    before = tables.mark(kernel)
    ran.clear()
    clock.now += 5 * TRUSTED
    tables.observe(kernel, desired)
    assert ran == [] and tables.mark(kernel)[0] == before[0]
    clock.now += 4 * TRUSTED
    tables.observe(kernel, desired)
    assert "iptables-save" in ran and tables.mark(kernel) != before


def test_sets_are_read_again_in_time(kernel, ran):
    clock = Clock()
    sets = CachedSets(clock)
    desired = [IpSet("cali40a", "hash:net", ("10.0.0.1",)), IpSet("cali60a", "hash:net", ("fd00::1",))]
    settle(sets, ipset, kernel, desired)
    kernel.run(["ipset", "add", "cali40a", "10.0.0.2"])
    ran.clear()
    clock.now += TRUSTED - 0.1
    assert sets.diff(desired, sets.observe(kernel, desired)) == []
    assert ran == []
    clock.now += 0.1
    settle(sets, ipset, kernel, desired)
    kernel.run(["ipset", "destroy", "cali60a"])
    sets.forget()
    settle(sets, ipset, kernel, desired)


def test_a_set_that_could_not_be_deleted_is_known_to_be_there(kernel, ran):
    sets = CachedSets()
    settle(sets, ipset, kernel, [IpSet(f"cali40{name}", "hash:net", ("10.0.0.1",)) for name in "abc"])
    theirs(kernel, "-A INPUT -m set --match-set cali40b src -j DROP")
    assert "cali40b could not be deleted" in fail(sets, kernel, [])
    ran.clear()
    assert [change.subject for change in sets.diff([], sets.observe(kernel, []))] == ["cali40b"]
    theirs(kernel, "-F INPUT")
    ran.clear()
    settle(sets, ipset, kernel, [])


def test_a_set_that_was_refused_is_read_again(kernel):
    sets = CachedSets()
    bad = IpSet("cali40a", "hash:ip,port", ("10.0.0.1,tcp:1", "10.0.0.1,nope:1"))
    assert "10.0.0.1,nope:1" in fail(sets, kernel, [bad])
    settle(sets, ipset, kernel, [IpSet("cali40a", "hash:ip,port", ("10.0.0.1,tcp:1",))])


def test_members_left_out_of_sets_are_reported_and_cause_no_change(kernel):
    sets = CachedSets()
    bad = IpSet("cali40a", "hash:net", ("10.0.0.1", "10.0.0.2 nomatch"))
    sets.apply(kernel, sets.diff([bad], sets.observe(kernel, [bad])))
    for desired in (bad, IpSet("cali40a", "hash:net", (*bad.members, "10.0.0.3"))):
        changes = sets.diff([desired], sets.observe(kernel, [desired]))
        assert [change.action for change in changes if change.action != "~"] == ["="]
        sets.apply(kernel, changes)
        assert sets.left_out == (
            "ipset cali40a: 1 member left out: '10.0.0.2 nomatch' cannot be a member of a hash:net for ipset restore:"
            " Allowed is an address or CIDR of IPv4. Correct what has that address; the rest of the set is in force.",
        )
    assert set(kernel.netfilter.sets["cali40a"].members) == {"10.0.0.1", "10.0.0.3"}
    good = IpSet("cali40a", "hash:net", ("10.0.0.1",))
    settle(sets, ipset, kernel, [good])
    assert sets.left_out == ()


@pytest.mark.parametrize("backend", ["nft", "legacy"])
@pytest.mark.parametrize("seed", range(6))
def test_any_course_of_changes_and_sabotage(kernel, backend, seed):
    """A driver with a cache always plans the same changes as one that reads everything.

    On the legacy backend, the test lets it forget its cache when others have written.
    """
    kernel.netfilter.default = backend
    chance = random.Random(seed)
    tables = CachedTables(Clock())
    spare = [f"-s 10.0.0.{n} -j ACCEPT" for n in range(40)]
    chains = {f"cali-{letter}": tuple(spare[:20]) for letter in "abc"}
    for dummy in range(12):
        chain = chance.choice(list(chains))
        rules = list(chains[chain])
        for dummy in range(chance.randint(0, 5)):
            rules.insert(chance.randrange(len(rules) + 1), chance.choice(spare))
            del rules[chance.randrange(len(rules))]
        chains = {**chains, chain: tuple(rules)}
        if chance.random() < 0.3:
            chains[f"cali-{chance.choice('defg')}"] = tuple(chance.sample(spare, 2))
        if chance.random() < 0.3 and len(chains) > 1:
            chains.pop(chance.choice(list(chains)))
        hooks = tuple(Hook("INPUT", f"-j {name}", chance.random() < 0.5) for name in chains if chance.random() < 0.3)
        desired = [IptablesTable("filter", chains, hooks), IptablesTable("filter", chains, hooks, family=6)]
        if chance.random() < 0.4:
            theirs(kernel, chance.choice(["-F INPUT", "-I INPUT 1 -j DROP"]), chance.choice(["iptables", "ip6tables"]))
            if backend == "legacy":
                tables.forget()
        fresh = iptables.diff(desired, iptables.observe(kernel, desired))
        assert sorted(lines(tables.diff(desired, tables.observe(kernel, desired)))) == sorted(lines(fresh))
        settle(tables, iptables, kernel, desired)


def test_a_node_with_drivers_that_remember(kernel, ran):
    underlay(kernel)
    registry = REGISTRY.replacing(CachedSets(), CachedTables())
    apply_node(kernel, plan_node(kernel, STATE, registry=registry))
    assert plan_node(kernel, STATE).additions == ()
    ran.clear()
    assert not plan_node(kernel, STATE, registry=registry).changed
    assert ran == []
    with pytest.raises(ApplyError, match="iptables-restore"):
        theirs(kernel, "-F INPUT")
        kernel.programs.discard("iptables-restore")
        apply_node(kernel, plan_node(kernel, STATE, registry=registry))


@pytest.mark.parametrize(("first", "then"), [("nft", "legacy"), ("legacy", "nft")])
def test_tables_move_when_iptables_is_changed_to_the_other_backend(kernel, ran, first, then):
    kernel.netfilter.default = first
    tables, desired = CachedTables(Clock()), [filtering(*dispatch(3))]
    settle(tables, iptables, kernel, desired)
    before = tables.mark(kernel)
    kernel.netfilter.default = then
    assert tables.mark(kernel) != before and tables.is_switched(kernel)
    settle(tables, iptables, kernel, desired)
    assert tables.backend == then and not tables.is_switched(kernel)
    saved = {backend: kernel.run([f"iptables-{backend}-save"]).output for backend in (first, then)}
    assert "cali-" not in saved[first] and "cali-tw-000" in saved[then]
    ran.clear()
    tables.apply(kernel, tables.diff(desired, tables.observe(kernel, desired)))
    assert ran == []


@pytest.mark.parametrize(("first", "then"), [("nft", "legacy"), ("legacy", "nft")])
def test_a_plan_from_before_a_change_of_the_backend_writes_nothing(kernel, first, then):
    kernel.netfilter.default = first
    tables, desired = CachedTables(Clock()), [filtering(*dispatch(3))]
    settle(tables, iptables, kernel, desired)
    planned = tables.diff([filtering(*dispatch(5))], tables.observe(kernel, desired))
    kernel.netfilter.default = then
    before = kernel.netfilter.snapshot()
    with pytest.raises(ApplyError) as refused:
        tables.apply(kernel, planned)
    assert refused.value.failures[0][1] == (
        "The host's iptables was changed to another backend after its rules were read (update-alternatives), so nothing"
        " was written. The rules from before stay in force, and the next attempt writes the other backend."
    )
    assert kernel.netfilter.snapshot() == before
    settle(tables, iptables, kernel, [filtering(*dispatch(5))])


@pytest.mark.parametrize(("four", "six"), [("nft", "legacy"), ("legacy", "nft")])
def test_each_ip_version_has_the_backend_of_its_own_program(kernel, ran, four, six):
    """update-alternatives is called for each program alone, and between two calls their backends differ."""
    kernel.netfilter.default, kernel.netfilter.default6 = four, six
    tables = CachedTables(Clock())
    desired = [filtering(*dispatch(3)), dataclasses.replace(filtering(*dispatch(3)), family=6)]
    settle(tables, iptables, kernel, desired)
    assert tables.backend == "nft and legacy"
    for backend in ("nft", "legacy"):
        for program, own in (("iptables", four), ("ip6tables", six)):
            assert ("cali-" in kernel.run([f"{program}-{backend}-save"]).output) == (backend == own)
    ran.clear()
    settle_again = tables.diff(desired, tables.observe(kernel, desired))
    assert (settle_again, ran) == ([], [])
    for program in ("iptables", "ip6tables"):
        theirs(kernel, "-F cali-to-wl", program)
        settle(tables, iptables, kernel, desired)
