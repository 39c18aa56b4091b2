# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table by iptables-restore: what its messages name, and how many refusals and trials there may be."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables_restore import (
    ChainDelete,
    ChainWrite,
    HookWrite,
    RestoreOutcome,
    Write,
    restore,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables_saved import TablePlace
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Completed

from tests.fakes.kernel import FakeKernel

BAD = "-j TCPMSS --set-mss 1400"  # The kernel accepts it with -p tcp only.
NAT, FILTER = TablePlace("iptables", "nat"), TablePlace("iptables", "filter")


def chain(name: str, *rules: str, **more: t.Any) -> ChainWrite:
    return ChainWrite(FILTER, name, tuple((f"{number:016x}", rule) for number, rule in enumerate(rules)), **more)


def saved(kernel: FakeKernel) -> list[str]:
    """Return the lines `-A <chain> <rule>` that iptables-save prints of all tables, without our comments."""
    lines = kernel.run(["iptables-save"]).output.splitlines()
    return [line.partition(" -m comment")[0] for line in lines if line.startswith("-A ")]


def refusing(kernel: FakeKernel, errors: str, times: int = 1000, code: int = 1) -> list[str]:
    """Let the next `times` restores fail with the exit status `code` and `errors`.

    Return a list that gets the input of every restore.
    """
    run, inputs = kernel.run, []

    def refused(argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> Completed:
        if not argv[0].endswith("-restore"):
            return run(argv, stdin, timeout)
        inputs.append(stdin)
        return Completed(code, "", errors) if len(inputs) <= times else run(argv, stdin, timeout)

    kernel.run = refused  # type: ignore[method-assign]
    return inputs


@pytest.mark.parametrize(
    ("number", "where"),
    [(0, ""), (1, " at '*nat'"), (2, " at '-I POSTROUTING 1 "), (3, " at 'COMMIT'"), (4, "")],
    ids=["before", "table", "rule", "commit", "after"],
)
def test_a_refusal_quotes_the_input_line_that_the_program_names(kernel: FakeKernel, number: int, where: str) -> None:
    refusing(kernel, f"iptables-restore: line {number} failed\n")
    hook = HookWrite(NAT, "POSTROUTING", (("0" * 16, "-j MASQUERADE"),))
    outcome = restore(kernel, NAT, [hook])
    assert outcome.failure.startswith(f"iptables-restore refused table nat{where}")
    assert (" at " in outcome.failure) == bool(where)


def test_the_last_of_several_named_rules_is_the_refused_one(kernel: FakeKernel) -> None:
    """The backend nft names the jumps to a chain that it refuses first. Chains with these jumps keep their rules."""
    refusing(kernel, "line 5: RULE_APPEND failed\nline 6: RULE_APPEND failed\nline 7: RULE_APPEND failed\n", times=1)
    writes = [chain("cali-a", "-j cali-c"), chain("cali-b", "-j cali-c"), chain("cali-c", "-p 4 -j DROP")]
    outcome = restore(kernel, FILTER, writes)
    assert list(outcome.refused) == [2]
    assert saved(kernel) == ["-A cali-a -j cali-c", "-A cali-b -j cali-c", "-A cali-c -j DROP"]


@pytest.mark.parametrize(("failures", "written"), [(1, True), (2, True), (3, False)])
def test_a_table_that_others_write_meanwhile_is_tried_three_times(
    kernel: FakeKernel, failures: int, written: bool
) -> None:
    busy = "iptables-restore: line 3 failed: Resource temporarily unavailable.\n"
    refusing(kernel, busy, times=failures)
    outcome = restore(kernel, FILTER, [HookWrite(FILTER, "INPUT", (("0" * 16, "-j ACCEPT"),))])
    assert (outcome == RestoreOutcome({})) == written
    assert saved(kernel) == ["-A INPUT -j ACCEPT"] * written


@pytest.mark.parametrize(("bad", "written"), [(50, True), (51, False)])
def test_fifty_chains_may_be_refused_before_the_table_is_given_up(kernel: FakeKernel, bad: int, written: bool) -> None:
    writes = [*(chain(f"cali-{number}", BAD) for number in range(bad)), chain("cali-good", "-j ACCEPT")]
    outcome = restore(kernel, FILTER, writes)
    assert sorted(outcome.refused) == list(range(bad)) * written
    assert ("-A cali-good -j ACCEPT" in saved(kernel)) == written
    assert ("Nothing of the table was changed." in outcome.failure) != written


def test_any_number_of_chains_that_the_program_never_gets_is_set_aside(kernel: FakeKernel) -> None:
    """Chains with a line or a name that is not valid do not count as refused by the program: they cost no run of it."""
    unfit = [chain(f"cali-{number}", "-j ACCEPT\n-j DROP") for number in range(60)]
    named = [chain(f"cali {number}", "-j ACCEPT") for number in range(60)]
    refused = [chain(f"cali-bad-{number}", BAD) for number in range(50)]
    outcome = restore(kernel, FILTER, [*unfit, *named, *refused, chain("cali-good", "-j ACCEPT")])
    assert (sorted(outcome.refused), outcome.failure) == (list(range(170)), "")
    assert "-A cali-good -j ACCEPT" in saved(kernel)


@pytest.mark.parametrize(("before", "after", "written"), [(199, 1, True), (200, 0, False)], ids=["400th", "401st"])
def test_a_refused_rule_is_found_within_four_hundred_trials(
    kernel: FakeKernel, before: int, after: int, written: bool
) -> None:
    """With bad rules that take 400 trials to find, their chains are closed; with 401, nothing of the table is written.

    A legacy kernel names no line, so the search halves the rules. All rules of the first chain are bad, too.
    """
    kernel.netfilter.default = "legacy"
    writes: list[Write] = [
        chain("cali-a", *[BAD] * before),
        chain("cali-b", BAD, *["-j ACCEPT"] * after),
    ]
    outcome = restore(kernel, FILTER, writes)
    assert sorted(outcome.refused) == [0, 1] * written
    assert saved(kernel) == ["-A cali-a -j DROP", "-A cali-b -j DROP"] * written
    assert "cali-trial" not in kernel.run(["iptables-save"]).output


@pytest.mark.parametrize("code", [124, 126, 127], ids=["time ran out", "not startable", "not installed"])
def test_no_rule_is_searched_if_the_program_has_judged_none(kernel: FakeKernel, code: int) -> None:
    kernel.netfilter.default = "legacy"
    inputs = refusing(kernel, "", code=code)
    outcome = restore(kernel, FILTER, [chain("cali-a", "-j ACCEPT", "-j DROP")])
    assert (len(inputs), outcome.refused, outcome.failure != "") == (1, {}, True)


def test_a_chain_that_is_still_used_stays_and_other_writes_are_made(kernel: FakeKernel) -> None:
    text = "*filter\n:cali-a - [0:0]\n-A INPUT -j cali-a\nCOMMIT\n"
    assert kernel.run(["iptables-restore", "--noflush"], stdin=text).code == 0
    outcome = restore(kernel, FILTER, [ChainDelete(FILTER, "cali-a"), chain("cali-b", "-j ACCEPT")])
    assert list(outcome.refused) == [0]
    assert saved(kernel) == ["-A INPUT -j cali-a", "-A cali-b -j ACCEPT"]
