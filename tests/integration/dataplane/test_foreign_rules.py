# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a caching driver of iptables sees of writes that only real programs make."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables

from tests.unit.dataplane.suites.drivers import converge
from tests.unit.dataplane.suites.suite_foreign_rules import content, settled  # noqa: F401  the fixture


@pytest.mark.parametrize(
    "commands",
    [
        [["iptables", "-E", "theirs", "renamed"]],
        [["iptables", "-P", "FORWARD", "DROP"]],
        [["iptables", "-A", "INPUT", "-s", "10.9.9.9", "-j", "DROP"], ["iptables", "-D", "INPUT", "1"]],
        [["iptables", "-N", "fresh"], ["iptables", "-A", "fresh", "-j", "RETURN"], ["iptables", "-E", "fresh", "old"]],
        [["ip6tables", "-t", "mangle", "-A", "PREROUTING", "-j", "RETURN"]],
        [["iptables", "-F", "cali-tw-000"], ["iptables", "-Z"]],
        [["iptables", "-t", "filter", "-F"]],
        [["nft", "flush", "chain", "ip", "filter", "INPUT"]],
        [["nft", "delete", "table", "ip", "filter"]],
        [["nft", "flush", "ruleset"]],
        [["nft", "add", "table", "inet", "another"], ["nft", "add", "chain", "inet", "another", "x"]],
    ],
)
def test_the_cache_equals_a_reading_after_any_program_has_written(kernel, settled, commands):  # noqa: F811
    tables, desired = settled
    for command in commands:
        done = kernel.run(command)
        assert done.code == 0, done
    assert content(tables.observe(kernel, desired)) == content(iptables.observe(kernel, desired))
    converge(tables, kernel, desired)


@pytest.mark.parametrize("name", ["renamed", "cali-renamed"])
@pytest.mark.parametrize("chain", ["cali-tw-000", "cali-to-wl", "cali-FORWARD"])
def test_nothing_leads_to_a_chain_of_ours_that_was_renamed(kernel, settled, chain, name):  # noqa: F811
    """Rules that led to it keep their comments. Its name is that of another program, or looks like one of ours."""
    tables, desired = settled
    before = kernel.run(["iptables-save", "-t", "filter"]).output
    assert kernel.run(["iptables", "-E", chain, name]).code == 0
    converge(tables, kernel, desired)
    after = kernel.run(["iptables-save", "-t", "filter"]).output
    assert rules_of(after) == rules_of(before)


def rules_of(saved: str) -> list[str]:
    return sorted(line for line in saved.splitlines() if line.startswith("-A "))


def test_only_one_chain_is_read_after_a_rule_of_docker(kernel, settled):  # noqa: F811
    tables, desired = settled
    assert kernel.run(["iptables", "-I", "FORWARD", "-o", "docker0", "-j", "ACCEPT"]).code == 0
    ran, programs = kernel.run, []

    def watch(argv, stdin="", timeout=60.0):
        programs.append(argv)
        return ran(argv, stdin, timeout)

    kernel.run = watch
    tables.observe(kernel, desired)
    assert programs == [["iptables", "-t", "filter", "-S", "FORWARD"]]
