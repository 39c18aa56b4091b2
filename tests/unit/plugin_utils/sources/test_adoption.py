# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that move out of variables: the files as people write them, and the network before and after.

Ansible reads each inventory before the change and again after it, in one process for all of them.
"""

from __future__ import annotations

import json
import pathlib
import random
import signal
import subprocess
import sys
import typing as t

import pytest

from tests.unit.editing.written_variables import written_list

ROOT = pathlib.Path(__file__).resolve().parents[4]
#: A script that reads a list of (folder, request) from stdin, and makes each change in the inventory FOLDER/prod. It
#: prints the list of its results: the error, and the network before and after. With an argument, os.replace kills the
#: process before its so many'th call.
PROGRAM = """
import json, os, pathlib, signal, sys
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

init_plugin_loader()
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_fleet
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_resources
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import resource_change

def read(source):
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[source])
    manager = VariableManager(loader=loader, inventory=inventory)
    hostvars = HostVars(inventory=inventory, variable_manager=manager, loader=loader)
    groups = {name: [str(host) for host in group.get_hosts()] for name, group in inventory.groups.items()}
    return {"hostvars": hostvars, "groups": groups, "inventory_dir": source, "ansible_inventory_sources": [source]}

def network(source):
    found = inventory_fleet.with_lockfile(read(source))
    states = {name: compiler.node_state(found.fleet, name).digest for name in found.fleet.nodes}
    resources = inventory_resources.resources(found.fleet, found.sources)
    listed = sorted(json.dumps(one, sort_keys=True) for documents in resources.values() for one in documents)
    return {"states": states, "resources": listed}

if len(sys.argv) > 1:
    left, real = int(sys.argv[1]), os.replace
    def counted(*arguments, **named):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    os.replace = counted
def forged(fields, read):
    # A reader of present resources that adds fields to those of variables, as no reader should.
    def changed(*arguments):
        found = read(*arguments)
        for key, one in found.resources.items():
            if one.entries:
                document = {**one.document, "spec": {**one.document["spec"], **fields}}
                found.resources[key] = one._replace(document=document)
        return found
    return changed

results = []
for folder, request in json.load(sys.stdin):
    source = os.path.join(folder, "prod")
    result = {"error": None, "before": None, "after": None, "lines": []}
    results.append(result)
    try:
        if request is None or not request.get("blind"):
            result["before"] = network(source)
        if request is not None:
            reader = resource_change.present_resources.read
            if "forged" in request:
                resource_change.present_resources.read = forged(request["forged"], reader)
            try:
                result["lines"] = resource_change.change(read(source), request, not request["dry_run"]).lines
            finally:
                resource_change.present_resources.read = reader
        result["after"] = network(source)
    except (CommandError, FleetError) as error:
        result["error"] = str(error)
print(json.dumps(results))
"""
HOSTS = """\
all:
  children:
    calico_nodes:
      children:
        rack_a:
          hosts:
            node1: {calico_node_address: 10.10.1.11/24, calico_node_labels: {rack: a}}
            node2: {calico_node_address: 10.10.1.12/24}
"""
RESOURCES = "calico_resource_files: [../net]\n"
POOLS = """\
# The pools of the fleet.
calico_ip_pools:
  # agreed with the network team
  - name: first   # of two
    cidr: 10.244.0.0/16
    ipipMode: CrossSubnet   # until next year

  - {name: second, cidr: 10.245.0.0/16, encapsulation: None}
# what follows is about BGP
calico_bgp_as_number: 64520
"""
FIRST_GONE = """\
# The pools of the fleet.
calico_ip_pools:
  # agreed with the network team

  - {name: second, cidr: 10.245.0.0/16, encapsulation: None}
# what follows is about BGP
calico_bgp_as_number: 64520
"""


def request(verb: str, kind: str, name: str, **more: t.Any) -> dict[str, t.Any]:
    made = {"verb": verb, "namespace": "", "skip": False, "dry_run": False, "adopt": True, "kind": kind, "word": "x"}
    return {**made, "names": [name], **more}


def patch(kind: str, name: str, patch_: t.Any = (), **more: t.Any) -> dict[str, t.Any]:
    return request("patch", kind, name, patch=dict(patch_), type="merge", **more)


def write(folder: pathlib.Path, files: t.Mapping[str, str]) -> None:
    (folder / "net").mkdir(parents=True, exist_ok=True)
    for name, text in {"prod/hosts.yml": HOSTS, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def content(folder: pathlib.Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def changed(
    asked: t.Sequence[tuple[pathlib.Path, t.Optional[dict[str, t.Any]]]], killed_at: int = 0
) -> list[dict[str, t.Any]]:
    """Make changes in inventories; return the results, [] if the process was killed."""
    command = [sys.executable, "-c", PROGRAM, *([str(killed_at)] if killed_at else [])]
    told = json.dumps([(str(folder), one) for folder, one in asked])
    done = subprocess.run(command, cwd=ROOT, input=told, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == (-signal.SIGKILL if killed_at else 0), done.stderr
    return json.loads(done.stdout) if not killed_at else []


BY_HAND = "Write it into a file of calico_resource_files by hand, and remove it there."
LABEL = request("label", "Node", "node1", label="rack=b", remove=False, overwrite=True)
#: What the changes of settings change in resources.
CHANGED = {"Node": ('"rack": "a"', '"rack": "b"'), "BGPConfiguration": ('"asNumber": 64520', '"asNumber": 64521')}
#: {name: (files, what is asked, the files after it or the error)}. The new file's text is not looked at.
CASES: dict[str, tuple[dict[str, str], dict[str, t.Any], t.Union[dict[str, str], str]]] = {
    "first of two": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS},
        patch("IPPool", "first"),
        {"prod/group_vars/all.yml": RESOURCES + FIRST_GONE},
    ),
    "last of two": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS},
        patch("IPPool", "second"),
        {"prod/group_vars/all.yml": RESOURCES + POOLS.replace(
            "  - {name: second, cidr: 10.245.0.0/16, encapsulation: None}\n", "")},
    ),
    "deleted": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS},
        request("delete", "IPPool", "first"),
        {"prod/group_vars/all.yml": RESOURCES + FIRST_GONE},
    ),
    "deleted without a folder": (
        {"prod/group_vars/all.yml": POOLS},
        request("delete", "IPPool", "first"),
        {"prod/group_vars/all.yml": FIRST_GONE},
    ),
    "without a folder": (
        {"prod/group_vars/all.yml": POOLS},
        patch("IPPool", "second"),
        "IPPool(second) needs a file, and calico_resource_files names no folder for it. Make a folder beside the "
        "inventory, and name it in group_vars/all: calico_resource_files: [../resources]",
    ),
    "a child group that hides its parent": (
        {"prod/group_vars/all.yml": f"{RESOURCES}calico_ip_pools: [{{name: old, cidr: 10.9.0.0/16}}]\n",
         "prod/group_vars/calico_nodes.yml": "calico_ip_pools:\n- name: only\n  cidr: 10.244.0.0/16\n"},
        patch("IPPool", "only"),
        {"prod/group_vars/calico_nodes.yml": "calico_ip_pools: []\n"},
    ),
    "in the hosts' file": (
        {"prod/group_vars/all.yml": RESOURCES,
         "prod/hosts.yml": HOSTS.replace(
             "all:\n",
             "all:\n  vars: {calico_ip_pools: [{name: a, cidr: 10.8.0.0/16}, {name: b, cidr: 10.9.0.0/16}]}\n")},
        patch("IPPool", "b"),
        {"prod/hosts.yml": HOSTS.replace(
            "all:\n", "all:\n  vars: {calico_ip_pools: [{name: a, cidr: 10.8.0.0/16}]}\n")},
    ),
    "json": (
        {"prod/group_vars/all/a.yml": RESOURCES,
         "prod/group_vars/all/b.json": '{\n  "calico_ip_pools": [\n    {"name": "a", "cidr": "10.8.0.0/16"}\n  ]\n}\n'},
        patch("IPPool", "a"),
        {"prod/group_vars/all/b.json": '{\n  "calico_ip_pools": []\n}\n'},
    ),
    "a peer of a node with fields beyond Calico's": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS,
         "prod/host_vars/node1.yml":
             "calico_node_bgp_peers:\n- {name: tor, peerIP: 10.10.1.1, asNumber: 65000, bfd: true}\n"},
        patch("BGPPeer", "tor"),
        {"prod/host_vars/node1.yml": "calico_node_bgp_peers: []\n"},
    ),
    "a peer of several nodes": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS,
         "prod/group_vars/rack_a.yml": "calico_bgp_peers_rack_a:\n- {name: tor, peerIP: 10.10.1.1, asNumber: 65000}\n"},
        patch("BGPPeer", "tor"),
        "Failed to patch 'BGPPeer' resource: BGPPeer(tor) stands in calico_bgp_peers_rack_a[0] "
        "(DIR/prod/group_vars/rack_a.yml:2), and --adopt does not move it: it is for all nodes that have the list. "
        "Write it into a file of calico_resource_files by hand, with a nodeSelector or once for each node, and remove "
        "it there",
    ),
    "a template": (
        {"prod/group_vars/all.yml": f"{RESOURCES}pool_range: 10.244.0.0/16\ncalico_ip_pools:\n- name: a\n"
                                    '  cidr: "{{ pool_range }}"\n'},
        patch("IPPool", "a"),
        "DIR/prod/group_vars/all.yml:4: IPPool(a) is not moved out of calico_ip_pools[0]: line 5 is a template. "
        + BY_HAND,
    ),
    "a list of another name": (
        {"prod/group_vars/all.yml":
             RESOURCES + 'pools: [{name: a, cidr: 10.8.0.0/16}]\ncalico_ip_pools: "{{ pools }}"\n'},
        patch("IPPool", "a"),
        "DIR/prod/group_vars/all.yml:2: IPPool(a) is not moved out of calico_ip_pools[0]: line 2 of it has no entry "
        "1 of a list calico_ip_pools, or several. " + BY_HAND,
    ),
    "used by a template": (
        {"prod/group_vars/all.yml": f'{RESOURCES}calico_ip_pools: [{{name: a, cidr: 10.8.0.0/16}}]\n',
         "prod/host_vars/node2.yml": 'allowed:\n- ["{{ calico_ip_pools[0].cidr }}"]\n'},
        patch("IPPool", "a"),
        "calico_ip_pools is not changed: the template of allowed (DIR/prod/host_vars/node2.yml:2) uses it. Change that "
        "first, so that it does not depend on the list.",
    ),
    "an anchor that is used": (
        {"prod/group_vars/all.yml": f"{RESOURCES}calico_ip_pools:\n- &a\n  name: a\n  cidr: 10.8.0.0/16\nother: *a\n"},
        patch("IPPool", "a"),
        "DIR/prod/group_vars/all.yml:3: IPPool(a) is not moved out of calico_ip_pools[0]: it defines the anchor &a, "
        "which line 6 uses. " + BY_HAND,
    ),
    "a peer without a name": (
        {"prod/group_vars/all.yml": f"{RESOURCES}{POOLS}calico_bgp_peers: [{{peerIP: 10.10.1.1, asNumber: 65000}}]\n"},
        patch("BGPPeer", "calico-bgp-peers-0"),
        "Failed to patch 'BGPPeer' resource: BGPPeer(calico-bgp-peers-0) stands in calico_bgp_peers[0] "
        "(DIR/prod/group_vars/all.yml:12), and --adopt does not move it: it has no name there, and is called after its "
        "place. Write name: into it first",
    ),
    "two places": (
        {"prod/group_vars/all.yml": f"{RESOURCES}{POOLS}",
         "prod/host_vars/node1.yml": "calico_node_bgp_peers: [{name: tor, peerIP: 10.10.1.1, asNumber: 65000}]\n",
         "prod/host_vars/node2.yml": "calico_node_bgp_peers: [{name: tor, peerIP: 10.10.1.2, asNumber: 65000}]\n"},
        patch("BGPPeer", "tor"),
        "Failed to patch 'BGPPeer' resource: BGPPeer(tor) stands in calico_node_bgp_peers[0] "
        "(DIR/prod/host_vars/node1.yml:1), and --adopt does not move it: it also stands in calico_node_bgp_peers[0] "
        "(DIR/prod/host_vars/node2.yml:1). Keep one of the two",
    ),
    "an ini file": (
        {"prod/group_vars/all.yml": RESOURCES,
         "prod/hosts.yml": "", "prod/hosts.ini": "[calico_nodes]\nnode1 calico_node_address=10.10.1.11/24\n"
         "[all:vars]\ncalico_ip_pools=[{'name': 'a', 'cidr': '10.8.0.0/16'}]\n"},
        patch("IPPool", "a"),
        "DIR/prod/hosts.ini:4: IPPool(a) is not moved out of calico_ip_pools[0]: it cannot be read as plain YAML. "
        + BY_HAND,
    ),
    "a file that is shared with another inventory": (
        {"prod/group_vars/all.yml": RESOURCES, "shared.yml": POOLS},
        patch("IPPool", "second"),
        "DIR/prod/group_vars/calico_nodes.yml:8: IPPool(second) is not moved out of calico_ip_pools[1]: the file lies "
        "outside of the inventory's folder DIR/prod. " + BY_HAND,
    ),
    "a document that means something else": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS},
        patch("IPPool", "second", forged={"natOutgoing": True}),
        "IPPool(second) cannot be moved into files: node1, node2 would change by the move alone. " + BY_HAND,
    ),
    "labels of a host": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS},
        LABEL,
        {"prod/hosts.yml": HOSTS.replace(", calico_node_labels: {rack: a}", "")},
    ),
    "labels that hide others": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS, "prod/group_vars/rack_a.yml": "calico_node_labels: {x: y}\n"},
        LABEL,
        "DIR/prod/hosts.yml:7: Node(node1) is not moved out of calico_node_labels: DIR/prod/group_vars/rack_a.yml has "
        "it, too, and would count then. " + BY_HAND,
    ),
    "labels of a group": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS,
         "prod/group_vars/rack_a.yml": "calico_node_labels: {rack: a}\n",
         "prod/hosts.yml": HOSTS.replace(", calico_node_labels: {rack: a}", "")},
        LABEL,
        "metadata.labels of Node(node1) stands in calico_node_labels (DIR/prod/group_vars/rack_a.yml:1), and --adopt "
        "does not move it: other nodes have it from there, too. " + BY_HAND[:-1],
    ),
    "a setting": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS},
        patch("BGPConfiguration", "default", {"spec": {"asNumber": 64521}}),
        {"prod/group_vars/all.yml": RESOURCES + POOLS.replace("calico_bgp_as_number: 64520\n", "")},
    ),
    "a setting beside others": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS + "calico_bgp_listen_port: 1790\n"},
        patch("BGPConfiguration", "default", {"spec": {"asNumber": 64521}}),
        {"prod/group_vars/all.yml":
             RESOURCES + POOLS.replace("calico_bgp_as_number: 64520\n", "") + "calico_bgp_listen_port: 1790\n"},
    ),
    "a setting that is a template": (
        {"prod/group_vars/all.yml": RESOURCES + POOLS.replace("64520", "\"{{ 64520 }}\"")},
        patch("BGPConfiguration", "default", {"spec": {"asNumber": 64521}}),
        "DIR/prod/group_vars/all.yml:11: BGPConfiguration(default) is not moved out of calico_bgp_as_number: line 11 "
        "is a template. " + BY_HAND,
    ),
    "ranges": (
        {"prod/group_vars/all.yml":
             f"{RESOURCES}{POOLS}calico_ip_reservations: # why\n- 10.244.7.0/30\n- 10.245.0.1\n"},
        patch("IPReservation", "calico-ip-reservations"),
        {"prod/group_vars/all.yml": f"{RESOURCES}{POOLS}calico_ip_reservations: [] # why\n"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[pathlib.Path, dict[str, t.Any]]]:
    """The folder and the result of each case."""
    base = tmp_path_factory.mktemp("adoption")
    folders = {name: base / name.replace(" ", "-").replace("'", "") for name in CASES}
    for name, folder in folders.items():
        write(folder, CASES[name][0])
        if "shared" in name:
            (folder / "prod/group_vars/calico_nodes.yml").symlink_to("../../shared.yml")
        if name == "an ini file":
            (folder / "prod" / "hosts.yml").unlink()
    found = changed([(folder, CASES[name][1]) for name, folder in folders.items()])
    return {name: (folders[name], result) for name, result in zip(folders, found)}


@pytest.mark.parametrize("name", CASES)
def test_an_entry_moves_into_a_file_or_is_refused_with_its_place(results: t.Any, name: str) -> None:
    folder, result = results[name]
    files, asked, wanted = CASES[name]
    after = content(folder)
    before = {path: text for path, text in {"prod/hosts.yml": HOSTS, **files}.items() if text}
    if isinstance(wanted, str):
        after.pop("prod/group_vars/calico_nodes.yml", "") if "shared" in name else None
        assert (result["error"] or "").replace(str(folder), "DIR") == wanted
        assert after == before
        return
    assert result["error"] is None
    new = {path: text for path, text in after.items() if path.startswith("net/")}
    assert {path: text for path, text in after.items() if path not in new} == {**before, **wanted}
    assert len(new) == (asked["verb"] != "delete")
    if new:
        assert next(iter(new)) == f"net/{asked['kind'].lower()}/{asked['names'][0]}.yml"
        old, changed_to = CHANGED.get(asked["kind"], ("x", "x"))
        assert result["after"]["resources"] == [one.replace(old, changed_to) for one in result["before"]["resources"]]


def test_the_lines_around_an_entry_are_not_shown(results: t.Any) -> None:
    """They may be secrets."""
    folder, result = results["last of two"]
    lines = [line.replace(str(folder), "DIR") for line in result["lines"]]
    assert lines[lines.index("--- DIR/prod/group_vars/all.yml") : -1] == [
        "--- DIR/prod/group_vars/all.yml",
        "+++ DIR/prod/group_vars/all.yml",
        "@@ -9 +8,0 @@",
        "-  - {name: second, cidr: 10.245.0.0/16, encapsulation: None}",
    ]


VARIABLES: dict[str, tuple[str, list[dict[str, t.Any]]]] = {
    "calico_ip_pools": (
        "IPPool",
        [
            {"name": "p0", "cidr": "10.240.0.0/16", "ipipMode": "Always", "natOutgoing": True},
            {"metadata": {"name": "p1", "labels": {"a": "b"}}, "spec": {"cidr": "10.241.0.0/16"}},
            {"name": "p2", "cidr": "10.242.0.0/16", "nodeSelector": "rack == 'a'", "encapsulation": "VXLAN"},
        ],
    ),
    "calico_bgp_peers": (
        "BGPPeer",
        [
            {"name": "p0", "peerIP": "10.10.1.1", "asNumber": 65000, "bfd": {"minRx": 200}, "holdTime": "90s"},
            {"name": "p1", "peerIP": "10.10.1.2:1790", "asNumber": 65000, "nodeSelector": "rack == 'a'"},
            {"metadata": {"name": "p2"}, "spec": {"peerIP": "10.10.1.3", "asNumber": 65001, "listenPort": 0}},
        ],
    ),
    "calico_policies": (
        "GlobalNetworkPolicy",
        [
            {"kind": "GlobalNetworkPolicy", "name": "p0", "selector": "a=='b'", "ingress": [{"action": "Allow"}]},
            {"kind": "GlobalNetworkPolicy", "metadata": {"name": "p1"}, "spec": {"order": 7, "types": ["Egress"]}},
            {"kind": "GlobalNetworkPolicy", "name": "p2", "egress": [{"action": "Deny", "protocol": "TCP"}]},
        ],
    ),
}
#: Where a list stands, and a file that it hides if there is one.
PLACES = (
    ("prod/group_vars/all.yml", ""),
    ("prod/group_vars/all/net.yml", ""),
    ("prod/group_vars/calico_nodes", "prod/group_vars/all/net.yml"),
    ("prod/group_vars/rack_a.yaml", "prod/group_vars/calico_nodes.yml"),
)
RANDOM = 40


class RandomChange(t.NamedTuple):
    """A change of a random inventory: its files, what is asked, and the file that changes, before and after."""

    files: dict[str, str]
    asked: dict[str, t.Any]
    file: str
    after: str
    kind: str


def random_change(seed: int) -> RandomChange:
    draw = random.Random(seed)
    variable = draw.choice(list(VARIABLES))
    kind, known = VARIABLES[variable]
    entries = draw.sample(known, draw.randrange(1, 4))
    written = written_list(draw, variable, entries)
    file, hidden = draw.choice(PLACES)
    fleet = {"calico_resource_files": ["../net"]}
    if variable != "calico_ip_pools":
        fleet["calico_ip_pools"] = [{"name": "pool", "cidr": "10.244.0.0/16"}]
    files = {file: written.text, "prod/hosts.yml": HOSTS.replace("all:\n", f"all:\n  vars: {json.dumps(fleet)}\n")}
    if hidden:
        files[hidden] = f"{variable}: {json.dumps([{**known[0], 'name': 'hidden'}])}\n"
    index = draw.randrange(len(entries))
    name = entries[index].get("name") or entries[index]["metadata"]["name"]
    asked = request("delete", kind, name) if draw.random() < 0.3 else patch(kind, name)
    return RandomChange(files, asked, file, written.without({index}), kind)


@pytest.fixture(scope="module")
def random_results(
    tmp_path_factory: pytest.TempPathFactory,
) -> list[tuple[RandomChange, dict[str, str], dict[str, t.Any]]]:
    """Random changes, each with the files after it and its result."""
    base = tmp_path_factory.mktemp("random")
    changes = [random_change(seed) for seed in range(RANDOM)]
    for index, change in enumerate(changes):
        write(base / str(index), change.files)
    found = changed([(base / str(index), change.asked) for index, change in enumerate(changes)])
    return [(change, content(base / str(index)), found[index]) for index, change in enumerate(changes)]


@pytest.mark.parametrize("seed", range(RANDOM))
def test_a_random_file_keeps_all_else_and_the_network_its_meaning(random_results: t.Any, seed: int) -> None:
    change, after, result = random_results[seed]
    name = change.asked["names"][0]
    if change.asked["verb"] == "delete" and result["error"]:
        assert change.kind == "IPPool" and "would not be valid" in result["error"]
        assert after == change.files
        return
    assert result["error"] is None
    new = {path for path in after if path.startswith("net/")}
    assert {path: text for path, text in after.items() if path not in new} == {
        **change.files,
        change.file: change.after,
    }
    before = result["before"]["resources"]
    if change.asked["verb"] == "delete":
        assert not new
        before = [one for one in before if not _is(one, change.kind, name)]
    else:
        assert len(new) == 1
    # The defaults of policy go with the last policy, and tunnels' addresses of nodes with their pool.
    left_out = ("Tier", "Profile", "Node") if change.asked["verb"] == "delete" else ()
    left, right = (
        [one for one in found if json.loads(one)["kind"] not in left_out]
        for found in (result["after"]["resources"], before)
    )
    assert left == right


def _is(document: str, kind: str, name: str) -> bool:
    found = json.loads(document)
    return bool(found["kind"] == kind and found["metadata"]["name"] == name)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_killed_move_is_refused_by_a_run_or_not_begun_and_the_next_change_finishes_it(
    tmp_path: pathlib.Path, calls: int
) -> None:
    """It is killed before the journal, before the document and before the variable is put into place."""
    files = {"prod/group_vars/all.yml": RESOURCES + POOLS}
    write(tmp_path, files)
    before = content(tmp_path)
    (network,) = changed([(tmp_path, None)])
    changed([(tmp_path, patch("IPPool", "second"))], killed_at=calls)
    assert (content(tmp_path) == before) == (calls < 3)
    (between,) = changed([(tmp_path, None)])
    if calls == 3:
        assert "stands in two places: also in calico_ip_pools[1]" in between["error"]
    else:
        assert between["error"] is None
    (result,) = changed([(tmp_path, patch("IPPool", "second", blind=True))])
    if calls == 3:
        assert result["error"].replace(str(tmp_path), "DIR") == (
            "An interrupted change of DIR/net/ippool/second.yml is finished.\n"
            "An interrupted change of DIR/prod/group_vars/all.yml is finished.\nRun this command again."
        )
    after = content(tmp_path)
    assert "second" not in after["prod/group_vars/all.yml"] and "net/ippool/second.yml" in after
    (end,) = changed([(tmp_path, None)])
    assert (end["error"], end["before"]["resources"]) == (None, network["before"]["resources"])
