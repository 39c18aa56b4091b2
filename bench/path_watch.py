#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the agent's watch over 300 paths: to 50 other nodes in six pools, at ten probes a second.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. The agent is the real
one: the engine from its bundle, a process in a network namespace that stands for a host. Another namespace has the
probe endpoints of the 50 others, three of IPv4 and three of IPv6 each. Its kernel answers full packets, and as many
probes a second come from there. An agent without a probe endpoint runs at the same time on another host. The cost of
the watch is the difference of both agents in processor time and in memory.
"""

from __future__ import annotations

import argparse
import ipaddress
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.path_sockets import (  # noqa: E402
    PathSockets,
    session,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch import payload, schedule  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (  # noqa: E402
    endpoint_sysctls,
    own_routes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_status  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import (  # noqa: E402
    PathStatus,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (  # noqa: E402
    PROBE_INTERFACE,
    PROBE_NETNS,
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Sysctl,
    VethEndpoint,
)

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine  # noqa: E402
from tests.integration.host_under_test import HOST  # noqa: E402

#: The greatest values: the share of a processor in percent, and memory in MiB.
GOALS = {"processor_percent": 1.0, "memory_mib": 2.0}
POOLS = range(6)
OTHERS = "others"
MTU = 1500


def is_ipv6(pool: int) -> bool:
    return pool % 2 == 1


def probe_address(pool: int, node: int) -> str:
    return f"fd00:{pool}:{node}::7" if is_ipv6(pool) else f"10.{100 + pool}.{node}.7"


def block(pool: int, node: int) -> str:
    return f"fd00:{pool}:{node}::/122" if is_ipv6(pool) else f"10.{100 + pool}.{node}.0/29"


def cidr(pool: int) -> str:
    return f"fd00:{pool}::/32" if is_ipv6(pool) else f"10.{100 + pool}.0.0/16"


def state(nodes: int) -> NodeState:
    """Return the state of the first of `nodes` nodes, which tries a path of each pool to each of the others."""
    own = {f"pool{pool}": probe_address(pool, 1) for pool in POOLS}
    first, first6, *further = own.values()
    endpoint = VethEndpoint(
        "probe",
        PROBE_INTERFACE,
        first,
        MTU,
        "pool0",
        namespace="calico-system",
        netns=PROBE_NETNS,
        address6=first6,
        pool6="pool1",
        further=tuple(further),
    )
    ipam = NodeIpam(1, tuple(Block(block(pool, 1), f"pool{pool}") for pool in POOLS), probes=own)
    return NodeState(
        node="node1",
        address="10.77.1.2/24",
        address6="fd77:1::2/64",
        pools=tuple(
            Pool(f"pool{pool}", cidr(pool), 122 if is_ipv6(pool) else 29, "None", workload_mtu=MTU) for pool in POOLS
        ),
        ipam=ipam,
        routes=own_routes(True, ipam, (endpoint,)),
        sysctls=(Sysctl("net/ipv4/ip_forward", "1"), *endpoint_sysctls(endpoint)),
        nodes=tuple(
            FleetMember(
                f"node{node}",
                f"10.77.{node}.2/24",
                64512,
                address6=f"fd77:{node}::2/64",
                probes=tuple(probe_address(pool, node) for pool in POOLS),
            )
            for node in range(1, nodes + 1)
        ),
        probe_endpoint=endpoint,
    )


def connect(daemon: Daemon, nodes: int) -> None:
    """Make the namespace of the other nodes' endpoints, and join it to the daemon's host."""
    others = daemon.netns(OTHERS)
    host = str(daemon.folder / "netns" / HOST)
    forwarding = "sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
    _run(host, f"{forwarding}; ip link delete eth0; ip link add eth0 type veth peer name to1 netns {others}")
    _run(host, "ip link set eth0 up; ip address add 10.77.1.2/24 dev eth0; ip address add fd77:1::2/64 dev eth0 nodad")
    _run(others, "ip link set to1 up; ip address add 10.77.1.1/24 dev to1; ip address add fd77:1::1/64 dev to1 nodad")
    # The host answers ARP requests for the endpoint's gateway only if it has a route to it.
    _run(host, "ip route add default via 10.77.1.1")
    for pool in POOLS:
        gateway, back = ("fd77:1::1", "fd77:1::2") if is_ipv6(pool) else ("10.77.1.1", "10.77.1.2")
        _run(host, f"ip route add {cidr(pool)} via {gateway}")
        _run(others, f"ip route add {block(pool, 1)} via {back}")
    addresses = "".join(
        f"address add {probe_address(pool, node)}{'/128 dev lo nodad' if is_ipv6(pool) else '/32 dev lo'}\n"
        for pool in POOLS
        for node in range(2, nodes + 1)
    )
    _run(others, "ip link set lo up; ip -batch -", addresses)


def _run(netns: str, command: str, given: str = "") -> None:
    subprocess.run(["nsenter", f"--net={netns}", "sh", "-ec", command], input=given, text=True, check=True)


class Others:
    """The other nodes' own probes: as many a second as the agent sends."""

    def __init__(self, daemon: Daemon, nodes: int) -> None:
        inside = daemon.kernel.inside(OTHERS)
        self._sockets: PathSockets = inside.in_namespace(lambda: PathSockets(b"ot", payload.MAGIC))
        self._session = session()
        self._paths = itertools.cycle([(pool, node) for node in range(2, nodes + 1) for pool in POOLS])
        self._number = 0

    def pass_seconds(self, seconds: int) -> None:
        end = time.monotonic()
        for dummy in range(seconds):
            end += 1.0
            self._sockets.receive()
            self._number += 1
            content = payload.encode(payload.Payload(self._session, self._number, time.monotonic()))
            for pool, node in itertools.islice(self._paths, schedule.PACKETS):
                to = ipaddress.ip_address(probe_address(pool, 1)).packed
                self._sockets.send(probe_address(pool, node), to, self._number, MTU, content)
            time.sleep(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        self._sockets.close()


class Used(t.NamedTuple):
    """What an agent uses: processor time in seconds so far, and resident memory in MiB."""

    seconds: float
    memory: float


def used(daemon: Daemon) -> Used:
    return Used(daemon.processor_seconds(), daemon.memory("VmRSS") / 1024)


def paths(daemon: Daemon) -> PathStatus:
    return path_status.decode(daemon.call("status")["paths"])


def measure(folder: pathlib.Path, nodes: int, seconds: int) -> dict[str, float]:
    """Return the figures of one run. Raise AssertionError if a path is not up at the end."""
    engine = install_engine(folder / "engine")
    for name in ("watching", "other"):
        (folder / name).mkdir()
    with (
        daemon_under_test(engine, folder / "watching", state(nodes)) as watching,
        daemon_under_test(engine, folder / "other", None) as other,
    ):
        connect(watching, nodes)
        watching.start()
        other.start()
        endpoints = Others(watching, nodes)
        try:
            # All paths are tried once before the measurement begins.
            endpoints.pass_seconds(int(schedule.ROUND) + 5)
            before = used(watching), used(other)
            began = time.monotonic()
            endpoints.pass_seconds(seconds)
            after = used(watching), used(other)
            passed = time.monotonic() - began
        finally:
            endpoints.close()
        found = paths(watching)
        count = (nodes - 1) * len(POOLS)
        assert sum(pool.up for pool in found.pools) == count, "\n".join(path_status.problems("node1", found))
        shares = [100 * (late.seconds - early.seconds) / passed for early, late in zip(before, after)]
        return {
            "paths": count,
            "seconds": passed,
            "agent_percent": shares[0],
            "idle_percent": shares[1],
            "processor_percent": shares[0] - shares[1],
            "agent_mib": after[0].memory,
            "idle_mib": after[1].memory,
            "memory_mib": after[0].memory - after[1].memory,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=51, help="of the fleet, the agent's own included; at most 250")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/path_watch.py makes network namespaces: run it as root.", file=sys.stderr)
        return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        # When the process ends, the kernel removes its network and mount namespaces.
        command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable]
        inside = {**os.environ, "CALICO_BENCH_INSIDE": "1"}
        return subprocess.run([*command, *sys.argv], env=inside, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="calico-bench-") as name:
        figures = measure(pathlib.Path(name), arguments.nodes, arguments.seconds)
    reached = {figure: figures[figure] <= goal for figure, goal in GOALS.items()}
    if arguments.json:
        print(json.dumps(figures))
    else:
        verdict = {name: f"goal {GOALS[name]:g}: {'met' if met else 'MISSED'}" for name, met in reached.items()}
        print(f"{figures['paths']:g} paths, all up, {figures['seconds']:.0f} seconds")
        for name, unit, agent in (("processor_percent", "%", "agent_percent"), ("memory_mib", "MiB", "agent_mib")):
            idle = figures[agent.replace("agent", "idle")]
            print(
                f"  the watch {figures[name]:6.2f} {unit:3}   {verdict[name]}"
                f"   (agent {figures[agent]:.2f}, one without paths {idle:.2f})"
            )
    return 0 if all(reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
