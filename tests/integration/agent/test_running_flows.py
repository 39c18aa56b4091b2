# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that never pause while NAT changes: their flows follow the rules, and all other flows stay as they are."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Connection
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import packed_state
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.integration.agent.test_ports import DUAL, OUTSIDE, OUTSIDE6, WAN, WAN6, Site, running
from tests.integration.host_under_test import HOST
from tests.integration.policy.packets import SCTP, UDPLITE, packet

# Sends a request from one socket every 0.1 seconds, and prints each answer. An argument is the local port.
TALKER = """
import socket, sys, time
address, port, own = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
talker = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
if ":" in address: talker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
talker.bind(("::" if ":" in address else "0.0.0.0", own))
talker.settimeout(0.1)
print("ready", flush=True)
while True:
    try:
        talker.sendto(b"who", (address, port))
        print(talker.recvfrom(100)[0].decode(), flush=True)
    except OSError:
        pass
    time.sleep(0.1)
"""
# Answers each datagram with its own name.
SERVER = """
import socket, sys, threading
def serve(family, any):
    server = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6: server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind((any, int(sys.argv[1])))
    print("ready", flush=True)
    while True:
        client = server.recvfrom(100)[1]
        try: server.sendto(sys.argv[2].encode(), client)
        except OSError: pass  # There is no route to a workload whose packets are not masqueraded.
threading.Thread(target=serve, args=(socket.AF_INET6, "::"), daemon=True).start()
serve(socket.AF_INET, "0.0.0.0")
"""
# Sends the same IP packet every 0.1 seconds.
SENDER = """
import socket, sys, time
address, packet = sys.argv[1], bytes.fromhex(sys.argv[2])
sender = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
print("ready", flush=True)
while True:
    try: sender.sendto(packet, (address, 0))
    except OSError: pass
    time.sleep(0.1)
"""
LOOPBACK = "127.0.0.1"
MASQUERADED = dataclasses.replace(DUAL.pools[0], nat_outgoing=True)


class Program:
    """A program that runs until the end of the test; `lines` are those that it has printed since the last `clear`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        assert process.stdout is not None and process.stdout.readline()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def hears(self, word: str) -> t.Callable[[], bool]:
        """Forget what was printed; return a function that says whether a line that contains `word` was printed since.

        One answer may have been under way.
        """
        self.lines.clear()
        return lambda: any(word in line for line in self.lines[1:])


class Running(Site):
    """A host with an agent, a client outside, and programs."""

    def connect(self) -> None:
        super().connect()
        self.run(HOST, "sysctl", "-qw", "net.netfilter.nf_conntrack_checksum=0")
        # As on every host with policy or NAT, the kernel tracks connections.
        for command in ("iptables", "ip6tables"):
            self.run(HOST, command, "-A", "INPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")

    def start(self, netns: str, *command: str) -> Program:
        process = subprocess.Popen(self.inside(netns, *command), stdout=subprocess.PIPE, text=True)
        self.servers.append(t.cast("subprocess.Popen[bytes]", process))
        return Program(process)

    def script(self, netns: str, script: str, *arguments: str) -> Program:
        return self.start(netns, sys.executable, "-I", "-c", script, *arguments)

    def answer(self, netns: str, port: int) -> None:
        self.script(netns, SERVER, str(port), netns)

    def talk(self, netns: str, address: str, port: int, own: int) -> Program:
        return self.script(netns, TALKER, address, str(port), str(own))

    def send(self, flow: Flow) -> None:
        self.script("outside", SENDER, flow.destination, packet(flow, 1, 1).hex())

    def until(self, holds: t.Callable[[], t.Any], what: str) -> None:
        self.daemon.until(holds, f"{what}; tracked are {[(one.sent, one.flow) for one in self.tracked()]}")

    def tracked(self) -> list[Connection]:
        return list(self.daemon.kernel.connections())

    def connection(self, protocol: int, port: int) -> t.Optional[Connection]:
        """Return the connection of this protocol with this source port, or for a ping to any."""
        found = (one for one in self.tracked() if one.sent.protocol == protocol)
        return next((one for one in found if one.sent.source_port in (port, None)), None)

    def apply(self, state: NodeState) -> None:
        for removals in (False, True):
            done = self.daemon.call("node.apply", state=packed_state.pack(state), removals=removals)
            assert done["problems"] == []


@pytest.fixture
def site(engine: t.Any, tmp_path: t.Any) -> t.Iterator[Running]:
    with running(Running, engine, tmp_path) as site:
        yield site


def clients(site: Running) -> dict[str, Program]:
    """Start clients of port 5300: outside and on the host, by IPv4 and IPv6; return them by name."""
    found = {}
    for own, (netns, address) in enumerate(
        (("outside", WAN), ("outside", WAN6), (HOST, WAN), (HOST, WAN6), (HOST, LOOPBACK)), start=40000
    ):
        found[f"{netns} {address}"] = site.talk(netns, address, 5300, own)
        site.until(lambda own=own: site.connection(17, own), f"the flow from port {own} is tracked")
    return found


def all_hear(site: Running, programs: dict[str, Program], word: str) -> None:
    for name, program in programs.items():
        site.until(program.hears(word), f"{name} hears {word}")


def test_a_client_that_never_pauses_reaches_a_port_that_is_published_later(site: Running) -> None:
    """It reaches the next workload behind that port, too, and none once the port is withdrawn."""
    programs = clients(site)
    site.web("5300/udp>53", name="first")
    site.answer("first", 53)
    all_hear(site, programs, "first")
    site.daemon.delete("first")
    site.web("5300/udp>5353", name="second")
    site.answer("second", 5353)
    all_hear(site, programs, "second")
    third = site.daemon.add("third")
    site.answer("third", 53)
    # The port moves to another workload while the first one goes on.
    assert site.daemon.call("workload.withdraw", id="default/second") == {"withdrawn": True}
    for own in range(40000, 40005):
        site.until(lambda own=own: _plain(site.connection(17, own)), f"port {own} leads nowhere")
    port = {"host_port": 5300, "port": 53, "protocol": "udp"}
    site.daemon.call("workload.publish", id="default/third", ports=[port])
    all_hear(site, programs, "third")
    flow = site.connection(17, 40000)
    assert flow is not None and (flow.flow.destination, flow.flow.destination_port) == (third["addresses"][0], 53)


def _plain(connection: t.Optional[Connection]) -> bool:
    return connection is not None and connection.flow == connection.sent


@pytest.mark.parametrize("protocol", [SCTP, UDPLITE])
def test_other_protocols_without_pauses_follow_a_published_port(site: Running, protocol: int) -> None:
    """An INIT of SCTP that is repeated reaches the workload; what has no published port goes on as it was."""
    for flow in (Flow(protocol, OUTSIDE, WAN, 41000, 5300), Flow(protocol, OUTSIDE6, WAN6, 41001, 5300)):
        site.send(flow)
        site.until(lambda flow=flow: site.connection(protocol, flow.source_port), f"{flow} is tracked")
    before = {port: site.connection(protocol, port) for port in (41000, 41001)}
    web = site.web("5300/sctp>53", "5300/udp>53")
    if protocol == UDPLITE:
        assert {port: site.connection(protocol, port) for port in (41000, 41001)} == before
        return
    for port, address in zip((41000, 41001), web["addresses"]):

        def translated(port: int = port, address: str = address) -> bool:
            found = site.connection(protocol, port)
            return found is not None and (found.flow.destination, found.flow.destination_port) == (address, 53)

        site.until(translated, f"the flow from port {port} leads to {address}")


# Answers each line of a TCP connection with the name in its argument.
ECHO = """
import socket, sys, threading
server = socket.create_server(("0.0.0.0", 80))
print("ready", flush=True)
def answer(client):
    try:
        while client.recv(10): client.sendall(sys.argv[1].encode() + b"\\n")
    except OSError: pass
while True: threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
"""
# Asks by one TCP connection every 0.1 seconds, and prints the answers, until there is none for two seconds.
ASKER = """
import socket, sys, time
client = socket.create_connection((sys.argv[1], 8000), timeout=2)
print("connected", flush=True)
try:
    while True:
        client.sendall(b"who")
        answer = client.recv(10)
        if not answer: break
        print(answer.decode().strip(), flush=True)
        time.sleep(0.1)
except OSError: pass
print("ended", flush=True)
time.sleep(600)
"""


def test_tcp_connections_whose_port_changes(site: Running) -> None:
    """They go on when the port is withdrawn, or leads to another workload, and end with their own workload."""
    for name in ("first", "second"):
        site.daemon.add(name)
        site.script(name, ECHO, name)
    port = {"host_port": 8000, "port": 80}
    site.daemon.call("workload.publish", id="default/first", ports=[port])
    early = {"the client": site.script("outside", ASKER, WAN)}
    all_hear(site, early, "first")
    site.daemon.call("workload.withdraw", id="default/first")
    all_hear(site, early, "first")
    site.daemon.call("workload.publish", id="default/second", ports=[port])
    all_hear(site, {"a new client": site.script("outside", ASKER, WAN)}, "second")
    all_hear(site, early, "first")
    site.daemon.delete("first")
    site.until(lambda: "ended" in early["the client"].lines, "the connection to the deleted workload ends")


def test_flows_follow_rules_that_were_flushed_and_repaired(site: Running) -> None:
    """A client that began in between is not lost, and one from before keeps its connection."""
    site.web("5300/udp>53")
    site.answer("web", 53)
    early = {address: site.talk("outside", address, 5300, 42000) for address in (WAN, WAN6)}
    all_hear(site, early, "web")
    before = [one.name for one in site.tracked() if one.sent.source_port == 42000]
    site.daemon.kill()
    for how in (("-F",), ("-F", "cali-PUBLISHED"), ("-F", "PREROUTING")):
        for command in ("iptables", "ip6tables"):
            site.run(HOST, command, "-t", "nat", *how)
        own = 42001 + len(how[-1])
        late = {address: site.talk("outside", address, 5300, own) for address in (WAN, WAN6)}
        for family in (4, 6):
            site.until(
                lambda own=own, family=family: any(_plain(one) for one in site.tracked() if _is_from(one, own, family)),
                f"the flow of IPv{family} from port {own} is tracked",
            )
        site.daemon.start()
        site.daemon.call("resync")
        all_hear(site, late, "web")
        site.daemon.kill()
    assert [one.name for one in site.tracked() if one.sent.source_port == 42000] == before


def test_flows_follow_rules_that_others_flushed_and_restored_before_the_agent_started(site: Running) -> None:
    """The agent finds its rules as they should be, and a flow that began without them follows them all the same."""
    site.web("5300/udp>53")
    site.answer("web", 53)
    site.daemon.in_sync()
    site.daemon.kill()
    saved = site.run(HOST, "iptables-save", "-t", "nat")
    site.run(HOST, "iptables", "-t", "nat", "-F")
    talker = site.talk("outside", WAN, 5300, 45000)
    site.until(lambda: _plain(site.connection(17, 45000)), "the flow is tracked")
    subprocess.run(site.inside(HOST, "iptables-restore"), input=saved, text=True, check=True)
    site.daemon.start()
    all_hear(site, {"the client": talker}, "web")


def _is_from(connection: Connection, port: int, family: int) -> bool:
    return (connection.sent.source_port, connection.sent.ip_version) == (port, family)


def test_flows_out_follow_nat_outgoing(site: Running) -> None:
    """Answers to a workload need its masquerading, which is switched on, off and on while UDP and a ping go on."""
    site.daemon.add("web")
    site.answer("outside", 53)
    udp = site.talk("web", OUTSIDE, 53, 43000)
    ping = site.start("web", "ping", "-n", "-O", "-i", "0.2", OUTSIDE)
    for number, protocol in ((1, "the ping"), (17, "the flow")):
        site.until(lambda number=number: site.connection(number, 43000), f"{protocol} is tracked")
    pools = (MASQUERADED, *DUAL.pools[1:])
    on = dataclasses.replace(DUAL, pools=pools, iptables=firewall.tables(pools, ()))
    for _time in range(2):
        site.apply(on)
        all_hear(site, {"udp": udp}, "outside")
        all_hear(site, {"ping": ping}, "bytes from")
        assert all(one.reply_to == WAN for one in (site.connection(1, 0), site.connection(17, 43000)) if one)
        site.apply(DUAL)
        for number in (1, 17):

            def plain(number: int = number) -> bool:
                found = site.connection(number, 43000)
                return found is not None and found.reply_to == ""

            site.until(plain, f"the flow of protocol {number} has its own source")


def test_no_other_flow_loses_its_connection(site: Running) -> None:
    """Flows of the host, of another program's DNAT and masquerading, of TCP, and right ones keep their connections."""
    site.daemon.netns("bridged")
    run = site.run
    run(
        HOST,
        "ip",
        "link",
        "add",
        "br0",
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        str(site.daemon.folder / "netns" / "bridged"),
    )
    for netns, device, address in ((HOST, "br0", "172.17.0.1/16"), ("bridged", "eth0", "172.17.0.2/16")):
        run(netns, "ip", "address", "add", address, "dev", device)
        run(netns, "ip", "link", "set", device, "up")
    run("bridged", "ip", "route", "add", "default", "via", "172.17.0.1")
    # Docker writes these rules for a container in its bridge that publishes port 5353.
    nat = "iptables -t nat"
    for rule in (
        f"{nat} -N DOCKER",
        f"{nat} -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
        f"{nat} -A DOCKER ! -i br0 -p udp -m udp --dport 5353 -j DNAT --to-destination 172.17.0.2:53",
        f"{nat} -A POSTROUTING -s 172.17.0.0/16 ! -o br0 -j MASQUERADE",
    ):
        run(HOST, *rule.split())
    site.web("5300/udp>53", "8000>80")
    site.answer("web", 53)
    site.answer("bridged", 53)
    site.answer("outside", 53)
    site.answer(HOST, 5454)
    site.serve("web", 80)
    script = (
        "import socket, sys, time\n"
        "one = socket.create_connection((sys.argv[1], 8000))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    site.script("outside", script, WAN)
    programs = {
        "published": (site.talk("outside", WAN, 5300, 44000), "web"),
        "published by another program": (site.talk("outside", WAN, 5353, 44001), "bridged"),
        "masqueraded by another program": (site.talk("bridged", OUTSIDE, 53, 44002), "outside"),
        "of the host": (site.talk(HOST, OUTSIDE, 53, 44003), "outside"),
        "to the host": (site.talk("outside", WAN, 5454, 44004), HOST),
        "of a workload to the host": (site.talk("web", WAN, 5454, 44005), HOST),
    }
    for name, (program, word) in programs.items():
        site.until(program.hears(word), f"the flow {name} is answered")
    pools = (MASQUERADED, *DUAL.pools[1:])
    on = dataclasses.replace(DUAL, pools=pools, iptables=firewall.tables(pools, ()))
    site.apply(on)
    before = {one.name for one in site.tracked()}
    site.web("5301/udp>53", "5353/tcp>53", name="third")
    site.daemon.call("workload.withdraw", id="default/third")
    site.daemon.delete("third")
    site.apply(DUAL)
    site.apply(on)
    run(HOST, *f"{nat} -F cali-PUBLISHED".split())
    run(HOST, *f"{nat} -F cali-POSTROUTING".split())
    site.daemon.call("resync")
    gone = before - {one.name for one in site.tracked()}
    assert not gone, [(one.sent, one.flow) for one in site.tracked()]
    for name, (program, word) in programs.items():
        site.until(program.hears(word), f"the flow {name} is still answered")
