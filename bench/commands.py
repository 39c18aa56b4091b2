#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands about an inventory, which contact no host, compared with `ansible-inventory --list` of the same inventory.

    bench/commands.py [--rounds 3] [--only explain,scale] [--yaml] [--policies 500] [--clone FOLDER]

The large inventory has 1,000 nodes with ten workloads each, and 500 policies of 60 rules in files. Measured in turn:

  list         `ansible-inventory --list`
  validate     `ansible-playbook playbooks/validate.yml`
  scale        `ansible-playbook playbooks/scale.yml`
  explain      `ansible-playbook playbooks/explain.yml`, a flow between workloads of two nodes
  calicoctl    `calicoctl policy explain -i`, which runs that playbook
  apply        `calicoctl -i apply` of one new policy, which checks the whole inventory and writes the policy's file
  compile      reading the variables and the policies, Fleet.build and one node's state, in a process of its own

`dual` is `calicoctl policy explain` of an inventory of 300 hosts with both IP versions, a workload each and no policy.

What counts is processor time, user and system, of a command and all its processes. Goals: each command about the large
inventory takes at most 1.5 times as long as `list` (medians of one run); `dual` takes at most 3 s. When one is missed,
the exit status is 1. `--clone` measures another clone of this repository, such as an older release.

The inventory is written as JSON, which Ansible loads several times faster than YAML: the harder case for these goals.
With `--yaml`, hosts.yml is YAML with an entry a line, as in bench/compile.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.compile import APPS, FLEET, POLICIES, node, policy  # noqa: E402
from bench.site.playbook_times import environment_of  # noqa: E402

NODES, WORKLOADS, DUAL = 1000, 10, 300
SHARE, DUAL_SECONDS = 1.5, 3.0
LIST = "list"
#: The folder of resources beside the large inventory's hosts.yml, and the file with the policy that `apply` applies.
RESOURCES, APPLIED = "resources", "applied.txt"
#: A program that compiles the large inventory, with hosts.yml as JSON, in the folder that its argument names. It runs
#: in the folder of the clone, and fails if the result is not that inventory's.
COMPILE = """
import json, pathlib, sys
sys.path.insert(0, "")
from plugins.module_utils.cli.render.document_text import documents_of
from plugins.module_utils.fleet import compiler
from plugins.module_utils.fleet.fleet import Fleet
from plugins.module_utils.fleet.garbage import uncollected
from plugins.module_utils.fleet.host import Host
from plugins.module_utils.fleet.inventory import inventory
from plugins.module_utils.fleet.inventory.policy_sources import Document

folder = pathlib.Path(sys.argv[1])
shared = json.loads((folder / "group_vars" / "all.yml").read_text())
entries = json.loads((folder / "hosts.yml").read_text())["calico_nodes"]["hosts"]
del shared["calico_policy_files"]
hosts = [Host(name, {**shared, **own}) for name, own in entries.items()]
with uncollected():
    documents = []
    for path in sorted((folder / "policy").iterdir()):
        documents += [Document(content, str(path), line) for content, line in documents_of(path.read_text(), str(path))]
    fleet = Fleet.build(inventory.read(hosts, documents), None)
    state = compiler.node_state(fleet, hosts[500].name)
assert len(state.workloads) == 10 and len(state.bird_routes) >= 999
"""


def write(folder: Path, fleet: t.Mapping[str, t.Any], hosts: t.Mapping[str, t.Any], yaml: bool = False) -> None:
    """Write an inventory: the hosts in hosts.yml, as JSON or YAML, the variables of all in group_vars as JSON.

    `fleet` holds the variables of all, `hosts` those of each host by its name. `yaml` makes hosts.yml YAML with a line
    for each host; it is JSON otherwise. `folder` is made if it is missing. Raise FileExistsError if it has group_vars
    already.
    """
    (folder / "group_vars").mkdir(parents=True)
    (folder / "group_vars" / "all.yml").write_text(json.dumps(fleet))
    if yaml:
        text = "\n".join(
            ["calico_nodes:", "  hosts:", *(f"    {name}: {json.dumps(own)}" for name, own in hosts.items())]
        )
    else:
        text = json.dumps({"calico_nodes": {"hosts": hosts}})
    (folder / "hosts.yml").write_text(text + "\n")


def write_large(folder: Path, yaml: bool, policies: int = POLICIES) -> None:
    hosts = {}
    for index in range(NODES):
        name, own = node(index)
        own["calico_node_workloads"] = [
            {"name": f"web-{index}-{n}", "labels": {"app": f"a{(index * WORKLOADS + n) % APPS:03}", "env": "prod"}}
            for n in range(WORKLOADS)
        ]
        hosts[name] = own
    own_files = {"calico_policy_files": ["policy/"], "calico_resource_files": [f"{RESOURCES}/"]}
    write(folder, {**FLEET, **own_files}, hosts, yaml)
    (folder / "policy").mkdir()
    (folder / RESOURCES).mkdir()
    (folder / APPLIED).write_text(json.dumps(document(policy(0), "applied")))
    for number in range(policies):
        entry = policy(number)
        (folder / "policy" / f"{entry['name']}.yml").write_text(json.dumps(document(entry, entry["name"])))


def document(entry: t.Mapping[str, t.Any], name: str) -> dict[str, t.Any]:
    """Return the document of a policy that is written as an entry of `calico_policies`, with another name."""
    spec = {key: value for key, value in entry.items() if key not in ("kind", "name")}
    return {"apiVersion": "projectcalico.org/v3", "kind": entry["kind"], "metadata": {"name": name}, "spec": spec}


def write_dual(folder: Path) -> None:
    fleet = {
        "calico_ip_pools": [
            {"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always", "natOutgoing": True},
            {"name": "pool6", "cidr": "fd00:10:244::/48", "vxlanMode": "Always", "natOutgoing": True},
        ]
    }
    hosts = {
        f"node{index}": {
            "calico_node_address": f"10.0.{index // 250}.{index % 250 + 1}/16",
            "calico_node_address_ipv6": f"fd00::{index + 1:x}/64",
            "calico_node_workloads": [{"name": f"web-{index}"}],
        }
        for index in range(DUAL)
    }
    write(folder, fleet, hosts)


def commands(clone: Path, large: Path, dual: Path) -> dict[str, list[str]]:
    """Return {name: command line} of the commands to measure. `large` and `dual` are folders of inventories."""
    tools = Path(sys.executable).parent
    inventory, playbooks = ["-i", str(large / "hosts.yml")], clone / "playbooks"
    play, ctl = [str(tools / "ansible-playbook"), *inventory], [sys.executable, str(clone / "bin" / "calicoctl")]
    first, last, port = "web-1-1", f"web-{NODES - 1}-2", "1005/tcp"
    flow = ["-e", f"from={first}", "-e", f"to={last}", "-e", f"to_port={port}"]
    explain = [*ctl, "policy", "explain", "--port", port]
    return {
        LIST: [str(tools / "ansible-inventory"), *inventory, "--list"],
        "validate": [*play, str(playbooks / "validate.yml")],
        "scale": [*play, str(playbooks / "scale.yml")],
        "explain": [*play, str(playbooks / "explain.yml"), *flow],
        "calicoctl": [*explain, *inventory, "--from", first, "--to", last],
        "apply": [*ctl, *inventory, "apply", "-f", str(large / APPLIED)],
        "compile": [sys.executable, "-c", COMPILE, str(large)],
        "dual": [*explain, "-i", str(dual / "hosts.yml"), "--from", "web-1", "--to", f"web-{DUAL - 1}"],
    }


def forget(large: Path) -> None:
    """Remove the policy that an earlier round applied, so that the next one is new again."""
    shutil.rmtree(large / RESOURCES)
    (large / RESOURCES).mkdir()


def seconds(clone: Path, command: t.Sequence[str], accepted: t.Collection[int]) -> float:
    """Run a command and return its processor time in seconds, with that of the child processes that it waited for.

    Its folder is `clone`. For an exit status that is not in `accepted`, exit this program with status 1 and the last
    3,000 bytes of the command's output.
    """
    environment = environment_of(clone)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=clone, env=environment, stdout=output, stderr=subprocess.STDOUT)
        dummy, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in accepted:
            output.seek(0)
            sys.exit(f"{' '.join(command)[:500]} failed:\n{output.read()[-3000:].decode(errors='replace')}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="these commands alone, with commas between them")
    parser.add_argument("--yaml", action="store_true", help="write the hosts of the large inventory as YAML")
    parser.add_argument("--policies", type=int, default=POLICIES, help="the number of policies, from 1")
    parser.add_argument("--clone", type=Path, default=ROOT, help="the clone to measure")
    options = parser.parse_args()
    clone = options.clone.resolve()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-commands-") as name:
        large, dual = Path(name, "large"), Path(name, "dual")
        write_large(large, options.yaml, options.policies)
        write_dual(dual)
        chosen = commands(clone, large, dual)
        if options.only:
            chosen = {name: chosen[name] for name in (LIST, *options.only.split(","))}
        elif options.yaml:
            del chosen["compile"]  # this program reads hosts.yml as JSON, and here it is YAML
        for dummy in range(options.rounds):
            for name, command in chosen.items():
                # `calicoctl policy explain` ends with 1 when the flow is denied.
                accepted = (0, 1) if "explain" in command else (0,)
                if name == "apply":
                    forget(large)
                found.setdefault(name, []).append(seconds(clone, command, accepted))
    median = {name: statistics.median(taken) for name, taken in found.items()}
    missed = False
    print(f"{LIST}: {median[LIST]:.2f} s of a processor, median of {options.rounds}")
    for name in chosen:
        if name == LIST:
            continue
        value, goal = (median[name], DUAL_SECONDS) if name == "dual" else (median[name] / median[LIST], SHARE)
        missed = missed or value > goal
        unit = " s" if name == "dual" else f" of {LIST}"
        verdict = "met" if value <= goal else "MISSED"
        print(f"{name}: {median[name]:.2f} s, {value:.2f}{unit}  (goal: at most {goal:g}, {verdict})")
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
