# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of Docker, as Debian 12 and 13 ship it, on two hosts in two subnets.

The commands of docs/how-to/docker.md run as they are. dockerd, the driver and the agent are killed and restarted, and a
host reboots and loses power. tests/integration/agent/test_docker_kills.py kills each of them at every step.
"""

from __future__ import annotations

import concurrent.futures
import functools
import ipaddress
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import PROBE_INTERFACE
from tests.long_form import LONG
from tests.pauses import pause

from .conftest import LAB, ROOT, Fleet, dual_stack_inventory, new_lab, set_variables, start_docker

PAGE = ROOT / "docs" / "how-to" / "docker.md"
#: Debian 12 and 13, one in each subnet.
NODES = ("node1", "node4")
#: The image and command in place of `nginx` in the commands of the page.
SLEEP = "box /bin/sleep 100000"
#: The same, but it ends when the host is shut down.
ENDS = "box /bin/sh -c 'trap exit TERM; sleep 100000 & wait'"
SHOP = "box /bin/sh -c 'while :; do echo open | nc -l -p 8080; done'"
POLICIES = [
    {
        "kind": "GlobalNetworkPolicy",
        "name": "db",
        "selector": "app == 'db'",
        "ingress": [{"action": "Allow", "source": {"selector": "app == 'web'"}}],
    },
    {
        "kind": "GlobalNetworkPolicy",
        "name": "by-containers-label",
        "selector": "example.org/app == 'db'",
        "ingress": [{"action": "Allow", "source": {"selector": "app == 'web'"}}],
    },
    {
        "kind": "GlobalNetworkPolicy",
        "name": "hosts",
        "selector": "side == 'outside'",
        "ingress": [{"action": "Allow"}],
        "egress": [{"action": "Allow"}],
    },
]


class Host:
    """One host with Docker."""

    def __init__(self, lab: BaseLab, name: str) -> None:
        self.lab, self.name = lab, name

    def run(self, command: str, check: bool = True) -> str:
        """Return what a line for sh prints, its errors included; raise CommandFailed for a failure if `check`."""
        done = self.lab.exec(self.name, f"{command} 2>&1", check=check, timeout=90)
        answer: str = done.stdout
        return answer

    def start(self, name: str, options: str = "--network pods", what: str = SLEEP) -> str:
        """Start a container and return its first address on the driver's networks."""
        self.run(f"docker run -d --name {name} {options} {what}")
        return self.address(name)

    def addresses(self, name: str) -> dict[str, list[str]]:
        """Return {network: addresses} of a container as Docker knows them."""
        (found,) = json.loads(self.run(f"docker inspect {name}"))
        return {
            network: [text for text in (entry["IPAddress"], entry["GlobalIPv6Address"]) if text]
            for network, entry in found["NetworkSettings"]["Networks"].items()
        }

    def address(self, name: str) -> str:
        return next(found[0] for network, found in self.addresses(name).items() if network != "bridge" and found)

    def reaches(self, name: str, address: str, size: int = 56) -> bool:
        """Return whether `address` answers one of two pings of this container."""
        words = f"docker exec {name} /bin/ping -c 1 -W 3 -s {size} {address}"
        return any("1 packets received" in self.run(words, check=False) for _ in range(2))

    def workloads(self) -> list[dict[str, Any]]:
        listed = json.loads(self.run("calicoctl workload list -o json"))["workloads"]
        return [entry for entry in listed if entry["by"] == "docker"]

    def remove_all(self) -> None:
        self.run("docker ps -aq | xargs -r docker rm -f >/dev/null; docker network prune -f >/dev/null")

    def restart_dockerd(self) -> None:
        """Start dockerd after a kill, however often it was killed before, and wait until it answers."""
        self.run("systemctl reset-failed docker.service docker.socket; systemctl start docker.socket docker.service")
        until(lambda: "CONTAINER" in self.run("docker ps", check=False), "dockerd is back")

    def is_clean(self) -> bool:
        """Return whether no container has left a workload, an address or a device, and the check finds nothing."""
        listed = self.run("calicoctl workload list -o json", check=False)
        if "workloads" not in listed:
            return False  # The agent starts.
        found = json.loads(listed)["workloads"]
        links = {entry["ifname"] for entry in json.loads(self.run("ip -j link")) if entry["ifname"].startswith("cali")}
        checked = self.run("calicoctl ipam check", check=False)
        docker = [entry for entry in found if entry["by"] == "docker"]
        expected = {PROBE_INTERFACE, *(entry["interface"] for entry in found)}
        return not docker and links == expected and "found 0 problems" in checked


def each(hosts: list[Host], work: Callable[[Host], object]) -> None:
    """Do the same on all hosts at once; raise the first error."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(work, hosts))


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-docker", NODES, docker=True, ipv6=True) as lab:
        for node in NODES:
            # dockerd drops forwarded packets before the node is one, because it turns forwarding on itself.
            lab.exec(node, "sysctl -qw net.ipv4.ip_forward=0")
            lab.exec(node, "mkdir -p /etc/docker && echo '{\"live-restore\": true}' > /etc/docker/daemon.json")
            start_docker(lab, node)
        yield lab


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dual_stack_inventory(NODES, tmp_path_factory.mktemp("docker"), calico_node_runtime_labels=["example.org/"])


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, inventory: Path) -> Fleet:
    fleet = Fleet(lab, str(inventory))
    fleet.site().check()
    return fleet


@pytest.fixture(scope="module")
def hosts(lab: BaseLab, fleet: Fleet) -> list[Host]:
    """The hosts. Each has the networks `pods`, `fixed` (with --subnet) and `both` (with IPv6)."""
    found = [Host(lab, node) for node in NODES]

    def prepare(host: Host) -> None:
        host.remove_all()
        networks(host)

    each(found, prepare)
    return found


def networks(host: Host) -> None:
    host.run("docker network create -d calico --ipam-driver calico pods")
    host.run("docker network create -d calico --ipam-driver calico --subnet 10.244.0.0/16 fixed")
    host.run("docker network create -d calico --ipam-driver calico --ipv6 both")


@pytest.fixture(autouse=True)
def _empty(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove all containers after each test; nothing of them may be left."""
    yield
    if "hosts" in request.fixturenames:
        each(request.getfixturevalue("hosts"), emptied)


def emptied(host: Host) -> None:
    host.run("docker ps -aq | xargs -r docker rm -f >/dev/null")
    until(host.is_clean, f"{host.name} is clean")


def until(condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"{what}: not within {seconds:g} s"
        pause(began, least=0.25)


def free_address(host: Host) -> str:
    """Return an address at the end of one of the host's IPv4 blocks, but not the last, the probe endpoint's."""
    blocks = [entry["cidr"] for entry in json.loads(host.run("calicoctl ipam show -o json"))["usage"]]
    return str(ipaddress.ip_network(next(cidr for cidr in blocks if ":" not in cidr))[-3])


def page_commands() -> list[str]:
    """Return the command lines of docs/how-to/docker.md, in their order."""
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [line.removeprefix("# ") for block in blocks for line in block.splitlines() if line.startswith("# ")]


def page_yaml(word: str) -> str:
    """Return the YAML block of docs/how-to/docker.md that has this word."""
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return next(block for block in blocks if word in block)


def test_the_commands_of_the_page(lab: BaseLab, fleet: Fleet) -> None:
    each([Host(lab, node) for node in NODES], follow_the_page)


def of_services(host: Host) -> list[dict[str, Any]]:
    """Return the workloads of the page's two services in its network `store`, by the labels that Compose gives them."""
    service = "com.docker.compose.service"
    found = [{"tier": "store", service: "front"}, {"tier": "store", service: "store"}]
    return [one for one in host.workloads() if one["labels"] in found]


def succeeds(host: Host, line: str) -> bool:
    return host.lab.exec(host.name, line, check=False, timeout=90).returncode == 0


def follow_the_page(host: Host) -> None:
    commands = page_commands()
    assert len(commands) > 10
    image, command = SLEEP.split(" ", 1)
    services = page_yaml("services:").replace("image: nginx", f"image: {image}\n    command: {command}")
    host.run(f"mkdir -p /root/shop && cat > /root/shop/compose.yaml << 'END'\n{services}END\n")
    # The command of Debian 12 is another program.
    compose = f"cd /root/shop && {'docker-compose' if host.name == NODES[0] else 'docker compose'}"
    for command in commands:
        line = command.replace("10.244.3.9", free_address(host)) if "10.244.3.9" in command else command
        line = re.sub(r"^docker compose", compose, line)
        if line.startswith("calicoctl "):
            # A container's name is known a moment after its start. A verdict of no is an answer, too.
            answered = f"{line}; [ $? -le {' explain ' in line:d} ]"
            until(functools.partial(succeeds, host, answered), line, seconds=10)
            continue
        said = host.run(re.sub(r" nginx$", f" {SHOP if ' -p ' in line else SLEEP}", line))
        if line.endswith(" ps"):
            until(lambda: len(of_services(host)) == 2, "names of Compose's services are labels", seconds=10)
            front, store = of_services(host)
            assert len(re.findall("front|store", said)) >= 2 and front["addresses"] != store["addresses"]
    found = {entry["name"].partition(".")[0]: entry for entry in host.workloads()}
    assert found["db"]["labels"] == {"app": "db", "tier": "back"}
    until(
        lambda: described(host, "api")["labels"] == {"example.org/app": "api"}, "the label of a container", seconds=10
    )
    (cache,) = (one for one in host.workloads() if one["labels"] == {"app": "cache", "tier": "back"})
    assert cache["mtu"] == 1300 and "1300" in host.run("docker exec cache cat /sys/class/net/eth0/mtu")
    assert [len(host.addresses(name)[network]) for name, network in (("web", "pods"), ("dual", "both"))] == [1, 2]
    assert host.addresses("www")["fixed"] == [free_address(host)]
    host.remove_all()
    until(host.is_clean, f"{host.name} is clean")
    # No container uses the networks, so that all of them are gone, and what the driver knows of them.
    assert host.run("docker network ls -q -f driver=calico; ls /var/lib/calico/docker") == ""


def test_containers_reach_each_other_across_subnets(hosts: list[Host], fleet: Fleet) -> None:
    """Containers of both hosts reach each other by IPv4 and IPv6 with full-size packets, although FORWARD drops."""
    for host in hosts:
        assert "-P FORWARD DROP" in host.run("iptables -S FORWARD")
        host.start("box", "--network both")
    for one, other in itertools.permutations(hosts, 2):
        mtu = int(one.run("docker exec box cat /sys/class/net/eth0/mtu"))
        for address in other.addresses("box")["both"]:
            assert one.reaches("box", address), (one.name, address)
            assert one.reaches("box", address, mtu - 28 - (20 if ":" in address else 0)), (one.name, address)
        for workload in json.loads(other.run("calicoctl workload list -o json"))["workloads"]:
            assert one.reaches("box", workload["addresses"][0])
        assert one.lab.exec(one.name, f"ping -c 3 -W 5 {other.address('box')}").returncode == 0
    for host in hosts:
        (workload,) = host.workloads()
        checked = host.lab.exec(host.name, ["calicoctl", "workload", "check", workload["id"]], check=False)
        assert checked.returncode == 0, checked.stdout
        assert host.run("calicoctl status -o json").find('"in_sync": true') > 0


def test_a_run_of_the_site_changes_nothing(hosts: list[Host], fleet: Fleet) -> None:
    hosts[0].start("box")
    run = fleet.site().check()
    run.unchanged(*NODES)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "docker run --rm -p 8000-8009:80 --network pods box /bin/ip a",
            "leaves the choice among several ports. Give one port of the host, or none for any that is free.",
        ),
        (
            "docker network create -d calico wrong",
            "remote: The driver calico needs its own IPAM driver,",
        ),
        (
            "docker run --rm --network fixed --ip 10.244.255.250 box /bin/ip a",
            "10.244.255.250 lies in none of this node's blocks",
        ),
        (
            "docker network create -d calico --ipam-driver calico --subnet 192.0.2.0/24 wrong",
            "remote: --subnet 192.0.2.0/24 lies in no IP pool (default-ipv4-ippool 10.244.0.0/16).",
        ),
        (
            "docker network create -d calico --ipam-driver calico -o mtuu=1400 wrong",
            "remote: The driver calico has no option -o 'mtuu'. Did you mean mtu?",
        ),
        (
            "docker run --rm --network name=pods,driver-opt=name=../x box /bin/ip a",
            "remote: driver-opt name='../x' is not a name:",
        ),
    ],
)
def test_a_refused_docker_command_names_its_reason(hosts: list[Host], command: str, words: str) -> None:
    for host in hosts:
        said = host.run(command, check=False)
        assert words in said, said


def test_an_address_of_ones_own(hosts: list[Host]) -> None:
    """--ip gives that address, also after a restart; another container cannot have it meanwhile."""

    def work(host: Host) -> None:
        address = free_address(host)
        options = f"--network fixed --ip {address} --mac-address 02:42:0a:00:00:09"
        assert host.start("mine", options) == address
        assert "02:42:0a:00:00:09" in host.run("docker exec mine ip link show eth0")
        said = host.run(f"docker run --rm --network fixed --ip {address} box /bin/ip a", check=False)
        assert "Address already in use" in said or "belongs to" in said, said
        host.run("docker restart -t 0 mine")
        assert host.address("mine") == address

    each(hosts, work)


def test_a_container_keeps_its_address_when_it_restarts(hosts: list[Host]) -> None:
    """So does one that is made anew, if no other container stopped meanwhile."""

    def work(host: Host) -> None:
        # Containers of earlier tests have released no address that was asked for by this network's pool.
        host.start("other", "--network fixed")
        address = host.start("box", "--network fixed")
        host.run("docker restart -t 0 box")
        assert host.address("box") == address
        host.run("docker rm -f box")
        assert host.start("box", "--network fixed") == address
        assert host.reaches("box", host.address("other"))

    each(hosts, work)


def test_two_networks_of_one_container(hosts: list[Host]) -> None:
    """Each address is reached from the other host; a network is connected and disconnected while the container runs."""
    one, other = hosts
    other.start("far")
    for host in hosts:
        host.start("box")
    one.run("docker network connect fixed box")
    both = {network: found[0] for network, found in one.addresses("box").items()}
    assert len(one.workloads()) == 2 and set(both) == {"pods", "fixed"}
    for address in both.values():
        until(functools.partial(lambda address: other.reaches("far", address), address), f"{address} is reached")
    one.run("docker network disconnect pods box")
    assert other.reaches("far", both["fixed"]) and not other.reaches("far", both["pods"])
    assert one.reaches("box", other.address("far"))
    one.run("docker network connect pods box")
    until(lambda: other.reaches("far", one.addresses("box")["pods"][0]), "the first network is reached again")
    one.run("docker restart -t 0 box")
    for found in one.addresses("box").values():
        until(functools.partial(lambda address: other.reaches("far", address), found[0]), f"{found[0]} is reached")


def test_networks_of_docker_beside_ours(hosts: list[Host]) -> None:
    """Whichever network has the default route, each address is reached, and workloads see the container's own."""
    one, other = hosts
    other.start("far", "--network both")
    four, six = other.addresses("far")["both"]
    one.run("docker network create zoo >/dev/null")
    try:
        # bridge takes the default route from pods; zoo leaves it to pods.
        for name, first, later in (
            ("joins-bridge", "pods", ["bridge"]),
            ("joins-ours", "bridge", ["pods", "both"]),
            ("last", "zoo", ["both", "fixed"]),
        ):
            one.run(f"docker run -d --name {name} --network {first} {SLEEP}")
            for network in later:
                one.run(f"docker network connect {network} {name}")
            ours = {net: found for net, found in one.addresses(name).items() if net not in ("bridge", "zoo")}
            for address in (address for found in ours.values() for address in found):
                until(
                    functools.partial(lambda address: other.reaches("far", address), address),
                    f"{name}: {address} is reached",
                )
            with one.lab.capturing(one.name, "udp port 4789") as seen:
                assert one.reaches(name, four)
            source = re.findall(rf"IP (\S+) > {re.escape(four)}: ICMP echo request", seen.text())[0]
            assert source in {found[0] for found in ours.values()}, (name, source)
            if any(len(found) == 2 for found in ours.values()):
                assert one.reaches(name, six)
            # The router is neither a workload nor a node.
            assert one.reaches(name, one.lab.nodes[0].gateway)
        one.run("docker network disconnect bridge joins-ours; docker network disconnect pods joins-ours")
        until(lambda: one.reaches("joins-ours", one.lab.nodes[0].gateway), "the last network has the default route")
    finally:
        one.run("docker ps -aq | xargs -r docker rm -f >/dev/null; docker network rm zoo")


def test_dockerd_is_killed(hosts: list[Host]) -> None:
    """With live-restore containers run on, and may be stopped after dockerd is back."""
    one, other = hosts
    other.start("far")
    address = one.start("box")
    one.run("systemctl kill -s KILL docker.service")
    assert other.reaches("far", address)
    one.restart_dockerd()
    assert other.reaches("far", address) and one.address("box") == address
    one.run("docker network connect fixed box; docker stop -t 0 box; docker start box")
    until(lambda: other.reaches("far", one.addresses("box")["pods"][0]), "it is reached again")


def test_a_container_ends_while_dockerd_is_down(hosts: list[Host]) -> None:
    (one, _other) = hosts
    one.start("box")
    pid = one.run("docker inspect -f '{{.State.Pid}}' box").strip()
    one.run(f"systemctl kill -s KILL docker.service; kill -9 {pid}")
    one.restart_dockerd()


KILLS = [150, 400] if not LONG else list(range(50, 650, 50))


@pytest.mark.parametrize("verb", ["run", "rm"])
def test_dockerd_is_killed_in_the_middle_of_it(hosts: list[Host], verb: str) -> None:
    """Wherever dockerd ends in a start or a stop, what it has forgotten is free soon after its next start."""

    def work(host: Host) -> None:
        for milliseconds in KILLS:
            name = f"{verb}{milliseconds}"
            start = f"docker run -d --name {name} --network pods {SLEEP}"
            if verb == "rm":
                host.run(start)
            command = start if verb == "run" else f"docker rm -f {name}"
            host.run(
                f"({command} >/dev/null 2>&1 &); sleep {milliseconds / 1000}; systemctl kill -s KILL docker.service",
                check=False,
            )
            host.restart_dockerd()
        host.start("after")

    each(hosts, work)


def test_agent_and_driver_restart_while_docker_calls(hosts: list[Host]) -> None:
    """The driver waits for the agent, and ends only between two requests."""

    def work(host: Host) -> None:
        restarts = host.lab.background(
            host.name,
            "for n in 1 2; do systemctl kill -s KILL calico-agent.service; sleep 1.5;"
            " systemctl restart calico-docker.service; sleep 0.5; done",
        )
        try:
            for number in range(3):
                host.start(f"box{number}")
                host.run(f"docker rm -f box{number}")
        finally:
            assert restarts.join(60)

    each(hosts, work)


def test_the_driver_is_killed(hosts: list[Host]) -> None:
    def work(host: Host) -> None:
        host.start("box")
        for command in ("docker rm -f box", "docker run -d --name box --network pods " + SLEEP):
            host.run("systemctl kill -s KILL calico-docker.service")
            host.run(command)

    each(hosts, work)


def test_a_pruned_network_can_be_created_again(hosts: list[Host]) -> None:
    def work(host: Host) -> None:
        assert "pods" in host.run("docker network prune -f")
        networks(host)
        host.start("box")

    each(hosts, work)


@pytest.mark.parametrize(
    ("way", "count"),
    [
        ("reboot", 10),
        pytest.param("reboot", 70, marks=pytest.mark.soak),
        pytest.param("power cut", 70, marks=pytest.mark.soak),
    ],
)
def test_a_host_comes_back(hosts: list[Host], lab: BaseLab, way: str, count: int) -> None:
    """All containers that restart always are there again, each attached, without live-restore.

    dockerd stops them before the driver and the agent end, and starts them all at once: no request of it is repeated.
    """
    host, other = hosts[::-1] if way == "reboot" else hosts
    host.run("echo '{}' > /etc/docker/daemon.json && systemctl restart docker.service")
    for number in range(count):
        host.run(f"docker run -d --name box{number} --restart always --network pods {ENDS}")
    other.start("far")
    if way == "reboot":
        lab.reboot(host.name)
    else:
        lab.power_cut(host.name)
        lab.start(host.name)
    until(lambda: host.run("docker ps -q | wc -l", check=False).strip() == str(count), "all containers run", 90)
    shown = host.run("systemctl show docker.service -p InactiveExitTimestampMonotonic -p ActiveEnterTimestampMonotonic")
    begun, ready = sorted(int(number) for number in re.findall(r"=(\d+)", shown))
    print(f"{count} containers run {(ready - begun) / 1e6:.0f} s after the start of dockerd")
    assert len(host.workloads()) == count
    until(lambda: "found 0 problems" in host.run("calicoctl ipam check", check=False), "the check finds nothing")
    log = host.run("journalctl -b -u docker.service")
    assert "Unable to connect to plugin" not in log and "failed to start container" not in log, log
    before = host.run(
        "journalctl -b -1 -u docker.service | grep -c 'Unable to connect to plugin\\|Force shutdown' || true"
    )
    assert way == "power cut" or before.strip() == "0", before
    for number in range(0, count, max(1, count // 10)):
        until(
            functools.partial(lambda n: other.reaches("far", host.address(f"box{n}")), number),
            f"box{number} is reached",
        )
    host.run("echo '{\"live-restore\": true}' > /etc/docker/daemon.json && systemctl reload docker.service")


def test_only_root_may_speak_to_the_driver(hosts: list[Host]) -> None:
    for host in hosts:
        said = host.run(
            "setpriv --reuid 65534 --regid 65534 --clear-groups nc -w 1 -U /run/docker/plugins/calico.sock < /dev/null",
            check=False,
        )
        assert "Permission denied" in said
        shown = host.run("systemctl show -p CapabilityBoundingSet -p User calico-docker.service")
        assert "CapabilityBoundingSet=\n" in shown


def described(host: Host, name: str) -> dict[str, Any]:
    """Return the workload of the container with this name, {} if none is known by it yet."""
    listed = json.loads(host.run("calicoctl workload list -o json"))["workloads"]
    return next((entry for entry in listed if entry.get("container_name") == name), {})


def milliseconds(host: Host, seconds: float) -> float:
    """Return the processor time of calico-runtimes.service in so many seconds, in milliseconds."""
    before = int(host.run("systemctl show -P CPUUsageNSec calico-runtimes"))
    time.sleep(seconds)
    return (int(host.run("systemctl show -P CPUUsageNSec calico-runtimes")) - before) / 1e6


def test_names_and_labels_of_containers_of_docker_and_podman(hosts: list[Host]) -> None:
    each(hosts, names_and_labels)


def names_and_labels(host: Host) -> None:
    host.run("systemctl unmask podman.socket podman.service && systemctl start podman.socket")
    labels = "--label example.org/app=shop --label other=x --label projectcalico.org/namespace=prod"
    own = "--label example.org/own=mine --label com.docker.compose.service=front"
    network = "--network name=pods,driver-opt=label.example.org/own=given"
    host.run(f"docker run -d --name shop {network} {labels} {own} {SLEEP}")
    expected = {"example.org/app": "shop", "example.org/own": "given", "com.docker.compose.service": "front"}
    began = time.monotonic()
    until(lambda: described(host, "shop").get("labels") == expected, "labels of Docker")
    print(f"{host.name}: labels within {time.monotonic() - began:.2f} s of the end of docker run")
    host.run(f"podman run -d --name pod --network calico {labels} {own} --rootfs /srv/box /bin/sleep 100000")
    taken = {**expected, "example.org/own": "mine"}
    began = time.monotonic()
    until(lambda: described(host, "pod").get("labels") == taken, "labels of podman")
    print(f"{host.name}: labels within {time.monotonic() - began:.2f} s of the end of podman run")
    host.run("calicoctl workload get pod && calicoctl workload check shop && calicoctl get wep shop")

    host.run("docker rename shop store")
    until(lambda: bool(described(host, "store")), "the new name")
    host.run("systemctl restart calico-agent")
    until(lambda: "store" in host.run("calicoctl workload list", check=False), "the agent is back")
    assert described(host, "store")["labels"] == expected
    time.sleep(2)  # the reports to the new agent
    spent = {"with": milliseconds(host, 5)}
    # It does not start a dockerd that was stopped, and finds one that was started.
    host.run("systemctl stop docker.service")
    spent["without"] = milliseconds(host, 5)
    memory = host.run("grep -h VmRSS /proc/$(systemctl show -P MainPID calico-runtimes)/status").split()[1]
    print(f"{host.name}: {spent} ms of the processor in 5 s with and without a dockerd, {memory} KiB resident")
    assert "inactive" in host.run("systemctl is-active docker.service", check=False)
    assert max(spent.values()) < 50
    host.run("systemctl start docker.service")
    host.run(f"docker run -d --name late --network pods {SLEEP}")
    until(lambda: bool(described(host, "late")), "a container of the next dockerd")

    # Inside its sandbox there is no socket of the agent's but its own.
    pid = host.run("systemctl show -P MainPID calico-runtimes").strip()
    inside = f"nsenter -t {pid} -m"
    assert host.run(f"{inside} ls -A /run/calico; {inside} ls /run/calico-runtimes").split() == [
        "agent-root.sock",
        "agent.sock",
    ]
    assert "CapEff:\t0000000000000000" in host.run(f"cat /proc/{pid}/status")
    log = host.run("journalctl -q --no-pager -o cat -u calico-runtimes _COMM=python3")
    assert "Traceback" not in log and len(log.splitlines()) < 10, log
    host.run("podman rm -f -t 0 pod && systemctl stop podman.socket podman.service")


def test_policy_by_label_and_a_published_port(hosts: list[Host], fleet: Fleet, inventory: Path) -> None:
    """Policy selects containers by driver-opts, and closes a port that Docker's bridge publishes."""
    one, other = hosts
    database = one.start("db", "--network name=pods,driver-opt=app=db")
    one.run(f"docker run -d --name shop -p 8080:8080 {SHOP}")
    one.run("docker network connect pods shop")
    other.start("web", "--network name=pods,driver-opt=app=web")
    other.start("guest")
    port = f"timeout 3 nc -w 2 {one.lab.nodes[0].address} 8080 < /dev/null || true"
    assert "open" in other.run(port) and other.reaches("guest", database) and other.reaches("web", database)

    shown = yaml.safe_load(page_yaml("calico_policies:"))
    endpoints = shown["calico_policies_calico_nodes"]
    policies = [*POLICIES, *shown["calico_policies"]]
    set_variables(inventory, calico_policies=policies, calico_policies_calico_nodes=endpoints)
    fleet.site("-ecalico_node_confirm_timeout=0").check()
    fleet.play("sync_workloads.yml").check()  # Each node learns the labels of the other's containers.
    assert other.reaches("web", database) and not other.reaches("guest", database)
    assert "open" not in other.run(port)
    # A container that comes later is under policy at once.
    later = one.start("later", "--network name=pods,driver-opt=app=db")
    assert other.reaches("web", later) and not other.reaches("guest", later)
    own = one.start("own", "--network pods --label example.org/app=db")
    until(lambda: not other.reaches("guest", own), "a label of a container counts")
    assert other.reaches("web", own)

    # The port was closed by that policy alone.
    set_variables(inventory, calico_policies=POLICIES)
    fleet.site("-ecalico_node_confirm_timeout=0").check()
    assert "open" in other.run(port) and not other.reaches("guest", database)


def test_a_teardown_leaves_docker_no_network(lab: BaseLab, fleet: Fleet) -> None:
    """A teardown names running containers and changes nothing; with force it removes their networks in seconds.

    Afterwards Docker asks for no plugin that is gone: its containers are removed at once, and others start.
    """
    host, other = (Host(lab, name) for name in NODES)
    host.run("docker network create -d calico --ipam-driver calico torn")
    for number in range(5):
        host.start(f"torn{number}", "--network torn")
    host.start("stopped", "--network torn")
    host.run("docker stop -t 0 stopped")
    refused = fleet.play("teardown.yml", "-econfirm=true")
    said = " ".join(refused.output.split())
    assert refused.code == 2 and "5 containers run in networks of this node, which would go: torn" in said, (
        refused.output
    )
    assert (
        "torn3 (Docker, network torn)" in said
        and "stopped" not in said.partition("which would go")[2].partition(".")[0]
    )
    assert {entry["changed"] for entry in refused.recap().values()} == {0}
    assert "torn" in host.run("docker network ls") and len(host.workloads()) == 5
    run = fleet.play("teardown.yml", "-econfirm=true", "-eforce=true").check()
    print(f"the teardown took {run.seconds:.1f} s")
    began = time.monotonic()
    for one in (host, other):
        one.run("docker ps -aq | xargs -r docker rm -f >/dev/null")
        assert one.run("docker network ls -q -f driver=calico") == ""
        assert "calico" not in one.run("ls /run/docker/plugins", check=False)
    assert time.monotonic() - began < 60
    assert "network torn not found" in host.run(f"docker run --rm --network torn {SLEEP}", check=False)
    host.run(f"docker run -d --name plain {SLEEP} && docker rm -f plain")
