#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiling a Fleet and one NodeState from the variables of all hosts: its growth, and a comparison with Ansible.

Measured in turn, several rounds each:

  compile N     inventory.read + Fleet.build of a new fleet + compiler.node_state of one node, for N nodes with one
                workload each, in a running process
  again N       the same with the plan that the first one made, as every later run has it
  ansible N     `ansible-inventory --list` of the same inventory, from its start to its end (N = 1000 only)
  policy        for 100 nodes with 100 workloads each and 500 policies of 60 rules: Fleet.build; and what each host's
                task then does, from what the run keeps of the fleet to the text that is sent

Ratios of medians of one run, so that a busy machine affects both sides. Goals: 3,000 nodes take at most 36 times as
long as 100; 1,000 nodes take no longer than ansible-inventory needs to load them; one more node's policy takes at most
0.3 of the fleet's. When one is missed the exit status is 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import pathlib
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plugins.module_utils.fleet import compiler  # noqa: E402
from plugins.module_utils.fleet.fleet import Fleet  # noqa: E402
from plugins.module_utils.fleet.garbage import uncollected  # noqa: E402
from plugins.module_utils.fleet.host import Host  # noqa: E402
from plugins.module_utils.fleet.inventory import inventory  # noqa: E402

SIZES = (100, 300, 1000, 3000)
COMPARED = 1000
ANSIBLE_ROUNDS = 3  # few, because Ansible takes far longer than the compiler with which it is compared
GROWTH, SHARE, SENT = 36.0, 1.0, 0.3
POLICIES, APPS, RULES, NODES, WORKLOADS = 500, 250, 30, 100, 100

FLEET = {
    "calico_ip_pools": [
        {"name": "default", "cidr": "10.64.0.0/10", "ipipMode": "CrossSubnet", "natOutgoing": True},
        {"name": "direct", "cidr": "10.128.0.0/12", "nodeSelector": "rack in {'r1', 'r2'}"},
    ],
    "calico_bgp_as_number": 64512,
}


def node(index: int) -> tuple[str, dict[str, t.Any]]:
    rack = index // 40
    variables = {
        "calico_node_address": f"10.{rack // 256}.{rack % 256}.{index % 40 + 10}/24",
        "calico_node_labels": {"rack": f"r{rack}"},
        "calico_node_workloads": [{"name": f"web-{index}", "labels": {"app": "web"}}],
    }
    return f"node{index:05}", variables


def hosts(count: int) -> list[Host]:
    return [Host(name, {**FLEET, **own}) for name, own in map(node, range(count))]


def policy(number: int) -> dict[str, t.Any]:
    """Return a NetworkPolicy as inventories have it, with RULES rules of each direction.

    Each rule allows TCP from or to the workloads of one app, on a port of its own. `number` determines the name, the
    workloads that the policy is for, and the apps in its rules.
    """

    def entity(rule: int) -> dict[str, t.Any]:
        return {"selector": f"app == 'a{(number * 7 + rule) % APPS:03}' && env == 'prod'"}

    allow = {"action": "Allow", "protocol": "TCP"}
    return {
        "kind": "NetworkPolicy",
        "name": f"p{number:03}",
        "selector": f"app == 'a{number % APPS:03}'",
        "ingress": [{**allow, "source": entity(n), "destination": {"ports": [1000 + n]}} for n in range(RULES)],
        "egress": [{**allow, "destination": {**entity(n), "ports": [2000 + n]}} for n in range(RULES)],
    }


def with_policy() -> list[Host]:
    shared = {**FLEET, "calico_policies": [policy(number) for number in range(POLICIES)]}
    found = []
    for name, own in map(node, range(NODES)):
        apps = [f"a{(len(found) * WORKLOADS + number) % APPS:03}" for number in range(WORKLOADS)]
        workloads = [
            {"name": f"{name}-{number}", "labels": {"app": app, "env": "prod"}} for number, app in enumerate(apps)
        ]
        found.append(Host(name, {**shared, **own, "calico_node_workloads": workloads}))
    return found


def policy_once(read: inventory.Inventory) -> tuple[float, float]:
    """Return the seconds that Fleet.build takes, and the seconds to make the text that one node is sent.

    The latter are for the steps of plugin_utils/sources/targets.py, from the pickled fleet to JSON. The node is that of
    the first workload. Raise AssertionError if the fleet has no policy, or the text is not larger than 256 KiB.
    """
    gc.collect()
    began = time.perf_counter()
    with uncollected():
        fleet = Fleet.build(read, None)
    built = time.perf_counter() - began
    assert fleet.policy is not None
    wire = pickle.dumps(fleet.policy.wire())
    bare = pickle.dumps(dataclasses.replace(fleet, policy=fleet.policy.bare()))
    began = time.perf_counter()
    name = read.workloads[0].node
    content = compiler.node_state(pickle.loads(bare), name).to_wire()
    text = json.dumps({**content, "policy": pickle.loads(wire).of(name)})
    assert len(text) > 1 << 18
    return built, time.perf_counter() - began


def compile_once(found: t.Sequence[Host], previous: t.Any) -> tuple[float, Fleet]:
    gc.collect()
    began = time.perf_counter()
    with uncollected():  # without the garbage collector, as in module_utils/fleet/run/plan_run.py
        fleet = Fleet.build(inventory.read(found), previous)
    state = compiler.node_state(fleet, found[len(found) // 2].name)
    taken = time.perf_counter() - began
    assert len(state.bird_routes) >= len(found) - 1
    return taken, fleet


def write_inventory(folder: pathlib.Path, count: int) -> pathlib.Path:
    """Write an inventory of `count` hosts as people do, and return the path of its hosts.yml.

    This file has a line for each host with its variables as JSON, and group_vars/all.yml has the fleet's. Raise
    FileExistsError if `folder` has group_vars already, and FileNotFoundError if it does not exist.
    """
    (folder / "group_vars").mkdir()
    (folder / "group_vars" / "all.yml").write_text(json.dumps(FLEET))
    lines = ["calico_nodes:", "  hosts:"]
    lines += [f"    {name}: {json.dumps(own)}" for name, own in map(node, range(count))]
    path = folder / "hosts.yml"
    path.write_text("\n".join(lines) + "\n")
    return path


def ansible_once(hosts_file: pathlib.Path) -> float:
    command = [str(pathlib.Path(sys.executable).parent / "ansible-inventory"), "-i", str(hosts_file), "--list"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_CONFIG": str(ROOT / "bench" / "ansible.cfg")}
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)
    taken = time.perf_counter() - began
    if done.returncode != 0 or b'"web-999"' not in done.stdout:
        sys.exit(f"ansible-inventory failed: {done.stderr.decode()[-2000:]}")
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    options = parser.parse_args()
    fleets = {count: hosts(count) for count in SIZES}
    fresh: dict[int, list[float]] = {count: [] for count in SIZES}
    again: dict[int, list[float]] = {count: [] for count in SIZES}
    ansible: list[float] = []
    policed: list[tuple[float, float]] = []
    guarded = inventory.read(with_policy())
    with tempfile.TemporaryDirectory(prefix="host_routing-bench-") as folder:
        hosts_file = write_inventory(pathlib.Path(folder), COMPARED)
        for dummy in range(options.rounds):
            policed.append(policy_once(guarded))
            for count, found in fleets.items():
                taken, fleet = compile_once(found, None)
                fresh[count].append(taken)
                again[count].append(compile_once(found, fleet.allocation)[0])
                if count == COMPARED and len(ansible) < ANSIBLE_ROUNDS:
                    ansible.append(ansible_once(hosts_file))
    median = {name: {n: statistics.median(v) for n, v in of.items()} for name, of in (("c", fresh), ("a", again))}
    growth = max(of[SIZES[-1]] / of[SIZES[0]] for of in median.values())
    share = max(of[COMPARED] for of in median.values()) / statistics.median(ansible)
    built, sent = (statistics.median(seconds) for seconds in zip(*policed))
    results = [
        ("growth of 3,000 nodes over 100", growth, GROWTH),
        ("1,000 nodes compiled over ansible-inventory --list", share, SHARE),
        ("one more node's policy sent over its fleet compiled", sent / built, SENT),
    ]
    if options.json:
        print(json.dumps({name: round(value, 3) for name, value, dummy in results}))
    else:
        print(f"{'nodes':>6}  {'compile':>9}  {'again':>9}   medians of {options.rounds}")
        for count in SIZES:
            print(f"{count:>6}  {median['c'][count] * 1000:>6.0f} ms  {median['a'][count] * 1000:>6.0f} ms")
        print(f"policy of {NODES} nodes: {built * 1000:.0f} ms, {sent * 1000:.0f} ms for what one is sent")
        print(f"ansible-inventory --list of {COMPARED} nodes: {statistics.median(ansible) * 1000:.0f} ms")
        for name, value, goal in results:
            print(f"{name}: {value:.2f}  (goal: at most {goal:g}, {'met' if value <= goal else 'MISSED'})")
    if any(value > goal for dummy, value, goal in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
