# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The product in five minutes: four hosts become routers, their pool changes its mode under traffic, policy follows.

HOST_ROUTING_LAB names another lab than the usual one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import Lab
from tests.lab.fleet import Workload, kernel_has_ipip, mesh_of_streams, no_way_around, ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams
from tests.lab.topology import DEFAULT_NAME, LabError, Places

from . import live_policy

ROOT = Path(__file__).resolve().parents[2]
POOL = "default-ipv4-ippool"
LEFT_OUT = "the parts with a datastore are left out in the emulated machine: make demo MODE=vxlan shows them."
ENCAPSULATIONS = {"ipip": "IPIP", "vxlan": "VXLAN"}
#: The emulated machine is ten times slower: its sessions may take longer than a real fleet's, and a processor that
#: stands still may lose the product's own probes. What is counted at the end has no such allowance.
PATIENCE = {
    "native": (),
    "qemu": ("-e", "calico_node_convergence_timeout=300", "-e", "calico_node_max_lost_probes=300"),
}


class Steps:
    """The steps of the demonstration, and the seconds that each took.

    `step` prints a title and times its with block, unless the block raises. `table` returns the titles with their times
    and the sum as text, for one step or more.
    """

    def __init__(self) -> None:
        self.took: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        print(f"\n── {title} {'─' * max(2, 100 - len(title))}", flush=True)
        began = time.monotonic()
        yield
        self.took.append((title, time.monotonic() - began))

    def table(self) -> str:
        width = max(len(title) for title, _ in self.took)
        lines = [f"  {title:<{width}} {seconds:6.1f} s" for title, seconds in self.took]
        return "\n".join([*lines, f"  {'in all':<{width}} {sum(seconds for _, seconds in self.took):6.1f} s"])


def choose() -> tuple[str, str, str]:
    """Return the encapsulation ("ipip" or "vxlan"), the machine ("native" or "qemu") and a remark on both, or "".

    MODE of the environment names the encapsulation, in any case of letters. Without it, that is ipip if this kernel has
    IPIP, and vxlan otherwise. The machine is "qemu" only for MODE=ipip on a kernel without IPIP. Raise LabError if MODE
    is anything else.
    """
    asked = os.environ.get("MODE", "").lower()
    if asked not in ("", *ENCAPSULATIONS):
        raise LabError(f"MODE={asked} is not known. Choose ipip or vxlan, or leave it out.")
    native = kernel_has_ipip()
    if asked == "ipip" and not native:
        return (
            "ipip",
            "qemu",
            "This kernel has no IPIP: the hosts run in an emulated machine that has it (slow, but real).",
        )
    if asked:
        return asked, "native", ""
    if native:
        return "ipip", "native", "This kernel has IPIP: the pool begins with it."
    return (
        "vxlan",
        "native",
        "This kernel has no IPIP: the pool begins with VXLAN. To see IPIP, in an emulated machine: make demo MODE=ipip",
    )


def ansible(
    lab: BaseLab,
    playbook: str,
    *arguments: str,
    environment: dict[str, str],
    inventory: str = "inventories/lab",
    inside: tuple[str, ...] = (),
) -> None:
    """Run a playbook and print the command; raise LabError if it fails.

    `inside` is the start of the command that enters the network of the lab's controller, which is not printed.
    """
    patience = PATIENCE[lab.machine]
    command = ["ansible-playbook", "-i", inventory, f"playbooks/{playbook}", *patience, *arguments]
    print(f"$ {' '.join(command)}", flush=True)
    done = subprocess.run([*inside, *command], cwd=ROOT, env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        raise LabError(f"{playbook} ended with status {done.returncode}; its output stands above.")


def switch(lab: BaseLab, mode: str, environment: dict[str, str]) -> None:
    ansible(lab, "switch_pool_mode.yml", "-e", f"pool={POOL}", "-e", f"mode={mode}", environment=environment)


def show_routes(lab: BaseLab) -> None:
    for node in lab.nodes:
        print(f"{node.name}$ ip route")
        for line in lab.exec(node.name, ["ip", "route"]).stdout.splitlines():
            if not line.startswith(("default", "192.168.200", "unreachable")):
                print(f"  {line.rstrip()}")


def show_sessions(lab: BaseLab) -> None:
    for node in lab.nodes:
        print(f"{node.name}$ birdc -s /run/calico/bird.ctl show protocols")
        for line in lab.exec(
            node.name, ["birdc", "-s", "/run/calico/bird.ctl", "show", "protocols"]
        ).stdout.splitlines():
            if " BGP " in line or line.startswith("Name"):
                print(f"  {line.rstrip()}")


def show_matrix(lab: BaseLab, found: list[Workload]) -> bool:
    """Print which other workloads and which hosts reach each workload, by real packets; return whether all do.

    `found` has one workload or more.
    """
    width = max(len(workload.name) for workload in found) + 2
    print(" " * 14 + "".join(f"{workload.name:<{width}}" for workload in found))
    everything = True
    sources: list[Workload | str] = [*found, *(node.name for node in lab.nodes)]
    for source in sources:
        name = source.name if isinstance(source, Workload) else f"{source} (host)"
        cells = []
        for target in found:
            if isinstance(source, Workload):
                answers = source is target or ping(lab, source.node, target.address, netns=source.name)
            else:
                answers = ping(lab, source, target.address)
            everything = everything and answers
            cells.append("·" if source is target else "yes" if answers else "NO")
        print(f"{name:<14}" + "".join(f"{cell:<{width}}" for cell in cells))
    return everything


def follow(lab: BaseLab, steps: Steps, environment: dict[str, str], found: list[Workload]) -> bool:
    """Give the fleet a datastore, show how policy follows and how it is changed live; return whether all is as said.

    `found` are the inventory's workloads.
    """
    with steps.step("A datastore: etcd on one host, and a policy"):
        inventory = str(live_policy.inventory(lab, ROOT))
        inside = ("ip", "netns", "exec", Places(lab.name).netns("control"))
        for playbook in ("etcd.yml", "site.yml"):
            ansible(lab, playbook, environment=environment, inventory=inventory, inside=inside)
    with steps.step("A policy follows what attaches on another host"):
        followed = live_policy.show(lab)
    with steps.step("An operator changes policy without a run: plan, apply, history, rollback"):
        return live_policy.change(lab, found, ROOT) and followed


def main() -> int:
    steps = Steps()
    mode, machine, remark = choose()
    if remark:
        print(remark)
    environment = {"HOST_ROUTING_LAB": DEFAULT_NAME, "HOST_ROUTING_LAB_ENCAPSULATION": ENCAPSULATIONS[mode]}
    lab = Lab(DEFAULT_NAME, machine=machine)
    with steps.step("Start four hosts in two subnets: node1, node3 Debian 12; node2, node4 Debian 13"):
        lab.up()
    with steps.step("Plan: what would change, before anything does"):
        ansible(lab, "site.yml", "--check", "--diff", environment=environment)
    with steps.step("Converge: the hosts become routers"):
        ansible(lab, "site.yml", environment=environment)
    with steps.step("Routes and sessions"):
        show_routes(lab)
        show_sessions(lab)
    found = workloads(lab)
    with steps.step("Who reaches whom"):
        reached = show_matrix(lab, found)
    no_way_around(lab)  # packets without a route of their own are dropped: the router must not hide a gap
    with Streams(lab, mesh_of_streams(lab, found)) as streams:
        with steps.step(f"Switch the pool from {mode} to direct, under traffic"):
            switch(lab, "direct", environment)
            show_routes(lab)
        with steps.step(f"And back to {mode}"):
            switch(lab, mode, environment)
        report = streams.stop()
    no_way_around(lab, state="del")
    has_live = lab.machine == "native"
    followed = not has_live or follow(lab, steps, environment, found)
    print(f"\nBoth switches\n{report.summary()}")
    print(f"\nHow long it took\n{steps.table()}")
    good = reached and followed and report.lost_by_us == 0 and report.resets == 0
    verdict = "NOT as promised, see above."
    if good:
        rest = "policy followed; a live change touched nothing else." if has_live else LEFT_OUT
        verdict = f"Every workload reaches every other one; both switches lost nothing; {rest}"
    print(f"\n{verdict}\n\n{what_to_type(lab, environment, found[-1], has_live)}")
    return 0 if good else 1


def what_to_type(lab: BaseLab, environment: dict[str, str], far: Workload, has_live: bool) -> str:
    """Return commands for who goes on with the lab. `far` is a workload to ping from web-1."""
    exports = {"PATH": "$PWD/.venv/bin:$PATH", "LC_ALL": "C.UTF-8", **environment}
    rest = "what takes the datastore and its policy away" if has_live else "nothing to change"
    live = ""
    if has_live:
        command = " ".join(live_policy.operator(lab, ROOT).command)
        live = f"  {command} history\n{'':36}who changed policy; also apply, diff, get, rollback\n"
    return f"""\
What to type next
  export {" ".join(f"{name}={value}" for name, value in exports.items())}
                                    this clone's own Ansible, and the mode that the lab's inventory says
  ssh -F {lab.ssh_config} node1
                                    a shell on a host; there: ip netns exec web-1 ping {far.address}
  ansible-playbook -i inventories/lab playbooks/site.yml --check --diff   {rest}
  ansible-playbook -i inventories/lab playbooks/rollback.yml              what the fleet can return to
{live}  make lab-down                                                           take it all away"""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"demo: {error}")
