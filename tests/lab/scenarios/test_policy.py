# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A shop of three tiers on four hosts under policy.

Exactly what policy allows passes, as `calicoctl policy explain` says, while policy, labels, the pool's mode and the
agents themselves change. Allowed streams lose no packet meanwhile. Forbidden ones get none through, except while the
only node that forbids them has lost its rules.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab import NODES as NODES_OF_LAB
from tests.lab import calicoctl
from tests.lab.fleet import no_way_around
from tests.lab.handle import BaseLab
from tests.lab.measure.reach import Attempt, attempt, serving
from tests.lab.measure.streams import Report, Stream, Streams
from tests.pauses import pause

from . import power_on, three_tiers
from .conftest import LAB, LEAST_PPS, PPS, Fleet, Run, new_lab
from .three_tiers import PORTS, Member, Shop

NODES = ("node1", "node2", "node3", "node4")
NAME = f"{LAB}-policy"
#: The port that policies open and close.
MONITOR = 9100
#: A port that no policy names.
OPEN = 9999


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(NAME) as lab:
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab) -> Fleet:
    return Fleet(lab)


@pytest.fixture(scope="module")
def shop(lab: BaseLab, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The shop, converged without policy; tests switch policy on."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.variables["policy_enabled"] = False
    fleet.site(inventory=shop.write()).check()
    del shop.variables["policy_enabled"]
    three_tiers.routed_outside(lab)
    return shop


@pytest.fixture(scope="module")
def found(lab: BaseLab, shop: Shop) -> list[Member]:
    """The inventory's workloads, and three that were attached later."""
    return [
        *three_tiers.members(lab, shop.workloads),
        three_tiers.attach(lab, "node2", "late-web", "web"),
        three_tiers.attach(lab, "node3", "late-app", "app"),
        three_tiers.attach(lab, "node1", "late-client", "client"),
    ]


def by_name(found: Sequence[Member]) -> dict[str, Member]:
    return {member.name: member for member in found}


def explained(lab: BaseLab, asked: dict[Attempt, tuple[Member, Member]]) -> dict[Attempt, dict[str, tuple[int, str]]]:
    """Return {attempt: {node: (exit status, output)}} of `calicoctl policy explain` on the nodes of both ends.

    The status is 0 if the node allows the connection, 1 if it denies it, another one if it cannot tell. A connection
    needs both nodes' permission. An outside host has no entry. Raise LabError if a node cannot answer.
    """
    answers: dict[Attempt, dict[str, tuple[int, str]]] = {one: {} for one in asked}
    for node in NODES:
        here = [one for one, ends in asked.items() if node in (ends[0].node, ends[1].node)]
        lines = [
            f"policy explain --from {one.source.address} --to {one.target.address} --port {one.port}/{one.protocol}"
            for one in here
        ]
        answered = calicoctl.run_each(lab, node, [line.split() for line in lines])
        for one, answer in zip(here, answered):
            answers[one][node] = answer
    return answers


def hold_matrix(lab: BaseLab, found: Sequence[Member], protocols: Sequence[str] = ("tcp", "udp")) -> None:
    """Assert that exactly the expected attempts succeed, and that the nodes' explanations agree.

    Attempts are those of `three_tiers.matrix` between the workloads `found`, also from the outside host. Only those by
    TCP are explained. Raise LabError if a host cannot make its attempts, serve or explain.
    """
    asked = three_tiers.matrix(found, protocols)
    expected = {one for one, (source, target) in asked.items() if three_tiers.allowed(source, target, one.port)}
    with serving(lab, [member.place for member in found], PORTS):
        came = attempt(lab, list(asked), expected)
    assert sorted(map(str, came - expected)) == [], "came through and must not"
    assert sorted(map(str, expected - came)) == [], "must come through and did not"
    answers = explained(lab, {one: ends for one, ends in asked.items() if one.protocol == "tcp"})
    wrong = [
        f"{one}: {found}"
        for one, found in answers.items()
        if (one in came) != all(status == 0 for status, _said in found.values())
        or not {status for status, _said in found.values()} <= {0, 1}
    ]
    assert wrong == [], f"{len(wrong)} of {len(answers)} are explained otherwise than they are"


def in_sync(lab: BaseLab, node: str) -> bool:
    done = lab.exec(node, ["calicoctl", "status", "-o", "json"], check=False)
    return done.returncode == 0 and json.loads(done.stdout)["in_sync"]


def wait(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"{what}: not within {seconds:g} s"
        pause(began, least=0.25)


def streams_between(found: Sequence[Member], wanted: Sequence[tuple[str, str, int]]) -> list[Stream]:
    """Return UDP streams from each first workload to the second one's port, small and full-size in turn.

    Raise KeyError for a name that `found` does not have.
    """
    names = by_name(found)
    sizes: Iterator[int | str] = itertools.cycle((64, "full"))
    ends = [(names[source].place, names[target].place, port) for source, target, port in wanted]
    return [
        Stream(one.where, one.netns, other.where, other.netns, other.address, size, PPS, port)
        for (one, other, port), size in zip(ends, sizes)
    ]


def hold(report: Report, allowed: Sequence[Stream], forbidden: Sequence[Stream]) -> None:
    """Assert that all packets of `allowed` arrived, none of `forbidden`, and each stream's rate is at least LEAST_PPS.

    Packets that a full receive buffer dropped count as arrived.
    """
    results = {result.stream: result for result in report.streams}
    assert not report.silent_hosts, report.summary()
    assert {str(one): results[one].received for one in forbidden if results[one].received} == {}
    lost = sum(results[one].lost for one in allowed) - report.buffer_drops
    assert lost == 0, report.summary()
    assert min(result.rate for result in results.values()) >= LEAST_PPS, report.summary()


def policy_lines(run: Run) -> set[tuple[str, str]]:
    """Return {(action, subject)} of the lines on policy in a run's printed plan, for "+", "~" and "-"."""
    return set(re.findall(r"^  ([+~-]) policy   ((?:\S+ )*\S+)(?:  |$)", run.output, re.MULTILINE))


def unchanged(fleet: Fleet, path: str) -> None:
    fleet.site(inventory=path).unchanged(*NODES)


ALLOWED = (
    *(("client-1", "web-1", 80), ("client-1", "web-2", 80), ("guest-1", "web-2", 80)),
    *((web, app, 8080) for web in ("web-1", "web-2") for app in ("app-1", "app-2")),
    *((app, db, 5432) for app in ("app-1", "app-2") for db in ("db-1", "db-2")),
)


def test_the_plan_names_each_policy_and_the_run_loses_nothing(lab: BaseLab, fleet: Fleet, shop: Shop) -> None:
    """The plan names each part of the policy that comes to a fleet without any, and no allowed packet is lost then.

    The run changes each node, and the next run none.
    """
    path = shop.write()
    planned = fleet.site("--check", "--diff", inventory=path).check()
    assert policy_lines(planned) == {
        ("+", "tier security"),
        ("+", "security.guests"),
        ("+", "default/app"),
        ("+", "default/db"),
        ("+", "default/web"),
        ("+", "network set pools"),
        ("+", "workloads of this node"),
        ("+", "endpoints of other nodes"),
        ("+", "settings"),
    }
    assert "+ingress  Allow tcp to ports 80, 443" in planned.output
    assert lab.exec("node1", ["iptables-save"]).stdout.count("app") == 0
    streams = streams_between(three_tiers.members(lab, shop.workloads), ALLOWED)
    with Streams(lab, streams) as running:
        run = fleet.site(inventory=path).check()
        report = running.stop()
    assert {host: entry["changed"] for host, entry in run.recap().items()} == dict.fromkeys(NODES, 1)
    hold(report, streams, [])
    unchanged(fleet, path)


def test_exactly_what_is_allowed_passes(lab: BaseLab, shop: Shop, found: list[Member]) -> None:
    hold_matrix(lab, found)


FORBIDDEN = (
    *(("client-1", "app-1", 8080), ("client-1", "db-1", 5432), ("guest-1", "client-1", 80), ("guest-1", "db-2", 5432)),
    *(("web-1", "db-1", 5432), ("web-2", "web-1", 80), ("app-1", "web-2", 80), ("db-1", "web-1", 80)),
)
MONITORING: dict[str, Any] = {
    "kind": "GlobalNetworkPolicy",
    "name": "monitoring",
    "order": 10,
    "selector": "app in {'web', 'app', 'db'}",
    "types": ["Ingress"],
    "ingress": [{"action": "Allow", "protocol": "TCP", "source": {"selector": "app == 'client'"}}],
}
PLATFORM: list[dict[str, Any]] = [
    {"kind": "Tier", "name": "platform", "order": 50, "defaultAction": "Pass"},
    {
        "kind": "GlobalNetworkPolicy",
        "name": "platform.no-monitoring",
        "tier": "platform",
        "selector": "all()",
        "types": ["Ingress"],
        "ingress": [{"action": "Deny", "protocol": "TCP", "destination": {"ports": [9100]}}],
    },
]
CANARY = {
    "kind": "NetworkPolicy",
    "name": "canary",
    "order": 5,
    "selector": "has(canary)",
    "types": ["Ingress"],
    "ingress": three_tiers.by_udp_too(
        [
            {
                "action": "Allow",
                "protocol": "TCP",
                "source": {"notSelector": "app == 'web'"},
                "destination": {"ports": [80]},
            }
        ]
    ),
}


def add_monitoring(shop: Shop) -> None:
    shop.policies = [*shop.policies, MONITORING]


def narrow_monitoring(shop: Shop) -> None:
    rule = {**MONITORING["ingress"][0], "destination": {"ports": [9100]}}
    shop.replace("monitoring", ingress=[{"action": "Deny", "source": {"selector": "app == 'db'"}}, rule])


def turn_round(shop: Shop) -> None:
    for number, name in enumerate(("db", "app", "web", "monitoring"), 1):
        shop.replace(name, order=number * 100)


def add_tier(shop: Shop) -> None:
    """Add the platform's policies, and labels of nodes that no policy uses."""
    shop.policies = [*PLATFORM, *shop.policies]
    shop.labels = {node: {"zone": "z2"} for node in NODES}


def add_canary(shop: Shop) -> None:
    """Add the policy CANARY, and give web-2 the label that it selects, and app-2 a label that no policy uses."""
    shop.policies = [*shop.policies, CANARY]
    shop.relabel("web-2", canary="yes")
    shop.relabel("app-2", release="v2")


def back(shop: Shop) -> None:
    shop.policies, shop.workloads, shop.labels = three_tiers.shipped_policies(), three_tiers.shipped_workloads(), {}


#: Each step: a change, what its plan says, and whether client-1 then reaches web-1 on the monitoring port.
STEPS = (
    # A rule selects client-1, so its address is sent to the other nodes.
    (add_monitoring, {("+", "monitoring"), ("~", "endpoints of other nodes")}, True),
    (narrow_monitoring, {("~", "monitoring")}, True),
    (turn_round, {("~", "default/app"), ("~", "default/db"), ("~", "default/web"), ("~", "monitoring")}, True),
    (add_tier, {("+", "tier platform"), ("+", "platform.no-monitoring")}, False),
    (
        add_canary,
        {("+", "default/canary"), ("~", "workloads of this node"), ("~", "endpoints of other nodes")},
        False,
    ),
    (
        back,
        {
            *(("-", "default/canary"), ("-", "monitoring"), ("-", "tier platform"), ("-", "platform.no-monitoring")),
            *(("~", "default/app"), ("~", "default/db"), ("~", "default/web")),
            *(("~", "workloads of this node"), ("~", "endpoints of other nodes")),
        },
        False,
    ),
)


#: Allowed streams (source, target, port) from or to workloads that agents attached, which only their own nodes know.
LATE_ALLOWED = (
    *(("client-1", "late-web", 80), ("guest-1", "late-web", 80), ("late-web", "app-1", 8080)),
    *(("late-app", "db-1", 5432), ("late-client", "web-1", 80)),
)
LATE_FORBIDDEN = (("late-client", "app-1", 8080), ("late-web", "db-1", 5432))


def label(lab: BaseLab, member: Member, *labels: str) -> None:
    lab.exec(member.node, ["calicoctl", "workload", "label", member.name, *labels])


def labels_by_agents(lab: BaseLab, names: Mapping[str, Member]) -> None:
    """Change labels of workloads that agents attached, and assert that what late-client reaches follows.

    late-web changes to another list of policies and back. late-client becomes a guest, which may reach only web, and a
    client again. Another, unknown workload comes and goes. All of this happens three times.
    """
    guest, client = names["late-client"], names["client-1"]
    reach = Attempt(guest.place, client.place, "tcp", OPEN)
    assert attempt(lab, [reach], [reach]) == {reach}
    for number in range(3):
        label(lab, names["late-web"], "canary=yes")
        label(lab, guest, "app=guest")
        assert attempt(lab, [reach], []) == set()
        visitor = three_tiers.attach(lab, guest.node, f"visitor-{number}", "web")
        label(lab, names["late-web"], "canary-")
        label(lab, guest, "app=client")
        assert attempt(lab, [reach], [reach]) == {reach}
        three_tiers.detach(lab, visitor)


def test_policy_changes_under_load_without_a_lost_packet(
    lab: BaseLab,
    fleet: Fleet,
    shop: Shop,
    found: list[Member],
    record_property: Callable[[str, object], None],
) -> None:
    names = by_name(found)
    allowed = streams_between(found, (*ALLOWED, *LATE_ALLOWED))
    forbidden = streams_between(found, (*FORBIDDEN, *LATE_FORBIDDEN))
    monitor = Attempt(names["client-1"].place, names["web-1"].place, "tcp", MONITOR)
    begun = []
    servers = [names["web-1"].place, names["client-1"].place]
    with serving(lab, servers, [MONITOR, OPEN]), Streams(lab, [*allowed, *forbidden]) as running:
        for change, expected, reaches in STEPS:
            if change is back:
                begun.append(f"labels by agents at {time.time():.1f}")
                labels_by_agents(lab, names)
            change(shop)
            begun.append(f"{change.__name__} at {time.time():.1f}")
            run = fleet.site("--diff", inventory=shop.write()).check()
            assert policy_lines(run) == expected, f"{change.__name__}:\n{run.output}"
            wanted = [monitor] if reaches else []
            assert attempt(lab, [monitor], wanted) == set(wanted), change.__name__
        report = running.stop()
    record_property("changes", f"{begun}\n{report.summary()}")
    hold(report, allowed, forbidden)
    unchanged(fleet, shop.write())


@pytest.mark.parametrize("way", ["restart", "kill -s KILL"])
def test_agents_that_begin_anew_lose_nothing_and_let_nothing_through(
    lab: BaseLab, shop: Shop, found: list[Member], way: str, record_property: Callable[[str, object], None]
) -> None:
    allowed, forbidden = streams_between(found, ALLOWED), streams_between(found, FORBIDDEN)
    with Streams(lab, [*allowed, *forbidden]) as running:
        for node in NODES:
            lab.exec(node, f"systemctl {way} calico-agent")
        for node in NODES:
            wait(f"{node} is in sync", functools.partial(lambda node: in_sync(lab, node), node))
        report = running.stop()
    record_property("loss", f"{way}: {report.summary()}")
    hold(report, allowed, forbidden)


def test_a_flushed_firewall_is_back_and_what_two_nodes_forbid_never_passed(
    lab: BaseLab, shop: Shop, found: list[Member], record_property: Callable[[str, object], None]
) -> None:
    """While one end's node has lost its rules, the other end's node still enforces policy.

    Allowed streams lose no packet. What the flushed node alone forbids passes for 4 seconds at most.
    """
    ends = [("web-1", "db-1", 5432), ("web-2", "web-1", 80), ("app-1", "web-2", 80), ("db-1", "web-1", 80)]
    twice = streams_between(found, [(*names[:2], 9100) for names in ends])
    # Only db-1's node, node3, denies these packets, because client-1 may send to anything.
    [once] = streams_between(found, [("client-1", "db-1", 9100)])
    allowed = streams_between(found, ALLOWED)
    with Streams(lab, [*allowed, *twice, once]) as running:
        lab.exec("node3", "iptables -w 10 -F; iptables -w 10 -t raw -F; iptables -w 10 -t mangle -F")
        wait("the rules are back", lambda: in_sync(lab, "node3") and has_policy(lab, "node3"))
        report = running.stop()
    record_property("flush", report.summary())
    hold(report, allowed, twice)
    [result] = [result for result in report.streams if result.stream == once]
    # No more packets arrived than are sent in 4 s, so the rules came back in that time, normally within 2 s.
    assert result.received <= 4 * PPS, result


def has_policy(lab: BaseLab, node: str) -> bool:
    return "cali-FORWARD" in lab.exec(node, ["iptables", "-w", "10", "-S", "FORWARD"]).stdout


def test_nodes_that_were_told_of_each_other_know_the_late_ones(
    lab: BaseLab, fleet: Fleet, shop: Shop, found: list[Member]
) -> None:
    path = shop.write()
    run = fleet.play("sync_workloads.yml", inventory=path).check()
    assert sum(entry["changed"] for entry in run.recap().values()) > 0
    hold_matrix(lab, [dataclasses.replace(member, of_inventory=True) for member in found], ["tcp"])
    fleet.play("sync_workloads.yml", inventory=path).unchanged()
    unchanged(fleet, path)


def test_a_pool_changes_its_mode_with_policy_in_force(
    lab: BaseLab, fleet: Fleet, shop: Shop, found: list[Member], record_property: Callable[[str, object], None]
) -> None:
    allowed, forbidden = streams_between(found, ALLOWED), streams_between(found, FORBIDDEN)
    no_way_around(lab)
    with Streams(lab, [*allowed, *forbidden]) as running:
        run = fleet.switch("direct", inventory=shop.write())
        report = running.stop()
    record_property("switch", f"{run.seconds:.1f} s\n{report.summary()}")
    run.check()
    hold(report, allowed, forbidden)
    shop.mode = "direct"
    unchanged(fleet, shop.write())


#: UDP ports of hosts: one that their policy denies, one that it allows.
HOST_DENIED, HOST_ALLOWED = 7100, 7101
#: HostEndpoints of a Debian 12 and a Debian 13 host, found by interface and by address only, and their policy.
HOST_ENDPOINTS = (
    {"kind": "HostEndpoint", "name": "node1-eth0", "node": "node1", "interfaceName": "eth0", "labels": {"host": "yes"}},
    {
        "kind": "HostEndpoint",
        "name": "node2",
        "node": "node2",
        "expectedIPs": ["10.10.1.12"],
        "labels": {"host": "yes"},
    },
    {
        "kind": "GlobalNetworkPolicy",
        "name": "hosts",
        "selector": "host == 'yes'",
        "types": ["Ingress", "Egress"],
        "ingress": [
            {"action": "Deny", "protocol": "UDP", "destination": {"ports": [HOST_DENIED]}},
            {"action": "Allow"},
        ],
        "egress": [{"action": "Allow"}],
    },
)


@pytest.fixture(scope="module")
def policed_hosts(fleet: Fleet, shop: Shop) -> Shop:
    shop.policies = [*shop.policies, *HOST_ENDPOINTS]
    fleet.site(inventory=shop.write()).check()
    return shop


#: The node, how it is restarted, and a closed and an open port of its workloads, seen from outside.
RESTARTS = (
    ("node1", "reboot", ("web-1", 5432), ("web-1", 80)),
    ("node2", "power cut", ("app-1", 8080), ("guest-1", 80)),
)


@pytest.mark.parametrize(("node", "way", "closed", "opened"), RESTARTS)
def test_from_power_on_no_forbidden_packet_arrives(
    lab: BaseLab,
    policed_hosts: Shop,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    node: str,
    way: str,
    closed: tuple[str, int],
    opened: tuple[str, int],
) -> None:
    """No forbidden packet arrives at the host or a workload, from before the host's network is up; allowed ones do.

    `closed` and `opened` are (workload, port) on `node`, as policy has them for packets from outside.
    """
    here = by_name([one for one in three_tiers.members(lab, policed_hosts.workloads) if one.node == node])
    address = NODES_OF_LAB[node].address
    (one, closed_port), (other, opened_port) = closed, opened
    forbidden = [
        power_on.Target(address, HOST_DENIED),
        power_on.Target(here[one].place.address, closed_port, one),
    ]
    allowed = [
        power_on.Target(address, HOST_ALLOWED),
        power_on.Target(here[other].place.address, opened_port, other),
    ]
    power_on.prepare(lab, node, [*forbidden, *allowed], tmp_path)
    counts: dict[power_on.Target, power_on.Count] = {}
    try:
        with power_on.sending(lab, node, [*forbidden, *allowed], counts):
            if way == "reboot":
                lab.reboot(node)
            else:
                lab.power_cut(node)
                lab.start(node)
            wait(f"{node} is in sync", lambda: in_sync(lab, node))
            wait("what is allowed arrives", lambda: all_received(lab, node, allowed))
        units_of_boot = ("lab-network", "calico-firewall", "calico-node-state")
        journal = lab.exec(node, ["journalctl", "-b", "-o", "short-precise", *(f"-u{unit}" for unit in units_of_boot)])
        record_property("power on", f"{counts}\n{journal.stdout}")
        assert [(counts[one].received, counts[one].refused) for one in forbidden] == [(0, 0)] * 2, counts
        assert all(counts[one].sent > 500 for one in forbidden), counts
        assert results(lab, node, ["calico-firewall", "calico-node-state"]) == ["success"] * 2, journal.stdout
    finally:
        power_on.undo(lab, node)


def all_received(lab: BaseLab, node: str, targets: Sequence[power_on.Target]) -> bool:
    received = power_on.received_by(lab, node)
    return all(received.get(target.received, 0) > 100 for target in targets)


def results(lab: BaseLab, node: str, units: Sequence[str]) -> list[str]:
    """Return systemd's results of the units' last runs, in their order: "success", or the kind of failure.

    Raise CommandFailed if the node does not run.
    """
    done = lab.exec(node, ["systemctl", "show", "--property=Result", "--value", *units])
    answer: list[str] = done.stdout.split()
    return answer


#: Exposure by `systemd-analyze security`, 0 (safest) to 10, the same on Debian 12 (systemd 252) and 13 (257).
EXPOSURE = {"calico-agent": 3.7, "calico-bird": 2.8, "calico-firewall": 2.1, "calico-node-state": 3.8}


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_units_are_locked_in_and_miss_nothing(lab: BaseLab, policed_hosts: Shop, node: str) -> None:
    found = {}
    for unit in EXPOSURE:
        said = lab.exec(node, ["systemd-analyze", "security", "--no-pager", unit], check=False).stdout
        found[unit] = float(re.findall(r"Overall exposure level for \S+: (\S+)", said)[0])
    assert found == EXPOSURE
    lab.exec(node, ["systemctl", "restart", "calico-bird"])
    log = lab.exec(node, ["journalctl", "-b", "-o", "cat", *(f"-u{unit}" for unit in EXPOSURE)]).stdout
    assert re.findall(r".*(?:not permitted|[Pp]ermission denied).*", log) == []
    assert "Graceful restart" in log, log[-3000:]  # ExecStop requests it, inside the unit's sandbox
    assert lab.exec(node, ["stat", "-c", "%a %U %G", "/run/calico/bird.ctl", "/run/calico"]).stdout.splitlines() == [
        "660 bird bird",
        "755 root root",
    ]


def test_a_node_with_iptables_legacy_boots_with_its_firewall(lab: BaseLab, policed_hosts: Shop) -> None:
    """A node with iptables-legacy, which needs a raw socket and loads its own modules, boots with its firewall."""

    def choose(backend: str) -> None:
        names = [f"update-alternatives --set {name} /usr/sbin/{name}-{backend}" for name in ("iptables", "ip6tables")]
        lab.exec("node1", " && ".join(names))
        lab.reboot("node1")
        wait("node1 is in sync", lambda: in_sync(lab, "node1"))

    try:
        choose("legacy")
        journal = lab.exec("node1", ["journalctl", "-b", "-o", "cat", "-u", "calico-firewall"]).stdout
        assert re.search("node1: [1-9][0-9]+ changes made to the firewall", journal), journal
        assert results(lab, "node1", ["calico-firewall", "calico-node-state"]) == ["success"] * 2, journal
        assert "cali-fh-eth0" in lab.exec("node1", ["iptables-legacy-save"]).stdout
        assert "cali-" not in lab.exec("node1", ["iptables-nft-save"]).stdout
    finally:
        choose("nft")
