# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes on a real kernel: of both IP versions from one process, and between probe endpoints of two hosts."""

from __future__ import annotations

import functools
import os
import pathlib
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import probing, watch
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.probing import Sending, Target, probe

from tests.integration.dataplane.probe_hosts import BLOCK, ENDPOINT, HOST, ROUTER, Hosts, two_hosts
from tests.unit.dataplane.suites.drivers import OWN, write_route
from tests.unit.dataplane.suites.suite_ipv6 import OWN6, dual_stack

NOBODY, TOO_FAR = "fd00:10:10::99", "fd00:99::1"
VERSIONS = pytest.mark.parametrize("version", [4, 6])


def test_both_versions_at_once_and_why_one_does_not_answer(kernel):
    dual_stack(kernel)
    kernel.address_add(InterfaceAddress("lo", "fd00:77::1", 128))
    write_route(kernel, f"{TOO_FAR}/128", RouteAttributes("unreachable", metric=1024))
    wishes = [
        Target(OWN, 84),
        Target(OWN6, 1500),
        Target("fd00:77::1", 72),
        Target(NOBODY, 1501),
        Target(TOO_FAR),
        Target(NOBODY),
    ]
    answers = kernel._there(lambda: probe(wishes, count=2, interval=0.05, timeout=1.5))
    assert [(one.received, one.reason) for one in answers[:3]] == [(2, "")] * 3
    assert answers[3].reason == "too large"
    assert answers[4].reason == "no route"
    assert (answers[5].received, answers[5].lost) == (0, 2)


def test_source_and_tos_hold_for_both(kernel):
    dual_stack(kernel)
    sending = Sending(tos=0x1C, source=OWN6)
    answers = kernel._there(lambda: probe([Target(OWN6), Target(OWN)], 1, 0.01, 5.0, 1, sending))
    assert [(one.received, one.source) for one in answers] == [(1, OWN6), (1, "")]


@pytest.fixture
def hosts() -> t.Iterator[Hosts]:
    with two_hosts() as made:
        yield made


@VERSIONS
def test_endpoints_answer_at_full_size_and_hear_each_other(hosts: Hosts, version: int) -> None:
    """Probes cross both hosts' forwarding in full size, and each end counts the other's."""
    first, second = hosts.both(version)
    assert [(one.received, one.reason, one.by) for one in (first, second)] == [(3, "", "")] * 2
    assert 1 <= first.heard <= 3 and 1 <= second.heard <= 3


@VERSIONS
def test_a_host_without_a_route_says_so_itself(hosts: Hosts, version: int) -> None:
    hosts.sh("host1", f"ip -{version} route del default")
    found = hosts.probe(version)
    assert (found.received, found.reason, found.by) == (0, "no route", "")


@VERSIONS
def test_a_router_without_a_route_is_named(hosts: Hosts, version: int) -> None:
    hosts.sh("router", f"ip -{version} route del {BLOCK[version][1]}")
    found = hosts.probe(version)
    assert (found.received, found.reason, found.by) == (0, "unreachable", ROUTER[version][0])


@VERSIONS
def test_a_smaller_link_is_found_and_its_router_named(hosts: Hosts, version: int) -> None:
    """Only a packet of full size is lost. The kernel's memory of the path's MTU does not hide it from later probes."""
    hosts.sh("router", "ip link set eth1 mtu 1400")
    hosts.sh("host2", "ip link set eth0 mtu 1400")
    for dummy in range(2):
        found = hosts.probe(version)
        assert (found.received, found.reason, found.by) == (0, "too large", ROUTER[version][0])
    assert hosts.probe(version, size=1400).received == 3


@VERSIONS
def test_a_firewall_that_rejects_is_named(hosts: Hosts, version: int) -> None:
    hosts.tables(version, "host2", "-A FORWARD -o caliprobe -j REJECT")
    found = hosts.probe(version)
    assert (found.received, found.reason, found.by) == (0, "refused", HOST[version][1])


@VERSIONS
def test_a_loop_of_routes_is_named(hosts: Hosts, version: int) -> None:
    hosts.sh("router", f"ip -{version} route replace {BLOCK[version][1]} via {HOST[version][0]}")
    assert hosts.probe(version).reason == "loop"


@VERSIONS
def test_a_host_whose_forwarding_was_closed_is_found(hosts: Hosts, version: int) -> None:
    """Another program sets FORWARD to DROP: no end hears the other, so probes are lost on the way there."""
    hosts.tables(version, "host2", "-P FORWARD DROP")
    assert [(one.received, one.reason, one.heard) for one in hosts.both(version)] == [(0, "no answer", 0)] * 2


@VERSIONS
def test_answers_that_are_lost_on_the_way_back_are_found(hosts: Hosts, version: int) -> None:
    """The other end heard all three rounds of three, and its own probes are answered."""
    reply = "-p icmpv6 --icmpv6-type echo-reply" if version == 6 else "-p icmp --icmp-type echo-reply"
    hosts.tables(version, "host2", f"-A FORWARD -i caliprobe {reply} -j DROP")
    first, second = hosts.both(version)
    assert (first.received, first.reason) == (0, "no answer")
    assert second.received == 3 and second.heard > 0


def test_a_source_check_that_drops_is_found(hosts: Hosts) -> None:
    """Strict rp_filter drops packets whose way back is another one: the other end hears them only without it."""
    hosts.sh("host2", "ip link add other0 type veth peer name other1")
    hosts.sh("host2", "ip link set other0 up")
    hosts.sh("host2", "ip link set other1 up")
    hosts.sh("host2", f"ip route add {BLOCK[4][0]} dev other0")
    first, second = hosts.both(4)
    assert first.received == 0 and second.heard > 0
    hosts.sh("host2", "sysctl -qw net.ipv4.conf.eth0.rp_filter=1")
    first, second = hosts.both(4)
    assert (first.received, first.reason, second.heard) == (0, "no answer", 0)


@VERSIONS
def test_a_tos_takes_another_route_than_live_packets(hosts: Hosts, version: int) -> None:
    """A rule by the endpoint's interface and the TOS sends probes of the next mode to a table of their own."""
    hosts.sh("host1", f"ip -{version} route add unreachable {BLOCK[version][1]} table 179")
    hosts.sh("host1", f"ip -{version} rule add iif caliprobe tos 0x1c table 179 priority 179")
    assert hosts.probe(version).received == 3
    assert hosts.probe(version, tos=0x1C).received == 0
    hosts.sh("host1", f"ip -{version} route del unreachable {BLOCK[version][1]} table 179")
    assert hosts.probe(version, tos=0x1C).received == 3


@VERSIONS
def test_probes_of_another_run_are_not_heard(hosts: Hosts, version: int) -> None:
    """A stranger at the other end's address, without the secret of the run, is answered and not heard."""
    found: list[int | None] = []
    thread = threading.Thread(target=lambda: found.append(hosts.probe(version, 0, size=1600, attempts=3).heard))
    thread.start()
    time.sleep(0.2)
    assert hosts.probe(version, 1, secret=b"another secret 16").received == 3
    thread.join(60)
    assert found == [0]


def test_a_host_without_an_endpoint_says_so(hosts: Hosts) -> None:
    target = Target(ENDPOINT[4][1], source=ENDPOINT[4][0])
    with pytest.raises(probing.ProbeError, match=r"^this host has no probe endpoint: .* Run site\.yml for this host"):
        hosts.there("host1", lambda: probe([target], sending=Sending(namespace="no-such-namespace")))


def test_an_address_that_the_endpoint_lacks_is_named(hosts: Hosts) -> None:
    target = Target(ENDPOINT[4][1], source="10.244.9.9")
    name = hosts.of("probe1")
    with pytest.raises(
        probing.ProbeError, match=rf"^no IPv4 probe can be sent from 10\.244\.9\.9 of the namespace {name}: .*\.$"
    ):
        hosts.there("host1", lambda: probe([target], sending=Sending(namespace=name)))


@VERSIONS
def test_a_watch_sends_from_the_endpoint_and_stays_on_the_host(
    hosts: Hosts, version: int, tmp_path: pathlib.Path
) -> None:
    """Only the sockets of a watch are in the endpoint's namespace: its process remains in that of the host."""
    path = str(tmp_path / "watch.json")
    own, other = ENDPOINT[version]
    sending = Sending(namespace=hosts.of("probe1"))
    target = Target(other, name="host2", pool="default", source=own)
    exchange = functools.partial(probing.Exchange, sending=sending)
    hosts.there("host1", lambda: watch.start([target], 60, path, exchange))
    process = watch.running(path)
    assert process
    inside = [os.stat(name).st_ino for name in (f"/proc/{process}/ns/net", f"/run/netns/{hosts.of('host1')}")]
    assert inside[0] == inside[1]
    time.sleep(0.5)
    hosts.tables(version, "host2", "-P FORWARD DROP")
    time.sleep(0.5)
    found = watch.collect(process, path)
    assert found is not None and found["state"] == "stopped"
    (entry,) = found["targets"]
    assert (entry["pool"], entry["source"], entry["reason"]) == ("default", own, "no answer")
    assert entry["received"] > 0 and entry["lost"] > 0 and entry["heard"] is None
