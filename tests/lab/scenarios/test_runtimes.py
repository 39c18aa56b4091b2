# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All container runtimes side by side on Debian 12 and 13, under policy: packets between them, and random kills.

HOST_ROUTING_SEED repeats the moves of an earlier run of the storm, which prints its seed.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import random
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.lab.fleet import workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.checks import PROBE_INTERFACE
from tests.lab.measure.streams import Stream, Streams
from tests.lab.topology import LabError
from tests.long_form import LONG

from . import forging_containers as forging
from .conftest import LAB, Fleet, dual_stack_inventory, new_lab, start_docker

#: Debian 12 and 13, one in each subnet.
NODES = ("node1", "node4")
TEAMS = ("one", "two")
#: Starts, stops and kills of a storm, on both hosts together.
MOVES = 500 if LONG else 60
SEED = int(os.environ.get("HOST_ROUTING_SEED") or random.SystemRandom().randrange(1 << 32))
#: Seconds that a host has after the storm to be as if nothing had been.
SETTLED = 60
PPS = 100
#: A container that ends when its init does, and sleeps.
SLEEP = "/bin/sleep 100000"


@dataclass(frozen=True)
class Runtime:
    """A way to start a container: commands for sh, with {name} and {team} in place of the container's."""

    name: str
    nodes: tuple[str, ...]
    start: str
    inside: str
    remove: str


#: A container's workload has its name, or a name that begins with it and a dot.
RUNTIMES = (
    Runtime(
        "podman by CNI",
        ("node1",),
        f"id=$(podman run -d --name {{name}} --network calico --rootfs /srv/box {SLEEP})"
        " && calicoctl workload label calico.$id.eth0 team={team}",
        "podman exec {name}",
        "podman rm -f -t 0 {name}",
    ),
    Runtime(
        "podman by netavark",
        ("node4",),
        f"podman run -d --name {{name}} --network calico:team={{team}} --rootfs /srv/box {SLEEP}",
        "podman exec {name}",
        "podman rm -f -t 0 {name}",
    ),
    Runtime(
        "Docker",
        NODES,
        "docker run -d --name {name} --network"
        f" name=both,driver-opt=name={{name}},driver-opt=team={{team}} box {SLEEP}",
        "docker exec {name}",
        "docker rm -f {name}",
    ),
    Runtime(
        "containerd",
        NODES,
        f"ctr run -d --cni --snapshotter native --cpu-shares 0 docker.io/library/box:latest {{name}} {SLEEP}"
        " && calicoctl workload label calico.default-{name}.eth0 team={team}",
        "ctr task exec --exec-id ping {name}",
        "ctr task delete -f {name}; ctr container rm {name}; calicoctl workload delete calico.default-{name}.eth0",
    ),
    Runtime(
        "a unit of systemd",
        NODES,
        "unit=/run/systemd/system/calico-netns@{name}.service.d && mkdir -p $unit"
        " && echo '[Service]\nEnvironment=\"CALICO_OPTIONS=--label team={team}\"' > $unit/team.conf"
        " && systemctl daemon-reload && systemctl start calico-netns@{name}",
        "ip netns exec {name}",
        "systemctl stop calico-netns@{name}",
    ),
    Runtime(
        "calicoctl",
        NODES,
        "ip netns add {name} && calicoctl workload add {name} --netns {name} --label team={team}",
        "ip netns exec {name}",
        "calicoctl workload delete {name}; ip netns del {name}",
    ),
)
#: Pings all of its arguments at once with full-size packets, and prints those that answer.
PING_ALL = """
read mtu < /sys/class/net/eth0/mtu
for address in "$@"; do
    { ping -c 3 -W 1 -s $((mtu - 48)) $address > /dev/null 2>&1 && echo $address; } &
done
wait
"""
POLICIES = [
    *(
        {
            "kind": "GlobalNetworkPolicy",
            "name": team,
            "selector": f"team == '{team}'",
            "types": ["Ingress"],
            "ingress": [{"action": "Allow", "source": {"selector": f"team == '{team}'"}}],
        }
        for team in (*TEAMS, "steady")
    ),
    {"kind": "GlobalNetworkPolicy", "name": "shut", "selector": "team == 'shut'", "types": ["Ingress"], "ingress": []},
]
#: Workloads of the inventory, with streams between them while others come and go: {name: (node, team)}.
STEADY = {
    "steady-1": ("node1", "steady"),
    "steady-4": ("node4", "steady"),
    "shut-1": ("node1", "shut"),
    "shut-4": ("node4", "shut"),
}


#: Removes what runtimes themselves have left. podman, killed before it writes its container down, forgets the
#: namespace. dockerd 20.10, killed and restarted, removes a container and may keep its endpoint ("endpoint with name
#: docker-1 already exists in network both"), which goes by force once no container has the name.
FORGOTTEN = """
kept=$(podman ps -aq | xargs -r podman inspect -f '{{.NetworkSettings.SandboxKey}}')
for path in /run/netns/netns-*; do
    case "$kept" in *${path##*/}*) ;; *) [ ! -e $path ] || ip netns del ${path##*/} ;; esac
done
docker network inspect both -f '{{range $id, $end := .Containers}}{{$id}} {{$end.Name}}{{println}}{{end}}' |
while read -r id name; do
    [ -z "$name" ] || docker inspect $id || { docker rm -f $name; docker network disconnect -f both $name; }
done >/dev/null 2>&1
true
"""
#: Prints each address of a pool that two network namespaces with processes have at once, and at its end all addresses.
WATCH = """
import glob, json, os, signal, sys, time
LOCAL = ["/32", "host", "LOCAL"]
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
looks, twice, seen = 0, [], set()
while not ended:
    spaces, found = set(), {}
    for link in glob.glob("/proc/[0-9]*/ns/net"):
        try:
            space = os.readlink(link)
            if space in spaces:
                continue
            spaces.add(space)
            with open(link[:-6] + "net/fib_trie") as trie:
                lines = trie.read().split()
            with open(link[:-6] + "net/if_inet6") as table:
                lines += [word for line in table if line.startswith("fd0000100244") for word in (line[:32], *LOCAL)]
        except OSError:
            continue
        for address, *kind in zip(lines, lines[1:], lines[2:], lines[3:]):
            if kind == LOCAL and address.startswith(("10.244.", "fd0000100244")):
                found.setdefault(address, set()).add(space)
    twice += [[address, time.time()] for address, where in found.items() if len(where) > 1]
    seen.update(found)
    looks += 1
    time.sleep(0.05)
print(json.dumps({"looks": looks, "twice": twice[:20], "seen": sorted(seen)}))
"""


class Machine:
    """One host with podman and Docker."""

    def __init__(self, lab: BaseLab, name: str) -> None:
        self.lab, self.name = lab, name

    def run(self, command: str, check: bool = True, timeout: float = 120) -> str:
        """Return what a line for sh prints, its errors included; raise CommandFailed for a failure if `check`."""
        answer: str = self.lab.exec(self.name, f"{{ {command}\n}} 2>&1", check=check, timeout=timeout).stdout
        return answer

    def workloads(self) -> list[tuple[str, list[str]]]:
        """Return (name, addresses) of all workloads; raise CommandFailed if no agent answers.

        A name goes up to its first dot, and lacks containerd's namespace.
        """
        listed = json.loads(self.lab.exec(self.name, ["calicoctl", "workload", "list", "-o", "json"]).stdout)
        named = ((entry["name"].partition(".")[0], entry["addresses"]) for entry in listed["workloads"])
        return sorted((name.removeprefix("default-"), addresses) for name, addresses in named)

    def problem(self) -> str:
        """Return what is left of a storm, "" if workloads are those of the inventory and running containers alone.

        What runtimes have forgotten is removed first.
        """
        try:
            self.run(FORGOTTEN)
            found = [name for name, _ in self.workloads()]
            running = self.run("podman ps --format '{{.Names}}'; docker ps --format '{{.Names}}'").split()
            here = [name for name, (node, _) in STEADY.items() if node == self.name]
            expected = sorted([*here, *running])
            links = self.run("cd /sys/class/net; ls -d cali* tmp* 2>/dev/null || true").split()
            checked = self.run("calicoctl ipam check", check=False)
        except LabError as error:
            return str(error)
        if found != expected:
            return f"workloads {found}, containers {expected}"
        if len(links) != len(found) + 1 or PROBE_INTERFACE not in links:
            return f"devices {links}, workloads {found}"
        return "" if "found 0 problems" in checked else checked


def each(hosts: Sequence[Machine], work: Callable[[Machine], object]) -> None:
    """Do the same on all hosts at once; raise the first error."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(work, hosts))


def until(problem: Callable[[], str], what: str, seconds: float) -> None:
    """Wait until `problem` returns "" ; raise AssertionError with what it returned last after `seconds`."""
    deadline = time.monotonic() + seconds
    while found := problem():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s: {found}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-runtimes", NODES, docker=True, ipv6=True) as lab:
        each([Machine(lab, node) for node in NODES], start_runtimes)
        yield lab


def start_runtimes(host: Machine) -> None:
    """Start dockerd and containerd. The storm kills it more often than systemd restarts it by default."""
    for unit in ("docker", "containerd"):
        folder = f"/etc/systemd/system/{unit}.service.d"
        lines = r"[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=500ms\n"
        host.run(f"mkdir -p {folder} && printf '{lines}' > {folder}/storm.conf")
    host.run("mkdir -p /etc/docker && echo '{\"live-restore\": true}' > /etc/docker/daemon.json")
    host.run("systemctl daemon-reload")
    start_docker(host.lab, host.name)
    host.run("docker save box | ctr images import --snapshotter native -")


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = dual_stack_inventory(
        NODES,
        tmp_path_factory.mktemp("runtimes"),
        calico_policies=POLICIES,
        calico_workloads=[
            {"name": name, "node": node, "labels": {"team": team}} for name, (node, team) in STEADY.items()
        ],
        # Debian 12's podman has several networks; without `ipv6` netavark's would get one version alone.
        calico_node_podman_networks=[{"name": "calico", "ipv6": True}],
    )
    fleet = Fleet(lab, str(folder))
    fleet.site().check()
    return fleet


@pytest.fixture(scope="module")
def hosts(lab: BaseLab, fleet: Fleet) -> list[Machine]:
    """The hosts; each has Docker's network `both`, and agents that soon free what nothing uses."""
    found = [Machine(lab, node) for node in NODES]
    each(found, prepare)
    return found


def prepare(host: Machine) -> None:
    host.run("docker network create -d calico --ipam-driver calico --ipv6 both")
    settings = json.loads(host.run("cat /etc/calico/agent.json"))
    settings.update(leak_grace=10, cleanup_grace=5)
    host.run(f"echo {shlex.quote(json.dumps(settings))} > /etc/calico/agent.json; systemctl restart calico-agent")


@dataclass(frozen=True)
class Box:
    """A container of one runtime."""

    host: Machine
    name: str
    team: str
    runtime: Runtime
    addresses: tuple[str, ...]


@pytest.fixture
def boxes(hosts: list[Machine], fleet: Fleet) -> Iterator[list[Box]]:
    """A container of each team, runtime and host; both hosts know all of them."""
    found: list[Box] = []

    def start(host: Machine) -> None:
        made = [
            (f"{team}-{number}", team, runtime)
            for number, runtime in enumerate(RUNTIMES)
            for team in TEAMS
            if host.name in runtime.nodes
        ]
        for name, team, runtime in made:
            host.run(runtime.start.format(name=name, team=team))
        addresses = dict(host.workloads())
        found.extend(Box(host, name, team, runtime, tuple(addresses[name])) for name, team, runtime in made)

    each(hosts, start)
    fleet.play("sync_workloads.yml").check()
    yield found

    def remove_all(host: Machine) -> None:
        for box in found:
            if box.host is host:
                remove(box)

    each(hosts, remove_all)


def remove(box: Box) -> None:
    box.host.run(box.runtime.remove.format(name=box.name))


def test_packets_between_all_runtimes(boxes: list[Box]) -> None:
    """Each container reaches those of its team on both hosts by IPv4 and IPv6 with full-size packets, and no other."""
    assert {len(box.addresses) for box in boxes} == {2}, boxes
    every = [address for box in boxes for address in box.addresses]
    shell = shlex.join(["/bin/sh", "-c", PING_ALL, "sh", *every])

    def answering(box: Box) -> set[str]:
        return set(box.host.run(f"{box.runtime.inside.format(name=box.name)} {shell}").split())

    with concurrent.futures.ThreadPoolExecutor(len(boxes)) as threads:
        reached = dict(zip(boxes, threads.map(answering, boxes), strict=True))
    wrong = {}
    for box, found in reached.items():
        for other in boxes:
            expected = set(other.addresses) if other.team == box.team else set()
            if found & set(other.addresses) != expected and other is not box:
                pair = [f"{one.runtime.name} {one.host.name} {one.team}" for one in (box, other)]
                wrong[" > ".join(pair)] = sorted(found & set(other.addresses))
    assert wrong == {}


@pytest.fixture
def forgers(lab: BaseLab, hosts: list[Machine], fleet: Fleet) -> Iterator[list[forging.Box]]:
    """A container of team two for each engine and host that may forge packets, and one of team one on each host."""
    found: list[forging.Box] = []

    def start(host: Machine) -> None:
        made = [
            ("two", engine, f"forger-{number}")
            for number, engine in enumerate(forging.ENGINES)
            if host.name in engine.nodes
        ]
        made.append(("one", forging.ENGINES[-1], "victim"))
        for team, engine, name in made:
            host.run(engine.start.format(name=name, team=team))
        listed = json.loads(host.run("calicoctl workload list -o json"))["workloads"]
        links = {one["ifindex"]: one["ifname"] for one in json.loads(host.run("ip -j link"))}
        for _team, engine, name in made:
            pid = int(host.run(engine.pid.format(name=name)))
            [peer] = json.loads(host.run(f"nsenter -n -t {pid} ip -j link show eth0"))
            interface = links[peer["link_index"]]
            [addresses] = [tuple(one["addresses"]) for one in listed if one["interface"] == interface]
            found.append(forging.Box(host.name, name, engine, addresses, interface, pid))

    each(hosts, start)
    fleet.play("sync_workloads.yml").check()
    yield found
    each(hosts, remove_all)


def test_containers_send_and_claim_nothing_of_others(lab: BaseLab, forgers: list[forging.Box]) -> None:
    """A container's raw packets arrive only with its own source, whatever the engine lets it do, and it claims none.

    The containers have NET_RAW, which Docker gives to all, and NET_ADMIN. They forge addresses of containers of both
    hosts, of hosts, of the gateway, of the loopback and of others, tagged for VLAN 0 as well. Then they claim the
    addresses of others by ARP, neighbour discovery, and on their own interface.
    """
    receivers = forging.Receivers(lab)
    attackers = [box for box in forgers if box.name != "victim"]
    for box in forgers:
        receivers.start(box.node, box.label, box.pid)
    for node in NODES:
        receivers.start(node, node)
    expected: dict[str, set[str]] = {name: set() for name in (*(box.label for box in forgers), *NODES)}
    for box in attackers:
        others = [one for one in forgers if one is not box]
        box.claim(lab, [one for one in others if one.node == box.node])
        box.send(lab, [*forging.forged_frames(box, others)])
    for box in attackers:
        honest = [(other, forging.honest_frames(box, other)) for other in attackers if other is not box]
        box.send(lab, [frame for _other, frames in honest for frame in frames.values()])
        for other, frames in honest:
            expected[other.label] |= set(frames)

    def differing() -> str:
        found = receivers.seen()
        return str({name: sorted(found[name] ^ expected[name])[:8] for name in found if found[name] != expected[name]})

    deadline = time.monotonic() + SETTLED
    while any(expected[name] - found for name, found in receivers.seen().items()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert differing() == "{}"
    for box in attackers:
        neighbours = json.loads(lab.exec(box.node, f"ip -j neigh show dev {box.interface}").stdout or "[]")
        claimed = {one["dst"] for one in neighbours} & {one for other in forgers for one in other.addresses}
        assert claimed <= set(box.addresses), (box, neighbours)
    receivers.stop()


class Storm:
    """Random moves of one runtime on one host, one after the other, in a thread; `log` says what was done."""

    #: How a container is started, with {name}; podman's label and Docker's name are what tells their workloads apart.
    START = {
        "podman": f"podman run -d --name {{name}} --network calico --rootfs /srv/box {SLEEP}",
        "docker": f"docker run -d --name {{name}} --network name=both,driver-opt=name={{name}} box {SLEEP}",
    }
    REMOVE = {"podman": "podman rm -f -t 0 {name}", "docker": "docker rm -f {name}"}
    #: What may be killed, as a command that prints process ids. pgrep sees the processes of the host alone.
    VICTIMS = {
        "podman": {
            "podman": "pgrep -x podman",
            "netavark": "pgrep -x netavark",
            "plugin": "pgrep -x calico",
            "conmon": "pgrep -x conmon | shuf -n 1",
            "container": "pgrep -P $(pgrep -x conmon | shuf -n 1)",
            "agent": "systemctl show -P MainPID calico-agent",
        },
        "docker": {
            "dockerd": "systemctl show -P MainPID docker",
            "containerd": "systemctl show -P MainPID containerd",
            "shim": "pgrep -x containerd-shim | shuf -n 1",
            "container": "pgrep -P $(pgrep -x containerd-shim | shuf -n 1)",
            "driver": "systemctl show -P MainPID calico-docker",
            "agent": "systemctl show -P MainPID calico-agent",
        },
    }
    #: The seconds between the beginning of a command and the kill, at most.
    DELAY = 0.8
    #: The number of containers.
    NAMES = 3

    def __init__(self, host: Machine, runtime: str, moves: int) -> None:
        self.host, self.runtime, self.moves = host, runtime, moves
        self.log: list[str] = []
        self.done = 0
        self._chance = random.Random(f"{SEED} {host.name} {runtime}")

    def blow(self) -> None:
        """Make all moves, starts of all containers first; raise LabError for one without an end.

        A move may fail, since what was killed cannot answer.
        """
        for number in range(self.NAMES):
            self._move(self.START[self.runtime].format(name=f"{self.runtime}-{number}"), "", 0)
        for _ in range(self.moves - self.NAMES):
            name = f"{self.runtime}-{self._chance.randrange(self.NAMES)}"
            remove, start = (words[self.runtime].format(name=name) for words in (self.REMOVE, self.START))
            command = self._chance.choice(
                [
                    *[f"{remove} >/dev/null 2>&1; {start}"] * 4,
                    *(f"{self.runtime} {verb} {name}" for verb in ("stop -t 0", "start", "restart -t 0")),
                    remove,
                ]
            )
            victim = self._chance.choice(["", "", "", *self.VICTIMS[self.runtime]])
            delay = self._chance.uniform(0, self.DELAY)
            self._move(command, victim, delay)

    def _move(self, command: str, victim: str, delay: float) -> None:
        script = f"timeout 60 sh -c {shlex.quote(command)} & "
        if victim:
            # A kill that finds no such process tries again for a moment: a plugin lives for some milliseconds.
            script += (
                f"sleep {delay:.3f}; for try in 1 2 3 4 5 6 7 8 9 10; do "
                f"pids=$({self.VICTIMS[self.runtime][victim]} 2>/dev/null | grep -vx 0) && kill -9 $pids && break; "
                "sleep 0.02; done; "
            )
        began = time.monotonic()
        finished = self.host.lab.exec(self.host.name, f"{script} wait $!", check=False, timeout=90)
        self.done += finished.returncode == 0
        self.log.append(
            f"{time.strftime('%T')} {self.host.name}: {command.rpartition('; ')[2][:60]}; "
            + (f"kill -9 {victim} after {delay:.2f} s; " if victim else "")
            + f"{finished.returncode} after {time.monotonic() - began:.1f} s"
            + (f": {finished.stderr.strip()[-200:]}" if finished.returncode else "")
        )


def steady_streams(lab: BaseLab) -> tuple[list[Stream], list[Stream]]:
    """Return the streams that policy allows, and those that it denies, between the two hosts."""
    found = {entry.name: entry for entry in workloads(lab)}

    def stream(source: str, target: str) -> Stream:
        one, other = found[source], found[target]
        return Stream(one.node, one.name, other.node, other.name, other.address, 64, PPS)

    return (
        [stream("steady-1", "steady-4"), stream("steady-4", "steady-1")],
        [stream("steady-1", "shut-4"), stream("steady-4", "shut-1"), stream("steady-1", "shut-1")],
    )


def test_a_storm_of_starts_stops_and_kills(
    lab: BaseLab, hosts: list[Machine], record_property: Callable[[str, object], None]
) -> None:
    """Runtimes, shims, plugins, agents, drivers and containers are killed at random moments; nothing of it is left.

    Meanwhile no allowed packet of others is lost, no denied one passes, and no address is in two containers.
    """
    print(f"HOST_ROUTING_SEED={SEED}")
    storms = [Storm(host, runtime, MOVES // 4) for host in hosts for runtime in Storm.START]
    allowed, denied = steady_streams(lab)
    watches = {host.name: lab.background(host.name, ["python3", "-c", WATCH]) for host in hosts}
    began = time.monotonic()
    with Streams(lab, [*allowed, *denied]) as streams:
        with concurrent.futures.ThreadPoolExecutor(len(storms)) as threads:
            list(threads.map(Storm.blow, storms))
        took = time.monotonic() - began
        report = streams.stop()
    seen = {node: json.loads(watch.stop()) for node, watch in watches.items()}
    log = "\n".join(line for storm in storms for line in storm.log)
    record_property("storm", f"seed {SEED}, {took:.0f} s\n{log}\n{report.summary()}")
    print(log, f"{took:.0f} s", report.summary(), sep="\n")
    results = {result.stream: result for result in report.streams}
    assert not report.silent_hosts, report.summary()
    assert sum(results[one].lost for one in allowed) - report.buffer_drops <= 0, report.summary()
    assert {str(one): results[one].received for one in denied if results[one].received} == {}
    assert [entry["twice"] for entry in seen.values()] == [[], []]
    addresses = [set(entry["seen"]) for entry in seen.values()]
    assert all({":" in text or "." not in text for text in found} == {True, False} for found in addresses), seen
    assert not addresses[0] & addresses[1]
    assert all(entry["looks"] > took for entry in seen.values()), seen
    assert sum(storm.done for storm in storms) > MOVES / 3, log
    began = time.monotonic()
    for host in hosts:
        until(host.problem, f"seed {SEED}: {host.name} has settled", SETTLED)
    print(f"settled after {time.monotonic() - began:.0f} s")
    each(hosts, remove_all)
    for host in hosts:
        until(host.problem, f"seed {SEED}: {host.name} is empty", SETTLED)


def remove_all(host: Machine) -> None:
    host.run("podman rm -fa -t 0; docker ps -aq | xargs -r docker rm -f")
