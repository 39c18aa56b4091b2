# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three nodes of a compiled fleet with both IP versions: our drivers, real BIRDs, workloads that reach each other.

    node1 .1.11  node2 .1.12  |router|  node3 .2.13         10.10.<rack>.0/24 and fd00:10:10:<rack>::/64

Only the underlay is made by hand. All else on a node comes from `plan_node` with its compiled NodeState.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES

from tests.integration.bird.daemons import Daemon
from tests.integration.bird.debian_bird import Build
from tests.integration.bird.network import Namespace, wait_for
from tests.integration.bird.sessions.sequence import Streams
from tests.unit.fleet.fleets import ADDRESSES6, LAB, build, pool, states, workload

pytestmark = pytest.mark.root

NODES = {name: LAB[name] for name in ("node1", "node2", "node3")}
NET6 = "fd00:10:244::/64"


def fleet_of(
    mode: str, mode6: str, previous: t.Optional[Fleet] = None, with_ipv4: t.Collection[str] = frozenset(NODES)
) -> Fleet:
    """Return a fleet whose IPv4 pool has the encapsulation `mode` and whose IPv6 pool has `mode6`.

    Its nodes keep the blocks and addresses that they have in `previous`. Nodes that are not in `with_ipv4` have IPv6
    only; if it is empty, there is no IPv4 pool either.
    """
    alone = {"calico_node_address": None, "calico_node_labels": {"alone": "yes"}}
    return build(
        *([pool(mode, nodeSelector="!has(alone)")] if with_ipv4 else []),
        pool(mode6, "six", NET6),
        nodes=NODES,
        own={name: {**ADDRESSES6[name], **({} if name in with_ipv4 else alone)} for name in NODES},
        workloads=[workload(f"w{number}", f"node{number}") for number in (1, 2, 3)],
        previous=previous.allocation if previous else None,
    )


class Host:
    """One node: a namespace with eth0 in its rack, the kernel objects that the drivers made there, and a BIRD."""

    def __init__(self, name: str, space: Namespace, build: Build, folder: pathlib.Path) -> None:
        self.name, self.space = name, space
        folders = {"netns_folder": str(folder / f"{name}-netns"), "marker_folder": str(folder / f"{name}-markers")}
        self.kernel = LinuxKernel(f"/proc/{space.pid}/ns/net", **folders)
        self.daemon = Daemon(build, space, folder, name)
        self.state: t.Optional[NodeState] = None
        self._folder = pathlib.Path(folders["netns_folder"])

    def bring_to(self, state: NodeState) -> None:
        """Apply a state as the module node does: additions first, then BIRD, then removals.

        Raise ApplyError if the kernel refuses a change, ObserveError or KernelError if it cannot be read, and
        AssertionError if the state has no BIRD, or BIRD does not start or reconfigure.
        """
        apply_node(self.kernel, plan_node(self.kernel, state), lambda: self._tell_bird(state))
        self.state = state

    def _tell_bird(self, state: NodeState) -> None:
        assert state.bird
        if self.daemon.bird is None:
            self.daemon.write(state.bird)
            self.daemon.start()
        elif self.daemon.bird != state.bird:
            self.daemon.configure(state.bird)

    def unsettled(self) -> list[str]:
        """Return the lines of the plan that is left, for the drivers or for BIRD; [] if the node has its state.

        Objects that a plan keeps although the state lacks them have lines, too. Raise AssertionError before the first
        `bring_to`, and ObserveError if the kernel cannot be read.
        """
        assert self.state
        return plan_node(self.kernel, self.state).lines()

    def addresses(self) -> tuple[str, ...]:
        assert self.state
        return self.state.workloads[0].addresses

    def inside(self) -> Workload:
        assert self.state
        return Workload(self._folder / self.state.workloads[0].netns)

    def close(self) -> None:
        self.daemon.stop()
        for name in self.kernel.netns_list():
            self.kernel.netns_delete(name)
        self.kernel.close()


class Workload:
    """The namespace of a workload, in the form that Streams needs."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def command(self, *command: str) -> list[str]:
        return ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={self._path}", "--", *command]


class Racks:
    def __init__(
        self,
        build: Build,
        folder: pathlib.Path,
        stack: contextlib.ExitStack,
        with_ipv4: t.Collection[str] = frozenset(NODES),
    ) -> None:
        self.router = self._space("router", stack)
        self.router.ip(
            *(f"link add br{rack} type bridge" for rack in (1, 2)),
            *(f"addr add 10.10.{rack}.1/24 dev br{rack}" for rack in (1, 2)),
            *(f"addr add fd00:10:10:{rack}::1/64 dev br{rack} nodad" for rack in (1, 2)),
            *(f"link set br{rack} up" for rack in (1, 2)),
        )
        self.router.run("sh", "-ec", "cd /proc/sys/net; echo 1 > ipv4/ip_forward; echo 1 > ipv6/conf/all/forwarding")
        self.hosts = {}
        for index, (name, cidr) in enumerate(NODES.items()):
            space = self._space(name, stack)
            cidr6 = ADDRESSES6[name]["calico_node_address_ipv6"]
            rack = cidr.split(".")[2]
            space.ip(
                f"link add eth0 type veth peer name port{index} netns {self.router.pid}",
                "link set eth0 up",
                f"addr add {cidr6} dev eth0 nodad",
                f"route add ::/0 via fd00:10:10:{rack}::1",
            )
            if name in with_ipv4:
                space.ip(f"addr add {cidr} dev eth0", f"route add default via 10.10.{rack}.1")
            self.router.ip(f"link set port{index} master br{rack}", f"link set port{index} up")
            self.hosts[name] = Host(name, space, build, folder)
            stack.callback(self.hosts[name].close)

    @staticmethod
    def _space(name: str, stack: contextlib.ExitStack) -> Namespace:
        space = Namespace(name)
        stack.callback(space.close)
        return space

    def learn(self, fleet: Fleet) -> None:
        """Add routes to all blocks on the router, which needs them without a tunnel, as if it learned them by BGP.

        Raise AssertionError if the router refuses one, or a node of `fleet` is not among `hosts`.
        """
        for name, state in states(fleet).items():
            for block in (*state.ipam.blocks, *state.ipam.spare_blocks):
                own = state.address6 if ":" in block.cidr else state.address
                self.router.ip(f"route replace {block.cidr} via {own.partition('/')[0]}")
            assert name in self.hosts

    def bring_to(self, wanted: t.Mapping[str, NodeState]) -> None:
        """Apply the states node after node, and wait until all are complete.

        Raise AssertionError if a node is not complete within 60 seconds. Raise what `Host.bring_to` raises.
        """
        for name, state in wanted.items():
            self.hosts[name].bring_to(state)
        for name, host in self.hosts.items():
            with contextlib.suppress(AssertionError):
                wait_for(f"{name} is as it has to be", lambda host=host: not host.unsettled())
            assert host.unsettled() == [], name

    def switch(self, target: Fleet) -> None:
        """Change all nodes to `target` through the phases; each begins when all nodes have completed the one before.

        The nodes need a state from `bring_to`. Raise what `bring_to` raises.
        """
        goals = states(target)
        for phase in PHASES:
            wanted = {name: transition.phase_state(self.hosts[name].state, goals[name], phase) for name in goals}
            self.bring_to(wanted)

    def streams(self, size: int = 64) -> Streams:
        """Return streams of each IP version, both ways, between all workloads that have it; `size` is in bytes."""
        pairs, receivers = [], {}
        for name, host in self.hosts.items():
            for address in host.addresses():
                others = [
                    found
                    for key, other in self.hosts.items()
                    for found in other.addresses()
                    if key != name and (":" in found) == (":" in address)
                ]
                pairs.append((host.inside(), address, others))
                receivers[address] = host.inside()
        return Streams(pairs, receivers, rate=500, size=size)

    def way(self, name: str, destination: str) -> str:
        """Return the routes of the node `name` to exactly this destination, as `ip` prints them; "" if it has none."""
        return self.hosts[name].space.run("ip", "-6" if ":" in destination else "-4", "route", "show", destination)


@pytest.fixture
def racks(build: Build, tmp_path: pathlib.Path) -> t.Iterator[Racks]:
    assert os.geteuid() == 0, "network namespaces need root"
    with contextlib.ExitStack() as stack:
        yield Racks(build, tmp_path, stack)


def test_both_families_are_switched_without_loss(racks: Racks) -> None:
    fleet = fleet_of("vxlan", "vxlan")
    racks.learn(fleet)
    racks.bring_to(states(fleet))
    block6 = next(block.cidr for block in racks.hosts["node3"].state.ipam.blocks if ":" in block.cidr)
    vtep6 = racks.hosts["node1"].state.bird.vteps6[-1].gateway
    assert f"via {vtep6} dev vxlan-v6.calico proto bird" in racks.way("node1", block6)
    with racks.streams() as flows:
        for mode6 in ("direct", "vxlan", "vxlan-crosssubnet", "direct"):
            fleet = fleet_of("vxlan", mode6, fleet)
            racks.switch(fleet)
            time.sleep(0.5)  # so that losses by a wrong route show before the next switch repairs it
    assert racks.way("node1", block6).startswith(f"{block6} via fd00:10:10:1::1 dev eth0 proto bird")
    assert flows.dropped == 0
    assert flows.sent > 12 * 4 * 0.5 * 400
    assert flows.lost == {}
    print(f"4 changes of mode, {flows.sent} packets of both IP versions, 0 lost")
    for host in racks.hosts.values():  # the device of the IPv6 tunnel is gone
        assert host.kernel.link("vxlan-v6.calico") is None


@pytest.mark.parametrize("with_ipv4", [(), ("node1", "node3")], ids=["IPv6 alone", "two of three with IPv4"])
def test_nodes_with_ipv6_alone_are_switched_without_loss(
    build: Build, tmp_path: pathlib.Path, with_ipv4: t.Collection[str]
) -> None:
    assert os.geteuid() == 0, "network namespaces need root"
    with contextlib.ExitStack() as stack:
        racks = Racks(build, tmp_path, stack, with_ipv4)
        fleet = fleet_of("vxlan", "vxlan", with_ipv4=with_ipv4)
        racks.learn(fleet)
        racks.bring_to(states(fleet))
        hosts = racks.hosts
        assert [len(host.addresses()) for host in hosts.values()] == [2 if name in with_ipv4 else 1 for name in hosts]
        with racks.streams() as flows:
            for mode6 in ("direct", "vxlan-crosssubnet", "vxlan"):
                fleet = fleet_of("vxlan", mode6, fleet, with_ipv4)
                racks.switch(fleet)
                time.sleep(0.5)  # so that losses by a wrong route show before the next switch repairs it
        assert flows.dropped == 0
        assert flows.sent > (6 + (2 if with_ipv4 else 0)) * 3 * 0.5 * 400
        assert flows.lost == {}
        node2 = hosts["node2"]
        assert "10.244" not in node2.space.run("ip", "-4", "route", "show", "table", "all")
        assert node2.space.run("cat", "/proc/sys/net/ipv4/ip_forward").strip() == "0"
        assert {link.name for link in node2.kernel.links()} >= {"vxlan-v6.calico"}
        assert node2.kernel.link("vxlan.calico") is None


@pytest.mark.parametrize("build", ["bookworm"], indirect=True)
def test_packets_of_the_workload_mtu_pass_the_tunnel(racks: Racks) -> None:
    fleet = fleet_of("direct", "vxlan")
    racks.learn(fleet)
    racks.bring_to(states(fleet))
    mtu = racks.hosts["node1"].state.workloads[0].mtu
    assert mtu == 1500 - 70
    with racks.streams(size=mtu) as flows:
        time.sleep(0.5)
    assert (flows.lost, flows.dropped) == ({}, 0)
    assert flows.sent > 1000
