# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four nodes in two subnets with a router between them, each a network namespace held by a process of its own.

    node1 10.10.1.11  node2 10.10.1.12  |router|  node3 10.10.2.13  node4 10.10.2.14

The IPv6 addresses are fd00:10:1::11 and so on. Every node has eth0, vxlan.calico, vxlan-v6.calico, tunl0 and one
workload with both IP versions behind a veth pair. tunl0 is a veth into a bridge that all nodes share, because the
kernel may have no IP-in-IP; to BIRD's filters it is a device like any other. The lab has the real tunl0. A namespace
ends with its process, so that nothing outlives a test run that is killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import time
import typing as t

from tests.pauses import pause

POOL = "10.244.0.0/16"
POOL6 = "fd00:10:244::/48"
#: Words before a command that kill it when its parent ends, so that a killed test run leaves no process behind.
DIES_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL")


def wait_for(what: str, condition: t.Callable[[], t.Any], seconds: float = 60.0, most: float = 0.2) -> t.Any:
    """Return the first true answer of `condition`, which is called less and less often.

    It is called every `most` seconds in the end: what holds for moments alone needs fewer. Raise AssertionError with
    `what` if there is none within `seconds`. Exceptions of `condition` are passed on.
    """
    began = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < began + seconds, f"not within {seconds} s: {what}"
        pause(began, most=most)


class Namespace:
    def __init__(self, name: str) -> None:
        self.name = name
        command = [*DIES_WITH_ITS_PARENT, "unshare", "--net", "--kill-child", "--fork", "--", "sleep", "3600"]
        self._holder = subprocess.Popen(command)
        self.pid = self._child()
        self.run("ip", "link", "set", "lo", "up")

    def _child(self) -> int:
        path = f"/proc/{self._holder.pid}/task/{self._holder.pid}/children"

        def ready() -> t.Optional[int]:
            with open(path) as children:
                pids = children.read().split()
            if not pids or os.readlink(f"/proc/{pids[0]}/ns/net") == os.readlink("/proc/self/ns/net"):
                return None
            return int(pids[0])

        return t.cast(int, wait_for(f"namespace {self.name}", ready))

    def command(self, *command: str) -> list[str]:
        return [*DIES_WITH_ITS_PARENT, "nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *command]

    def run(self, *command: str, input: t.Optional[str] = None) -> str:
        done = subprocess.run(
            self.command(*command), capture_output=True, text=True, timeout=60, input=input, check=False
        )
        assert done.returncode == 0, f"{self.name}: {' '.join(command)}: {done.stderr or done.stdout}"
        return done.stdout

    def ip(self, *lines: str) -> None:
        self.run("ip", "-batch", "-", input="\n".join(lines) + "\n")

    def sysctl(self, settings: t.Mapping[str, str], family: str = "ipv4") -> None:
        """Write {path below /proc/sys/net/<family>: value}; raise AssertionError if a write fails."""
        written = (f"echo {value} > /proc/sys/net/{family}/{key}" for key, value in settings.items())
        self.run("sh", "-ec", "; ".join(written))

    def routes(self, *selector: str) -> list[str]:
        return sorted(line.strip() for line in self.run("ip", "-4", "route", "show", *selector).splitlines())

    def routes6(self, *selector: str) -> list[str]:
        """Return the sorted lines of `ip -6 route show`, with single spaces and without the words `pref medium`."""
        lines = self.run("ip", "-6", "route", "show", *selector).replace(" pref medium", "").splitlines()
        return sorted(" ".join(line.split()) for line in lines)

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)


@dataclasses.dataclass
class Node:
    name: str
    index: int
    rack: int
    space: Namespace
    workload_space: Namespace

    @property
    def address(self) -> str:
        return f"10.10.{self.rack}.{10 + self.index}"

    @property
    def subnet(self) -> str:
        return f"10.10.{self.rack}.0/24"

    @property
    def router(self) -> str:
        return f"10.10.{self.rack}.1"

    @property
    def block(self) -> str:
        return f"10.244.{self.index}.0/26"

    @property
    def workload(self) -> str:
        return f"10.244.{self.index}.2"

    def tunnel(self, device: str) -> str:
        return f"10.244.{self.index}.{0 if device == 'tunl0' else 1}"

    @property
    def address6(self) -> str:
        return f"fd00:10:{self.rack}::{10 + self.index}"

    @property
    def subnet6(self) -> str:
        return f"fd00:10:{self.rack}::/64"

    @property
    def router6(self) -> str:
        return f"fd00:10:{self.rack}::1"

    @property
    def block6(self) -> str:
        return f"fd00:10:244:{self.index}::/122"

    @property
    def workload6(self) -> str:
        return f"fd00:10:244:{self.index}::2"

    @property
    def vtep_link_local(self) -> str:
        return f"fe80::6400:ff:fe00:{self.index}"

    @property
    def vtep_mac(self) -> str:
        return f"66:00:00:00:00:{self.index:02x}"


class Network:
    def __init__(self, count: int = 4) -> None:
        self._stack = contextlib.ExitStack()
        self.router = self._space("router")
        self.router.ip(
            *(f"link add br{rack} type bridge" for rack in (1, 2)),
            *(f"addr add 10.10.{rack}.1/24 dev br{rack}" for rack in (1, 2)),
            *(f"addr add fd00:10:{rack}::1/64 dev br{rack} nodad" for rack in (1, 2)),
            *(f"link set br{rack} up" for rack in (1, 2)),
            "link add brtunnel type bridge",
            "link set brtunnel up",
        )
        self.router.sysctl({"ip_forward": "1"})
        self.router.sysctl({"conf/all/forwarding": "1"}, "ipv6")
        self.nodes = [self._node(index) for index in range(1, count + 1)]
        # In a mode without a tunnel the router forwards the packets of workloads, so it needs routes to the blocks.
        self.router.ip(*(f"route add {node.block} via {node.address}" for node in self.nodes))
        self.router.ip(*(f"route add {node.block6} via {node.address6}" for node in self.nodes))
        for node in self.nodes:
            others = [other for other in self.nodes if other is not node]
            node.space.ip(
                *(
                    f"neigh add {other.address} dev {device} lladdr {other.vtep_mac} nud permanent"
                    for other in others
                    for device in ("vxlan.calico", "tunl0")  # a real tunl0 needs no neighbours; this veth does
                )
            )
            node.space.ip(
                *(
                    f"neigh add {other.vtep_link_local} dev vxlan-v6.calico lladdr {other.vtep_mac} nud permanent"
                    for other in others
                )
            )
            for other in others:
                for device, end in (("vxlan.calico", other.address), ("vxlan-v6.calico", other.address6)):
                    node.space.run("bridge", "fdb", "append", other.vtep_mac, "dev", device, "dst", end, "self")

    def _space(self, name: str) -> Namespace:
        space = Namespace(name)
        self._stack.callback(space.close)
        return space

    def _node(self, index: int) -> Node:
        rack = 1 if index <= 2 else 2
        name = f"node{index}"
        node = Node(name, index, rack, self._space(name), self._space(f"workload{index}"))
        space, pod = node.space, node.workload_space
        for device, bridge in (("eth0", f"br{rack}"), ("tunl0", "brtunnel")):
            port = f"{device}n{index}"
            space.ip(f"link add {device} type veth peer name {port} netns {self.router.pid}")
            if device == "tunl0":
                space.ip(f"link set {device} address {node.vtep_mac}")
            space.ip(f"link set {device} up")
            self.router.ip(f"link set {port} master {bridge}", f"link set {port} up")
        space.ip(
            f"addr add {node.address}/24 dev eth0",
            f"route add default via {node.router}",
            f"link add vxlan.calico address {node.vtep_mac} mtu 1450 type vxlan id 4096 dstport 4789 "
            f"local {node.address} nolearning",
            "link set vxlan.calico up",
            # The tunnel devices of IPv4 have addresses, because loose reverse-path filtering is strict on a device
            # without one: packets that arrive by a tunnel from a node one step behind in a change of mode would be
            # dropped.
            f"addr add {node.tunnel('vxlan.calico')}/32 dev vxlan.calico",
            f"addr add {node.tunnel('tunl0')}/32 dev tunl0",
            f"link add cali1 address ee:ee:ee:ee:ee:ee type veth peer name eth0 netns {pod.pid}",
            "link set cali1 up",
            f"route add {node.workload} dev cali1 scope link proto 179",
            f"route add blackhole {node.block} proto 179",
            # Otherwise the default route would hide a missing route of BIRD, because the router knows the blocks.
            f"route add unreachable {POOL} proto static",
        )
        space.sysctl({"conf/all/forwarding": "1", "conf/all/accept_dad": "0", "conf/default/accept_dad": "0"}, "ipv6")
        space.ip(
            f"addr add {node.address6}/64 dev eth0 nodad",
            f"route add default via {node.router6}",
            f"link add vxlan-v6.calico address {node.vtep_mac} mtu 1430 type vxlan id 4096 dstport 4789 "
            f"local {node.address6} nolearning udp6zerocsumrx",
            "link set vxlan-v6.calico up",
            "addr add fe80::ecee:eeff:feee:eeee/64 dev cali1 nodad",
            f"route add {node.workload6} dev cali1 proto 179",
            f"route add blackhole {node.block6} proto 179",
            f"route add unreachable {POOL6} proto static",
        )
        space.sysctl(
            {
                "ip_forward": "1",
                **{f"conf/{device}/rp_filter": "2" for device in ("eth0", "vxlan.calico", "tunl0")},
                "neigh/cali1/proxy_delay": "0",
                "conf/cali1/proxy_arp": "1",
            }
        )
        pod.ip(
            f"addr add {node.workload}/32 dev eth0",
            "link set eth0 up",
            "route add 169.254.1.1 dev eth0 scope link",
            "route add default via 169.254.1.1 dev eth0",
            f"addr add {node.workload6}/128 dev eth0 nodad",
            "route add default via fe80::ecee:eeff:feee:eeee dev eth0",
        )
        return node

    def close(self) -> None:
        self._stack.close()
