# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conformance tests' runtime on this machine's kernel: the agent as nodes run it, called by the shim."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import secrets
import subprocess
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import NoAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
)

from tests.integration.agent.cni.shim import Shim
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.host_under_test import HOST
from tests.unit.runtimes.cni.runtime import BLOCK, Answer, Container, Runtime

STATE = NodeState(
    node="node1",
    address="10.10.1.11/24",
    pools=(Pool("default-pool", "10.244.0.0/16", 26, "None", workload_mtu=1450),),
    ipam=NodeIpam(1, (Block(BLOCK, "default-pool"),)),
    routes=(Route(BLOCK, "blackhole"),),
    sysctls=(Sysctl("net/ipv4/ip_forward", "1"),),
)


class Namespace(Container):
    def __init__(self, daemon: Daemon, id: str) -> None:
        self._daemon = daemon
        self._name = id[:12]
        self.id = id
        self.netns = daemon.netns(self._name)

    def run(self, *command: str) -> str:
        done = subprocess.run(
            ["nsenter", f"--net={self.netns}", *command], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def _links(self) -> dict[str, dict[str, t.Any]]:
        return {link["ifname"]: link for link in json.loads(self.run("ip", "-json", "address", "show"))}

    def addresses(self, ifname: str = "eth0") -> list[str] | None:
        link = self._links().get(ifname)
        return None if link is None else [info["local"] for info in link["addr_info"] if info["family"] == "inet"]

    def make_interface(self, ifname: str) -> None:
        self.run("ip", "link", "add", ifname, "type", "veth", "peer", "name", "other")

    def remove(self) -> None:
        self._daemon.kernel.leave(self._name)
        self._daemon.kernel.netns_delete(self._name)

    def set_mac(self, mac: str, ifname: str = "eth0") -> None:
        self.run("ip", "link", "set", ifname, "address", mac)

    def mac(self, ifname: str = "eth0") -> str:
        return str(self._links()[ifname]["address"])

    def break_(self, what: str, ifname: str = "eth0") -> None:
        if what == "interface":
            self.run("ip", "link", "delete", ifname)
        elif what == "address":
            self.run("ip", "address", "flush", "dev", ifname)
        elif what == "route":
            self.run("ip", "route", "delete", "default")
        else:
            (address,) = self.addresses(ifname) or []
            host = ("nsenter", f"--net={self._daemon.folder}/netns/{HOST}")
            subprocess.run([*host, "ip", "route", "delete", f"{address}/32"], check=True)


class RealRuntime(Runtime):
    """A runtime that calls a real agent through the shim.

    `spoiled` is True if a test has changed the agent's files or state behind its back, so that `reset` has to restore
    them. The shim is installed in `folder`; `carrier` is as for Shim.
    """

    repairs = True

    def __init__(self, daemon: Daemon, folder: pathlib.Path, carrier: str = "nc") -> None:
        self.daemon = daemon
        self.shim = Shim(folder, daemon.socket, carrier)
        self.spoiled = False
        self._containers: list[Namespace] = []

    def execute(self, environment: t.Mapping[str, str], stdin: bytes) -> Answer:
        return self.shim.execute(environment, stdin)

    def container(self) -> Namespace:
        self._containers.append(Namespace(self.daemon, secrets.token_hex(32)))
        return self._containers[-1]

    def allocated(self) -> dict[str, str]:
        shown = self.daemon.call("ipam.show")["allocations"]
        return {allocation["address"]: allocation["handle"] for allocation in shown}

    def labels(self, container: Container) -> t.Mapping[str, str]:
        workloads = self.daemon.call("workload.list")["workloads"]
        (found,) = (workload for workload in workloads if workload["container"] == container.id)
        return found["labels"]

    def release(self, container: Container) -> None:
        def release(ipam: LocalIpam) -> None:
            (handle,) = (found.handle for found in ipam.allocations() if container.id in found.handle)
            ipam.release(handle)

        self._behind_its_back(release)

    def use_up(self) -> None:
        def use_up(ipam: LocalIpam) -> None:
            for number in range(65):
                try:
                    ipam.assign(f"test/{number}", {})
                except NoAddress:
                    return

        self._behind_its_back(use_up)

    def bird(self, answers: bool) -> None:
        assert not answers, "see test_podman.py, which has BIRD"
        bird = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24")
        self._restart(lambda: self.daemon.desire(dataclasses.replace(STATE, bird=bird)))

    def reset(self) -> None:
        """Delete all workloads and containers.

        If the node is `spoiled`, restart the agent with its first state and without a journal. Links of the workloads
        may still exist afterwards, and containers that cannot be removed stay. Raise AgentError if the agent refuses or
        does not run. With a spoiled node, raise what `Daemon.settled`, `Daemon.kill` and `Daemon.start` raise.
        """
        if self.spoiled:
            for workload in self.daemon.call("workload.list")["workloads"]:
                self.daemon.call("workload.delete", id=workload["id"])
            self.daemon.settled()
            self._restart(self._begin_anew)
            self.spoiled = False
        for workload in self.daemon.call("workload.list")["workloads"]:
            self.daemon.call("workload.delete", id=workload["id"])
        for container in self._containers:
            with contextlib.suppress(Exception):
                container.remove()
        self._containers.clear()

    def _begin_anew(self) -> None:
        for path in (self.daemon.folder / "lib" / "ipam").iterdir():
            path.unlink()
        self.daemon.desire(STATE)

    def _behind_its_back(self, change: t.Callable[[LocalIpam], None]) -> None:
        def changed() -> None:
            ipam = LocalIpam(str(self.daemon.folder / "lib" / "ipam"), cooldown=0.0)
            ipam.load()
            ipam.grant(STATE)
            change(ipam)
            ipam.flush()

        self._restart(changed)

    def _restart(self, between: t.Callable[[], None]) -> None:
        self.spoiled = True
        self.daemon.kill()
        between()
        self.daemon.start()


@contextlib.contextmanager
def real_runtime(engine: pathlib.Path, folder: pathlib.Path, carrier: str = "nc") -> t.Iterator[RealRuntime]:
    with daemon_under_test(engine, folder, STATE) as daemon:
        daemon.start()
        runtime = RealRuntime(daemon, folder / "lib" / "cni", carrier)
        yield runtime
        runtime.reset()
