# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a caching driver of iptables reads after another program has written rules."""

from __future__ import annotations

import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    CachedTables,
)

from tests.unit.dataplane.suites.drivers import converge
from tests.unit.dataplane.suites.suite_chains import dispatch, filtering

_BEFORE = ":theirs - [0:0]\n-A theirs -j ACCEPT\n:others - [0:0]\n-A INPUT -j theirs"


def restored(kernel, text, program="iptables", table="filter"):
    done = kernel.run([f"{program}-restore", "--noflush"], stdin=f"*{table}\n{text}\nCOMMIT\n")
    assert done.code == 0, done


def content(observed):
    """Return the chains of all tables, our rules as their hashes: the cache has them as written, not as printed.

    Chains of the kernel without rules are left out: iptables-save prints them even if their table does not exist.
    """
    return {
        (place, chain): [rule.hash or rule.text for rule in rules]
        for place, chains in observed.tables.items()
        for chain, rules in chains.items()
        if rules or not chain.isupper()
    }


@pytest.fixture
def settled(kernel):
    """A driver that has written chains and read them again, beside two chains of others, and the desired tables."""
    tables, desired = CachedTables(), [filtering(*dispatch(20))]
    restored(kernel, _BEFORE)
    converge(tables, kernel, desired)
    tables.forget()
    tables.observe(kernel, desired)
    return tables, desired


@pytest.mark.parametrize(
    ("program", "table", "text"),
    [
        ("iptables", "filter", "-A theirs -j DROP"),
        ("iptables", "filter", "-I INPUT 1 -j DROP"),
        ("iptables", "filter", "-D theirs 1"),
        ("iptables", "filter", ":new - [0:0]\n-A new -j ACCEPT\n-A INPUT -j new"),
        ("iptables", "filter", "-X others"),
        ("iptables", "filter", ":others - [0:0]\n-A others -j DROP\n-A FORWARD -j others"),
        ("iptables", "filter", "-F cali-tw-000"),
        ("iptables", "filter", "-A cali-tw-000 -j ACCEPT\n-F FORWARD"),
        ("iptables", "nat", "-A POSTROUTING -j ACCEPT"),
        ("ip6tables", "filter", "-A INPUT -j ACCEPT"),
        ("iptables", "filter", "\n".join(f":many{n} - [0:0]\n-A many{n} -j DROP" for n in range(40))),
        ("iptables", "filter", "\n".join(f":many{n} - [0:0]" for n in range(1200))),
    ],
)
def test_chains_that_others_write_are_read_again_and_the_other_ones_are_not(kernel, settled, program, table, text):
    """A chain is read alone, or its table if there are many or it is new. What does not fit the socket is lost."""
    tables, desired = settled
    ran, programs = kernel.run, []

    def watch(argv, stdin="", timeout=60.0):
        programs.append(argv)
        return ran(argv, stdin, timeout)

    restored(kernel, text, program, table)
    kernel.run = watch
    seen = tables.observe(kernel, desired)
    kernel.run = ran
    assert content(seen) == content(iptables.observe(kernel, desired))
    if text.count("\n") < 1000:
        assert all("-t" in argv for argv in programs)
        assert 1 <= len(programs) <= 2
    assert tables.observe(kernel, desired) is seen
    converge(tables, kernel, desired)


def test_each_of_many_writes_of_others_is_seen(kernel, settled):
    tables, desired = settled
    for number in range(30):
        for part in range(number % 3 + 1):
            restored(kernel, f"-I theirs 1 -s 10.{number}.0.{part} -j DROP")
        if number % 4 == 3:  # and a write of ours between them
            restored(kernel, "-F cali-tw-001")
            converge(tables, kernel, desired)
        assert content(tables.observe(kernel, desired)) == content(iptables.observe(kernel, desired))


@pytest.mark.parametrize("chain", ["cali-to-wl", "cali-tw-000", "FORWARD"])
@pytest.mark.parametrize("target", ["-j elsewhere", "-g elsewhere", "-j DROP", "-j RETURN", ""])
def test_a_rule_that_kept_our_comment_and_leads_elsewhere_is_written_again(kernel, settled, chain, target):
    """Saved rules were edited and restored, or a chain to which a rule of ours leads was renamed."""
    tables, desired = settled
    before = content(iptables.observe(kernel, desired))
    rules = tables.observe(kernel, desired).table("filter")[chain]
    number = next(number for number, rule in enumerate(rules, 1) if rule.hash)
    saved = kernel.run(["iptables", "-t", "filter", "-S", chain]).output.splitlines()[number]
    altered = re.sub(r"(?<!\S)-j \S+", target, saved.split(None, 2)[2]).strip()
    restored(kernel, f":elsewhere - [0:0]\n-R {chain} {number} {altered}")
    assert len(converge(tables, kernel, desired)) == 1
    found = content(iptables.observe(kernel, desired))
    assert {place: rules for place, rules in found.items() if place[1] != "elsewhere"} == before
    assert kernel.run(["iptables", "-t", "filter", "-S", chain]).output.splitlines()[number] == saved
