# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conditions of one rule in one IP version."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.rule_conditions import (
    conditions,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Entity,
    Icmp,
    NamedPort,
    NamedPortKey,
    PolicyRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets import ip_sets

PORTS = tuple(PortRange(port, port) for port in range(1000, 1032, 2))
TWO_NETS = ("10.1.0.0/16", "10.2.0.0/16")


def of(family: int = 4, **fields: object) -> tuple[str, ...]:
    found = conditions(PolicyRule("Allow", **fields), family)
    assert found is not None
    assert not found.any_of
    return found.all_of


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ()),
        ({"protocol": "tcp"}, ("-p tcp",)),
        ({"protocol": 253}, ("-p 253",)),
        ({"not_protocol": "sctp"}, ("! -p 132",)),
        ({"source": Entity(nets=("10.1.0.0/16",))}, ("-s 10.1.0.0/16",)),
        ({"destination": Entity(not_nets=("10.1.0.0/16",))}, ("! -d 10.1.0.0/16",)),
        ({"source": Entity(nets=("0.0.0.0/0", "10.1.0.0/16"))}, ()),
        ({"source": Entity(not_nets=("fd00::/8",))}, ()),
        ({"protocol": "icmp", "icmp": Icmp(8)}, ("-p 1", "-m icmp --icmp-type 8")),
        ({"protocol": "icmp", "icmp": Icmp()}, ("-p 1",)),
        ({"protocol": "icmp", "not_icmp": Icmp(8, 0)}, ("-p 1", "-m icmp ! --icmp-type 8/0")),
        ({"protocol": "icmp", "not_icmp": Icmp(255)}, ("-p 1",)),
    ],
)
def test_fields_of_a_rule_become_iptables_matches(fields: dict[str, object], expected: tuple[str, ...]) -> None:
    assert of(**fields) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"ip_version": 6},
        {"source": Entity(nets=("fd00::/8",))},
        {"destination": Entity(not_nets=("0.0.0.0/0",))},
        {"protocol": "icmpv6", "icmp": Icmp(128)},
        {"protocol": "icmp", "icmp": Icmp(255)},
        {"protocol": "icmp", "not_icmp": Icmp()},
        {"protocol": "tcp", "not_protocol": "tcp"},
    ],
)
def test_that_no_packet_can_match(fields: dict[str, object]) -> None:
    assert conditions(PolicyRule("Allow", **fields), 4) is None


def test_several_networks_are_a_set_whatever_their_order() -> None:
    found, turned = (
        conditions(PolicyRule("Allow", source=Entity(nets=nets)), 4) for nets in (TWO_NETS, TWO_NETS[::-1])
    )
    assert found is not None and turned is not None
    assert found.nets == (TWO_NETS,)
    assert found.all_of == turned.all_of == (f"-m set --match-set {ip_sets.nets_set(TWO_NETS, 4)} src",)


def test_there_is_one_source_in_a_rule() -> None:
    """A rule has at most one -s. Otherwise iptables fails with "multiple -s flags not allowed"."""
    found = conditions(PolicyRule("Deny", source=Entity(nets=("10.0.0.0/8",), not_nets=("10.1.0.0/16",))), 4)
    assert found is not None
    assert found.all_of == (
        "-s 10.0.0.0/8",
        f"-m set ! --match-set {ip_sets.nets_set(('10.1.0.0/16',), 4)} src",
    )
    assert found.nets == (("10.1.0.0/16",),)


def test_ranges_that_touch_are_one() -> None:
    ports = (PortRange(90, 99), PortRange(80, 95), PortRange(100, 100), PortRange(85, 86))
    assert of(protocol="tcp", destination=Entity(ports=ports)) == ("-p tcp", "-m tcp --dport 80:100")


def test_only_neighbouring_ranges_are_merged() -> None:
    ports = (PortRange(10, 19), PortRange(30, 39), PortRange(35, 50), PortRange(52, 60))
    assert of(protocol="tcp", destination=Entity(ports=ports)) == ("-p tcp", "-m multiport --dports 10:19,30:50,52:60")


def test_a_condition_has_fifteen_ports_at_most() -> None:
    found = conditions(PolicyRule("Allow", protocol="udp", source=Entity(ports=PORTS)), 4)
    assert found is not None
    first = ",".join(str(port.first) for port in PORTS[:15])
    assert found.all_of == ("-p udp",)
    assert found.any_of == ((("-p udp", f"-m multiport --sports {first}"), ("-p udp", "-m udp --sport 1030")),)


def test_ports_that_must_not_be_need_no_alternatives() -> None:
    ranges = tuple(PortRange(port, port + 1) for port in range(1000, 1064, 8))
    found = of(protocol="tcp", destination=Entity(not_ports=ranges))
    assert [text.count(":") for text in found] == [0, 7, 0 + 1]
    assert all("!" in text for text in found[1:])


def test_numbers_and_names_are_alternatives() -> None:
    entity = Entity(selector="role == 'db'", ports=(PortRange(80, 80), NamedPort("sql"), NamedPort("sql")))
    found = conditions(PolicyRule("Allow", protocol="tcp", destination=entity), 6)
    assert found is not None
    name = ip_sets.named_port_set(NamedPortKey("sql", "tcp", "role == 'db'"), 6)
    assert found.any_of == (
        (("-p tcp", "-m tcp --dport 80"), ("-p tcp", f"-m set --match-set {name} dst,dst")),
    )  # fmt: skip
    assert found.all_of == ("-p tcp", f"-m set --match-set {ip_sets.selector_set(entity.selector, 6)} dst")


def test_ranges_of_ports_that_touch_or_overlap_become_one() -> None:
    ports = tuple(PortRange(*ends) for ends in ((10, 100), (200, 300), (250, 260), (301, 301), (303, 303)))
    found = of(protocol="tcp", destination=Entity(ports=ports))
    assert found == ("-p tcp", "-m multiport --dports 10:100,200:301,303")
