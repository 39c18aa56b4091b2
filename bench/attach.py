#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload attached to an existing network namespace, compared with bare netlink calls and `ip -batch`.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. Beside 0, 10 and
1,000 other workloads it measures the following. In each round the first three take turns, each in a namespace that is
made before and deleted after:

  floor         the least that does the same work from Python: precomputed messages on open sockets, a veth pair with
                MAC and MTU born in the namespace, lo and eth0 up, address, two routes, sysctls, host end up, its route;
                no check, no mark, no error text
  attach        dataplane.planning.attach.attach: the same, and checked, marked, undone when refused
  ip -batch     three processes `ip -batch` (pair, inside, host end) and the sysctls written from here
  detach_links  50 pairs deleted at once, per pair, against `ip link del` of one; three rounds
  plan          plan_node when nothing is to be done, only beside the most workloads: whole, without the insides of
                namespaces, and each driver alone; nine rounds

Ratios are medians of the ratio within each round, so that a busy machine affects both sides. The plan has nothing to
be compared with: its figures are the best of all rounds. The exit status is 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import gc
import json
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plugins.module_utils.dataplane.kernel import linux  # noqa: E402
from plugins.module_utils.dataplane.kernel import rtnetlink as rt  # noqa: E402
from plugins.module_utils.dataplane.kernel.port import (  # noqa: E402
    InterfaceAddress,
    LinkChange,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from plugins.module_utils.dataplane.planning import attach  # noqa: E402
from plugins.module_utils.dataplane.planning.apply import apply_node  # noqa: E402
from plugins.module_utils.dataplane.planning.plan import NodePlan, plan_node  # noqa: E402
from plugins.module_utils.dataplane.planning.registry import REGISTRY  # noqa: E402
from plugins.module_utils.state.attachment import endpoint_routes, endpoint_sysctls  # noqa: E402
from plugins.module_utils.state.node_state import NodeState, Route, Sysctl, VethEndpoint  # noqa: E402

GOALS = {"attach": 3.0}  # the greatest ratio to the floor
#: The greatest times of `plan_node` in ms. They apply beside up to 1,000 workloads.
PLAN_GOALS = {"whole": 1000.0, "all but interiors": 1000.0, "route": 30.0, "sysctl": 40.0}
OWN = "10.10.1.11"
FOLDER = "/run/netns"
CLONE_NEWNET = 0x40000000
BATCH = 50


def endpoint(number: int, mac: t.Optional[str] = None) -> VethEndpoint:
    address = f"10.244.{number >> 8}.{number & 255}"
    return VethEndpoint(
        f"w{number}", f"cali{number}", address, 1450, "pool", netns=f"w{number}", netns_owned=False, mac=mac
    )


def state(endpoints: t.Sequence[VethEndpoint]) -> NodeState:
    return NodeState(
        node="node1",
        address=f"{OWN}/24",
        workloads=tuple(endpoints),
        routes=(Route("10.244.0.0/16", "blackhole"), *(r for found in endpoints for r in endpoint_routes(found))),
        sysctls=(Sysctl("net/ipv4/ip_forward", "1"), *(s for found in endpoints for s in endpoint_sysctls(found))),
    )


# ---- These functions attach a workload without dataplane.planning.attach. The benchmark compares the times of both.


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def message(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags | 1, 1, 0) + body


def ifinfo(index: int = 0, up: bool = False) -> bytes:
    return struct.pack("=BxHiII", 0, 0, index, int(up), int(up))


def route_body(bits: int, protocol: int, scope: int, *attributes: tuple[int, bytes]) -> bytes:
    body = struct.pack("=BBBBBBBBI", 2, bits, 0, 0, 254, protocol, scope, 1, 0)
    return body + b"".join(attribute(kind, data) for kind, data in attributes)


class Floor:
    """The fewest messages to the kernel that attach a workload, as a lower bound for what our code can reach.

    All numbers are known in advance except those of the new devices.

    `attach` raises OSError if the workload's namespace does not exist or a sysctl cannot be written, and AssertionError
    if the kernel refuses a message. What was done before stays.
    """

    def __init__(self) -> None:
        self.host = rt.open_socket()
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.room = memoryview(bytearray(65536))

    def close(self) -> None:
        self.host.close()
        os.close(self.home)

    def _acknowledged(self, netlink: socket.socket, data: bytes) -> None:
        netlink.send(data)
        while True:
            answer = self.room[: netlink.recv_into(self.room)]
            if struct.unpack_from("=H", answer, 4)[0] == 2:
                assert struct.unpack_from("=i", answer, 16)[0] == 0, os.strerror(
                    -struct.unpack_from("=i", answer, 16)[0]
                )
                return

    def attach(self, wanted: VethEndpoint) -> None:
        namespace = os.open(f"{FOLDER}/{wanted.netns}", os.O_RDONLY)
        mtu = attribute(4, struct.pack("=I", wanted.mtu))
        peer = ifinfo() + attribute(3, b"eth0\0") + mtu + attribute(28, struct.pack("=I", namespace))
        link = attribute(3, wanted.interface.encode() + b"\0") + mtu + attribute(1, b"\xee" * 6)
        info = attribute(18, attribute(1, b"veth\0") + attribute(2, attribute(1, peer)))
        self._acknowledged(self.host, message(16, 0x600 | 4, ifinfo() + link + info))
        index = socket.if_nametoindex(wanted.interface)

        self.libc.setns(namespace, CLONE_NEWNET)
        inner = rt.open_socket()
        inside = socket.if_nametoindex("eth0")
        self.libc.setns(self.home, CLONE_NEWNET)
        address, gateway = socket.inet_aton(wanted.address), socket.inet_aton("169.254.1.1")
        out = struct.pack("=I", inside)
        self._acknowledged(
            inner,
            message(16, 0, ifinfo(1, True))
            + message(16, 0, ifinfo(inside, True))
            + message(20, 0x600, struct.pack("=BBBBI", 2, 32, 0, 0, inside) + attribute(2, address))
            + message(24, 0x600, route_body(32, 3, 253, (1, gateway), (4, out)))
            + message(24, 0x600 | 4, route_body(0, 3, 0, (5, gateway), (4, out))),
        )
        inner.close()
        os.close(namespace)
        for setting in endpoint_sysctls(wanted):
            handle = os.open(f"/proc/sys/{setting.key}", os.O_WRONLY)
            os.write(handle, setting.value.encode())
            os.close(handle)
        route = route_body(32, 179, 253, (1, address), (4, struct.pack("=I", index)))
        self._acknowledged(self.host, message(16, 0, ifinfo(index, True)) + message(24, 0x600 | 4, route))


def by_iproute2(wanted: VethEndpoint) -> None:
    """Attach a workload with three processes of `ip -batch`, the least that a script needs, and sysctls written here.

    Its namespace must exist. Raise CalledProcessError if one of the processes fails, and OSError if a sysctl cannot be
    written.
    """
    host = (
        f"link add {wanted.interface} address ee:ee:ee:ee:ee:ee mtu {wanted.mtu} type veth"
        f" peer name eth0 mtu {wanted.mtu} netns {wanted.netns}\n"
    )
    inside = (
        f"link set lo up\nlink set eth0 up\naddress add {wanted.address}/32 dev eth0\n"
        "route add 169.254.1.1 dev eth0 scope link\nroute add default via 169.254.1.1 dev eth0\n"
    )
    up = f"link set {wanted.interface} up\nroute add {wanted.address}/32 dev {wanted.interface} proto 179 scope link\n"
    subprocess.run(["ip", "-batch", "-"], input=host, text=True, check=True)
    subprocess.run(["ip", "-n", wanted.netns, "-batch", "-"], input=inside, text=True, check=True)
    for setting in endpoint_sysctls(wanted):
        pathlib.Path(f"/proc/sys/{setting.key}").write_text(setting.value)
    subprocess.run(["ip", "-batch", "-"], input=up, text=True, check=True)


# ---- measurements, and the workloads beside which they are made


def timed(work: t.Callable[[], t.Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def underlay(kernel: linux.LinuxKernel) -> None:
    kernel.link_add(NewLink("eth0", "veth", peer_name="wire0"))
    kernel.write([LinkChange(name, up=True) for name in ("lo", "wire0", "eth0")])
    kernel.write(
        [
            InterfaceAddress("eth0", OWN, 24),
            RouteOperation("add", "0.0.0.0/0", RouteAttributes(device="eth0", gateway="10.10.1.1")),
        ]
    )


def attached(kernel: linux.LinuxKernel, number: int) -> VethEndpoint:
    wanted = endpoint(number)
    kernel.netns_add(wanted.netns, "")
    return dataclasses.replace(wanted, netns_identity=attach.attach(kernel, wanted).netns_identity)


def detached(kernel: linux.LinuxKernel, endpoints: t.Sequence[VethEndpoint]) -> None:
    for one in endpoints:
        attach.detach_route(kernel, one)
    assert attach.detach_links(kernel, endpoints) == {}
    for one in endpoints:
        kernel.netns_delete(one.netns)


def measure_attach(kernel: linux.LinuxKernel, present: int, rounds: int) -> dict[str, list[float]]:
    floor = Floor()
    ways: dict[str, t.Callable[[VethEndpoint], t.Any]] = {
        "floor": floor.attach,
        "attach": lambda wanted: attach.attach(kernel, wanted),
        "ip -batch": by_iproute2,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    number = present + 1
    for round_ in range(rounds):
        done = []
        # The order changes with each round, so that each way is the first now and then: that one may also pay for what
        # the kernel still has to do for namespaces that were deleted before.
        for turn in range(len(ways)):
            name = list(ways)[(round_ + turn) % len(ways)]
            number += 1
            wanted = endpoint(number)
            kernel.netns_add(wanted.netns, "")
            times[name].append(timed(lambda: ways[name](wanted)))  # noqa: B023
            kernel.write([LinkChange(wanted.interface, alias=f"calico: workload default/{wanted.name}")])
            done.append(wanted)
        detached(kernel, done)
    floor.close()
    return times


def measure_detach(kernel: linux.LinuxKernel, present: int, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"one": [], "many": []}
    for _round in range(rounds):
        endpoints = [attached(kernel, present + 1 + n) for n in range(BATCH + 1)]
        one, many = endpoints[0], endpoints[1:]
        times["one"].append(timed(lambda: subprocess.run(["ip", "link", "del", one.interface], check=True)))  # noqa: B023
        times["many"].append(timed(lambda: attach.detach_links(kernel, many)) / BATCH)  # noqa: B023
        detached(kernel, endpoints)
    return times


def measure_plan(kernel: linux.LinuxKernel, endpoints: t.Sequence[VethEndpoint], rounds: int) -> dict[str, float]:
    wanted = state(endpoints)
    apply_node(kernel, plan_node(kernel, wanted))
    questions: dict[str, t.Callable[[], NodePlan]] = {
        "whole": lambda: plan_node(kernel, wanted),
        "all but interiors": lambda: plan_node(kernel, wanted, interiors=False),
        **{
            kind: lambda kind=kind: plan_node(kernel, wanted, kinds=[kind], interiors=False)  # type: ignore[misc]
            for kind in REGISTRY.names
        },
    }
    times: dict[str, list[float]] = {name: [] for name in questions}
    for _round in range(rounds):
        for name, ask in questions.items():
            times[name].append(timed(lambda: _nothing(ask())))  # noqa: B023
    return {name: min(measured) * 1000 for name, measured in times.items()}


def _nothing(plan: NodePlan) -> None:
    assert not plan.changed, plan.lines()[:5]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--present", type=int, nargs="*", default=[0, 10, 1000])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/attach.py makes network namespaces: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        # When the process ends, the kernel removes its network and mount namespaces, and the tmpfs on /run/netns.
        script = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec "$0" "$@"'
        command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script, sys.executable]
        inside = {**os.environ, "CALICO_BENCH_INSIDE": "1"}
        return subprocess.run([*command, *sys.argv], env=inside, check=False).returncode
    kernel = linux.LinuxKernel()
    underlay(kernel)
    present: list[VethEndpoint] = []
    figures: dict[str, t.Any] = {}
    met = True
    for count in sorted(arguments.present):
        present += [attached(kernel, number) for number in range(len(present) + 1, count + 1)]
        times = measure_attach(kernel, count, arguments.rounds)
        rows = {}
        for name, measured in times.items():
            ratios = [own / least for own, least in zip(measured, times["floor"])]
            rows[name] = {"median_ms": statistics.median(measured) * 1000, "ratio": statistics.median(ratios)}
        removal = measure_detach(kernel, count, 3)
        rows["detach_links"] = {
            "median_ms": statistics.median(removal["many"]) * 1000,
            "ratio": statistics.median(many / one for many, one in zip(removal["many"], removal["one"])),
        }
        figures[str(count)] = rows
        met = met and all(rows[name]["ratio"] <= goal for name, goal in GOALS.items())
        if not arguments.json:
            print(f"beside {count} workloads, {arguments.rounds} interleaved rounds, medians")
            for name, row in rows.items():
                of = "one `ip link del`" if name == "detach_links" else "the bare netlink work"
                goal = (
                    f"goal {GOALS[name]:.1f}: {'met' if row['ratio'] <= GOALS[name] else 'MISSED'}"
                    if name in GOALS
                    else ""
                )
                print(f"  {name:<18} {row['median_ms']:8.3f} ms   {row['ratio']:5.2f} of {of}   {goal}".rstrip())
    plans = measure_plan(kernel, present, 9)
    figures["plan"] = plans
    if not arguments.json:
        print(f"plan_node beside {len(present)} workloads, nothing to do, best of 9; kinds without interiors")
    for name, milliseconds in plans.items():
        goal = PLAN_GOALS.get(name) if len(present) <= 1000 else None
        ok = goal is None or milliseconds <= goal
        if not arguments.json:
            shown = "" if goal is None else f"   goal {goal:.0f} ms: {'met' if ok else 'MISSED'}"
            print(f"  {name:<18} {milliseconds:8.1f} ms{shown}")
        met = met and ok
    if arguments.json:
        print(json.dumps({"rounds": arguments.rounds, "figures": figures, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
