# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch over paths by the agents of two hosts: what breaks is shown with pool, pair, direction and reason."""

from __future__ import annotations

import pathlib
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import reassembly
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_loss, path_status

from tests.integration.agent.two_hosts import POOLS, POOLS4, SIX, TwoHosts, block, flood, probe_address, two_hosts
from tests.pauses import pause

pytestmark = pytest.mark.root

#: Seconds within which a fault is shown, and its end.
_SHOWN = 60.0


@pytest.fixture(scope="module")
def hosts(engine: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[TwoHosts]:
    with two_hosts(engine, tmp_path_factory.mktemp("paths")) as made:
        yield made


def _within(holds: t.Callable[[], t.Any], what: str, seconds: float = _SHOWN) -> float:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + seconds, f"not within {seconds:g} seconds: {what}"
        pause(began, least=0.2, most=1.0)
    return time.monotonic() - began


def _down(hosts: TwoHosts) -> list[tuple[str, str, str, str, str]]:
    """Return node, pool, reason, by and direction of each path that is down, as both agents together know it."""
    statuses = {host.name: host.paths() for host in (hosts.first, hosts.second)}
    directed = path_status.with_directions(statuses)
    return sorted(
        (node, path.pool, path.reason, path.by, path.direction) for node in directed for path in directed[node].down
    )


def _shown(hosts: TwoHosts, wanted: list[tuple[str, str, str, str, str]]) -> None:
    seen: list[t.Any] = []

    def holds() -> bool:
        seen[:] = [_down(hosts)]
        return bool(seen[0] == wanted)

    try:
        _within(holds, f"{wanted}")
    except AssertionError as error:
        raise AssertionError(f"{error}; the agents say {seen[0]}") from None


CASES = {
    "routes that are gone": (
        f"ip route replace blackhole {block('web', 2)}; ip route replace unreachable {block('db', 1)};"
        f" ip -6 route del {block(SIX, 1)}",
        f"ip route replace {block('web', 2)} via 10.77.2.2; ip route replace {block('db', 1)} via 10.77.1.2;"
        f" ip -6 route replace {block(SIX, 1)} via fd77:1::2",
        [
            ("node1", "db", path_loss.NO_ANSWER, "", path_loss.BACK),
            ("node1", SIX, path_loss.NO_ANSWER, "", path_loss.BACK),
            ("node1", "web", path_loss.NO_ANSWER, "", path_loss.THERE),
            ("node2", "db", path_loss.UNREACHABLE, "10.77.2.1", path_loss.THERE),
            ("node2", SIX, path_loss.UNREACHABLE, "fd77:2::1", path_loss.THERE),
            ("node2", "web", path_loss.NO_ANSWER, "", path_loss.BACK),
        ],
    ),
    "an ACL": (
        f"iptables -I FORWARD -s {block('web', 1)} -j DROP;"
        f" iptables -I FORWARD -s {block('db', 1)} -j REJECT --reject-with icmp-admin-prohibited",
        "iptables -F FORWARD",
        [
            ("node1", "db", path_loss.REFUSED, "10.77.1.1", path_loss.THERE),
            ("node1", "web", path_loss.NO_ANSWER, "", path_loss.THERE),
            ("node2", "db", path_loss.NO_ANSWER, "", path_loss.BACK),
            ("node2", "web", path_loss.NO_ANSWER, "", path_loss.BACK),
        ],
    ),
    # A veth pair drops what is larger than the MTU of its other end.
    "a lowered MTU": (
        "ip link set to2 mtu 1400",
        "ip link set to2 mtu 1500",
        [
            ("node1", "db", path_loss.TOO_LARGE, "10.77.1.1", path_loss.THERE),
            ("node1", SIX, path_loss.TOO_LARGE, "fd77:1::1", path_loss.THERE),
            ("node1", "web", path_loss.TOO_LARGE, "10.77.1.1", path_loss.THERE),
            ("node2", "db", path_loss.NO_ANSWER, "", path_loss.THERE),
            ("node2", SIX, path_loss.NO_ANSWER, "", path_loss.THERE),
            ("node2", "web", path_loss.NO_ANSWER, "", path_loss.THERE),
        ],
    ),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.soak] if case == "an ACL" else []) for case in CASES]
)
def test_a_fault_on_the_router_is_shown_and_its_end(hosts: TwoHosts, case: str) -> None:
    """Both agents show what breaks on the router within a minute, of IPv4 and IPv6, and its end within a minute."""
    breaking, mending, wanted = CASES[case]
    hosts.router(breaking)
    try:
        _shown(hosts, wanted)
    finally:
        hosts.router(mending)
    _shown(hosts, [])


@pytest.mark.soak
def test_a_host_that_forwards_nothing(hosts: TwoHosts) -> None:
    """If another program drops all that a host forwards, all its pools are down, with the direction."""
    hosts.second.run("iptables -I FORWARD -j DROP")
    try:
        _shown(
            hosts,
            sorted(
                (node, pool, path_loss.NO_ANSWER, "", path_loss.THERE) for node in ("node1", "node2") for pool in POOLS4
            ),
        )
    finally:
        hosts.second.run("iptables -D FORWARD -j DROP")
    _shown(hosts, [])


def test_the_kernel_counts_packets_that_arrive_in_fragments(hosts: TwoHosts) -> None:
    """A datagram that was put together from fragments counts once, in the namespace where it arrives."""
    command = "cat /proc/net/snmp"
    before, others = reassembly.parse(hosts.first.run(command)), reassembly.parse(hosts.second.run(command))
    hosts.first.run("ping -q -c 1 -s 3000 10.77.1.1")
    assert before is not None and reassembly.parse(hosts.first.run(command)) == before + 1
    assert reassembly.parse(hosts.second.run(command)) == others


def test_a_namespace_that_is_made_anew(hosts: TwoHosts) -> None:
    """If the probe endpoint was deleted, the agent makes it anew, and watches the paths from there without an alarm."""
    first = hosts.first
    kernel = first.daemon.kernel
    before = kernel.inside("calico-probe").identity
    kernel.leave("calico-probe")
    first.run("ip link delete caliprobe")
    kernel.netns_delete("calico-probe")
    _within(lambda: "calico-probe" in kernel.netns_list(), "the namespace is there")
    assert not kernel.netns_is("calico-probe", before)
    _within(lambda: first.paths().watched, "the paths are watched")
    end = time.monotonic() + 12
    while time.monotonic() < end:
        assert first.paths().watched and not first.paths().down
        time.sleep(2)


@pytest.mark.soak
def test_an_agent_that_restarts_makes_no_alarm(hosts: TwoHosts) -> None:
    """While one agent is away its host answers, and afterwards both know all paths as up."""
    hosts.second.daemon.kill()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        assert not hosts.first.paths().down
        time.sleep(2)
    hosts.second.daemon.start()
    _within(lambda: sum(pool.up for pool in hosts.second.paths().pools) == len(POOLS), "all paths are up")
    assert _down(hosts) == []


def test_probes_of_others_are_no_flood(hosts: TwoHosts) -> None:
    """A run of Ansible probes from the same namespaces: thousands of requests and answers, which the watch ignores."""
    hosts.second.inside(f"ping -q -f -c 3000 -s 1472 -I {probe_address('web', 2)} {probe_address('web', 1)}")
    pause(time.monotonic(), 2.0, 2.0)
    assert [(host.paths().watched, host.paths().reason) for host in (hosts.first, hosts.second)] == [(True, "")] * 2


def test_a_flood_of_forged_packets_costs_little(hosts: TwoHosts) -> None:
    """Thousands of forged packets a second take no memory of the agent, little time, and forge no state of a path."""
    first = hosts.first
    before, used, began = first.daemon.memory("VmRSS"), first.daemon.processor_seconds(), time.monotonic()
    assert flood(hosts, 15.0) > 15_000
    seconds = time.monotonic() - began
    assert (first.daemon.processor_seconds() - used) / seconds < 0.05
    assert first.daemon.memory("VmRSS") - before < 1024
    assert first.paths().watched
    _shown(hosts, [])
