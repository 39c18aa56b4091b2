# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules for published ports: exact texts, and that equal ports give equal rules in whatever order they come."""

from __future__ import annotations

import itertools
import random

import hypothesis
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import iptables_encoding
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Hook, IptablesTable
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.published_ports import (
    PublishingWorkload,
    with_ports,
)
from hypothesis import strategies as st

NAT = IptablesTable(
    "nat", {"cali-POSTROUTING": ("-j cali-nat-outgoing",)}, (Hook("POSTROUTING", "-j cali-POSTROUTING"),)
)
FILTER = IptablesTable("filter", {"cali-INPUT": ()})
WEB = PublishingWorkload(
    ("10.244.1.5", "fd00:10:244::5"),
    (PublishedPort("tcp", 8080, 80), PublishedPort("udp", 53, 5353, "192.0.2.1")),
)
DUAL = ("10.244.1.9", "fd00:10:244::9")
DB = PublishingWorkload(("10.244.1.6",), (PublishedPort("tcp", 5432, 5432),))


def test_a_workload_changes_its_own_chain_and_the_rule_that_leads_there() -> None:
    """Other workloads keep their chains, as the same objects, so that they need not be compared."""
    (one,) = with_ports((), [DB], ["cali+"])
    many = PublishingWorkload(("10.244.1.7",), tuple(PublishedPort("tcp", number, 80) for number in range(9000, 9004)))
    (two,) = with_ports((), [many, DB], ["cali+"])
    (own,) = [name for name in one.chains if name.startswith("cali-pub-")]
    assert two.chains[own] is one.chains[own]
    (other,) = [name for name in two.chains if name.startswith("cali-pub-") and name != own]
    assert two.chains["cali-PUBLISHED"] == (
        *one.chains["cali-PUBLISHED"],
        f"-p tcp -m tcp --dport 9000:9003 -j {other}",
    )
    assert len(two.chains[other]) == 4


def own_rules(*ports: PublishedPort, addresses: tuple[str, ...] = ("10.244.1.9",)) -> list[tuple[str, ...]]:
    """Return the rules of a workload's own chain, by IP version."""
    tables = with_ports((), [PublishingWorkload(addresses, ports)], ["cali+"])
    return [rules for table in tables for name, rules in table.chains.items() if name.startswith("cali-pub-")]


def test_a_range_of_ports_that_keep_their_numbers_is_one_rule() -> None:
    kept = [PublishedPort("udp", number, number) for number in range(30000, 30032)]
    assert own_rules(*kept, addresses=DUAL) == [
        ("-p udp -m udp --dport 30000:30031 -j DNAT --to-destination 10.244.1.9",),
        ("-p udp -m udp --dport 30000:30031 -j DNAT --to-destination fd00:10:244::9",),
    ]


def test_a_range_ends_where_a_port_is_missing_or_led_elsewhere_or_is_of_another_address_or_protocol() -> None:
    ports = (
        *(PublishedPort("tcp", number, number) for number in (100, 101, 103, 104)),
        PublishedPort("tcp", 105, 5),
        *(PublishedPort("tcp", number, number) for number in (106, 107)),
        *(PublishedPort("tcp", number, number, "192.0.2.1") for number in (108, 109)),
        PublishedPort("tcp", 110, 110, "192.0.2.2"),
        PublishedPort("udp", 108, 108),
        PublishedPort("tcp", 111, 111, "0.0.0.0"),
        PublishedPort("tcp", 112, 112),
    )
    (rules,) = own_rules(*ports)
    to = "-j DNAT --to-destination 10.244.1.9"
    assert rules == (
        f"-d 192.0.2.1/32 -p tcp -m tcp --dport 108:109 {to}",
        f"-d 192.0.2.2/32 -p tcp -m tcp --dport 110 {to}:110",
        f"-p tcp -m tcp --dport 100:101 {to}",
        f"-p tcp -m tcp --dport 103:104 {to}",
        f"-p tcp -m tcp --dport 105 {to}:5",
        f"-p tcp -m tcp --dport 106:107 {to}",
        f"-p tcp -m tcp --dport 111:112 {to}",
        f"-p udp -m udp --dport 108 {to}:108",
    )


@hypothesis.given(
    st.lists(
        st.tuples(
            st.sampled_from(("tcp", "udp")),
            st.integers(1, 12),
            st.integers(1, 12),
            st.sampled_from(("", "192.0.2.1", "0.0.0.0")),
        ),
        max_size=20,
    )
)
def test_each_port_has_one_rule_that_leads_it_to_its_own_port(wanted: list[tuple[str, int, int, str]]) -> None:
    ports = tuple({(one[0], one[1]): PublishedPort(*one) for one in wanted}.values())
    found: dict[tuple[str, int, str], int] = {}
    for rule in itertools.chain.from_iterable(own_rules(*ports)):
        words = rule.split()
        first, _colon, last = words[words.index("--dport") + 1].partition(":")
        target, _colon, port = words[-1].partition(":")
        assert target == "10.244.1.9"
        for number in range(int(first), int(last or first) + 1):
            place = words[words.index("-p") + 1], number, words[1] if words[0] == "-d" else ""
            assert place not in found
            found[place] = int(port or number)
    assert found == {
        (one.protocol, one.host_port, "192.0.2.1/32" if one.host_address == "192.0.2.1" else ""): one.port
        for one in ports
    }


def test_published_ports_have_exactly_these_rules() -> None:
    first, nat, nat6 = with_ports((FILTER, NAT), [WEB], ["cali+"])
    assert first is FILTER
    assert nat.chains == {
        "cali-POSTROUTING": ("-j cali-nat-outgoing",),
        "cali-PUBLISHED": (
            "-p tcp -m tcp --dport 8080 -j cali-pub-f6570f74d87cd4fe",
            "-p udp -m udp --dport 53 -j cali-pub-f6570f74d87cd4fe",
        ),
        "cali-pub-f6570f74d87cd4fe": (
            "-d 192.0.2.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 10.244.1.5:5353",
            "-p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.244.1.5:80",
        ),
        "cali-PUBLISHED-SNAT": (
            "-s 127.0.0.0/8 -j MASQUERADE",
            "-s 10.244.1.5/32 -d 10.244.1.5/32 -j MASQUERADE",
        ),
    }
    assert nat.hooks == (
        Hook("POSTROUTING", "-j cali-POSTROUTING"),
        Hook("PREROUTING", "-m addrtype --dst-type LOCAL -j cali-PUBLISHED"),
        Hook("OUTPUT", "-m addrtype --dst-type LOCAL -j cali-PUBLISHED"),
        Hook("POSTROUTING", "-o cali+ -m conntrack --ctstate DNAT -j cali-PUBLISHED-SNAT"),
    )
    assert (nat6.name, nat6.family) == ("nat", 6)
    chain6 = next(name for name in nat6.chains if name.startswith("cali-pub-"))
    assert nat6.chains == {
        "cali-PUBLISHED": (f"-p tcp -m tcp --dport 8080 -j {chain6}",),
        chain6: ("-p tcp -m tcp --dport 8080 -j DNAT --to-destination [fd00:10:244::5]:80",),
        "cali-PUBLISHED-SNAT": ("-s fd00:10:244::5/128 -d fd00:10:244::5/128 -j MASQUERADE",),
    }
    assert nat6.hooks == (
        Hook("PREROUTING", "-m addrtype --dst-type LOCAL -j cali-PUBLISHED"),
        Hook("OUTPUT", "! -d ::1/128 -m addrtype --dst-type LOCAL -j cali-PUBLISHED"),
        Hook("POSTROUTING", "-o cali+ -m conntrack --ctstate DNAT -j cali-PUBLISHED-SNAT"),
    )
    for table in (nat, nat6):
        for chain in table.chains.values():
            assert iptables_encoding.are_good(chain)


def test_without_ports_the_tables_stay() -> None:
    tables = (FILTER, NAT)
    assert with_ports(tables, [], ["cali+"]) is tables
    assert with_ports(tables, [PublishingWorkload(("10.244.1.5",), ())], ["cali+"]) is tables


def test_chains_stay_without_ports() -> None:
    (nat,) = with_ports((NAT,), [], ["cali+"], [4])
    assert nat.chains == {**NAT.chains, "cali-PUBLISHED": (), "cali-PUBLISHED-SNAT": ()}
    assert len(nat.hooks) == 4


def test_the_order_of_workloads_does_not_matter() -> None:
    workloads = [WEB, DB, PublishingWorkload(("10.244.1.7",), (PublishedPort("tcp", 1, 1),))]
    wanted = with_ports((NAT,), workloads, ["cali+"])
    for seed in range(6):
        random.Random(seed).shuffle(workloads)
        assert with_ports((NAT,), workloads, ["cali+"]) == wanted
