# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiled chains: names, marks, log records, hooks, and the parts that a second compilation replaces."""

from __future__ import annotations

import dataclasses
import re
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.compile import Compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules import log_prefix, names
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.marks import marks
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import (
    ChainSettings,
    Encapsulation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.tables import Tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.workload_groups import Groups
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Failsafe,
    Policy,
    PolicyProfile,
    PolicyRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.node_policy import (
    LocalEndpoint,
    NodePolicy,
    TierPolicies,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets.ip_sets import PolicyIpSet
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy.chains.compiled import compile_node
from tests.unit.policy.chains.simulated_netfilter import Netfilter, Packet

ALL_HOSTS = PolicyIpSet("cali40all-hosts-net", "hash:net", "inet", ("192.0.2.1", "192.0.2.2"))
OPEN = PolicyProfile("open", ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Allow"),))


def workload(number: int, *tiers: TierPolicies, profiles: tuple[str, ...] = ("open",)) -> LocalEndpoint:
    interface = f"cali{number:011x}"
    addresses = (f"10.65.{number >> 8}.{number & 255}", f"fd65::{number:x}")
    endpoint = Endpoint(WORKLOAD_ENDPOINT, f"w{number}", "node1", interface, addresses, profiles=profiles)
    return LocalEndpoint(endpoint, interface, tiers)


def host(interface: str, profiles: tuple[str, ...] = (), **tiers: tuple[TierPolicies, ...]) -> LocalEndpoint:
    return LocalEndpoint(Endpoint(HOST_ENDPOINT, interface, "node1", interface, profiles=profiles), interface, **tiers)


def tier(*policies: str, action: str = "Deny") -> TierPolicies:
    return TierPolicies("default", action, policies, policies)


def node(*endpoints: LocalEndpoint, policies: t.Iterable[Policy] = ()) -> NodePolicy:
    return NodePolicy(endpoints, {one.name: one for one in policies}, {"open": OPEN})


def between(one: LocalEndpoint, other: LocalEndpoint, **fields: t.Any) -> Packet:
    """Return an IPv4 TCP packet to port 80 from one workload to the other. `fields` replace its fields."""
    known = {
        "protocol": 6,
        "source": one.endpoint.addresses[0],
        "destination": other.endpoint.addresses[0],
        "source_port": 1024,
        "destination_port": 80,
        "comes_in_by": one.interface,
        "goes_out_by": other.interface,
    }
    return Packet(**{**known, **fields})


ONE, TWO = workload(1), workload(2)


# --- names and numbers ------------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_chains_of_policies_have_names_of_their_own(one: str, other: str) -> None:
    name = names.policy_chain(one, INGRESS)
    assert len(name) <= names.NAME_LIMIT and name.startswith("cali-pi-") and name.isascii() and " " not in name
    assert (name == names.policy_chain(other, INGRESS)) == (one == other)
    assert name != names.policy_chain(one, EGRESS)


def test_a_name_that_fits_is_not_shortened() -> None:
    assert names.policy_chain("default/web", EGRESS) == "cali-po-default/web"
    assert names.policy_chain("a-name-of-21-letters_x", INGRESS) != "cali-pi-a-name-of-21-letters_x"


def test_marks_are_bits_of_the_mask() -> None:
    assert marks(0xFFFF0000) == (0x10000, 0x20000, 0x40000, 0x80000, 0x100000)
    assert marks(0xF1) == (0x1, 0x10, 0x20, 0x40, 0x80)
    with pytest.raises(ValueError) as caught:
        marks(0xF)
    assert str(caught.value) == (
        "The mark mask 0xf has 4 bits, and policy needs 5. Give it at least 5, as 0xffff0000 has."
    )


@given(
    st.builds(
        log_prefix.Reason,
        st.sampled_from((log_prefix.DENY, log_prefix.LOG, log_prefix.AUDIT)),
        st.sampled_from((INGRESS, EGRESS)),
        st.sampled_from((log_prefix.POLICY, log_prefix.PROFILE, log_prefix.TIER, log_prefix.NO_PROFILE)),
        st.integers(0, 99999),
        st.text(max_size=300),
    )
)
def test_a_record_says_why(reason: log_prefix.Reason) -> None:
    text = log_prefix.prefix(reason)
    assert len(text) <= 63 and text.isascii() and " " not in text and '"' not in text
    assert log_prefix.reason(text) == reason._replace(name=log_prefix.shortened(reason.name))


def test_records_of_others_are_not_ours() -> None:
    assert log_prefix.reason("deny:in:policy:3:default/web") == ("deny", INGRESS, "policy", 3, "default/web")
    for text in ("", "calico-packet: ", "deny:sideways:policy:3:x", "deny:in:policy:x:x"):
        assert log_prefix.reason(text) is None


# --- workloads --------------------------------------------------------------------------------------------------------


def test_workloads_of_one_group_share_their_chains_and_differ_in_a_set() -> None:
    before = compile_node(node(ONE), ChainSettings(), 4)
    after = compile_node(node(ONE, TWO), ChainSettings(), 4)
    assert after.tables == before.tables
    (members,) = (one.members for one in after.sets)
    assert members == ("10.65.0.1,cali00000000001", "10.65.0.2,cali00000000002")


def test_a_groups_id_is_made_of_its_policies_alone_and_fits_into_names_of_chains() -> None:
    (one,), (same,), (other,) = (
        Groups().of([entry]) for entry in (workload(1, tier("p")), workload(2, tier("p")), workload(1, tier("q")))
    )
    assert one == same != other
    assert re.fullmatch("[0-9a-f]{16}", one)


def test_many_groups_are_a_tree() -> None:
    count = 60
    policies = [Policy(f"p{number}", ingress=(PolicyRule("Deny", protocol=6),)) for number in range(count)]
    endpoints = [workload(number, TierPolicies("default", "Pass", (f"p{number}",))) for number in range(count)]
    tables = compile_node(node(*endpoints, policies=policies), ChainSettings(), 4)
    dispatch = {
        name: [rule for rule in rules if "match-set" in rule]
        for name, rules in tables.tables["filter"].chains.items()
        if "wl-dispatch" in name
    }
    assert max(map(len, dispatch.values())) <= 16
    kernel = Netfilter(tables)
    sender = endpoints[0]
    for receiver in endpoints[1::11]:
        assert not kernel.forwarded(between(sender, receiver))
        assert kernel.forwarded(between(sender, receiver, protocol=17))


def test_packets_of_an_unknown_interface_are_dropped() -> None:
    kernel = Netfilter(compile_node(node(ONE), ChainSettings(), 4))
    for packet in (between(TWO, ONE), between(ONE, TWO)):
        assert not kernel.forwarded(packet)
        assert packet.log[-1].endswith(":host:0:unknown-interface")


def test_the_first_of_two_workloads_on_an_interface_counts() -> None:
    second = dataclasses.replace(TWO, interface=ONE.interface)
    (members,) = (one.members for one in compile_node(node(ONE, second), ChainSettings(), 4).sets)
    assert members == ("10.65.0.1,cali00000000001",)


def test_a_source_that_is_not_the_workloads_own_is_dropped() -> None:
    kernel = Netfilter(compile_node(node(ONE, TWO), ChainSettings(), 4))
    spoofed = between(ONE, TWO, spoofed=True)
    assert not kernel.forwarded(spoofed)
    assert spoofed.log == ["deny:out:host:0:spoofed"]
    # Another workload's address as source is dropped even if reverse path filtering accepts the packet.
    assert not kernel.forwarded(between(ONE, TWO, source="10.65.0.2"))


def test_a_source_of_ipv4_that_the_kernel_checks_is_looked_up_for_ends_of_connections_alone() -> None:
    forged = "-m rpfilter --validmark --invert -g cali-spoofed"
    ending = f"-p tcp -m tcp ! --tcp-flags FIN,RST NONE {forged}"

    def looks(family: int, **given: t.Any) -> list[str]:
        raw = compile_node(node(ONE), ChainSettings(**given), family).tables["raw"].chains
        return [rule for rule in raw["cali-wl-sources"] if "rpfilter" in rule and "match-set" not in rule]

    assert [looks(family) for family in (4, 6)] == [[forged], [forged]]
    assert [looks(family, local_blocks=(4, 6)) for family in (4, 6)] == [[ending], [forged]]
    assert [looks(family, local_blocks=(4, 6), workload_source_spoofing=True) for family in (4, 6)] == [[], []]


def test_a_workload_that_routes_has_its_policy_for_foreign_sources_too() -> None:
    deny = Policy("deny", types=(EGRESS,), egress=(PolicyRule("Deny", protocol=6), PolicyRule("Allow")))
    routing = ChainSettings(workload_source_spoofing=True)
    compiler = Compiler(routing, 4)
    compiler.compile(node(TWO, policies=[deny]))
    kernel = Netfilter(compiler.compile(node(workload(1, tier("deny", action="Pass")), TWO, policies=[deny])))
    assert kernel.forwarded(between(ONE, TWO, source="8.8.8.8", protocol=17))
    assert not kernel.forwarded(between(ONE, TWO, source="8.8.8.8", protocol=6))
    # Addresses behind the workload can be reached.
    assert kernel.forwarded(between(TWO, ONE, destination="8.8.8.8"))
    assert not kernel.forwarded(between(ONE, TWO, source="8.8.8.8", comes_in_by="cali0000000000f"))


@pytest.mark.parametrize("fields", [{"protocol": 4}, {"protocol": 17, "destination_port": 4789}])
def test_workloads_do_not_encapsulate(fields: dict[str, int]) -> None:
    allowing = ChainSettings(allow_ipip_from_workloads=True, allow_vxlan_from_workloads=True)
    assert not Netfilter(compile_node(node(ONE, TWO), ChainSettings(), 4)).forwarded(between(ONE, TWO, **fields))
    assert Netfilter(compile_node(node(ONE, TWO), allowing, 4)).forwarded(between(ONE, TWO, **fields))
    # Encapsulated packets from outside to a workload are allowed.
    outside = between(ONE, TWO, source="192.0.2.9", comes_in_by="eth0", **fields)
    assert Netfilter(compile_node(node(TWO), ChainSettings(), 4)).forwarded(outside)


def test_established_flows_go_on_and_invalid_packets_do_not() -> None:
    deny = Policy("deny", types=(INGRESS, EGRESS), ingress=(PolicyRule("Deny"),), egress=(PolicyRule("Deny"),))
    closed = node(workload(1, tier("deny")), workload(2, tier("deny")), policies=[deny])
    for settings in (ChainSettings(), ChainSettings(allow_action="Return")):
        assert Netfilter(compile_node(closed, settings, 4)).forwarded(between(ONE, TWO, state="ESTABLISHED"))
    assert not Netfilter(compile_node(closed, ChainSettings(), 4)).forwarded(between(ONE, TWO))
    opened = node(ONE, TWO)
    assert not Netfilter(compile_node(opened, ChainSettings(), 4)).forwarded(between(ONE, TWO, state="INVALID"))
    lenient = ChainSettings(drop_invalid=False)
    assert Netfilter(compile_node(opened, lenient, 4)).forwarded(between(ONE, TWO, state="INVALID"))


@pytest.mark.parametrize(("action", "gets_through"), [("Drop", False), ("Return", True), ("Accept", True)])
def test_workload_to_host(action: str, gets_through: bool) -> None:
    kernel = Netfilter(compile_node(node(ONE), ChainSettings(default_endpoint_to_host_action=action), 4))
    assert kernel.received(between(ONE, TWO, goes_out_by="")) == gets_through
    assert kernel.received(between(ONE, TWO, goes_out_by="", state="ESTABLISHED"))
    assert kernel.sent(between(TWO, ONE, comes_in_by=""))


@pytest.mark.parametrize("kind", [130, 131, 132, 133, 135, 136])
def test_ipv6_needs_its_neighbours(kind: int) -> None:
    kernel = Netfilter(compile_node(node(ONE), ChainSettings(), 6))
    packet = Packet(58, "fe80::1", "ff02::1", icmp_type=kind, icmp_code=0, comes_in_by=ONE.interface)
    assert kernel.received(packet)
    assert not kernel.received(dataclasses.replace(packet, icmp_type=128))


def test_the_last_forward_rule_accepts_only_what_policy_allowed() -> None:
    tables = compile_node(node(ONE, TWO), ChainSettings(), 4)
    last = [hook for hook in tables.tables["filter"].hooks if hook.last]
    assert [(hook.chain, hook.rule.action) for hook in last] == [("FORWARD", "-j ACCEPT")]
    packet = between(ONE, TWO)
    assert Netfilter(tables)._chain(("filter", "FORWARD"), packet) == "ACCEPT"
    foreign = Packet(6, "192.0.2.9", "192.0.2.8", 1, 2, comes_in_by="eth0", goes_out_by="docker0")
    assert Netfilter(tables)._chain(("filter", "FORWARD"), foreign) == ""


def test_without_hosts_there_are_no_hooks_for_them() -> None:
    tables = compile_node(node(ONE), ChainSettings(), 4)
    assert {(name, hook.chain) for name, table in tables.tables.items() for hook in table.hooks} == {
        ("raw", "PREROUTING"),
        ("filter", "INPUT"),
        ("filter", "FORWARD"),
    }


def test_only_chains_in_use_are_written() -> None:
    unused = Policy("unused", ingress=(PolicyRule("Deny"),))
    assert compile_node(node(ONE, policies=[unused]), ChainSettings(), 4) == compile_node(node(ONE), ChainSettings(), 4)


# --- hosts ------------------------------------------------------------------------------------------------------------


def from_outside(**fields: t.Any) -> Packet:
    known = {"protocol": 6, "source": "192.0.2.9", "destination": "192.0.2.1", "source_port": 1024}
    return Packet(**{**known, "destination_port": 22, "comes_in_by": "eth0", **fields})


def test_a_host_endpoint_without_policy_is_closed_but_for_failsafes() -> None:
    kernel = Netfilter(compile_node(node(host("eth0")), ChainSettings(), 4))
    assert kernel.received(from_outside())
    assert not kernel.received(from_outside(destination_port=80))
    assert kernel.received(from_outside(destination_port=80, comes_in_by="eth1"))
    assert kernel.sent(Packet(17, "192.0.2.1", "192.0.2.9", 1024, 53, goes_out_by="eth0"))
    assert not kernel.sent(Packet(17, "192.0.2.1", "192.0.2.9", 1024, 80, goes_out_by="eth0"))


def test_the_loopback_is_not_the_wildcards() -> None:
    kernel = Netfilter(compile_node(node(host("*")), ChainSettings(), 4))
    assert not kernel.received(from_outside(destination_port=80))
    assert kernel.received(from_outside(destination_port=80, comes_in_by="lo"))
    assert kernel.sent(Packet(6, "127.0.0.1", "127.0.0.1", 1024, 80, goes_out_by="lo"))


def test_an_own_host_endpoint_is_not_the_wildcards_before_dnat() -> None:
    deny = Policy("deny", ingress=(PolicyRule("Deny"),), pre_dnat=True, apply_on_forward=True)
    closed = node(host("*", pre_dnat=(tier("deny"),)), host("eth0", ("open",)), ONE, policies=[deny])
    kernel = Netfilter(compile_node(closed, ChainSettings(), 4))
    assert kernel.received(from_outside(destination_port=80))
    assert not kernel.received(from_outside(destination_port=80, comes_in_by="eth1"))
    # Packets of workloads also come in by an interface that the wildcard includes.
    assert not kernel.forwarded(between(ONE, TWO, goes_out_by="eth0"))


def test_a_failsafe_for_the_other_family_opens_nothing() -> None:
    """A failsafe for a network of the other IP version opens nothing. Felix would open the port to all."""
    settings = ChainSettings(failsafe_inbound=(Failsafe("tcp", 22, "fd00::/8"),))
    assert not Netfilter(compile_node(node(host("eth0")), settings, 4)).received(from_outside())
    kernel = Netfilter(compile_node(node(host("eth0")), settings, 6))
    assert kernel.received(from_outside(source="fd00::9", destination="fd00::1"))
    assert not kernel.received(from_outside(source="2001:db8::9", destination="fd00::1"))


def test_replies_to_a_failsafe_of_a_network_pass_untracked_policy() -> None:
    """Untracked policy does not deny replies from an inbound failsafe's port to the failsafe's network, only others."""
    deny = Policy(
        "deny", types=(INGRESS, EGRESS), ingress=(PolicyRule("Deny"),), egress=(PolicyRule("Deny"),), do_not_track=True
    )
    settings = ChainSettings(failsafe_inbound=(Failsafe("tcp", 22, "192.0.2.0/24"),))
    closed = node(host("eth0", ("open",), untracked=(tier("deny"),)), policies=[deny])
    kernel = Netfilter(compile_node(closed, settings, 4))
    reply = Packet(6, "198.51.100.1", "192.0.2.9", 22, 1024, goes_out_by="eth0")
    assert kernel.sent(reply)
    assert not kernel.sent(dataclasses.replace(reply, destination="203.0.113.9"))


def test_packets_allowed_by_untracked_policy_are_not_tracked() -> None:
    allow = Policy("allow", types=(INGRESS,), ingress=(PolicyRule("Allow"),), do_not_track=True)
    opened = node(host("eth0", untracked=(tier("allow"),)), policies=[allow])
    packet = from_outside(destination_port=80)
    assert Netfilter(compile_node(opened, ChainSettings(), 4)).received(packet)
    assert packet.state == "UNTRACKED"


def test_policy_of_the_interface_after_dnat_decides() -> None:
    """Policy for the interface after DNAT decides, although filter OUTPUT still sees the interface before DNAT."""
    kernel = Netfilter(compile_node(node(host("eth0"), host("eth1", ("open",))), ChainSettings(), 4))
    turned = Packet(6, "192.0.2.1", "10.65.9.9", 1024, 80, goes_out_by="eth0", dnat=True)
    assert kernel.run(turned, ("raw", "OUTPUT"), ("filter", "OUTPUT"))
    turned.goes_out_by = "eth1"
    assert kernel.run(turned, ("mangle", "POSTROUTING"))
    turned.goes_out_by = "eth0"
    assert not kernel.run(turned, ("mangle", "POSTROUTING"))


def test_a_forwarded_packet_after_dnat_is_not_judged_as_host_egress() -> None:
    kernel = Netfilter(compile_node(node(host("eth0"), ONE), ChainSettings(), 4))
    assert kernel.forwarded(between(ONE, TWO, goes_out_by="eth0", dnat=True))


def test_marks_of_an_outer_packet_do_not_help_the_inner_one() -> None:
    deny = Policy("deny", ingress=(PolicyRule("Deny"),), apply_on_forward=True)
    closed = node(host("eth0", forward=(tier("deny"),)), policies=[deny])
    kernel = Netfilter(compile_node(closed, ChainSettings(), 4))
    assert not kernel.forwarded(from_outside(goes_out_by="eth1", mark=0x1F0000))


@pytest.mark.parametrize(
    ("encapsulation", "fields"),
    [
        (Encapsulation("ipip"), {"protocol": 4}),
        (Encapsulation("vxlan", 4789), {"protocol": 17, "destination_port": 4789}),
    ],
)
def test_only_the_fleets_nodes_encapsulate(encapsulation: Encapsulation, fields: dict[str, int]) -> None:
    tables = compile_node(node(host("eth0")), ChainSettings(encapsulations=(encapsulation,)), 4)
    kernel = Netfilter(tables, [ALL_HOSTS])
    assert kernel.received(from_outside(source="192.0.2.2", destination_is_local=True, **fields))
    assert not kernel.received(from_outside(source="192.0.2.9", destination_is_local=True, **fields))
    sent = {"source": "192.0.2.1", "source_is_local": True, "goes_out_by": "eth0", "comes_in_by": "", **fields}
    assert kernel.sent(from_outside(**{**sent, "destination": "192.0.2.2"}))
    assert not kernel.sent(from_outside(**{**sent, "destination": "192.0.2.9"}))


# --- a second compilation, its work, and connections that policy ended ------------------------------------------------


def same(one: Tables, other: Tables) -> set[str]:
    """Return the names of the chains and sets of `other` that are not the same objects in `one`.

    Raise KeyError if `one` lacks a table of `other`.
    """
    differing = set()
    for name, table in other.tables.items():
        before = one.tables[name].chains
        differing |= {chain for chain, rules in table.chains.items() if before.get(chain) is not rules}
    return differing | {mine.name for mine in other.sets if mine not in {its for its in one.sets if its is mine}}


def test_only_what_changed_is_made_anew() -> None:
    policies = [Policy(f"p{n}", ingress=(PolicyRule("Allow", source=Entity(selector=f"s{n}")),)) for n in range(5)]
    first = dataclasses.replace(
        node(workload(1, tier("p0", "p1")), workload(2, tier("p2", "p3", "p4")), policies=policies),
        selector_members={f"s{n}": (f"192.0.2.{n}",) for n in range(5)},
    )
    compiler = Compiler(ChainSettings(), 4)
    before = compiler.compile(first)
    changed = dataclasses.replace(policies[3], ingress=(PolicyRule("Deny"),))
    equal = dataclasses.replace(policies[2])
    second = dataclasses.replace(
        first,
        policies={**first.policies, "p3": changed, "p2": equal},
        selector_members={**first.selector_members, "s1": ("192.0.2.1", "192.0.2.9")},
    )
    after = compiler.compile(second)
    assert after == compile_node(second, ChainSettings(), 4)
    of_policies = {name for name in same(before, after) if name.startswith(("cali-pi-", "cali-tw-", "cali40"))}
    (of_selector,) = (one.name for one in after.sets if "192.0.2.9" in one.members)
    assert of_policies == {"cali-pi-p3", of_selector}


def test_a_policy_that_is_staged_changes_the_chains_of_its_endpoints() -> None:
    policy = Policy("p", ingress=(PolicyRule("Deny"),))
    compiler = Compiler(ChainSettings(), 4)
    compiler.compile(node(workload(1, tier("p")), TWO, policies=[policy]))
    staged = node(workload(1, tier("p")), TWO, policies=[dataclasses.replace(policy, staged=True)])
    tables = compiler.compile(staged)
    assert tables == compile_node(staged, ChainSettings(), 4)
    packet = between(TWO, workload(1))
    assert Netfilter(tables).forwarded(packet)
    assert packet.log == ["audit:in:policy:1:p"]


def test_ten_times_the_remote_endpoints_are_at_most_twelve_times_the_work() -> None:
    """Ten times the remote endpoints take at most twelve times the work, counted in calls of functions."""

    def calls(remote: int) -> int:
        members = {
            f"app == 'a{n}'": tuple(f"10.{i >> 8}.{i & 255}.{n}" for i in range(remote // 20)) for n in range(20)
        }
        policies = [
            Policy(f"p{n}", ingress=(PolicyRule("Allow", protocol="tcp", source=Entity(selector=key, ports=PORTS)),))
            for n, key in enumerate(members)
        ]
        big = dataclasses.replace(
            node(*(workload(n, tier(f"p{n}")) for n in range(20)), policies=policies), selector_members=members
        )
        found = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal found
            found += event in ("call", "c_call")

        names.chain_name.cache_clear()
        sys.setprofile(count)
        try:
            compile_node(big, ChainSettings(), 4)
        finally:
            sys.setprofile(None)
        return found

    assert calls(10_000) <= 12 * calls(1_000)


PORTS = (PortRange(80, 80), PortRange(443, 443))


def test_connections_that_a_new_policy_ended_are_dropped_before_anything_else() -> None:
    """Connections that a new policy ended are dropped first, both ways, even on failsafe ports and when established.

    The drop is logged. Without `cut_marked_flows` there are no such rules.
    """
    here = node(ONE, host("eth0"))
    tables = compile_node(here, ChainSettings(cut_marked_flows=True), 4)
    cut = "-m connmark --mark 0x40000/0x40000"
    for chain, word in (("cali-INPUT", "in"), ("cali-FORWARD", "in"), ("cali-OUTPUT", "out")):
        log, drop, *_others = tables.tables["filter"].chains[chain]
        assert drop == f"{cut} -j DROP"
        assert log == f"{cut} -j NFLOG --nflog-group 179 --nflog-size 128 --nflog-prefix deny:{word}:host:0:cut"
    assert "connmark" not in repr(compile_node(here, ChainSettings(), 4))
