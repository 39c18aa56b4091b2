# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""site.yml: a true plan, no change the second time, every workload reachable, hosts that come back after a reboot."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from tests.lab.fleet import ping, workloads
from tests.lab.handle import BaseLab

from .conftest import Fleet

#: Commands that print the state of a host that a run without changes, or in check mode, must leave as it is.
SNAPSHOT = {
    "routes": ["ip", "-j", "route", "show", "table", "all"],
    "links": ["ip", "-j", "-d", "link"],
    "addresses": ["ip", "-j", "address"],
    "rules": ["ip", "-j", "rule"],
    "neighbours": ["ip", "-j", "neigh", "show", "nud", "permanent"],
    "iptables": ["iptables-save"],
    "files": [
        "sh",
        "-c",
        "find /etc /usr/local /var/lib/calico /run/calico -xdev -type f 2>/dev/null | sort | xargs sha256sum",
    ],
    "sysctls": [
        "sh",
        "-c",
        "cd /proc/sys/net/ipv4; grep . ip_forward conf/*/rp_filter conf/*/proxy_arp conf/*/forwarding",
    ],
}
#: Lines of iptables-save that change by themselves: comments with the time, and chains with their counters.
_NOISE = re.compile(r"^#.*|^:\S+ \S+ \[\d+:\d+\]$", re.MULTILINE)


def snapshot(lab: BaseLab, node: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, command in SNAPSHOT.items():
        done = lab.exec(node, command, check=False)
        if name in ("routes", "links", "addresses", "rules", "neighbours"):
            entries = json.loads(done.stdout or "[]")
            for entry in entries:
                entry.pop("valid_life_time", None)
                for address in entry.get("addr_info", []):
                    address.pop("valid_life_time", None), address.pop("preferred_life_time", None)
            found[name] = sorted(json.dumps(entry, sort_keys=True) for entry in entries)
        else:
            found[name] = _NOISE.sub("", done.stdout)
    return found


def test_everybody_reaches_everybody(lab: BaseLab, fleet: Fleet) -> None:
    found = workloads(lab)
    assert {workload.node for workload in found} == {node.name for node in lab.nodes}
    for source in found:
        for target in found:
            if source is not target:
                assert ping(lab, source.node, target.address, netns=source.name), (source, target)
    for node in lab.nodes:
        for target in found:
            assert ping(lab, node.name, target.address), (node.name, target)


def test_a_second_run_changes_nothing(lab: BaseLab, fleet: Fleet) -> None:
    before = {node.name: snapshot(lab, node.name) for node in lab.nodes}
    run = fleet.site().unchanged()
    tasks = max(entry["ok"] for entry in run.recap().values())
    assert tasks <= 12, f"{tasks} tasks on one host:\n{run.output}"
    assert {node.name: snapshot(lab, node.name) for node in lab.nodes} == before


def test_a_plan_of_a_converged_fleet_is_one_line(lab: BaseLab, fleet: Fleet) -> None:
    before = {node.name: snapshot(lab, node.name) for node in lab.nodes}
    run = fleet.site("--check", "--diff").unchanged()
    assert "fleet  nothing to change on 4 of 4 nodes" in run.output
    assert {node.name: snapshot(lab, node.name) for node in lab.nodes} == before


def test_outgoing_packets_are_masqueraded(lab: BaseLab, fleet: Fleet) -> None:
    workload = workloads(lab)[0]
    assert ping(lab, workload.node, "192.0.2.10", netns=workload.name), (
        "the outside has no route to the pool: NAT must hide it"
    )


def test_no_workload_leaves_its_node_by_bgp(lab: BaseLab, fleet: Fleet) -> None:
    for node in lab.nodes:
        routes = lab.json(node.name, ["ip", "-j", "route", "show", "proto", "bird"])
        assert routes and all(route["dst"].endswith("/26") for route in routes), routes


def test_encapsulated_packets_are_taken_from_the_fleet_only(lab: BaseLab, fleet: Fleet) -> None:
    rules = lab.exec("node1", ["iptables-save", "-t", "filter"]).stdout
    assert "cali40all-hosts-net src" in rules and "-j DROP" in rules
    members = lab.exec("node1", ["ipset", "list", "-o", "save", "cali40all-hosts-net"]).stdout
    assert {line.split()[2] for line in members.splitlines() if line.startswith("add ")} == {
        node.address for node in lab.nodes
    }


def test_a_limited_run_touches_and_plans_the_same(lab: BaseLab, fleet: Fleet) -> None:
    lockfile = (lab_state(lab) / "calico.lock.yml").read_text()
    others = {node.name: snapshot(lab, node.name) for node in lab.nodes if node.name != "node2"}
    run = fleet.site("--limit", "node2").check()
    assert list(run.recap()) == ["node2"]
    assert (lab_state(lab) / "calico.lock.yml").read_text() == lockfile
    assert {name: snapshot(lab, name) for name in others} == others


def test_a_rebooted_node_comes_back_by_itself(lab: BaseLab, fleet: Fleet) -> None:
    found = {workload.node: workload for workload in workloads(lab)}
    lab.power_cut("node2")
    lab.start("node2")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if ping(lab, "node1", found["node2"].address, netns=found["node1"].name):
            break
        time.sleep(0.5)
    else:
        raise AssertionError("node2's workload does not answer 120 s after the power came back")
    fleet.site().unchanged()


def test_one_host_down_is_named_and_the_others_converge(lab: BaseLab, fleet: Fleet) -> None:
    lab.power_cut("node4")
    try:
        run = fleet.site()
        assert run.code != 0
        assert re.search(r"^! node4: unreachable", run.output, re.MULTILINE), run.output[-3000:]
        recap = run.recap()
        assert all(
            recap[name]["failed"] == 0 and recap[name]["unreachable"] == 0 for name in ("node1", "node2", "node3")
        )
    finally:
        lab.start("node4")
    fleet.site().check()


def lab_state(lab: BaseLab) -> Path:
    return lab.ssh_config.parent
