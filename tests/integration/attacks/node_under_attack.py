# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent as on nodes, called by the shim, and a user's symbolic link that is passed as a namespace's path."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
import subprocess
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress

from tests.integration.agent.cni.shim import Shim
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine
from tests.unit.agent.workloads.test_dual_stack import DUAL
from tests.unit.runtimes.cni.runtime import Answer

SOAK = 10 if os.environ.get("HOST_ROUTING_SOAK") == "1" else 1
ELSEWHERE = "does not lead to the network namespace that it was attached to"


class Node:
    """A running agent, and a user's folder `home` with a symbolic link that a runtime passes as a namespace's path."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.shim = Shim(daemon.folder / "lib" / "cni", daemon.socket)
        self.home = daemon.folder / "home"
        self.home.mkdir()

    def path(self, name: str) -> pathlib.Path:
        """Return the path of the namespace `name`, which is created if it is missing.

        Raise KernelError if it cannot be created.
        """
        return pathlib.Path(self.daemon.netns(name))

    def link(self, target: t.Union[pathlib.Path, str]) -> str:
        """Replace the user's symbolic link, or create it, by one to `target`; return its path."""
        new = self.home / f"new-{secrets.token_hex(4)}"
        new.symlink_to(target)
        new.rename(self.home / "netns")
        return str(self.home / "netns")

    def run(self, command: str, netns: t.Union[pathlib.Path, str], container: str = "c" * 64) -> Answer:
        environment = {
            "CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": str(netns), "CNI_IFNAME": "eth0",
            "CNI_PATH": "/opt/cni/bin", "PATH": os.environ["PATH"],
        }  # fmt: skip
        configuration = {"cniVersion": "1.1.0", "name": "pods", "type": "calico"}
        return self.shim.execute(environment, json.dumps(configuration).encode())

    def holds(self, name: str) -> tuple[list[str], list[str]]:
        """Return (names of the Ethernet devices, their addresses without link-local IPv6 ones) of a namespace.

        Both are sorted; addresses have no prefix length. The namespace is created if it is missing. Raise KernelError
        if it cannot be created.
        """
        command = ["nsenter", f"--net={self.path(name)}", "ip", "-json", "address"]
        shown = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        devices = sorted(link["ifname"] for link in shown if link.get("link_type") == "ether")
        found = [info["local"] for link in shown for info in link["addr_info"] if link["ifname"] in devices]
        return devices, sorted(address for address in found if not address.startswith("fe80:"))

    def gone(self, device: str) -> None:
        self.daemon.until(lambda: device not in self.daemon.links, f"{device} is gone")

    def destroy(self, name: str) -> None:
        self.daemon.kernel.leave(name)
        self.daemon.kernel.netns_delete(name)

    def repaired(self) -> dict[str, t.Any]:
        """Run two complete checks of the agent, and return the answer to the second one.

        Raise AssertionError unless it has no changes and no problems, and is in sync. Raise AgentError if the agent
        refuses or does not run.
        """
        self.daemon.call("resync")
        counted = self.daemon.call("resync")
        assert (counted["changes"], counted["problems"], counted["in_sync"]) == ([], [], True)
        return counted

    def said(self) -> int:
        return self.daemon.log.read_text().count(ELSEWHERE)

    def released(self, netns: t.Union[pathlib.Path, str], container: str = "c" * 64) -> None:
        """Run DEL, wait for the end of deletions, and raise AssertionError if an interface, record or address is left.

        Those of all workloads count. Raise AssertionError too if DEL fails or prints something, or deletions have not
        ended after 30 seconds. Raise AgentError if the agent does not answer then.
        """
        assert self.run("DEL", netns, container).nothing
        self.daemon.settled()
        assert (self.daemon.links, self.daemon.records, self.daemon.allocated()) == (set(), set(), {})

    def reset(self) -> None:
        """Start the agent if it has stopped, and remove all workloads, namespaces and files of the user.

        A namespace that cannot be removed stays. Raise AssertionError or AgentError if the agent does not answer, and
        AssertionError if deletions have not ended, within two minutes.
        """
        if self.daemon.process is None or self.daemon.process.poll() is not None:
            self.daemon.start()
        for workload in self.daemon.call("workload.list")["workloads"]:
            self.daemon.call("workload.delete", id=workload["id"])
        self.daemon.settled()
        for name in self.daemon.kernel.netns_list():
            with contextlib.suppress(OSError):
                self.destroy(name)
        subprocess.run(["rm", "-rf", *map(str, self.home.iterdir())], check=True)


@contextlib.contextmanager
def node_under_attack(folder: pathlib.Path) -> t.Iterator[Node]:
    """Yield a node with a running agent and pools of both IP versions; end the agent and the namespaces at the end.

    Its files are in the new folders engine and node of `folder`. Raise FileExistsError if one of them exists, and what
    `install_engine`, `daemon_under_test` and `Daemon.start` raise.
    """
    engine, home = folder / "engine", folder / "node"
    engine.mkdir()
    home.mkdir()
    with daemon_under_test(install_engine(engine), home, DUAL) as daemon:
        daemon.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
        daemon.start()
        yield Node(daemon)
