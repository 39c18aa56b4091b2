# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman containers on the lab's hosts, attached to the node's network.

Debian 12's podman calls the CNI plugin itself. Debian 13's podman has no CNI backend: there the tests first create the
namespace, attach it with calicoctl, and have podman use it (docs/cni.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from .handle import BaseLab

NETWORK = "calico"
_REST = ("--rootfs", "/srv/box", "/bin/sleep", "100000")


@dataclass(frozen=True)
class Container:
    """A container; `node` is its host, `address` its IPv4 address, `netns` its namespace's name below /run/netns."""

    node: str
    name: str
    address: str
    netns: str


def has_cni(lab: BaseLab, node: str) -> bool:
    return next(entry for entry in lab.nodes if entry.name == node).release == "bookworm"


def run(lab: BaseLab, node: str, name: str) -> Container:
    """Start a container that sleeps, attached to the node's network, and return it.

    Raise CommandFailed if the host refuses a step, for instance because the name is in use, and the errors of
    `inspect`. Then what earlier steps made stays.
    """
    if has_cni(lab, node):
        lab.exec(node, ["podman", "run", "-d", "--name", name, "--network", NETWORK, *_REST])
        return inspect(lab, node, name)
    lab.exec(node, ["ip", "netns", "add", name])
    lab.exec(node, ["calicoctl", "workload", "add", name, "--netns", name])
    lab.exec(node, ["podman", "run", "-d", "--name", name, "--network", f"ns:/run/netns/{name}", *_REST])
    return inspect(lab, node, name)


def inspect(lab: BaseLab, node: str, name: str) -> Container:
    """Return the container as podman and the kernel know it.

    The address is read inside the container, not taken from the CNI plugin's answer to ADD. Raise CommandFailed if
    podman has no container of that name or it has no network, and ValueError unless eth0 has exactly one IPv4 address.
    """
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
    """Return whether `address` answers one ping from inside the container within 2 seconds.

    The result is False also if the container does not run.
    """
    words = ["podman", "exec", source.name, "/bin/ping", "-c", "1", "-W", "2", address]
    return lab.exec(source.node, words, check=False).returncode == 0


def workload_addresses(lab: BaseLab, node: str) -> dict[str, str]:
    """Return {name: first address} of the workloads that calicoctl lists on a node; raise CommandFailed if it fails."""
    listed = json.loads(lab.exec(node, ["calicoctl", "workload", "list", "-o", "json"]).stdout)
    return {entry["name"]: entry["addresses"][0] for entry in listed["workloads"]}
