# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports as values: what people write, what a request may hold, and which ports collide."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import published_port
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import (
    PROTOCOLS,
    InvalidPort,
    PublishedPort,
    parse,
    texts,
)
from hypothesis import given
from hypothesis import strategies as st

BOTH = ("10.244.1.5", "fd00:10:244::5")


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8080:80", [PublishedPort("tcp", 8080, 80)]),
        ("80", [PublishedPort("tcp", 0, 80)]),
        (":80", [PublishedPort("tcp", 0, 80)]),
        ("53:53/udp", [PublishedPort("udp", 53, 53)]),
        ("127.0.0.1:8080:80/tcp", [PublishedPort("tcp", 8080, 80, "127.0.0.1")]),
        ("[2001:DB8::1]:8080:80/sctp", [PublishedPort("sctp", 8080, 80, "2001:db8::1")]),
        ("8000-8002:80-82", [PublishedPort("tcp", 8000 + more, 80 + more) for more in range(3)]),
        ("0.0.0.0:8080:80", [PublishedPort("tcp", 8080, 80, "0.0.0.0")]),
    ],
)
def test_each_notation_of_a_port_is_parsed(text: str, ports: list[PublishedPort]) -> None:
    assert list(parse(text)) == ports


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "web:80",
            "'web:80' does not say which port is published. Write it as 8080:80, 127.0.0.1:8080:80/tcp or"
            " 8000-8009:80-89.",
        ),
        ("8000-8002:80", "'8000-8002:80' has ranges of different lengths. Give both the same number of ports."),
        ("8002-8000:80-82", "'8002-8000' is not a range of ports. Write the smaller one first, as 8000-8009."),
        ("1-2000:1-2000", "'1-2000:1-2000' has 2000 ports. A workload publishes at most 1024."),
        ("99999:80", "The port of the host 99999 is not a port. Use a number from 0 to 65535."),
        ("8080:0", "The port of the workload 0 is not a port. Use a number from 1 to 65535."),
        ("8080:80/icmp", "The protocol 'icmp' has no ports to publish. Use tcp, udp or sctp."),
        ("300.0.0.1:80:80", "'300.0.0.1' is not an address of a host. Write one, or leave it out for all of them."),
        ("224.0.0.1:80:80", "'224.0.0.1' is not an address of a host. Write one, or leave it out for all of them."),
        (
            "[::ffff:10.0.0.1]:80:80",
            "'::ffff:10.0.0.1' is not an address of a host. Write one, or leave it out for all of them.",
        ),
        ("8080:80\n", None),
        ("8" * 400 + ":80", None),
    ],
)  # fmt: skip
def test_an_invalid_port_is_refused_with_its_reason(text: str, words: str | None) -> None:
    with pytest.raises(InvalidPort) as refused:
        parse(text)
    assert words is None or str(refused.value) == words


@given(
    st.sampled_from(published_port.PROTOCOLS),
    st.sampled_from(["", "127.0.0.1", "0.0.0.0", "::", "2001:db8::1"]),
    st.integers(0, 65535),
    st.integers(1, 65535),
)
def test_a_port_is_read_as_it_was_written(protocol: str, address: str, outside: int, inside: int) -> None:
    port = PublishedPort(protocol, outside, inside, address)
    assert PublishedPort.read(port.to_dict()) == port
    assert parse(str(port)) == (port,)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "8080:80",
        {"port": 80, "more": 1},
        {"port": "80"},
        {"port": True},
        {"port": 80.0},
        {"host_port": -1, "port": 80},
        {"port": 80, "protocol": 6},
        {"port": 80, "protocol": "tcp; drop"},
        {"port": 80, "host_address": ["10.0.0.1"]},
        {"port": 80, "host_address": "fe80::1%eth0"},
        {"port": 80, "host_address": "10.0.0.1\n-j ACCEPT"},
        {"port": 80, "host_address": "10.0.0.0/8"},
    ],
)
def test_data_that_is_no_port(data: object) -> None:
    with pytest.raises(InvalidPort):
        PublishedPort.read(data)


def _collide(one: PublishedPort, other: PublishedPort) -> bool:
    """Return whether two ports collide on a host with these addresses: the slow and obvious way."""
    hosts = {4: ["127.0.0.1", "192.0.2.1"], 6: ["::1", "2001:db8::1"]}

    def sockets(port: PublishedPort) -> set[tuple[str, str, int]]:
        found = set()
        for family in port.families(BOTH):
            addresses = hosts[family] if port.host_address in ("", "0.0.0.0", "::") else [port.host_address]
            found |= {(port.protocol, address, port.host_port) for address in addresses}
        return found

    return not sockets(one).isdisjoint(sockets(other))


def test_ports_collide_where_a_socket_would() -> None:
    ports = [
        PublishedPort(protocol, number, 80, address)
        for protocol in ("tcp", "udp")
        for number in (8080, 8081)
        for address in ("", "0.0.0.0", "::", "127.0.0.1", "192.0.2.1", "::1", "2001:db8::1")
    ]
    for one, other in itertools.product(ports, ports):
        if one is other:
            continue
        try:
            published_port.check([one, other], BOTH)
            refused = False
        except InvalidPort as error:
            refused = True
            assert str(error) == f"{other} and {one} are the same port of the host. Give each another one."
        assert refused == _collide(one, other), (one, other)


def test_a_port_needs_an_address_of_its_ip_version() -> None:
    with pytest.raises(InvalidPort) as refused:
        published_port.check([PublishedPort("tcp", 8080, 80, "2001:db8::1")], BOTH[:1])
    assert str(refused.value) == (
        "[2001:db8::1]:8080:80/tcp leads to no address: the workload has IPv4. Leave the host's address out, or give"
        " one of that IP version."
    )
    with pytest.raises(InvalidPort):
        published_port.check([PublishedPort("tcp", number, 80) for number in range(1, 1026)], BOTH)


def test_ports_that_the_host_needs_have_an_owner() -> None:
    failsafes = [("tcp", 22)]
    assert published_port.owner(PublishedPort("tcp", 22, 80), failsafes) == (
        "a failsafe port, by which the host stays reachable"
    )
    assert published_port.owner(PublishedPort("udp", 22, 80), failsafes) == ""
    assert [published_port.owner(PublishedPort(*port, 80), ()) for port in (("tcp", 179), ("udp", 3784))] == [
        "BGP",
        "BFD",
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ((), []),
        (("8080:80", "53:53/udp"), ["8080:80/tcp", "53:53/udp"]),
        (("8000-8009:80-89",), ["8000-8009:80-89/tcp"]),
        (
            ("[2001:db8::1]:8000-8001:80-81/udp", "192.0.2.1:1-2:3-4"),
            ["[2001:db8::1]:8000-8001:80-81/udp", "192.0.2.1:1-2:3-4/tcp"],
        ),
        (("1:1", "2:3", "3:4/udp", "4:5"), ["1:1/tcp", "2:3/tcp", "3:4/udp", "4:5/tcp"]),
        (("80-81",), ["0:80/tcp", "0:81/tcp"]),
    ],
)
def test_ports_that_follow_each_other_are_shown_as_a_range(written: tuple[str, ...], shown: list[str]) -> None:
    assert texts([port for text in written for port in parse(text)]) == shown


@given(st.lists(st.builds(PublishedPort, st.sampled_from(PROTOCOLS), st.integers(1, 9), st.integers(1, 9))))
def test_ranges_of_ports_mean_the_same_ports(ports: list[PublishedPort]) -> None:
    assert [port for text in texts(ports) for port in parse(text)] == ports
