# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed messages for links and addresses, compared byte for byte with those of pyroute2."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import links_packed
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    LinkChange,
    NewLink,
)
from hypothesis import given, settings
from hypothesis import strategies as st

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_", min_size=1, max_size=15)
mtus = st.none() | st.integers(68, 65535)
macs = st.none() | st.binary(min_size=6, max_size=6).map(lambda raw: raw.hex(":"))
addresses = st.binary(min_size=4, max_size=4).map(socket.inet_ntoa)
indexes = st.integers(1, 2**31 - 1)


def by_pyroute2(codec, header, attributes):
    message = codec()
    for name, value in header.items():
        message[name] = value
    message["attrs"] = [(name, value) for name, value in attributes if value is not None]
    message.encode()
    return bytes(message.data[16:])


@pytest.fixture(scope="module")
def link():
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    return lambda header, *attributes: by_pyroute2(ifinfmsg, {"family": 0, **header}, attributes)


@pytest.fixture(scope="module")
def address():
    from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg

    return lambda header, *attributes: by_pyroute2(ifaddrmsg, {"family": 2, **header}, attributes)


@settings(max_examples=25, deadline=None)
@given(names, names, mtus, macs, macs, st.none() | st.integers(0, 1000))
def test_the_message_that_adds_a_veth_pair_equals_pyroute2s(link, name, peer_name, mtu, mac, peer_mac, netns):
    wanted = NewLink(name, "veth", mtu, mac, peer_name=peer_name, peer_mac=peer_mac)
    queues = [("IFLA_NUM_TX_QUEUES", 1), ("IFLA_NUM_RX_QUEUES", 1)]
    peer = [("IFLA_IFNAME", peer_name), *queues, ("IFLA_MTU", mtu)]
    peer += [("IFLA_ADDRESS", peer_mac), ("IFLA_NET_NS_FD", netns)]
    info = [
        ("IFLA_INFO_KIND", "veth"),
        ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", {"attrs": [one for one in peer if one[1] is not None]})]}),
    ]
    assert links_packed.veth_add(wanted, netns) == (
        16,
        0x600,
        link(
            {},
            ("IFLA_IFNAME", name),
            *queues,
            ("IFLA_MTU", mtu),
            ("IFLA_ADDRESS", mac),
            ("IFLA_LINKINFO", {"attrs": info}),
        ),
    )


@settings(max_examples=25, deadline=None)
@given(names, mtus, macs, st.sampled_from([None, True, False]))
def test_the_message_that_changes_a_link_equals_pyroute2s(link, name, mtu, mac, up):
    header = {} if up is None else {"flags": int(up), "change": 1}
    assert links_packed.link_change(LinkChange(name, up, mtu, mac)) == (
        16,
        0,
        link(header, ("IFLA_IFNAME", name), ("IFLA_MTU", mtu), ("IFLA_ADDRESS", mac)),
    )


@pytest.mark.parametrize(
    ("local", "attribute"), [("10.10.1.99", "IFLA_VXLAN_LOCAL"), ("fd00:10:10::99", "IFLA_VXLAN_LOCAL6")]
)
def test_the_message_that_changes_a_local_address_equals_pyroute2s(link, local, attribute):
    """It names the device's kind, which the kernel compares, and of the kind's settings only the new address."""
    info = [("IFLA_INFO_KIND", "vxlan"), ("IFLA_INFO_DATA", {"attrs": [(attribute, local)]})]
    wanted = link({}, ("IFLA_IFNAME", "vxlan.calico"), ("IFLA_LINKINFO", {"attrs": info}))
    assert links_packed.link_change(LinkChange("vxlan.calico", local=local)) == (16, 0, wanted)


def test_alias_has_no_zero_byte_so_that_none_removes_it(link):
    """An alias, also an empty one, is sent without a zero byte. pyroute2 sends one, which the kernel stores."""
    body = link({}, ("IFLA_IFNAME", "cali1"))
    assert (
        links_packed.link_change(LinkChange("cali1", alias="us")).body == body + bytes.fromhex("06001400") + b"us\0\0"
    )
    assert links_packed.link_change(LinkChange("cali1", alias="")).body == body + bytes.fromhex("04001400")


@settings(max_examples=10, deadline=None)
@given(names, st.integers(0, 2**31 - 1))
def test_group_and_deletions(link, name, group):
    named, grouped = ("IFLA_IFNAME", name), ("IFLA_GROUP", group)
    assert links_packed.link_group(name, group) == (16, 0, link({}, named, grouped))
    assert links_packed.group_delete(group) == (17, 0, link({}, grouped))
    assert links_packed.link_delete(name) == (17, 0, link({}, named))


@settings(max_examples=10, deadline=None)
@given(st.ip_addresses(v=6).map(lambda one: socket.inet_ntop(10, one.packed)), st.integers(0, 128), indexes)
def test_address_of_ipv6_serves_at_once(address, local, bits, index):
    header = {"family": 10, "prefixlen": bits, "flags": 2, "index": index}  # IFA_F_NODAD
    body = address(header, ("IFA_LOCAL", local), ("IFA_ADDRESS", local))
    assert links_packed.address_add(InterfaceAddress("eth0", local, bits), index) == (20, 0x600, body)
    assert links_packed.address_delete(InterfaceAddress("eth0", local, bits), index) == (21, 0, body)


@settings(max_examples=15, deadline=None)
@given(addresses, st.integers(0, 32), st.sampled_from([0, 253, 254]), indexes)
def test_messages_that_change_an_address_equal_pyroute2s(address, local, bits, scope, index):
    wanted = InterfaceAddress("eth0", local, bits, scope)
    body = address({"prefixlen": bits, "scope": scope, "index": index}, ("IFA_LOCAL", local), ("IFA_ADDRESS", local))
    assert links_packed.address_add(wanted, index) == (20, 0x600, body)
    assert links_packed.address_delete(wanted, index) == (21, 0, body)
