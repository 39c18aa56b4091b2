# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman containers on the lab's hosts, attached to the node's network.

Debian 12's podman calls the CNI plugin, Debian 13's calls netavark's. A release without netavark's plugin gives Debian
13's podman no network: there `run` attaches a namespace by calicoctl, which podman then uses (docs/how-to/podman.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from .handle import BaseLab

NETWORK = "calico"
#: The end of `podman run`: a root that sleeps.
REST = ("--rootfs", "/srv/box", "/bin/sleep", "100000")


@dataclass(frozen=True)
class Container:
    """A container; `node` is its host, `address` its IPv4 address, `netns` its namespace's name below /run/netns.

    `own_netns` says that the namespace was made and attached by calicoctl, and not by podman.
    """

    node: str
    name: str
    address: str
    netns: str
    own_netns: bool = False


def run(lab: BaseLab, node: str, name: str, *options: str, network: str = NETWORK) -> Container:
    """Start a container that sleeps, attached to `network` of the node, and return it.

    Raise CommandFailed if the host refuses a step, for instance because the name is in use, and the errors of
    `inspect`. Then what earlier steps made stays.
    """
    if lab.exec(node, ["podman", "network", "exists", network.partition(":")[0]], check=False).returncode:
        return run_in_namespace(lab, node, name)
    lab.exec(node, ["podman", "run", "-d", "--name", name, "--network", network, *options, *REST])
    return inspect(lab, node, name)


def run_in_namespace(lab: BaseLab, node: str, name: str) -> Container:
    """Start a container that sleeps in a namespace of its name, which calicoctl attaches; raise what `run` raises."""
    lab.exec(node, ["ip", "netns", "add", name])
    lab.exec(node, ["calicoctl", "workload", "add", name, "--netns", name])
    lab.exec(node, ["podman", "run", "-d", "--name", name, "--network", f"ns:/run/netns/{name}", *REST])
    return inspect(lab, node, name)


def inspect(lab: BaseLab, node: str, name: str, interface: str = "eth0") -> Container:
    """Return the container as podman and the kernel know it.

    The address is read inside the container, not taken from the plugin's answer. Raise CommandFailed if podman has no
    container of that name or it has no network, and ValueError unless `interface` has exactly one IPv4 address.
    """
    [found] = lab.json(node, ["podman", "inspect", name])
    mode = found["HostConfig"]["NetworkMode"]
    own = mode.startswith("ns:")
    netns = (mode if own else found["NetworkSettings"]["SandboxKey"]).rpartition("/")[2]
    [link] = lab.json(node, ["ip", "-n", netns, "-j", "-4", "address", "show", "dev", interface])
    [address] = [entry["local"] for entry in link["addr_info"]]
    return Container(node, name, address, netns, own)


def remove(lab: BaseLab, container: Container) -> None:
    lab.exec(container.node, ["podman", "rm", "-f", "-t", "0", container.name])
    if container.own_netns:
        lab.exec(container.node, ["calicoctl", "workload", "delete", container.name])
        lab.exec(container.node, ["ip", "netns", "del", container.netns])


def ping(lab: BaseLab, source: Container, address: str) -> bool:
    """Return whether `address` answers at least one of two pings from inside the container, the last within 5 seconds.

    The first one may be lost while a neighbour's address is resolved. The result is False also if the container does
    not run.
    """
    words = ["podman", "exec", source.name, "/bin/ping", "-c", "2", "-W", "5", address]
    return lab.exec(source.node, words, check=False).returncode == 0


def workload_addresses(lab: BaseLab, node: str) -> dict[str, str]:
    """Return {name: first address} of the workloads that calicoctl lists on a node; raise CommandFailed if it fails."""
    listed = json.loads(lab.exec(node, ["calicoctl", "workload", "list", "-o", "json"]).stdout)
    return {entry["name"]: entry["addresses"][0] for entry in listed["workloads"]}
