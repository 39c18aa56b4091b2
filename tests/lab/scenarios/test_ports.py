# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports of real containers: podman of Debian 13, Docker of Debian 12 and 13, and a namespace of calicoctl."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.handle import BaseLab
from tests.lab.shell import wait_until
from tests.lab.topology import NODES as HOSTS

from .conftest import LAB, ROOT, Fleet, dual_stack_inventory, new_lab, set_variables, start_docker

#: Debian 12 and 13, one in each subnet.
NODES = ("node1", "node4")
ADDRESSES = {name: HOSTS[name].address for name in NODES}
IPV6 = {name: HOSTS[name].address6 for name in NODES}
SERVER = "/bin/sh -c 'while :; do echo open | nc -l -p 8000; done'"


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-ports", NODES, docker=True, ipv6=True) as lab:
        for node in NODES:
            start_docker(lab, node)
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = dual_stack_inventory(NODES, tmp_path_factory.mktemp("ports"))
    fleet = Fleet(lab, str(folder))
    fleet.site().check()
    for node in NODES:
        lab.exec(node, "docker network create -d calico --ipam-driver calico --ipv6 both")
    return fleet


@pytest.fixture(autouse=True)
def _empty(lab: BaseLab, fleet: Fleet) -> Iterator[None]:
    """Remove all containers after each test; nobody listens at their ports any more."""
    yield
    for node in NODES:
        lab.exec(node, "docker ps -aq | xargs -r docker rm -f >/dev/null; podman rm -f -a -t 0 >/dev/null")
        assert lab.exec(node, "ss -Hltn 'sport = :8080'").stdout == ""
        done = lab.exec(node, "calicoctl ipam check", check=False)
        assert "found 0 problems" in done.stdout, done.stdout


def opens(lab: BaseLab, node: str, address: str, port: int = 8080) -> bool:
    """Return whether a program of `node` gets an answer at a port of an address."""
    script = (
        "import socket,sys\n"
        "try:\n"
        "    one = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3)\n"
        "    one.settimeout(3); print(one.recv(10).decode())\n"
        "except OSError as error: print(type(error).__name__)\n"
    )
    answer: bool = lab.exec(node, ["python3", "-c", script, address, str(port)]).stdout.strip() == "open"
    return answer


def everybody_reaches(lab: BaseLab, node: str) -> None:
    """Check that clients on the other host and on `node` reach port 8080 of `node`, by IPv4 and IPv6."""
    (other,) = set(NODES) - {node}
    for client in (other, node):
        for address in (ADDRESSES[node], IPV6[node]):
            assert opens(lab, client, address), (client, address)
    for loopback in ("127.0.0.1", "::1"):
        assert opens(lab, node, loopback), loopback


def ports(lab: BaseLab, node: str) -> dict[str, list[int]]:
    """Return {name of a workload: ports of the host that lead to it}, as calicoctl lists them."""
    listed = json.loads(lab.exec(node, "calicoctl workload list -o json").stdout)["workloads"]
    return {one["name"]: [port["host_port"] for port in one["ports"]] for one in listed if one.get("ports")}


@pytest.mark.parametrize("node", NODES)
def test_docker_publishes(lab: BaseLab, fleet: Fleet, node: str) -> None:
    lab.exec(node, f"docker run -d --name web --network both -p 8080:8000 box {SERVER}")
    assert list(ports(lab, node).values()) == [[8080]]
    everybody_reaches(lab, node)
    done = lab.exec(node, f"docker run --name other --network both -p 8080:8000 box {SERVER}", check=False)
    assert re.search(r"port 8080/tcp of this host is taken by workload docker/[0-9a-f]{64}\.", done.stderr), done.stderr
    done = lab.exec(node, f"docker run --name ssh --network both -p 22:22 box {SERVER}", check=False)
    assert "port 22/tcp of this host cannot be published: it is a failsafe port" in done.stderr
    lab.exec(node, "docker restart -t 0 web")
    everybody_reaches(lab, node)


def test_podman_publishes(lab: BaseLab, fleet: Fleet) -> None:
    """The agent leaves the port for IPv4 to podman, also while the agent restarts."""
    node = "node4"
    lab.exec(node, f"podman run -d --name web --network calico -p 8080:8000 --rootfs /srv/box {SERVER}")
    assert list(ports(lab, node).values()) == [[8080]]
    everybody_reaches(lab, node)
    start = "podman run --network calico"
    done = lab.exec(node, f"{start} -p 8080:8000 --rootfs /srv/box {SERVER}", check=False)
    assert "address already in use" in done.stderr, done.stderr  # podman's own words: it binds the port first
    lab.exec(node, "systemctl restart calico-agent && podman network reload web")
    everybody_reaches(lab, node)
    lab.exec(node, "podman restart -t 0 web")
    everybody_reaches(lab, node)
    done = lab.exec(node, f"{start} -p 68:68/udp --rootfs /srv/box {SERVER}", check=False)
    assert "port 68/udp of this host cannot be published: it is a failsafe port" in done.stderr


#: Sends a request every 0.1 seconds to port 5353 of the addresses in its arguments, without a pause, and writes the
#: last answer from each address to a file named for it. A new file has a new answer.
TALKER = """
import os, select, socket, sys, time
folder, *addresses = sys.argv[1:]
talkers = {}
for address in addresses:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    talkers[socket.socket(family, socket.SOCK_DGRAM)] = address
while True:
    for talker, address in talkers.items():
        try: talker.sendto(b"who", (address, 5353))
        except OSError: pass
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        for talker in select.select(list(talkers), [], [], 0.02)[0]:
            try: answer = talker.recv(100).decode()
            except OSError: continue
            path = os.path.join(folder, talkers[talker])
            with open(path + ".new", "w") as file: file.write(answer)
            os.replace(path + ".new", path)
"""
ANSWERER = """
import socket, sys, threading
def serve(family, any):
    server = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6: server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind((any, 53))
    while True: server.sendto(sys.argv[1].encode(), server.recvfrom(100)[1])
threading.Thread(target=serve, args=(socket.AF_INET6, "::"), daemon=True).start()
serve(socket.AF_INET, "0.0.0.0")
"""


def _hears(lab: BaseLab, client: str, address: str, word: str) -> bool:
    answer: bool = lab.exec(client, ["cat", f"/tmp/heard/{address}"], check=False).stdout == word
    return answer


def test_udp_clients_that_never_pause_follow_each_runtime(lab: BaseLab, fleet: Fleet, tmp_path: Path) -> None:
    """The same clients, on the host and beside it, reach podman's container, Docker's, and calicoctl's workload."""
    node, other = "node4", "node1"
    for name, script in (("talker.py", TALKER), ("answerer.py", ANSWERER)):
        (tmp_path / name).write_text(script, "utf-8")
    lab.put(node, tmp_path / "answerer.py", "/tmp/answerer.py")
    clients = {other: (ADDRESSES[node], IPV6[node]), node: (ADDRESSES[node], IPV6[node], "127.0.0.1")}
    for client, addresses in clients.items():
        lab.put(client, tmp_path / "talker.py", "/tmp/talker.py")
        talk = f"systemd-run -q --collect -u talker python3 /tmp/talker.py /tmp/heard {' '.join(addresses)}"
        lab.exec(client, f"mkdir -p /tmp/heard && {talk}")
    publish = {
        "podman": "podman run -d --name udp --network calico -p 5353:53/udp --rootfs /srv/box /bin/sh -c 'sleep 600'",
        "docker": "docker run -d --name udp --network both -p 5353:53/udp box /bin/sh -c 'sleep 600'",
        "calicoctl": "calicoctl workload add udp --netns udp --publish 5353:53/udp",
    }
    inside = {
        "podman": "nsenter -t $(podman inspect -f '{{.State.Pid}}' udp) -n",
        "docker": "nsenter -t $(docker inspect -f '{{.State.Pid}}' udp) -n",
        "calicoctl": "ip netns exec udp",
    }
    end = {"podman": "podman rm -f -t 0 udp", "docker": "docker rm -f udp", "calicoctl": "calicoctl workload del udp"}
    try:
        for runtime, command in publish.items():
            lab.exec(node, command)
            lab.exec(node, f"systemd-run -q --collect -u answerer {inside[runtime]} python3 /tmp/answerer.py {runtime}")
            for client, addresses in clients.items():
                for address in addresses:
                    wait_until(
                        f"{client} hears {runtime} at {address}",
                        functools.partial(_hears, lab, client, address, runtime),
                        timeout=60,
                    )
            lab.exec(node, f"systemctl stop answerer; {end[runtime]}")
    finally:
        for client in clients:
            lab.exec(client, "systemctl stop talker answerer; rm -rf /tmp/heard", check=False)


def test_the_commands_of_the_page(lab: BaseLab, fleet: Fleet) -> None:
    page = (ROOT / "docs" / "how-to" / "ports.md").read_text("utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for command in block.splitlines():
        lab.exec("node4", command.replace("docker.io/library/nginx", f"--rootfs /srv/box {SERVER}"))
    assert sorted(port for some in ports(lab, "node4").values() for port in some) == [5353, 8080, 9000]
    wide = lab.exec("node4", "calicoctl workload list -o wide").stdout
    assert all(port in wide for port in ("9000:90/tcp", "5353:53/udp", "8080:80/tcp")), wide
    assert max(map(len, wide.splitlines())) <= 120, wide
    lab.exec("node4", "calicoctl workload del job")


def test_policy_sees_the_port_of_the_host_and_the_client(lab: BaseLab, fleet: Fleet, tmp_path: Path) -> None:
    """A preDNAT policy closes a port of the host; policy on the workload tells clients outside apart."""
    node, other = NODES
    folder = Path(fleet.inventory)
    only_other = [
        {
            "kind": "GlobalNetworkPolicy",
            "name": "web",
            "selector": "app == 'web'",
            "ingress": [{"action": "Allow", "source": {"nets": [f"{ADDRESSES[other]}/32"]}}],
        },
        {
            "kind": "GlobalNetworkPolicy",
            "name": "db",
            "selector": "app == 'db'",
            "ingress": [{"action": "Allow", "source": {"nets": [f"{ADDRESSES[node]}/32"]}}],
        },
    ]
    set_variables(folder, calico_policies=only_other)
    fleet.site().check()
    lab.exec(node, f"docker run -d --name web --network name=both,driver-opt=app=web -p 8080:8000 box {SERVER}")
    lab.exec(node, f"docker run -d --name db --network name=both,driver-opt=app=db -p 8081:8000 box {SERVER}")
    assert opens(lab, other, ADDRESSES[node]) and not opens(lab, other, ADDRESSES[node], 8081)
    assert opens(lab, node, "127.0.0.1", 8081)
    close = {
        "kind": "GlobalNetworkPolicy",
        "name": "close",
        "selector": "side == 'outside'",
        "preDNAT": True,
        "applyOnForward": True,
        "ingress": [{"action": "Deny", "protocol": "TCP", "destination": {"ports": [8080]}}],
    }
    host = {"kind": "HostEndpoint", "interfaceName": "eth0", "labels": {"side": "outside"}}
    hosts = {
        "kind": "GlobalNetworkPolicy",
        "name": "hosts",
        "selector": "side == 'outside'",
        "ingress": [{"action": "Allow"}],
        "egress": [{"action": "Allow"}],
    }
    set_variables(folder, calico_policies=[*only_other, close, hosts], calico_policies_calico_nodes=[host])
    fleet.site().check()
    assert not opens(lab, other, ADDRESSES[node])
    set_variables(folder, calico_policies=[], calico_policies_calico_nodes=[])
    fleet.site().check()
