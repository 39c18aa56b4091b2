# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of any size as reports get them: compiled from an inventory, and with answers that nodes could give."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import (
    run_report,
    status_report,
    switch_loss,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import report_lines, status_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import FleetReport, Origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report.origin import local_time

ORIGIN = Origin(
    "Status of the fleet",
    "ansible-playbook playbooks/status.yml -i inventories/prod -e report=report.html",
    "inventories/prod",
    "2026-11-27 14:02:11 UTC",
    "0.2.0",
    "ops@controller",
    "the nodes themselves",
)
Answer = dict[str, t.Any]


@functools.cache
def fleet(nodes: int, rack_size: int = 25, reflectors: int = 0, routers: bool = False) -> Fleet:
    """Return a fleet of `nodes` in racks of a subnet each; with `reflectors`, the first nodes are reflectors, too."""
    rack_size = min(rack_size, max(1, nodes // 2))
    racks = -(-nodes // rack_size)
    shared: dict[str, t.Any] = {
        "calico_ip_pools": [
            {"name": "default-ipv4-ippool", "cidr": "10.244.0.0/14", "ipipMode": "CrossSubnet"},
            {"name": "db-pool", "cidr": "10.96.0.0/14", "vxlanMode": "Always", "nodeSelector": "rack == '01'"},
        ]
    }
    if routers:
        shared["calico_bgp_peers"] = [
            {
                "name": f"tor-{rack + 1:02}",
                "peerIP": f"10.{10 + rack // 200}.{rack % 200}.1",
                "asNumber": 65001,
                "nodeSelector": f"rack == '{rack + 1:02}'",
            }
            for rack in range(racks)
        ]
    hosts = []
    for number in range(nodes):
        rack, place = divmod(number, rack_size)
        hosts.append(
            Host(
                f"node{number + 1}",
                {
                    **shared,
                    "calico_node_address": f"10.{10 + rack // 200}.{rack % 200}.{place + 11}/24",
                    "calico_node_labels": {"rack": f"{rack + 1:02}"},
                },
                reflector=number < reflectors,
            )
        )
    return Fleet.build(inventory.read(hosts), None)


def session(peer: t.Optional[str], address: str, up: bool = True, **more: t.Any) -> Answer:
    return {
        "name": "Mesh_x",
        "node": peer,
        "address": address,
        "established": up,
        "state": "Established" if up else "Active",
        "since": "" if up else "14:02:11",
        "error": "" if up else "Hold timer expired",
        "routes_kept": False,
        **more,
    }


def status(made: Fleet, down: t.Collection[tuple[str, str]] = (), gone: t.Collection[str] = ()) -> dict[str, Answer]:
    """Return answers of node_status_info. Sessions between `down` pairs are down, and `gone` nodes do not answer."""
    found: dict[str, Answer] = {}
    nodes = list(made.nodes.values())
    reflecting = [node for node in nodes if node.reflector]
    for index, node in enumerate(nodes):
        if node.name in gone:
            found[node.name] = {"unreachable": True, "msg": "Failed to connect to the host via ssh: timed out"}
            continue
        peers = nodes if not reflecting or node.reflector else reflecting
        sessions = [
            session(
                peer.name,
                peer.address,
                peer.name not in gone and (node.name, peer.name) not in down and (peer.name, node.name) not in down,
            )
            for peer in peers
            if peer is not node
        ]
        for given in made.bgp.peers:
            if given.address and given.address.address.rpartition(".")[0] == node.address.rpartition(".")[0]:
                sessions.append(session(None, given.address.address))
        ipam = made.ipam_of(node.name)
        blocks = [
            {
                "cidr": block.cidr,
                "pool": block.pool,
                "spare": False,
                "size": 64,
                "free": 64 - used,
                "in_use": used,
            }
            for block, used in zip(ipam.blocks, (7 + index * 13 % 40, 3))
        ]
        lacking = [
            f"route {made.ipam_of(peer).blocks[0].cidr} of {peer} is missing, expected via 10.0.0.1 dev eth0"
            for one, peer in down
            if one == node.name and peer in made.nodes
        ]
        expected = len(nodes) - 1
        drifts = index % 37 == 3
        found[node.name] = {
            "node": node.name,
            "plan": made.digest,
            "phase": "converge",
            "complete": True,
            "bgp": {"enabled": True, "running": True, "sessions": sessions},
            "routes": {"expected": expected, "present": expected - len(lacking), "missing": lacking},
            "blocks": blocks,
            "workloads": sum(block["in_use"] for block in blocks),
            "agent": {
                "wanted": True,
                "running": True,
                "version": "0.2.0",
                "uptime": 777600,
                "in_sync": True,
                "problems": [],
                "drift": {"day": 3 if drifts else 0, "kinds": {"route": 2, "rule": 1} if drifts else {}, "total": 3},
            },
            "problems": [],
        }
    return found


def status_of(
    made: Fleet, down: t.Collection[tuple[str, str]] = (), gone: t.Collection[str] = (), origin: Origin = ORIGIN
) -> FleetReport:
    return report_of(made, status(made, down, gone), origin)


def report_of(made: Fleet, answers: t.Mapping[str, Answer], origin: Origin = ORIGIN) -> FleetReport:
    """Return the report as the action makes it from the answers."""
    hosts = list(made.nodes)
    problems, warnings = status_lines.problems(hosts, answers), status_lines.warnings(hosts, answers)
    return status_report.by_nodes(origin, hosts, answers, Places(made, hosts), problems, warnings)


def heartbeats(made: Fleet, now: float) -> dict[str, Heartbeat]:
    return {
        name: Heartbeat(
            name,
            now - 3 - index % 7 - (4000 if index == 1 else 0),
            "0.2.0",
            made.digest,
            "converge",
            True,
            sessions_established=len(made.nodes) - 1 - (index == 2),
            sessions_total=len(made.nodes) - 1,
            workloads=index,
            feed_synced=True,
        )
        for index, name in enumerate(made.nodes)
    }


def change(kind: str, action: str, subject: str, before: str = "", after: str = "", note: str = "") -> Answer:
    return {"kind": kind, "action": action, "subject": subject, "before": before, "after": after, "note": note,
            "by": "node"}  # fmt: skip


def plans(made: Fleet, changing: t.Collection[str]) -> dict[str, Answer]:
    """Return answers of the module node in check mode: `changing` nodes move their routes into a tunnel."""
    found: dict[str, Answer] = {}
    for index, name in enumerate(made.nodes):
        changes = []
        if name in changing:
            changes = [
                change("session", "!", "node1 (10.10.0.11)", note="restarts: hold time"),
                change("device", "+", "tunl0", after="mtu 1480  up"),
                change("bird", "~", "/etc/bird/bird.cfg", note="2 lines"),
            ]
            for other in list(made.nodes)[:40]:
                for block in made.ipam_of(other).blocks if other != name else ():
                    changes.append(
                        change("route", "~", block.cidr, "via 10.10.0.12 dev eth0", "via 10.10.0.12 dev tunl0 onlink")
                    )
        found[name] = {
            "changed": bool(changes),
            "new": index == 3 and bool(changes),
            "sessions_reset": int(bool(changes)),
            "sessions_begun": 0,
            "routes_withdrawn": 0,
            "changes": changes,
            "phases": [{"phase": phase, "changes": changes} for phase in ("prepare", "flip", "retire")]
            if changes
            else [],
            "kept": [],
            "cut": [],
        }
    return found


def plan_of(made: Fleet, changing: t.Collection[str], origin: Origin = ORIGIN) -> FleetReport:

    hosts, answers = list(made.nodes), plans(made, changing)
    impact = ["sessions  4 restarts: hold time · backup routes hold the traffic between nodes"]
    facts = run_report.RunFacts(True, made.digest, "7f3a91c02b1e", impact)
    return run_report.report(
        origin, hosts, answers, answers, {}, Places(made, hosts), facts, report_lines.plan(hosts, answers)
    )


def soaks(made: Fleet, losses: t.Mapping[tuple[str, str], int]) -> dict[str, Answer]:
    """Return answers of soak; `losses` has the lost probes of some paths."""
    found: dict[str, Answer] = {}
    for name in made.nodes:
        targets = []
        by_second: dict[int, int] = {}
        for other in made.nodes:
            lost = losses.get((name, other), 0)
            if other != name:
                targets.append(
                    {
                        "address": "10.244.0.1", "name": other, "sent": 482, "lost": lost,
                        "pool": "default-ipv4-ippool", "reason": "no answer" if lost else "",
                        "longest_gap": lost * 51.3, "silent": 0.0,
                    }
                )  # fmt: skip
            for one in range(lost):
                by_second[12 + one // 4] = by_second.get(12 + one // 4, 0) + 1
        watch = {"complete": True, "reason": "", "seconds": 24.6, "resolution": 51.3,
                 "lost_by_second": [list(item) for item in by_second.items()]}  # fmt: skip
        found[name] = {"targets": targets, "watch": watch}
    return found


def switch_of(
    made: Fleet, losses: t.Mapping[tuple[str, str], int], switched: bool = True, origin: Origin = ORIGIN
) -> FleetReport:
    hosts = list(made.nodes)
    answers = plans(made, hosts)
    soaked = soaks(made, losses)
    lost = sum(losses.values())
    gates: dict[str, Answer] = {}
    texts = {
        "prepare": "4/4  receive paths of both modes in place, packets held at the smaller MTU",
        "prove": "12/12 paths answer over the new routes, full size (probes only, live traffic untouched)",
        "flip": "4/4  routes replaced",
        "soak": f"{lost} lost of 5,784 probes over 12 paths since before the flip",
        "retire": "4/4  the old mode is gone",
    }
    for index, (name, words) in enumerate(texts.items()):
        if switched or name != "retire":
            ok = switched or name != "soak"
            gates[name] = {"line": f"{name:<9} {words}", "ok": ok, "at": 1795770000.0 + 7 * index}
    loss = switch_loss.measured("pool default-ipv4-ippool to ipip", gates, soaked, switched, local_time)
    facts = run_report.RunFacts(False, made.digest)
    return run_report.report(
        origin, hosts, answers, answers, soaked, Places(made, hosts), facts,
        ["converged  4/4 nodes · 6/6 sessions Established"], loss,
    )  # fmt: skip
