# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the demonstration with a datastore: policy follows workloads, and an operator changes it live."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.lab.fleet import SPARING, Workload, mesh_of_streams, ping
from tests.lab.handle import BaseLab
from tests.lab.machines.etcd import prepare_members
from tests.lab.topology import CONTROL_NET, NODES, LabError, Places

from . import live_change

#: The only member of the cluster: it is enough to show how policy follows. A fleet has three.
MEMBER = "node2"
GUARDED, CLIENT = "node3", "node4"
POLICY = {
    "kind": "GlobalNetworkPolicy",
    "name": "guarded",
    "selector": "app == 'guarded'",
    "ingress": [{"action": "Allow", "source": {"selector": "app == 'shop'"}}],
}
#: An operator at the lab's controller. What is refused is cut, too, as an operator who blocks an address expects.
LIVE = {
    "calico_live_policy": True,
    "calico_etcd_operators": [{"name": live_change.NAME, "addresses": [f"{CONTROL_NET}.1"]}],
    "calico_policy_cut_denied_flows": True,
}
_PATIENCE = 30.0  # seconds until a demonstration of half a second has failed


def inventory(lab: BaseLab, root: Path) -> Path:
    """Write inventories/lab with an etcd cluster, a policy and an operator to the lab's folder; return where.

    Packages of etcd are given to the member, and the lab's controller gets a route to it.
    """
    folder = _folder(lab)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "inventories" / "lab", folder)
    hosts = yaml.safe_load((folder / "hosts.yml").read_text("utf-8"))
    hosts["all"]["children"]["calico_etcd"] = {"hosts": {MEMBER: {"calico_etcd_address": NODES[MEMBER].address}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts), "utf-8")
    (folder / "group_vars" / "all" / "policies.yml").write_text(
        yaml.safe_dump({"calico_policies": [POLICY], **LIVE}), "utf-8"
    )
    prepare_members(lab, [MEMBER], NODES[MEMBER].release)
    return folder


def show(lab: BaseLab) -> bool:
    """Attach a workload that is guarded and two clients, print who gets in and after what time; return whether it fits.

    Raise LabError if the guarded workload's host does not learn of the client within 30 seconds.
    """
    guarded = _attach(lab, GUARDED, "vault", "guarded")
    stranger = _attach(lab, CLIENT, "stranger", "other")
    client = _attach(lab, CLIENT, "till", "shop")
    answered = time.monotonic()
    _until(lambda: client in lab.exec(GUARDED, "ipset save").stdout, f"{GUARDED} knows {client}")
    took = time.monotonic() - answered
    gets_in = ping(lab, CLIENT, guarded, netns="till")
    stays_out = not ping(lab, CLIENT, guarded, netns="stranger")
    print(f"  {GUARDED} guards {guarded}, and lets app == 'shop' in alone. No playbook runs from here on.")
    print(f"  {CLIENT}: till ({client}, app=shop) attached; in the sets of {GUARDED} after {1000 * took:.0f} ms")
    print(f"  {CLIENT}: till reaches it: {_word(gets_in)}; stranger ({stranger}, app=other): {_word(not stays_out)}")
    lab.exec(CLIENT, "calicoctl workload label default/till app=other")
    began = time.monotonic()
    _until(lambda: client not in lab.exec(GUARDED, "ipset save").stdout, f"{GUARDED} forgets {client}")
    print(f"  {CLIENT}: till loses its label; out of the sets after {1000 * (time.monotonic() - began):.0f} ms")
    return gets_in and stays_out


def operator(lab: BaseLab, root: Path) -> live_change.Operator:
    """Return the operator that the inventory of `inventory` has."""
    config = _folder(lab) / ".calico.etcd" / "operators" / live_change.NAME / "calicoctl.cfg"
    inside = ("ip", "netns", "exec", Places(lab.name).netns("control"))
    return live_change.Operator(config, inside, _folder(lab).parent, root)


def _folder(lab: BaseLab) -> Path:
    return Places(lab.name).state / "live"


def change(lab: BaseLab, found: list[Workload], root: Path) -> bool:
    """Let the operator change policy under traffic; return whether all is as promised.

    `found` are the inventory's workloads, between which traffic flows, too. `show` has attached the others. Raise
    LabError if a command fails.
    """
    lab.exec(CLIENT, "calicoctl workload label default/till app=shop")
    _attach(lab, CLIENT, "desk", "shop")
    vault, till, desk = (attached(lab, *one) for one in ((GUARDED, "vault"), (CLIENT, "till"), (CLIENT, "desk")))
    wanted = {till.address, desk.address}
    _until(lambda: wanted <= set(lab.exec(GUARDED, "ipset save").stdout.split()), f"{GUARDED} knows till and desk")
    return live_change.show(lab, operator(lab, root), vault, till, desk, mesh_of_streams(lab, found, SPARING))


def attached(lab: BaseLab, node: str, name: str) -> Workload:
    """Return a workload that the agent of a node has attached. Raise CommandFailed if there is none."""
    said = json.loads(lab.exec(node, f"calicoctl workload get {name} -o json").stdout)
    return Workload(name, node, str(said["addresses"][0]), str(said["interface"]))


def _attach(lab: BaseLab, node: str, name: str, app: str) -> str:
    lab.exec(node, f"ip netns add {name} 2>/dev/null; true")
    said = lab.exec(node, f"calicoctl workload add {name} --netns {name} --label app={app} -o json").stdout
    return str(json.loads(said)["addresses"][0])


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise LabError(f"not within {_PATIENCE:.0f} seconds: {what}")
        time.sleep(0.01)


def _word(yes: bool) -> str:
    return "yes" if yes else "no"
