# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a network namespace: interfaces of four workloads and a probe endpoint, and two of its own.

One namespace beyond has the other ends of the interfaces. Tests send frames on these ends, and what arrives there is
what the node forwarded or sent. Raw sockets receive what is for the node itself.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.naming import PROBE_INTERFACE
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.tables import (
    FILTER,
    MANGLE,
    RAW,
    Tables,
)

from tests.integration.policy.packets import is_error, tag
from tests.unit.policy.explain.node_between import BY_ETH1, OWN

WORKLOADS = 4
#: The addresses of the probe endpoint.
PROBE, PROBE_V6 = "10.65.0.62", "fd65::3e"

_BEYOND = "beyond"
_ETHERTYPE = {4: 0x0800, 6: 0x86DD}
_PACKET_OUTGOING = 4
_PROTOCOLS = (1, 4, 6, 17, 58, 132, 136, 253, 254)
_SYSCTLS = {
    "net.ipv4.ip_forward": 1,
    "net.ipv6.conf.all.forwarding": 1,
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
    "net.ipv6.conf.default.accept_dad": 0,
    # The tests' SCTP packets have no valid checksum, because Python's standard library has no CRC-32C.
    "net.netfilter.nf_conntrack_checksum": 0,
    "net.ipv4.icmp_echo_ignore_all": 1,
    "net.ipv6.icmp.echo_ignore_all": 1,
}


def workload_interface(index: int) -> str:
    return f"cali{index:011x}"


def _interfaces() -> list[str]:
    return [*(workload_interface(index) for index in range(WORKLOADS)), PROBE_INTERFACE, *OWN]


class Node:
    """The node; `backend`, "nft" or "legacy", selects iptables-nft or iptables-legacy for all that it loads."""

    def __init__(self, kernel: LinuxKernel, netns_folder: str, backend: str) -> None:
        self.kernel = kernel
        self.backend = backend
        kernel.netns_add(_BEYOND, "")
        self.beyond = kernel.inside(_BEYOND)
        self._make(f"{netns_folder}/{_BEYOND}")
        self._frames = self.beyond._there(_frame_socket)
        self._received = kernel._there(_raw_sockets)
        self._senders = kernel._there(_senders)
        self._tracker = kernel._there(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))
        self._macs: dict[str, bytes] = {}

    def close(self) -> None:
        for one in (self._frames, self._tracker, *self._received, *self._senders.values()):
            one.close()

    def _make(self, beyond: str) -> None:
        interfaces = _interfaces()
        lines = ["link set lo up"]
        for index, name in enumerate(interfaces):
            lines += [
                f"link add {name} address 02:00:00:00:00:{index:02x} type veth peer name {name} netns {beyond}",
                f"link set {name} arp off addrgenmode none up",
            ]
        for name, addresses in OWN.items():
            lines += [f"address add {one} dev {name}{' nodad' if ':' in one else ''}" for one in addresses]
        for index in range(WORKLOADS):
            nets = (f"10.65.0.{index + 1}/32", f"fd65::{index + 1:x}/128")
            lines += [f"route add {net} dev {workload_interface(index)}" for net in nets]
        lines += [f"route add {net} dev {PROBE_INTERFACE}" for net in (f"{PROBE}/32", f"{PROBE_V6}/128")]
        lines += [f"route add {net} dev eth0" for net in ("0.0.0.0/0", "::/0")]
        lines += [f"route add {net} dev eth1" for net in BY_ETH1]
        self._must(["sysctl", "-q", "-w", *(f"{name}={value}" for name, value in _SYSCTLS.items())])
        self._must(["ip", "-batch", "-"], "\n".join(lines) + "\n")
        checked = (f"net.ipv4.conf.{name}.rp_filter=1" for name in interfaces if name not in OWN)
        self._must(["sysctl", "-q", "-w", *checked])
        for name in interfaces:
            done = self.beyond.run(["ip", "link", "set", name, "arp", "off", "addrgenmode", "none", "up"])
            assert done.code == 0, done.errors
        self._await_links(interfaces)

    def _await_links(self, interfaces: t.Collection[str]) -> None:
        """Wait until both ends of these interfaces are operational; raise AssertionError after 30 seconds.

        The kernel drops what is sent on the others. A busy one takes its time after an interface is up.
        """
        until = time.monotonic() + 30
        for kernel in (self.kernel, self.beyond):
            while True:
                lines = [line.split() for line in kernel.run(["ip", "-brief", "link", "show"]).output.splitlines()]
                waiting = set(interfaces) - {words[0].partition("@")[0] for words in lines if words[1] == "UP"}
                if not waiting:
                    break
                assert time.monotonic() < until, f"not operational: {sorted(waiting)}"
                time.sleep(0.01)

    def _must(self, argv: t.Sequence[str], stdin: str = "") -> None:
        done = self.kernel.run(argv, stdin)
        assert done.code == 0, (argv, done.errors, stdin[:20000])

    # --- rules, sets, interfaces and connections

    def load(self, tables: t.Iterable[Tables]) -> None:
        """Do what `replace` does, and then forget all tracked connections; raise AssertionError if one fails."""
        self.replace(tables)
        self.forget_connections()

    def replace(self, tables: t.Iterable[Tables]) -> None:
        """Replace the rules of raw, mangle and filter, and the members of the tables' sets; tracked connections stay.

        Sets that they do not have stay, and so do rules of an IP version without an entry in `tables`. `tables` is
        iterated twice, so it must be no iterator. Raise AssertionError if ipset or iptables refuses them.
        """
        sets: list[str] = []
        for one in tables:
            for ipset in one.sets:
                sets += [f"create {ipset.name} {ipset.type} family {ipset.family} -exist", f"flush {ipset.name}"]
                sets += [f"add {ipset.name} {member}" for member in ipset.members]
        self._must(["ipset", "restore"], "\n".join(sets) + "\n")
        for one in tables:
            program = {4: "iptables", 6: "ip6tables"}[one.family]
            self._must([f"{program}-{self.backend}-restore", "-w", "10"], restore_text(one))

    def restore(self, text: str) -> None:
        """Load IPv4 rules of another program, a text for iptables-restore, beside the present ones.

        Raise AssertionError if they are refused.
        """
        self._must([f"iptables-{self.backend}-restore", "-w", "10", "--noflush"], text)

    def iptables(self, *arguments: str) -> None:
        self._must([f"iptables-{self.backend}", "-w", "10", *arguments])

    def rename(self, interface: str, name: str) -> None:
        """Rename both ends of `interface` to `name`, as if another interface had replaced it.

        Raise AssertionError if the kernel refuses, and KeyError if no packet has come in by `interface` before.
        """
        for kernel in (self.kernel, self.beyond):
            done = kernel.run(["ip", "-batch", "-"], f"link set {interface} down name {name}\nlink set {name} up\n")
            assert done.code == 0, done.errors
        self._await_links([name])
        self._macs[name] = self._macs[interface]

    def forget_connections(self) -> None:
        # IPCTNL_MSG_CT_DELETE without a filter deletes all connections.
        self._tracker.send(struct.pack("=IHHIIBBH", 20, 0x0102, 0x0005, 1, 0, 0, 0, 0))
        answer = self._tracker.recv(4096)
        assert struct.unpack_from("=i", answer, 16)[0] == 0

    # --- packets

    def comes_in(self, interface: str, packet: bytes) -> None:
        """Send a whole IP packet to the node from beyond `interface`.

        Raise ValueError if the node has no such one, and OSError for the old name of a renamed one that was used.
        """
        version = packet[0] >> 4
        if interface not in self._macs:
            index = _interfaces().index(interface)
            self._macs[interface] = bytes((2, 0, 0, 0, 0, index)) + b"\x02\x00\x00\x00\xff\xff"
        frame = self._macs[interface] + struct.pack("!H", _ETHERTYPE[version]) + packet
        self._frames.sendto(frame, (interface, _ETHERTYPE[version]))

    def sends(self, destination: str, packet: bytes) -> None:
        """Send a whole IP packet from the node itself; a refusal by policy (EPERM) is no error.

        Raise OSError if the kernel refuses the packet for another reason.
        """
        try:
            self._senders[packet[0] >> 4].sendto(packet, (destination, 0))
        except OSError as error:
            if error.errno != errno.EPERM:
                raise

    def seen(self, enough: t.Collection[tuple[int, int]], patience: float = 20.0) -> dict[tuple[int, int], str]:
        """Return {tag of a packet: interface by which it left, "" if the node received it}.

        Packets that an earlier call returned are not repeated. Wait up to `patience` seconds for the tags of `enough`;
        those that do not arrive are absent. Packets that keep arriving prolong the wait.
        """
        found: dict[tuple[int, int], str] = {}
        until = time.monotonic() + patience
        quiet = 0
        while quiet < 2:
            got = self._drain(found)
            complete = all(one in found for one in enough)
            if not got and (complete or time.monotonic() > until):
                quiet += 1
            if not got:
                time.sleep(0.005)
        return found

    @contextlib.contextmanager
    def watching(self, interface: str) -> t.Iterator[socket.socket]:
        """Yield a socket that receives the frames that leave the node by `interface`, with a timeout of a second.

        It is closed at the end. Raise OSError if there is no such interface.
        """
        with self.beyond._there(_frame_socket) as made:
            made.bind((interface, 3))
            made.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING: ignore the frames that tests send
            made.settimeout(1.0)
            yield made

    def _drain(self, found: dict[tuple[int, int], str]) -> bool:
        before = len(found)
        for one in (self._frames, *self._received):
            while True:
                try:
                    data, address = one.recvfrom(2048)
                except BlockingIOError:
                    break
                mark = tag(data)
                if one is self._frames:
                    if mark is not None and address[2] != _PACKET_OUTGOING and not is_error(data[14:]):
                        found.setdefault(mark, address[0])
                elif mark is not None:
                    found.setdefault(mark, "")
        return len(found) > before


def restore_text(tables: Tables) -> str:
    """Return the text for iptables-restore that replaces all rules of raw, mangle and filter by `tables`."""
    lines = []
    for name in (RAW, MANGLE, FILTER):
        lines.append(f"*{name}")
        table = tables.tables.get(name)
        if table is not None:
            lines += [f":{chain} - [0:0]" for chain in table.chains]
            lines += [f"-A {chain} {rule}" for chain, rules in table.chains.items() for rule in rules]
            hooks = sorted(table.hooks, key=lambda hook: hook.last)
            lines += [f"-A {hook.chain} {hook.rule.render()}" for hook in hooks]
        lines.append("COMMIT")
    return "\n".join(lines) + "\n"


def _frame_socket() -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    made.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    made.setblocking(False)
    return made


def _raw_sockets() -> list[socket.socket]:
    made = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol in _PROTOCOLS:
            one = socket.socket(family, socket.SOCK_RAW, protocol)
            one.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
            one.setblocking(False)
            made.append(one)
    return made


def _senders() -> dict[int, socket.socket]:
    """Return {IP version: socket that sends whole packets}."""
    return {
        4: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
        6: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW),
    }
