# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab whose hosts site.yml has made routers, and ways to run the playbooks on it.

HOST_ROUTING_LAB_MACHINE=qemu runs the same tests in the emulated machine, which has IPIP, and the fleet starts with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import prepared_ansible
from tests.lab import Lab
from tests.lab.fleet import SPARING, mesh_of_streams, no_way_around, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams
from tests.lab.topology import NODES
from tests.long_form import LONG

ROOT = Path(__file__).resolve().parents[3]
MACHINE = os.environ.get("HOST_ROUTING_LAB_MACHINE", "native")
LAB = os.environ.get("HOST_ROUTING_LAB", "scenarios")
FIRST_MODE = {"native": "vxlan", "qemu": "ipip"}[MACHINE]
ENCAPSULATION = {"vxlan": "VXLAN", "ipip": "IPIP"}[FIRST_MODE]
#: Where an inventory has the variables of all hosts.
VARIABLES = Path("group_vars/all/calico.yml")
#: The hosts, None for the lab's usual four. The emulated machine has two in one subnet and one in the other, since it
#: takes a minute of processor time for each host and phase.
HOSTS = {"native": None, "qemu": ("node1", "node2", "node3")}[MACHINE]
#: The policy of the emulated machine's fleet. No workload of its inventory has the label.
CLOSED = {
    "kind": "GlobalNetworkPolicy",
    "name": "closed",
    "selector": "closed == 'yes'",
    "types": ["Ingress"],
    "ingress": [],
}
#: Packets per second of each stream in the suites with the most streams, and the least that must have been sent: a busy
#: machine sends fewer. Sixteen of 600 take most of a processor: in `make test` test_switching.py alone has them.
PPS = 600 if LONG else SPARING
LEAST_PPS = PPS * 5 / 6


class Run:
    """A finished run of ansible-playbook: its exit status `code`, its `output` with stderr, and its `seconds`."""

    def __init__(self, command: list[str], done: subprocess.CompletedProcess[Any], seconds: float) -> None:
        self.command, self.seconds = command, seconds
        self.code, self.output = done.returncode, done.stdout + done.stderr

    def recap(self) -> dict[str, dict[str, int]]:
        """Return {host: {ok: n, changed: n, ...}} as the recap of the run prints it, {} if it prints none."""
        found = {}
        for line in self.output.splitlines():
            match = re.match(r"(\S+)\s+: (ok=.*)", line)
            if match:
                found[match.group(1)] = {
                    key: int(value) for key, value in (pair.split("=") for pair in match.group(2).split())
                }
        return found

    def check(self) -> Run:
        assert self.code == 0, f"{' '.join(self.command)} ended with {self.code}:\n{self.output[-6000:]}"
        return self

    def unchanged(self, *hosts: str) -> Run:
        """Check that the run ended well and changed nothing on these hosts, by default on all of its recap."""
        counts = {host: entry["changed"] for host, entry in self.check().recap().items()}
        changed = {host: counts[host] for host in hosts or counts if counts[host]}
        assert counts and not changed, f"{' '.join(self.command)} changed {changed}:\n{self.output[-12000:]}"
        return self


class Fleet:
    """A lab's hosts, and the playbooks of a release that run on them.

    `root` is where that release lies. `inside` are the words that run a command where the playbooks run.
    """

    def __init__(
        self, lab: BaseLab, inventory: str = "inventories/lab", root: Path = ROOT, inside: tuple[str, ...] = ()
    ) -> None:
        self.lab, self.inventory, self.root, self.inside = lab, inventory, root, inside
        self.environment = {
            **os.environ,
            "HOST_ROUTING_LAB": lab.name,
            "HOST_ROUTING_LAB_ENCAPSULATION": ENCAPSULATION,
            "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_TIMEOUT": "60",
        }

    def command(self, playbook: str, *arguments: str, inventory: str | None = None) -> list[str]:
        # An emulated processor that stands still loses some of the product's own probes, whose buffers are small. The
        # tests' streams have large buffers and must lose nothing. A new connection to each node after each phase takes
        # minutes there, so changes are confirmed natively only, by all other suites.
        slow = ("convergence_timeout=300", "max_lost_probes=300", "confirm_timeout=0")
        patience = [f"calico_node_{entry}" for entry in slow] if MACHINE == "qemu" else []
        return [
            *self.inside,
            "ansible-playbook",
            "-i",
            inventory or self.inventory,
            f"playbooks/{playbook}",
            *(f"-e{entry}" for entry in patience),
            *arguments,
        ]

    def play(self, playbook: str, *arguments: str, inventory: str | None = None, timeout: float = 1800) -> Run:
        command = self.command(playbook, *arguments, inventory=inventory)
        began = time.monotonic()
        done = prepared_ansible.run(command[len(self.inside) :], self.root, self.environment, timeout, self.inside)
        return Run(command, done, time.monotonic() - began)

    def site(self, *arguments: str, **more: Any) -> Run:
        return self.play("site.yml", *arguments, **more)

    def switch(self, mode: str, *arguments: str, pool: str = "default-ipv4-ippool", **more: Any) -> Run:
        return self.play(
            "switch_pool_mode.yml",
            "-e",
            f"pool={pool}",
            "-e",
            f"mode={mode}",
            "-e",
            "calico_node_soak_seconds=3",
            *arguments,
            **more,
        )


def inventory_of(names: Sequence[str], folder: Path) -> str:
    """Write inventories/lab, reduced to the hosts `names`, to `folder`; return the folder's path.

    Raise KeyError for a host that the inventory does not have.
    """
    shutil.copytree(ROOT / "inventories" / "lab", folder, dirs_exist_ok=True)
    hosts = yaml.safe_load((folder / "hosts.yml").read_text("utf-8"))
    nodes = hosts["all"]["children"]["calico_nodes"]["hosts"]
    hosts["all"]["children"]["calico_nodes"]["hosts"] = {name: nodes[name] for name in names}
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts), "utf-8")
    path = folder / VARIABLES
    variables = yaml.safe_load(path.read_text("utf-8"))
    variables["calico_workloads"] = [entry for entry in variables["calico_workloads"] if entry["node"] in names]
    path.write_text(yaml.safe_dump(variables), "utf-8")
    return str(folder)


def dual_stack_inventory(names: Sequence[str], folder: Path, **variables: object) -> Path:
    """Write `inventory_of` these hosts with both IP versions to `folder`, and return the folder.

    The hosts have IPv6 addresses and a second IP pool, and containers get the network calico. `variables` are further
    ones of all hosts.
    """
    inventory_of(names, folder)
    path = folder / "hosts.yml"
    hosts = yaml.safe_load(path.read_text("utf-8"))
    for name, entry in hosts["all"]["children"]["calico_nodes"]["hosts"].items():
        entry["calico_node_address_ipv6"] = f"{NODES[name].address6}/64"
    path.write_text(yaml.safe_dump(hosts), "utf-8")
    pools = yaml.safe_load((folder / VARIABLES).read_text("utf-8"))["calico_ip_pools"]
    six = {"name": "six", "cidr": "fd00:10:244::/48", "encapsulation": "VXLAN", "natOutgoing": True}
    set_variables(folder, calico_ip_pools=[*pools, six], calico_node_cni_default=True, **variables)
    return folder


def set_variables(folder: Path, **variables: object) -> None:
    """Set variables of all hosts in the inventory that `inventory_of` wrote to `folder`; the others stay."""
    found = yaml.safe_load((folder / VARIABLES).read_text("utf-8"))
    (folder / VARIABLES).write_text(yaml.safe_dump({**found, **variables}), "utf-8")


def start_docker(lab: BaseLab, node: str) -> None:
    """Start Docker on a host, enabled as Debian's packages leave it, with the image `box`."""
    lab.exec(node, "systemctl unmask docker.service docker.socket containerd.service")
    lab.exec(node, "systemctl enable -q --now docker.service && docker import /srv/box.tar box", timeout=90)


@contextlib.contextmanager
def new_lab(
    name: str, hosts: Sequence[str] | None = None, machine: str = "native", **options: bool
) -> Iterator[BaseLab]:
    """Yield a lab of this name that has just been started; `hosts` and `options` are those of `Lab.up`.

    It goes down at the end, unless HOST_ROUTING_LAB_KEEP is set.
    """
    lab = Lab(name, machine=machine)
    lab.down()
    lab.up(hosts, **options)
    yield lab
    if not os.environ.get("HOST_ROUTING_LAB_KEEP"):
        lab.down()


@contextlib.contextmanager
def nothing_lost(lab: BaseLab, but: Collection[str] = ()) -> Iterator[Streams]:
    """Yield streams that run between all workloads but those of the nodes in `but`, and assert that they lose nothing.

    Each must reach LEAST_PPS. Raise LabError if they cannot start. The unreachable routes of `no_way_around` stay.
    """
    no_way_around(lab)
    ends = [end for end in workloads(lab) if end.node not in but]
    with Streams(lab, mesh_of_streams(lab, ends, PPS)) as streams:
        yield streams
        report = streams.stop()
    print(report.summary())
    assert report.sent > 0 and not report.silent_hosts
    assert min(result.rate for result in report.streams) >= LEAST_PPS, report.summary()
    assert report.lost_by_us == 0, report.summary()
    assert report.resets == 0 and report.corrupt == 0 and report.bytes_missing == 0, report.summary()


@pytest.fixture(scope="session")
def lab() -> Iterator[BaseLab]:
    with new_lab(LAB, HOSTS, MACHINE) as lab:
        yield lab


@pytest.fixture(scope="session")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    if HOSTS:
        folder = tmp_path_factory.mktemp("inventory")
        fleet = Fleet(lab, inventory_of(HOSTS, folder))
        # One run alone: each takes minutes in the emulated machine.
        path = folder / "group_vars" / "all" / "policy.yml"
        path.write_text(yaml.safe_dump({"calico_policies": [CLOSED]}), "utf-8")
    else:
        fleet = Fleet(lab)
    fleet.site().check()
    return fleet
