# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What settings make of chains: rules of others beside ours, Reject, marks, names, and what a log record says."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.compile import Compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules import log_prefix, names
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.marks import marks
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.workload_groups import (
    Group,
    Groups,
    tree,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    INGRESS,
    Failsafe,
    Policy,
    PolicyRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.node_policy import TierPolicies

from tests.unit.policy.chains.compiled import compile_node
from tests.unit.policy.chains.simulated_netfilter import Netfilter, Packet
from tests.unit.policy.chains.test_chains import ONE, TWO, between, from_outside, host, node, tier, workload

BOTH = (INGRESS, EGRESS)
CLOSED = Policy("closed", types=BOTH, ingress=(PolicyRule("Deny"),), egress=(PolicyRule("Deny"),))


def rendered(settings: ChainSettings, family: int = 4) -> dict[str, list[str]]:
    """Return {table: the rules of its chains} of a node with a closed workload and a closed host endpoint."""
    before = Policy("before", ingress=(PolicyRule("Deny"),), pre_dnat=True, apply_on_forward=True)
    raw = Policy("raw", ingress=(PolicyRule("Deny"),), do_not_track=True)
    closed = host("eth0", untracked=(tier("raw"),), pre_dnat=(tier("before"),))
    made = compile_node(
        node(workload(1, tier("closed")), closed, policies=[CLOSED, before, raw]), settings, family
    ).tables
    return {name: [rule for rules in table.chains.values() for rule in rules] for name, table in made.items()}


# --- rules of others, and Reject --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["NEW", "ESTABLISHED"])
@pytest.mark.parametrize("direction", ["to a workload", "from a workload"])
def test_with_the_allow_action_return_others_decide_what_is_forwarded(state: str, direction: str) -> None:
    other = {"goes_out_by": "eth0"} if direction == "from a workload" else {"comes_in_by": "eth0"}
    for action, passes in (("Accept", True), ("Return", False)):
        kernel = Netfilter(compile_node(node(ONE, TWO), ChainSettings(allow_action=action), 4))
        kernel.chains["filter", "FORWARD"].append(kernel._parsed("-j DROP"))  # the policy of the chain
        assert kernel.forwarded(between(ONE, TWO, state=state, **other)) == passes


def test_others_can_deny_what_policy_allows_and_not_what_is_established() -> None:
    kernel = Netfilter(compile_node(node(ONE, TWO), ChainSettings(), 4))
    kernel.add_rule_of_others("filter", "FORWARD", "-j DROP")
    assert not kernel.forwarded(between(ONE, TWO))
    assert kernel.forwarded(between(ONE, TWO, state="ESTABLISHED"))


@pytest.mark.parametrize(("action", "passes"), [("Accept", True), ("Return", False)])
def test_with_the_allow_action_return_others_decide_what_a_host_receives_and_sends(action: str, passes: bool) -> None:
    kernel = Netfilter(compile_node(node(host("eth0", ("open",))), ChainSettings(allow_action=action), 4))
    for chain in ("INPUT", "OUTPUT"):
        kernel.add_rule_of_others("filter", chain, "-j DROP")
    for state in ("NEW", "ESTABLISHED"):
        assert kernel.received(from_outside(destination_port=80, state=state)) == passes
        assert kernel.sent(Packet(6, "192.0.2.1", "192.0.2.9", 1, 80, goes_out_by="eth0", state=state)) == passes


def test_marks_of_others_stay() -> None:
    kernel = Netfilter(compile_node(node(host("eth0", ("open",)), ONE), ChainSettings(), 4))
    for packet in (
        between(TWO, ONE, comes_in_by="eth0", mark=0xFFE0FFFF),
        from_outside(goes_out_by="eth1", mark=0xFFE0FFFF),
    ):
        assert kernel.forwarded(packet)
        assert packet.mark & 0xFFE0FFFF == 0xFFE0FFFF


def test_a_host_rejects_only_in_the_table_that_can() -> None:
    dropping, rejecting = rendered(ChainSettings()), rendered(ChainSettings(deny_action="Reject"))
    assert not any("REJECT" in rule for rules in dropping.values() for rule in rules)
    for table in ("raw", "mangle"):
        assert rejecting[table] == dropping[table]
    differing = [pair for pair in zip(dropping["filter"], rejecting["filter"]) if pair[0] != pair[1]]
    assert ("-j DROP", "-j REJECT") in differing
    assert all(new == old.replace("-j DROP", "-j REJECT") for old, new in differing)
    # No policy denies these.
    assert "-m conntrack --ctstate INVALID -j DROP" in rejecting["filter"]


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_without_untracked_policy_of_an_interface_the_table_raw_has_no_chains_for_hosts() -> None:
    plain = compile_node(node(ONE), ChainSettings(), 4).tables["raw"]
    raw = Policy("raw", ingress=(PolicyRule("Deny"),), do_not_track=True)
    for one in (host("eth0", ("open",)), host("*", untracked=(tier("raw"),))):
        assert compile_node(node(ONE, one, policies=[raw]), ChainSettings(), 4).tables["raw"] == plain


def test_policy_before_dnat_applies_to_its_own_interface_and_to_those_of_the_wildcard() -> None:
    before = Policy("before", ingress=(PolicyRule("Deny"),), pre_dnat=True, apply_on_forward=True)
    for interface in ("eth0", "*"):
        closed = node(host(interface, ("open",), pre_dnat=(tier("before"),)), policies=[before])
        kernel = Netfilter(compile_node(closed, ChainSettings(), 4))
        assert not kernel.received(from_outside(destination_port=80))
        assert kernel.received(from_outside(destination_port=80, comes_in_by="eth1")) == (interface == "eth0")


def test_failsafes_for_one_ip_version_do_not_hide_those_behind_them() -> None:
    inbound = (Failsafe("tcp", 22, "fd00::/8"), Failsafe("tcp", 23, "192.0.2.0/24"), Failsafe("tcp", 24))
    closed, settings = node(host("eth0")), ChainSettings(failsafe_inbound=inbound)
    received = {
        family: [
            port
            for port in (22, 23, 24)
            if Netfilter(compile_node(closed, settings, family)).received(
                from_outside(source=source, destination=destination, destination_port=port)
            )
        ]
        for family, source, destination in ((4, "192.0.2.9", "192.0.2.1"), (6, "fd00::9", "fd00::1"))
    }
    assert received == {4: [23, 24], 6: [22, 24]}


# --- workloads --------------------------------------------------------------------------------------------------------


def test_a_workload_that_joins_a_group_may_send_from_foreign_addresses_too() -> None:
    settings = ChainSettings(workload_source_spoofing=True)
    compiler = Compiler(settings, 4)
    compiler.compile(node(ONE))
    assert compiler.compile(node(ONE, TWO)) == compile_node(node(ONE, TWO), settings, 4)


def test_a_workload_that_changes_on_its_interface_is_in_its_new_group() -> None:
    groups = Groups()
    for one in (ONE, workload(1, tier("p")), workload(1, tier("q"), profiles=()), TWO, ONE):
        assert groups.of([one]) == Groups().of([one])


@pytest.mark.parametrize("count", [1, 16, 17])
def test_more_than_sixteen_groups_are_divided_by_their_first_digit(count: int) -> None:
    """Up to sixteen groups are not divided.

    If there are more, one that shares its digit with no other needs no chain of its own.
    """
    ids = ["b000", *(f"a{number:03x}" for number in range(count - 1))]
    found = tree({name: Group(name, (), (), ()) for name in ids})
    if count <= 16:
        assert found == ({"": [(name, None) for name in ids]}, {})
    else:
        assert found.nodes == {"": [("b000", None), ("a", "a")], "a": [(name, None) for name in ids[1:]]}
        assert [one.id for one in found.unions["a"]] == ids[1:]


def test_link_local_packets_have_a_limit_for_each_first_digit_of_an_interface() -> None:
    """Advertisements of routers and redirects are dropped, and the workloads with one digit have a limit together."""
    settings = ChainSettings(interface_prefixes=("cali", "tap"))
    rules = compile_node(node(ONE), settings, 6).tables["raw"].chains[names.LINK_LOCAL]
    limited = [rule.split()[1] for rule in rules if "-i " in rule]
    assert limited == [f"{prefix}{digit}+" for prefix in ("cali", "tap") for digit in "0123456789abcdef"]
    kernel = Netfilter(compile_node(node(ONE), settings, 6))
    for kind, passes in ((134, False), (137, False), (135, True), (136, True)):
        packet = Packet(58, "fe80::1", "ff02::1", icmp_type=kind, icmp_code=0, comes_in_by=ONE.interface)
        assert kernel.run(packet, ("raw", "PREROUTING")) == passes


def test_the_chain_of_a_workload_as_iptables_shows_it() -> None:
    """Only policies behind an enforced one of their tier have a condition; a missing profile is the last one."""
    policies = [
        Policy("watched", staged=True, ingress=(PolicyRule("Deny"),)),
        Policy("one", ingress=(PolicyRule("Pass"),)),
        Policy("two", ingress=(PolicyRule("Pass"),)),
        Policy("last", ingress=(PolicyRule("Deny"),)),
    ]
    tiers = (
        TierPolicies("first", "Pass", ("watched", "one", "two"), ()),
        TierPolicies("second", "Deny", ("last",), ()),
    )
    made = compile_node(
        node(workload(1, *tiers, profiles=("open", "gone", "open")), policies=policies),
        ChainSettings(nflog_group=0),
        4,
    )
    (chain,) = (rules for name, rules in made.tables["filter"].chains.items() if name.startswith("cali-tw-"))
    assert list(chain) == [
        "-j MARK --set-xmark 0x0/0x130000",
        "-j cali-pi-watched",
        "-j cali-pi-one",
        "-m mark --mark 0x0/0x30000 -j cali-pi-two",
        "-m mark --mark 0x10000/0x10000 -j RETURN",
        "-j MARK --set-xmark 0x0/0x120000",
        "-j cali-pi-last",
        "-m mark --mark 0x10000/0x10000 -j RETURN",
        "-m mark --mark 0x0/0x20000 -j DROP",
        "-j cali-pri-open",
        "-m mark --mark 0x0/0x10000 -j DROP",
        "-m mark --mark 0x10000/0x10000 -j RETURN",
        "-j DROP",
    ]


@pytest.mark.parametrize(
    ("packet", "record"),
    [
        (between(ONE, TWO, state="INVALID"), "deny:out:host:0:invalid-state"),
        (between(TWO, ONE, state="INVALID", comes_in_by="eth0"), "deny:in:host:0:invalid-state"),
        (between(ONE, TWO, goes_out_by=""), "deny:out:host:0:endpoint-to-host"),
        (between(ONE, TWO, protocol=4), "deny:out:host:0:encapsulation"),
    ],
)
def test_a_drop_by_the_host_is_logged_with_a_reason_and_no_rule(packet: Packet, record: str) -> None:
    kernel = Netfilter(compile_node(node(ONE), ChainSettings(), 4))
    assert not (kernel.forwarded(packet) if packet.goes_out_by else kernel.received(packet))
    assert packet.log == [record]


# --- names, records, marks and the number of rules --------------------------------------------------------------------


def test_chains_have_the_names_of_felix() -> None:
    for direction, found in (
        (INGRESS, ["cali-pi-x", "cali-pri-x", "cali-tw-x", "cali-fh-x", "cali-fhfw-x"]),
        (EGRESS, ["cali-po-x", "cali-pro-x", "cali-fw-x", "cali-th-x", "cali-thfw-x"]),
    ):
        assert found == [
            names.policy_chain("x", direction),
            names.profile_chain("x", direction),
            names.workload_chain("x", direction),
            names.host_chain("x", direction),
            names.host_chain("x", direction, forward=True),
        ]


def test_a_name_of_a_chain_has_at_most_the_28_characters_of_the_kernel() -> None:
    assert names.chain_name("cali-pi-", "a" * 20) == "cali-pi-" + "a" * 20
    longer = names.chain_name("cali-pi-", "a" * 21)
    assert len(longer) == 28 and longer.startswith("cali-pi-_")


@pytest.mark.parametrize(("name", "begin"), [("a" * 34, "a" * 34), ("a" * 35, "a" * 21 + "~"), ("a b", "a_b~")])
def test_a_name_in_a_record_that_does_not_fit_ends_with_a_digest(name: str, begin: str) -> None:
    found = log_prefix.shortened(name)
    assert found.startswith(begin) and len(found) <= 34
    assert found == name or len(found.rpartition("~")[2]) == 12


def test_a_record_may_have_colons_in_its_name() -> None:
    assert log_prefix.reason("deny:in:policy:3:a:b:c") == ("deny", INGRESS, "policy", 3, "a:b:c")


def test_marks_are_disjoint_bits_of_a_packets_32() -> None:
    highest = marks(0xF8000000)
    assert highest == (1 << 27, 1 << 28, 1 << 29, 1 << 30, 1 << 31)
    assert (highest.every, highest.verdict) == (0xF8000000, (1 << 27) | (1 << 28) | (1 << 31))
    with pytest.raises(ValueError, match="has 4 bits"):
        marks(0x1F0000000)


def test_the_number_of_rules_counts_those_in_chains_of_the_kernel_too() -> None:
    tables = compile_node(node(ONE, host("eth0")), ChainSettings(), 4)
    kernel = Netfilter(tables)
    assert tables.count() == sum(len(rules) for rules in kernel.chains.values())
