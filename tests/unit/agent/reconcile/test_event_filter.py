# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the event filter: which notifications lead to a look.

tests/integration/agent/test_monitor.py asks the real kernel.
"""

from __future__ import annotations

import dataclasses
import struct
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.event_filter import (
    YOUNG,
    EventFilter,
    device,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import rtnetlink as rt
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    UNDERLAY,
    UNDERLAY_GATEWAY,
    Pool,
    Route,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.suites.suite_node import STATE

MARK = "calico: workload default/web-1"
DUAL = dataclasses.replace(
    STATE,
    address6="fd00:10::11/64",
    pools=(*STATE.pools, Pool("six", "fd00:10:244::/64", 122, "None")),
    routes=(*STATE.routes, Route("fd00:10:244::80/122", gateway="{via fd00:10::12}")),
)
NEWLINK, DELLINK, NEWROUTE, DELROUTE, NEWADDR, DELNEIGH, DELRULE, NEWNETCONF, DELNETCONF = (
    16, 17, 24, 25, 20, 29, 33, 80, 81,
)  # fmt: skip


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def link(
    index: int, name: str, up: bool = True, mtu: int = 1450, alias: str = MARK, kind: int = NEWLINK, family: int = 0
):
    body = rt.IFINFO.pack(family, 1, index, int(up), 0) + rt.attribute(3, name.encode() + b"\0")
    body += rt.attribute(4, struct.pack("=I", mtu)) + rt.attribute(1, bytes.fromhex("ee" * 6))
    return message(kind, body + (rt.attribute(20, alias.encode() + b"\0") if alias else b""))


def route(
    destination: str, protocol: int, table: int = 254, kind: int = NEWROUTE, family: t.Optional[int] = None
) -> bytes:
    address, _slash, bits = destination.partition("/")
    family = rt.af_of(address) if family is None else family
    body = rt.RTMSG.pack(family, int(bits), 0, 0, table if table < 256 else 0, protocol, 0, 1, 0)
    body += rt.attribute(15, struct.pack("=I", table))
    return message(kind, body + (rt.attribute(1, rt.packed_address(address)) if bits != "0" else b""))


def netconf(index: int, kind: int = NEWNETCONF, **values: int) -> bytes:
    numbers = {"forwarding": 2, "rp_filter": 3, "proxy": 5}
    body = b"\x02\0\0\0" + rt.attribute(1, struct.pack("=i", index))
    return message(kind, body + b"".join(rt.attribute(numbers[k], struct.pack("=i", v)) for k, v in values.items()))


class Ear:
    def __init__(self, state=DUAL, **options):
        self.now = 100.0
        self.event_filter = EventFilter(lambda: state, lambda: {"eth0"}, **options)
        known = link(2, "eth0", alias=""), link(3, "vxlan.calico", alias="calico: tunnel"), link(4, "cali111")
        self.event_filter.expect(map(device, known))

    def hears(self, *messages: bytes) -> set[str]:
        for one in messages:
            self.event_filter.feed(one, self.now)
        return self.event_filter.due(self.now)[0]

    def later(self, seconds: float) -> set[str]:
        self.now += seconds
        return self.event_filter.due(self.now)[0]


@pytest.mark.parametrize(
    ("one", "marks"),
    [
        (route("10.244.1.5/32", 179, kind=DELROUTE), {"route"}),
        (route("198.51.100.0/24", 179, table=77), {"route"}),
        (route("10.244.1.5/32", 3), {"route"}),
        (route("10.244.1.5/32", 3, table=179), {"route"}),
        (route("10.244.1.5/32", 3, table=255), set()),
        (route("10.244.1.5/32", 3, table=1000), set()),
        (route("10.0.0.0/8", 3), set()),
        (route("10.244.0.0/14", 3), set()),
        (route("0.0.0.0/0", 3), set()),
        (route("198.51.100.0/24", 188), set()),
        (route("10.244.1.5/32", 179, family=rt.AF_BRIDGE), set()),
        (route("fd00:10:244::45/128", 179, kind=DELROUTE), {"route"}),
        (route("fd00:10:244::45/128", 3), {"route"}),
        (route("fd00:10:245::45/128", 3), set()),
        (route("::/0", 9), {"route"}),
        (link(2, "eth0", up=False, alias=""), {"route"}),
        (link(2, "eth0", alias=""), set()),
        (link(9, "docker0", alias=""), set()),
        (link(3, "vxlan.calico", alias=""), {"tunnel", "neighbor", "route"}),
        (link(3, "vxlan.calico", kind=DELLINK), {"tunnel", "neighbor", "route"}),
        (link(4, "cali111"), set()),
        (link(4, "cali111", mtu=1300), {"workload"}),
        (link(4, "theirs"), {"workload"}),
        (link(4, "cali111", alias="theirs"), {"workload", "sysctl"}),
        (link(4, "cali111", up=False), {"workload", "sysctl"}),
        (link(4, "cali111", up=False, family=7), set()),
        (link(4, "cali111", kind=DELLINK), {"workload"}),
        (link(4, "cali111", kind=DELLINK, family=7), set()),
        (link(9, "cali999", kind=DELLINK), {"workload"}),
        (netconf(4, proxy=True), set()),
        (netconf(4, proxy=False), {"workload", "sysctl"}),
        (netconf(4, forwarding=False), {"workload", "sysctl"}),
        (netconf(4, rp_filter=1), set()),
        (netconf(4, rp_filter=2), {"workload", "sysctl"}),
        (netconf(4, rp_filter=0), {"workload", "sysctl"}),
        (netconf(-1, rp_filter=2), {"sysctl"}),
        (netconf(2, rp_filter=False), {"sysctl"}),
        (netconf(-1, forwarding=False), {"sysctl"}),
        (netconf(-2, forwarding=False), set()),
        (message(DELNEIGH, struct.pack("=BxxxiHBB", 2, 3, 0, 0, 1)), {"neighbor"}),
        (message(DELNEIGH, struct.pack("=BxxxiHBB", 7, 3, 0, 0, 1)), {"neighbor"}),
        (message(DELNEIGH, struct.pack("=BxxxiHBB", 10, 3, 0, 0, 1)), {"neighbor"}),
        (message(DELNEIGH, struct.pack("=BxxxiHBB", 12, 3, 0, 0, 1)), set()),
        (message(DELRULE, struct.pack("=BBBBBxxBI", 10, 0, 0, 0, 0, 1, 0) + rt.attribute(21, b"\xb3")), {"rule"}),
        (message(NEWADDR, struct.pack("=BBBBI", 10, 128, 0, 0, 3) + rt.attribute(1, bytes(16))), {"tunnel", "route"}),
        (message(NEWADDR, struct.pack("=BBBBI", 10, 64, 0, 253, 3) + rt.attribute(1, bytes(16))), set()),
        (message(DELRULE, struct.pack("=BBBBBxxBI", 2, 0, 0, 0, 0, 1, 0) + rt.attribute(21, b"\xb3")), {"rule"}),
        (message(DELRULE, struct.pack("=BBBBBxxBI", 2, 0, 0, 0, 0, 1, 0) + rt.attribute(21, b"\x03")), set()),
        (message(NEWADDR, struct.pack("=BBBBI", 2, 32, 0, 0, 3) + rt.attribute(2, b"\1\2\3\4")), {"tunnel", "route"}),
        (message(NEWADDR, struct.pack("=BBBBI", 2, 32, 0, 0, 2) + rt.attribute(2, b"\1\2\3\4")), set()),
        (message(77, b"something else"), set()),
        (message(NEWROUTE, b"\2"), {"tunnel", "workload", "route"}),
        (b"", set()),
    ],
    ids=lambda value: value.hex()[8:12] if isinstance(value, bytes) else "+".join(sorted(value)) or "nothing",
)  # fmt: skip
def test_a_notification_marks_the_kinds_that_it_concerns(one, marks):
    assert Ear().hears(one) == marks


def test_the_nodes_own_address_concerns_everything():
    for family, bits, kind, address in ((2, 24, 2, "10.10.1.11"), (10, 64, 1, "fd00:10::11")):
        own = rt.attribute(kind, rt.packed_address(address))
        marks = Ear().hears(message(NEWADDR, struct.pack("=BBBBI", family, bits, 0, 0, 2) + own))
        assert marks == {"tunnel", "workload", "sysctl", "neighbor", "rule", "route"}


def test_several_messages_in_a_datagram_all_count():
    assert Ear().hears(route("198.51.100.0/24", 188) + link(4, "cali111", mtu=9)) == {"workload"}


def test_routes_that_decide_where_ours_go_count():
    way = Route("10.244.3.0/26", device=UNDERLAY, gateway=UNDERLAY_GATEWAY.format("10.20.1.13"))
    ear = Ear(dataclasses.replace(STATE, routes=(way,)))
    assert ear.hears(route("10.20.0.0/16", 3)) == {"route"}
    assert ear.hears(route("0.0.0.0/0", 3, kind=DELROUTE)) == {"route"}
    assert ear.hears(route("10.30.0.0/16", 3)) == set()


def test_a_device_that_is_being_attached_is_left_to_who_attaches_it():
    ear = Ear()
    assert ear.hears(netconf(5, forwarding=False, proxy=False), link(5, "cali222", up=False, alias="")) == set()
    assert ear.event_filter.due(ear.now)[1] == pytest.approx(ear.now + YOUNG)
    assert ear.hears(netconf(5, proxy=True), netconf(5, forwarding=True), link(5, "cali222")) == set()
    assert ear.event_filter.due(ear.now)[1] is None
    assert ear.hears(link(5, "cali222")) == set()  # the same message again, as when the carrier comes up
    assert ear.later(10) == set()
    assert ear.hears(link(5, "cali222", up=False)) == {"workload", "sysctl"}


def test_a_host_end_of_guests_that_route_is_not_checked():
    ear = Ear(dataclasses.replace(DUAL, workload_source_spoofing=True))
    assert ear.hears(netconf(4, rp_filter=0)) == set()
    assert ear.hears(netconf(4, rp_filter=1)) == {"workload", "sysctl"}


def test_a_device_that_stays_unfinished_marks_workloads_and_sysctls():
    ear = Ear()
    assert ear.hears(link(5, "cali222", up=False, alias="")) == set()
    assert ear.later(YOUNG / 2) == set()
    assert ear.later(YOUNG) == {"workload", "sysctl"}
    assert ear.later(YOUNG) == set()


def test_one_that_the_agent_deletes_is_no_news():
    leaving = set()
    ear = Ear(wanted=lambda name: name not in leaving)
    leaving.add("cali111")
    assert ear.hears(link(4, "cali111", up=False)) == set()
    assert ear.hears(netconf(4, kind=DELNETCONF), link(4, "cali111", kind=DELLINK)) == set()
    assert ear.later(1) == set()


def test_nothing_is_kept_of_devices_that_are_gone():
    ear = Ear()
    for index in range(100, 1100):
        name = f"cali{index}" if index % 2 else f"veth{index}"
        ear.hears(netconf(index, proxy=False), link(index, name, up=False, alias=""))
        ear.hears(netconf(index, kind=DELNETCONF))
        if index % 3:  # for the others no DELLINK arrives: some kernels send it with our port, so the filter drops it
            ear.hears(link(index, name, kind=DELLINK))
    ear.later(1)
    assert set(ear.event_filter._ends) == {4}
    assert set(ear.event_filter._devices) == {2, 3}
    assert not ear.event_filter._young


def test_a_device_of_somebody_else_that_is_heard_of_by_its_settings_first_is_forgotten():
    ear = Ear()
    assert ear.hears(netconf(9, proxy=False)) == set()
    assert ear.later(1) == set()
    assert 9 not in ear.event_filter._ends
    assert ear.hears(netconf(8, proxy=False), link(8, "veth8", alias="")) == set()
    assert ear.event_filter._devices[8] == ("veth8", True)


def test_known_devices_are_forgotten_when_notifications_were_lost():
    ear = Ear()
    ear.event_filter.forget()
    assert ear.hears(link(4, "cali111", mtu=1300)) == set()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([16, 17, 20, 21, 24, 25, 28, 29, 32, 33, 80, 81]), st.binary(max_size=80))
def test_garbage_notifications_raise_no_error(kind, body):
    ear = Ear()
    ear.hears(message(kind, body), body)
    ear.later(1)
