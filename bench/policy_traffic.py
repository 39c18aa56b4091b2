#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of policy for packets between two workloads, on a node with 1,000 endpoints and 500 policies of 60 rules.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. Three nodes stand
side by side and are measured in turn, each with a pair of workloads attached as the agent does it:

  bare          forwards; no iptables, no conntrack
  natOutgoing   what the collection programs without policy: NAT for the pool, and so conntrack
  policy        the same and policy, with every check that a packet between workloads can meet

What is measured between the two, each for a moment, client and server on a processor each, and then on the same one:

  throughput    bytes of one TCP connection
  round trip    turns of one byte on one TCP connection, there and back
  packets       UDP datagrams of 64 bytes that arrived, in one flow; a batch of 100 is sent when the last was answered
  connections   TCP connections opened and closed, one after the other: the first packet of each meets all the rules
                of the policies that apply to the pair

On one processor, the time that a packet costs on its way is missing at its ends, and no other processor is woken up:
that is the most that policy can cost. The other 998 endpoints have routes, and members in the sets and chains. They
have no links, which no packet here would pass. Ratios are medians of those within each round. Goals are of policy
against natOutgoing, for throughput and round trip with a processor each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import socket
import statistics
import struct
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (  # noqa: E402
    InterfaceAddress,
    LinkChange,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import with_policy  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState  # noqa: E402

from tests.unit.fleet.fleets import build, pool, states  # noqa: E402

GOAL = 0.90
GOALS = ("throughput", "round trip")
MEASURES = ("throughput", "round trip", "packets", "connections")
APART, TOGETHER = "on two processors", "on one"
KINDS = ("bare", "natOutgoing", "policy")
OWN = "10.10.1.11"
APPS, POLICIES, RULES = 100, 500, 30
PORT = 5432
PORTS = {APART: PORT, TOGETHER: PORT + 1}  # ports of the servers
SERVER, CLIENT = "bench-server", "bench-client"

Resource = dict[str, t.Any]


def policy(number: int) -> Resource:
    """Return a policy whose rules select workloads by label, each with a port, and never match the pair's packets.

    `number` determines its name, the workloads that it is for, and the random labels in its rules.
    """
    chance = random.Random(number)

    def rules(peer: str) -> list[Resource]:
        found = []
        for port in range(1000, 1000 + RULES):
            other = {"selector": f"app == 'a{chance.randrange(APPS):03}'"}
            ports = {"ports": [port]}
            mine = {"source": other, "destination": ports} if peer == "source" else {"destination": {**other, **ports}}
            found.append({"action": "Allow", "protocol": "TCP", **mine})
        return found

    return {
        "kind": "GlobalNetworkPolicy",
        "name": f"p{number:03}",
        "selector": f"app == 'a{number % APPS:03}'",
        "types": ["Ingress", "Egress"],
        "ingress": rules("source"),
        "egress": rules("destination"),
    }


#: The pair's policy. By its name, which counts where no policy has an order, it is evaluated after all others, so that
#: the first packet of each connection meets all the rules that apply to the pair.
PAIR = {
    "kind": "GlobalNetworkPolicy",
    "name": "pair",
    "selector": "has(pair)",
    "types": ["Ingress", "Egress"],
    "ingress": [{"action": "Allow", "source": {"selector": "has(pair)"}}],
    "egress": [{"action": "Allow", "destination": {"selector": "has(pair)"}}],
}


def state_of(kind: str, endpoints: int) -> NodeState:
    """Return the state of node1, the only node of a fleet with `endpoints` workloads; two of them are the pair.

    `kind` is one of KINDS: "bare" has no NAT, and only "policy" has policies. Raise IndexError for fewer than two
    endpoints.
    """
    workloads = [
        {"name": f"w{number}", "node": "node1", "labels": {"app": f"a{number % APPS:03}"}}
        for number in range(endpoints)
    ]
    for number, name in enumerate((SERVER, CLIENT)):
        workloads[number] = {"name": name, "node": "node1", "labels": {"app": f"a00{number}", "pair": "yes"}}
    fleet = build(
        pool("direct", natOutgoing=kind != "bare", blockSize=20),
        nodes={"node1": f"{OWN}/24"},
        workloads=workloads,
        policies=[PAIR, *map(policy, range(POLICIES))] if kind == "policy" else [],
    )
    return with_policy(states(fleet)["node1"])


# ---- the two ends of the pair: measurements by the client, and the server


def throughput(connection: socket.socket, seconds: float) -> float:
    """Send for `seconds`, and return the bytes per second that the other end read from its socket.

    It sends whole blocks of 4 MiB, and the time until the other end says how many bytes it read counts as well. Nothing
    can be sent afterwards. Raise EOFError if the other end does not say so, and OSError if the connection breaks.
    """
    handle = os.memfd_create("pages")
    size = 4 << 20
    os.ftruncate(handle, size)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        offset = 0
        while offset < size:
            offset += os.sendfile(connection.fileno(), handle, offset, size - offset)
    connection.shutdown(socket.SHUT_WR)
    (taken,) = struct.unpack("!Q", _exactly(connection, 8))
    os.close(handle)
    return taken / (time.perf_counter() - began)


def round_trips(connection: socket.socket, seconds: float) -> float:
    count, began, now = 0, time.perf_counter(), 0.0
    while now < seconds:
        for _turn in range(50):
            connection.send(b"?")
            connection.recv(1)
        count += 50
        now = time.perf_counter() - began
    return count / now


def connections(address: tuple[str, int], seconds: float) -> float:
    count, began, now = 0, time.perf_counter(), 0.0
    while now < seconds:
        with socket.create_connection(address, 5) as made:
            # Closed with a reset, so that no port stays in TIME_WAIT.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.send(b"c")
            made.recv(1)
        count += 1
        now = time.perf_counter() - began
    return count / now


def packets(address: tuple[str, int], seconds: float) -> float:
    """Send for `seconds`, and return the datagrams per second that arrived.

    Each batch of 100 waits for the server's answer, so that no buffer overflows. Raise TimeoutError if it does not come
    within 5 seconds, as when the batch's last datagram is lost, and ConnectionRefusedError if nobody listens.
    """
    count, began, now = 0, time.perf_counter(), 0.0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(5)
        made.connect(address)
        while now < seconds:
            for _one in range(99):
                made.send(b"." * 36)
            made.send(b"!" * 36)
            count += int.from_bytes(made.recv(8), "big")
            now = time.perf_counter() - began
    return count / now


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def serve(port: int) -> t.NoReturn:
    """Serve one client at a time, forever; the first byte of a connection selects the measurement.

    After "t" all further bytes are read, and their number is sent back (8 bytes, big-endian). Otherwise each byte is
    sent back, the first one as well. A connection that fails ends alone. A forked process answers datagrams at the same
    port. Raise OSError if the TCP port is in use.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("0.0.0.0", port))
    listening.listen(128)
    if os.fork() == 0:
        datagrams(port)
    while True:
        connection, _peer = listening.accept()
        with connection, contextlib.suppress(OSError, EOFError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            word = connection.recv(1)
            if word == b"t":
                taken, room = 0, bytearray(1 << 20)
                while size := connection.recv_into(room, len(room), socket.MSG_TRUNC):
                    taken += size
                connection.send(struct.pack("!Q", taken))
            elif word:
                while word:
                    connection.send(word)
                    word = connection.recv(1)


def datagrams(port: int) -> t.NoReturn:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("0.0.0.0", port))
        count = 0
        while True:
            data, peer = made.recvfrom(100)
            count += 1
            if data[:1] == b"!":
                made.sendto(count.to_bytes(8, "big"), peer)
                count = 0


def measure(what: str, address: tuple[str, int], seconds: float) -> float:
    if what == "connections":
        return connections(address, seconds)
    if what == "packets":
        return packets(address, seconds)
    with socket.create_connection(address, 5) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.send(b"t" if what == "throughput" else b"r")
        if what == "throughput":
            return throughput(connection, seconds)
        connection.recv(1)
        return round_trips(connection, seconds)


# ---- a node with the pair, in namespaces of its own


def stand(kind: str, endpoints: int) -> str:
    """Set a node of this kind up in this network namespace; return the server's IPv4 address.

    `kind` is one of KINDS; iptables and ipsets are written for all but "bare". Raise KernelError, AttachError or
    ApplyError if the kernel refuses a part, and IndexError for fewer than two `endpoints`.
    """
    kernel = LinuxKernel()
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    kernel.link_add(NewLink("eth0", "veth", peer_name="wire0"))
    kernel.write([LinkChange(name, up=True) for name in ("lo", "wire0", "eth0")])
    kernel.write(
        [
            InterfaceAddress("eth0", OWN, 24),
            RouteOperation("add", "0.0.0.0/0", RouteAttributes(device="eth0", gateway="10.10.1.1")),
        ]
    )
    state = state_of(kind, endpoints)
    pair = [next(one for one in state.workloads if one.name == name) for name in (SERVER, CLIENT)]
    for one in pair:
        kernel.netns_add(one.netns, "")
        attach.attach(kernel, one)
    kernel.write(
        [
            RouteOperation("add", f"{one.address}/32", RouteAttributes(device="eth0"))
            for one in state.workloads
            if one not in pair
        ]
    )
    if kind != "bare":
        apply_node(kernel, plan_node(kernel, state, kinds=["ipset", "iptables"]))
    kernel.close()
    return pair[0].address


def go_first() -> None:
    """Give this process priority above all others, as far as it may; what the kernel refuses is left out."""
    with contextlib.suppress(OSError):
        os.nice(-20)
    # Where the kernel first shares processors between sessions (sched(7), autogroup), raise the session's priority,
    # too.
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/autogroup").write_text("-20")


def enter(netns: str) -> None:
    handle = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    if _setns(handle) != 0:
        raise OSError(f"{netns} cannot be entered")
    os.close(handle)


def _setns(handle: int) -> int:
    import ctypes

    return ctypes.CDLL(None, use_errno=True).setns(handle, 0x40000000)


def inside(kind: str, endpoints: int, seconds: float) -> int:
    """Run one node: print "ready", then carry out the measurements that stdin names, and print the rate of each.

    A line of stdin is JSON: [a key of PORTS, one of MEASURES]. Rates are per second. Return 0 when stdin ends. `kind`
    is one of KINDS, `seconds` the length of each measurement. Raise the errors of `stand` if the node cannot be set up,
    and OSError or EOFError if a measurement fails.
    """
    address = stand(kind, endpoints)
    processors = sorted(os.sched_getaffinity(0))
    go_first()
    for place, port in PORTS.items():
        if os.fork() == 0:
            os.sched_setaffinity(0, {processors[0 if place == APART else -1]})
            enter(SERVER)
            serve(port)
    os.sched_setaffinity(0, {processors[-1]})
    enter(CLIENT)
    print("ready", flush=True)
    for line in sys.stdin:
        place, what = json.loads(line)
        print(measure(what, (address, PORTS[place]), seconds), flush=True)
    return 0


def start(kind: str, options: t.Sequence[str]) -> subprocess.Popen[str]:
    """Start a node in namespaces of its own: network, mounts (for /run/netns) and processes.

    `options` are further words of its command line. Return the process, whose stdin and stdout are pipes of text. The
    servers end with the process namespace.
    """
    script = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec "$0" "$@"'
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    words = [*command, "sh", "-c", script, sys.executable, __file__, "--inside", kind, *options]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(child: subprocess.Popen[str], place: str, what: str) -> float:
    assert child.stdin and child.stdout
    child.stdin.write(json.dumps([place, what]) + "\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each measurement")
    parser.add_argument("--endpoints", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--inside", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return inside(arguments.inside, arguments.endpoints, arguments.seconds)
    if os.geteuid() != 0:
        print("bench/policy_traffic.py makes network namespaces: run it as root.", file=sys.stderr)
        return 2
    options = ["--endpoints", str(arguments.endpoints), "--seconds", str(arguments.seconds)]
    children = {kind: start(kind, options) for kind in KINDS}
    try:
        for kind, child in children.items():
            assert child.stdout
            if child.stdout.readline() != "ready\n":
                raise SystemExit(f"the node {kind} did not come about")
        rounds: list[dict[str, dict[str, float]]] = []
        for number in range(arguments.rounds):
            found: dict[str, dict[str, float]] = {}
            # The order changes, since the machine's load changes from one moment to the next.
            order = [KINDS[(number + turn) % len(KINDS)] for turn in range(len(KINDS))]
            for place in PORTS:
                for what in MEASURES:
                    found[f"{what} {place}"] = {kind: ask(children[kind], place, what) for kind in order}
            rounds.append(found)
    finally:
        for child in children.values():
            child.kill()
            child.wait()
    return report(rounds, arguments)


def report(rounds: t.Sequence[t.Mapping[str, t.Mapping[str, float]]], arguments: argparse.Namespace) -> int:
    def ratio(what: str, kind: str, base: str) -> float:
        return statistics.median(one[what][kind] / one[what][base] for one in rounds)

    names = list(rounds[0])
    goals = [f"{what} {APART}" for what in GOALS]
    ratios = {
        what: {
            "natOutgoing": ratio(what, "policy", "natOutgoing"),
            "bare": ratio(what, "policy", "bare"),
            "natOutgoing of bare": ratio(what, "natOutgoing", "bare"),
        }
        for what in names
    }
    met = all(ratios[what]["natOutgoing"] >= GOAL for what in goals)
    if arguments.json:
        print(json.dumps({"rounds": rounds, "ratios": ratios, "met": met}))
        return 0 if met else 1
    print(f"{arguments.endpoints} endpoints, {arguments.rounds} rounds in turn, medians; policy of the others:")
    for what, row in ratios.items():
        rate = statistics.median(one[what]["policy"] for one in rounds)
        shown = f"{rate / 1e9 * 8:8.2f} Gbit/s" if "throughput" in what else f"{rate:8.0f} a second"
        goal = f"   goal {GOAL}: {'met' if row['natOutgoing'] >= GOAL else 'MISSED'}" if what in goals else ""
        print(
            f"  {what:<29}{shown}   {row['natOutgoing']:.3f} of natOutgoing, {row['bare']:.3f} of bare forwarding"
            f" ({row['natOutgoing of bare']:.3f} without policy){goal}"
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
