# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of podman on the lab's hosts, attached to the node's network in the way that each release of podman knows.

Debian 12's podman calls the CNI plugin itself. Debian 13's has no CNI backend any more: there the namespace is made
first, attached with calicoctl, and podman is told to use it (docs/cni.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from .handle import BaseLab

NETWORK = "calico"
_REST = ("--rootfs", "/srv/box", "/bin/sleep", "100000")


@dataclass(frozen=True)
class Container:
    """`netns` is the name of its namespace below /run/netns."""

    node: str
    name: str
    address: str
    netns: str


def has_cni(lab: BaseLab, node: str) -> bool:
    return next(entry for entry in lab.nodes if entry.name == node).release == "bookworm"


def run(lab: BaseLab, node: str, name: str) -> Container:
    """Starts a container that sleeps."""
    if has_cni(lab, node):
        lab.exec(node, ["podman", "run", "-d", "--name", name, "--network", NETWORK, *_REST])
        return inspect(lab, node, name)
    lab.exec(node, ["ip", "netns", "add", name])
    lab.exec(node, ["calicoctl", "workload", "add", name, "--netns", name])
    lab.exec(node, ["podman", "run", "-d", "--name", name, "--network", f"ns:/run/netns/{name}", *_REST])
    return inspect(lab, node, name)


def inspect(lab: BaseLab, node: str, name: str) -> Container:
    """The container as podman and the kernel know it. Its address is read inside, not taken from what was answered."""
    [found] = lab.json(node, ["podman", "inspect", name])
    netns = found["NetworkSettings"]["SandboxKey"].rpartition("/")[2] if has_cni(lab, node) else name
    [link] = lab.json(node, ["ip", "-n", netns, "-j", "-4", "address", "show", "dev", "eth0"])
    [address] = [entry["local"] for entry in link["addr_info"]]
    return Container(node, name, address, netns)


def remove(lab: BaseLab, container: Container) -> None:
    lab.exec(container.node, ["podman", "rm", "-f", "-t", "0", container.name])
    if not has_cni(lab, container.node):
        lab.exec(container.node, ["calicoctl", "workload", "delete", container.name])
        lab.exec(container.node, ["ip", "netns", "del", container.netns])


def ping(lab: BaseLab, source: Container, address: str) -> bool:
    """By the program in the container itself."""
    words = ["podman", "exec", source.name, "/bin/ping", "-c", "1", "-W", "2", address]
    return lab.exec(source.node, words, check=False).returncode == 0


def workload_addresses(lab: BaseLab, node: str) -> dict[str, str]:
    """{name: address} of the workloads that the agent of a node knows."""
    listed = json.loads(lab.exec(node, ["calicoctl", "workload", "list", "-o", "json"]).stdout)
    return {entry["name"]: entry["addresses"][0] for entry in listed["workloads"]}
