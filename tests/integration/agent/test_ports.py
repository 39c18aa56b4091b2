# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports with packets: clients outside, on the host by each of its addresses, and the workload itself."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import published_port
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, Pool
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.host_under_test import HOST
from tests.unit.agent.node_under_test import STATE

# Answers each request by TCP and UDP, IPv4 and IPv6, with the address that it came from.
SERVER = """
import socket, sys, threading
port = int(sys.argv[1])
def tcp():
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    while True:
        client, peer = server.accept()
        client.sendall(peer[0].replace("::ffff:", "").encode())
        client.close()
def udp(family, any):
    server = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6: server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind((any, port))
    while True:
        data, peer = server.recvfrom(100)
        server.sendto(peer[0].encode(), peer)
for family, any in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    threading.Thread(target=udp, args=(family, any), daemon=True).start()
tcp()
"""
CLIENT = """
import socket, sys
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
client = socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
client.settimeout(2)
try:
    client.connect((address, port))
    if kind == "udp": client.send(b"who")
    print(client.recv(100).decode())
except OSError as error:
    print("!", type(error).__name__, error)
"""
# Asks by UDP every 10 ms from one port, and prints how often it asked and was answered when it is interrupted.
STREAM = """
import signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect((sys.argv[1], int(sys.argv[2])))
client.setblocking(False)
sent = answered = 0
def count():
    global answered
    try:
        while client.recv(100):
            answered += 1
            if answered == 1: print("answered", flush=True)
    except OSError: pass
try:
    while True:
        try: client.send(b"who"); sent += 1
        except OSError: sent += 1
        time.sleep(0.01)
        count()
except KeyboardInterrupt:
    end = time.monotonic() + 10
    while answered < sent and time.monotonic() < end:
        time.sleep(0.05)
        count()
    print(sent, answered)
"""
WAN, WAN6, OUTSIDE, OUTSIDE6 = "192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2"
DUAL = dataclasses.replace(
    STATE,
    pools=(*STATE.pools, Pool("six", "fd00:10:244::/48", 122, "None", workload_mtu=1400)),
    ipam=dataclasses.replace(STATE.ipam, blocks=(*STATE.ipam.blocks, Block("fd00:10:244:1::/122", "six"))),
)


class Site:
    """A host with an agent, and a client outside of it."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.servers: list[subprocess.Popen[bytes]] = []

    def inside(self, netns: str, *command: str) -> list[str]:
        return ["nsenter", f"--net={self.daemon.folder / 'netns' / netns}", *command]

    def run(self, netns: str, *command: str) -> str:
        done = subprocess.run(self.inside(netns, *command), check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def connect(self) -> None:
        """Join a namespace `outside` to the host by a veth pair."""
        self.daemon.netns("outside")
        self.run(HOST, "ip", "link", "add", "wan0", "type", "veth", "peer", "name", "wan0", "netns", self.outside)
        for netns, addresses in ((HOST, (WAN, WAN6)), ("outside", (OUTSIDE, OUTSIDE6))):
            self.run(netns, "ip", "address", "add", f"{addresses[0]}/24", "dev", "wan0")
            self.run(netns, "ip", "address", "add", f"{addresses[1]}/64", "dev", "wan0", "nodad")
            self.run(netns, "ip", "link", "set", "wan0", "up")
        self.run(HOST, "ip", "link", "set", "lo", "up")
        self.run(HOST, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")

    @property
    def outside(self) -> str:
        return str(self.daemon.folder / "netns" / "outside")

    def serve(self, netns: str, port: int) -> None:
        command = self.inside(netns, sys.executable, "-I", "-c", SERVER, str(port))
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.servers.append(server)
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"

    def ask(self, netns: str, address: str, port: int, kind: str = "tcp") -> str:
        """Return the address that the server sees for a client in `netns`; "! ..." without an answer."""
        return self.run(netns, sys.executable, "-I", "-c", CLIENT, kind, address, str(port)).strip()

    def web(self, *ports: str, name: str = "web", **more: t.Any) -> dict[str, t.Any]:
        return self.daemon.add(name, ports=[_port(one) for one in ports], **more)


_Site = t.TypeVar("_Site", bound=Site)


@contextlib.contextmanager
def running(kind: type[_Site], engine: t.Any, folder: pathlib.Path) -> t.Iterator[_Site]:
    """Yield the site of a running agent, with its network to the client. Its servers end afterwards."""
    with daemon_under_test(engine, folder, DUAL) as daemon:
        daemon.start()
        site = kind(daemon)
        site.connect()
        try:
            yield site
        finally:
            for server in site.servers:
                server.kill()
                server.wait()


def _port(text: str) -> dict[str, t.Any]:
    outside, inside = text.split(">")
    address, dummy, number = outside.rpartition("@")
    number, dummy, protocol = number.partition("/")
    return {"host_port": int(number), "port": int(inside), "host_address": address, "protocol": protocol or "tcp"}


@pytest.fixture
def site(engine: t.Any, tmp_path: t.Any) -> t.Iterator[Site]:
    with running(Site, engine, tmp_path) as site:
        yield site


def test_every_client_reaches_a_published_port(site: Site) -> None:
    web = site.web("8080>80", "8080/udp>80")
    address, address6 = web["addresses"]
    site.serve("web", 80)
    for kind in ("tcp", "udp"):
        assert site.ask("outside", WAN, 8080, kind) == OUTSIDE
        assert site.ask("outside", WAN6, 8080, kind) == OUTSIDE6
        assert site.ask(HOST, WAN, 8080, kind) == WAN
        assert site.ask(HOST, WAN6, 8080, kind) == WAN6
        assert site.ask(HOST, "127.0.0.1", 8080, kind)[:1] != "!"
        # The workload reaches itself by the host's address, and sees the host as the client.
        assert site.ask("web", WAN, 8080, kind) not in (address, address6)
        assert site.ask("web", WAN6, 8080, kind)[:1] != "!"
    assert site.ask(HOST, "::1", 8080)[:1] != "!"
    other = site.daemon.add("other")
    assert site.ask("other", WAN, 8080) == other["addresses"][0]
    assert site.ask("outside", WAN, 80)[:1] == "!"


#: Asks by UDP from port 5060 at each address, one after the other, and prints the answers.
ONE_PORT = """
import socket, sys
port, *addresses = sys.argv[1:]
for address in addresses:
    client = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    client.bind(("", 5060))
    client.settimeout(2)
    client.connect((address, int(port)))
    client.send(b"who")
    try: print(client.recv(100).decode())
    except OSError as error: print("!", error)
    client.close()
"""


@pytest.mark.parametrize("backend", ["nft", "legacy"])
def test_a_client_with_one_port_reaches_the_same_service_by_each_address(
    engine: t.Any, tmp_path: pathlib.Path, backend: str
) -> None:
    """The kernel must not lead its second flow to the next port of a range, as it does with a shifted range."""
    with daemon_under_test(engine, tmp_path, DUAL) as daemon:
        site = Site(daemon)
        switch(site, backend)
        daemon.start()
        site.connect()
        second_addresses(site)
        kept = [f"{number}/{protocol}>{number}" for number in range(9000, 9032) for protocol in ("tcp", "udp")]
        web = site.web("8000/udp>80", "8001/udp>81", *kept)
        try:
            for port in (80, 9000, 9017):
                site.serve("web", port)
            for port in (8000, 9000, 9017):
                for addresses, client in (((WAN, SECOND), OUTSIDE), ((WAN6, SECOND6), OUTSIDE6)):
                    seen = site.run("outside", sys.executable, "-I", "-c", ONE_PORT, str(port), *addresses).split("\n")
                    assert seen[:2] == [client, client], (port, addresses, seen)
            assert site.ask("outside", WAN, 9017) == OUTSIDE and site.ask("outside", WAN6, 9017) == OUTSIDE6
            assert site.ask(HOST, "127.0.0.1", 9017)[:1] != "!"
            # One rule of each protocol for the range, as the kernel has it.
            for command, address in zip(("iptables", "ip6tables"), web["addresses"]):
                whole = [
                    line
                    for line in rules(site, f"{command}-{backend}")
                    if "--dport 9000:9031" in line and "DNAT" in line
                ]
                assert len(whole) == 2 and all(f"--to-destination {address}" in line for line in whole), whole
            assert daemon.call("resync")["changes"] == []
        finally:
            for server in site.servers:
                server.kill()
                server.wait()


SECOND, SECOND6 = "192.0.2.3", "2001:db8::3"
FORMATS = (
    ("8080:80", 8080, {WAN, SECOND, WAN6, SECOND6}),
    (f"{WAN}:8081:80", 8081, {WAN}),
    (f"[{WAN6}]:8082:80", 8082, {WAN6}),
    ("0.0.0.0:8083:80", 8083, {WAN, SECOND}),
    ("[::]:8084:80", 8084, {WAN6, SECOND6}),
    ("8090-8092:90-92", 8091, {WAN, SECOND, WAN6, SECOND6}),
    ("8093-8095:8093-8095", 8094, {WAN, SECOND, WAN6, SECOND6}),
)


def second_addresses(site: Site) -> None:
    site.run(HOST, "ip", "address", "add", f"{SECOND}/24", "dev", "wan0")
    site.run(HOST, "ip", "address", "add", f"{SECOND6}/64", "dev", "wan0", "nodad")


def test_each_format_leads_where_the_page_says(site: Site) -> None:
    second_addresses(site)
    ports = [port.to_dict() for text, _number, _addresses in FORMATS for port in published_port.parse(text)]
    site.daemon.add("web", ports=ports)
    for inside in (80, 91, 8094):
        site.serve("web", inside)
    for text, number, addresses in FORMATS:
        answered = {one for one in (WAN, SECOND, WAN6, SECOND6) if site.ask("outside", one, number)[:1] != "!"}
        assert answered == addresses, text


def listening(site: Site, port: int) -> set[str]:
    """Return the local addresses at which somebody listens at a TCP port of the host."""
    lines = site.run(HOST, "ss", "-Hltn", f"sport = :{port}").splitlines()
    return {line.split()[3].rpartition(":")[0] for line in lines}


def rules(site: Site, command: str = "iptables") -> list[str]:
    return [
        line
        for line in site.run(HOST, f"{command}-save", "-t", "nat").splitlines()
        if "PUBLISHED" in line or "cali-pub-" in line
    ]


def test_ports_go_with_their_workload(site: Site) -> None:
    site.web("8080>80", "9000>90")
    assert listening(site, 8080) == {"0.0.0.0", "[::]"} == listening(site, 9000)
    assert [one["host_port"] for one in site.daemon.call("workload.get", id="default/web")["workload"]["ports"]] == [
        8080,
        9000,
    ]
    site.daemon.delete("web")
    assert listening(site, 8080) == set() == listening(site, 9000)
    site.daemon.in_sync()
    for command in ("iptables", "ip6tables"):
        site.daemon.until(lambda name=command: "cali-pub-" not in "".join(rules(site, name)), "the chains are gone")
    # The next workload has the port at once.
    other = site.web("8080>80", name="other")
    site.serve("other", 80)
    assert site.ask("outside", WAN, 8080) == OUTSIDE
    assert f"--to-destination {other['addresses'][0]}:80" in "".join(rules(site))
    assert [line for line in rules(site) if "-j cali-pub-" in line]


def test_ports_outlive_the_agent(site: Site) -> None:
    """Packets pass while no agent runs; the next one has the ports again, and repairs the rules."""
    site.web("8080>80")
    site.serve("web", 80)
    site.daemon.kill()
    assert site.ask("outside", WAN, 8080) == OUTSIDE
    site.daemon.start()
    site.daemon.in_sync()
    assert listening(site, 8080) == {"0.0.0.0", "[::]"}
    for command in ("iptables", "ip6tables"):
        site.run(HOST, command, "-t", "nat", "-F", "cali-PUBLISHED")
    site.daemon.call("resync")
    assert site.ask("outside", WAN, 8080) == OUTSIDE and site.ask("outside", WAN6, 8080) == OUTSIDE6
    assert site.daemon.call("workload.check", id="default/web")["problems"] == []


def test_a_port_that_is_taken_is_refused_with_its_owner(site: Site) -> None:
    site.serve(HOST, 8080)
    server = site.servers[-1].pid
    with pytest.raises(AgentError) as refused:
        site.web("9000>90", "8080>80")
    assert refused.value.message == (
        f"port 8080/tcp of this host is taken by 'python' (process {server}). Choose another one, or stop that program."
    )
    # Nothing of the workload is left, and none of its other ports.
    assert site.daemon.call("workload.list")["workloads"] == [] and listening(site, 9000) == set()
    site.daemon.settled()
    site.web("9000>90", name="first")
    with pytest.raises(AgentError) as refused:
        site.web("9000>80", name="second")
    assert refused.value.message == (
        "port 9000/tcp of this host is taken by workload default/first. Choose another one, or delete that workload."
    )
    # The same number of another protocol, and of another address of the host, is another port.
    site.web("9000/udp>90", name="third")
    site.web(f"{WAN}@9001>90", name="fourth")
    site.web(f"{WAN6}@9001>90", name="fifth")


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (
            "22>22",
            "port 22/tcp of this host cannot be published: it is a failsafe port, by which the host stays",
        ),
        ("179>80", "port 179/tcp of this host cannot be published: it is BGP."),
        ("4789/udp>80", "port 4789/udp of this host cannot be published: it is VXLAN."),
        ("192.0.2.99@8080>80", "192.0.2.99 is not an address of this host. Give one that `ip address` shows, or none."),
        ("70000>80", "workload.add: The port of the host 70000 is not a port. Use a number from 0 to 65535."),
        ("8080/icmp>80", "workload.add: The protocol 'icmp' has no ports to publish. Use tcp, udp or sctp."),
        ("x y@8080>80", "workload.add: 'x y' is not an address of a host. Write one, or leave it out for all of them."),
    ],
)
def test_a_port_that_cannot_be_published_changes_nothing(site: Site, port: str, words: str) -> None:
    with pytest.raises(AgentError) as refused:
        site.web(port)
    assert refused.value.message.startswith(words)
    site.daemon.settled()
    assert site.daemon.call("workload.list")["workloads"] == [] and rules(site) == []


def test_a_port_that_is_left_open_is_chosen(site: Site) -> None:
    workload = site.web("0>80")
    (port,) = workload["ports"]
    assert port["host_port"] >= 1024 and listening(site, port["host_port"]) == {"0.0.0.0", "[::]"}
    site.serve("web", 80)
    assert site.ask("outside", WAN, port["host_port"]) == OUTSIDE


def test_the_proxy_serves_the_host_alone(site: Site) -> None:
    """Without the rules, connections to a claimed port are closed; those from the host's loopback are led on."""
    site.web("8080>80")
    site.serve("web", 80)
    site.daemon.call("status")
    # Untracked packets meet no NAT, and behind the agent's own rules this is no drift that it would repair.
    for command in ("iptables", "ip6tables"):
        site.run(HOST, command, "-t", "raw", "-A", "PREROUTING", "-j", "CT", "--notrack")
        site.run(HOST, command, "-t", "raw", "-A", "OUTPUT", "-j", "CT", "--notrack")
    assert site.ask("outside", WAN, 8080) == "" == site.ask("outside", WAN6, 8080)
    assert site.ask(HOST, WAN6, 8080) == ""
    assert site.ask(HOST, "::1", 8080)[:1] not in ("", "!")


def test_a_proxied_connection_ends_in_both_directions(site: Site) -> None:
    """A client that has ended its half still gets the answer, and many connections do not stop the others."""
    site.web("8080>80")
    script = (
        "import socket\n"
        "server = socket.create_server(('::', 80), family=socket.AF_INET6)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    client, peer = server.accept()\n"
        "    data = b''\n"
        "    while (part := client.recv(65536)): data += part\n"
        "    client.sendall(str(len(data)).encode()); client.close()\n"
    )
    server = subprocess.Popen(site.inside("web", sys.executable, "-I", "-c", script), stdout=subprocess.PIPE)
    site.servers.append(server)
    assert server.stdout is not None and server.stdout.readline() == b"ready\n"
    client = (
        "import socket\n"
        "idle = [socket.create_connection(('::1', 8080)) for _ in range(40)]\n"
        "for one in idle: one.close()\n"
        "one = socket.create_connection(('::1', 8080)); one.sendall(b'x' * 300000); one.shutdown(socket.SHUT_WR)\n"
        "one.settimeout(10); print(one.recv(100).decode())\n"
    )
    assert site.run(HOST, sys.executable, "-I", "-c", client).strip() == "300000"
    assert site.daemon.memory() < 60 * 1024


def switch(site: Site, backend: str) -> None:
    """Let the host's `iptables` and `ip6tables` write this backend, as `update-alternatives --set` does."""
    program = shutil.which(f"xtables-{backend}-multi", path="/usr/sbin:/sbin")
    assert program, "install iptables to run these tests"
    site.daemon.programs.mkdir(exist_ok=True)
    for name in ("iptables", "ip6tables"):
        for verb in ("", "-restore", "-save"):
            link = site.daemon.programs / f"{name}{verb}.new"
            link.symlink_to(program)
            link.rename(link.with_suffix(""))


def translations(site: Site, backend: str) -> list[str]:
    return [one for name in ("iptables", "ip6tables") for one in rules(site, f"{name}-{backend}") if "DNAT --to" in one]


@pytest.mark.parametrize(("first", "then"), [("nft", "legacy"), ("legacy", "nft")])
def test_ports_follow_the_hosts_iptables_to_its_other_backend(
    engine: t.Any, tmp_path: pathlib.Path, first: str, then: str
) -> None:
    """A port is in the kernel when it is reported, and a client that never pauses goes on. No resync helps."""
    with daemon_under_test(engine, tmp_path, DUAL) as daemon:
        site = Site(daemon)
        switch(site, first)
        daemon.settings(cooldown=0.0, cleanup_grace=0.0, resync_interval=600.0)
        daemon.start()
        site.connect()
        try:
            site.web("8080>80", "8080/udp>80")
            site.serve("web", 80)
            command = site.inside("outside", sys.executable, "-I", "-c", STREAM, WAN, "8080")
            stream = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            site.servers.append(t.cast(t.Any, stream))
            assert stream.stdout is not None and stream.stdout.readline() == "answered\n"
            for count, (now, other) in enumerate([(then, first), (first, then)]):
                switch(site, now)
                site.web(f"{9000 + count}>80", name=f"web{count}")
                site.serve(f"web{count}", 80)
                assert site.ask("outside", WAN, 9000 + count) == OUTSIDE
                assert site.ask("outside", WAN6, 9000 + count) == OUTSIDE6
                assert site.ask("outside", WAN, 8080) == OUTSIDE
                daemon.until(lambda other=other: not translations(site, other), "the other backend has no rule of ours")
                daemon.in_sync()
                assert len(translations(site, now)) == 2 * (3 + count)
                assert site.ask("outside", WAN, 8080) == OUTSIDE == site.ask("outside", WAN, 8080, "udp")
            stream.terminate()
            sent, answered = map(int, stream.communicate(timeout=60)[0].split())
            assert sent > 10 and answered >= sent - 1, (sent, answered)
        finally:
            for server in site.servers:
                server.kill()
                server.wait()
