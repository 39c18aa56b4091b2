# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host of a member of etcd, with the firewall of role calico_etcd, and the hosts around it. Real packets.

    member (10.20.0.1) -- others: node1 (10.20.0.2), another member (10.20.0.3), operators (10.20.9.0/24), a stranger

Each IPv4 address has an IPv6 one beside it, such as fd00:20::2. In both namespaces a program accepts connections to the
ports of a member, and holds them. nft is that of Debian's package, unpacked beside the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import typing as t

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import allowed_clients

from tests.conftest import ROOT
from tests.integration.bird.network import Namespace, wait_for
from tests.integration.debian_archive import unpacked

PORTS = GATE, CLIENT, PEER = 2378, 2379, 2380
MEMBER, MEMBER6 = "10.20.0.1", "fd00:20::1"
NODE, NODE6 = "10.20.0.2", "fd00:20::2"
OTHER_MEMBER, OTHER_MEMBER6 = "10.20.0.3", "fd00:20::3"
OPERATOR, OTHER_OPERATOR, STRANGER = "10.20.9.1", "10.20.9.2", "10.20.8.1"
#: Two addresses of one network of 64 bits.
OPERATOR6, SAME_OPERATOR6 = "fd00:20:0:9::1", "fd00:20:0:9::2"
STRANGER6 = "fd00:20:0:8::1"
#: Users of the host by name: their number.
USERS = {"root": 0, "calico-etcd": 61101, "calico-gate": 61102, "stranger": 61103}
_TEMPLATE = ROOT / "roles/calico_etcd/templates/firewall.nft.j2"
_LIBRARIES = (
    "libnftables1", "libedit2", "libbsd0", "libmd0", "libjansson4", "libnftnl11", "libmnl0", "libxtables12", "libgmp10",
)  # fmt: skip

# Accepts all connections to the ports, and holds them until their other end closes them.
_HOLD = """\
import asyncio, json, sys
async def hold(reader, writer):
    try:
        await reader.read()
    except OSError:
        pass
    writer.close()
async def main():
    for port in json.load(sys.stdin):
        await asyncio.start_server(hold, ("::", "0.0.0.0"), port, backlog=4096)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
# Connects at the same time to each of a list of [source or "", address, port], and prints the list of what came of it:
# "connected", "refused", or "dropped" after five seconds.
_CONNECT = """\
import concurrent.futures, json, socket, sys
def attempt(wanted):
    source, address, port = wanted
    try:
        socket.create_connection((address, port), 5, (source, 0) if source else None).close()
        return "connected"
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "dropped"
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(attempt, json.load(sys.stdin)))))
"""
# Begins connections from each of a list of [source, address, port, count], prints the number of those that are
# established whenever it changes, and holds all of them until its input ends.
_FLOOD = """\
import json, selectors, socket, sys
opened, waiting, established = [], selectors.DefaultSelector(), 0
for source, address, port, count in json.loads(sys.stdin.readline()):
    for dummy in range(count):
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        one.setblocking(False)
        one.bind((source, 0))
        one.connect_ex((address, port))
        opened.append(one)
        waiting.register(one, selectors.EVENT_WRITE)
waiting.register(sys.stdin, selectors.EVENT_READ)
while True:
    for key, dummy in waiting.select():
        if key.fileobj is sys.stdin:
            sys.exit()
        waiting.unregister(key.fileobj)
        established += key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        print(established, flush=True)
"""
# Opens and closes one connection after the other from a source, until one is dropped. Prints how many were before it.
_HURRY = """\
import json, socket, sys
source, address, port = json.load(sys.stdin)
for number in range(100_000):
    try:
        with socket.create_connection((address, port), 1, (source, 0)) as connection:
            connection.settimeout(60)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # the other end has closed it
    except TimeoutError:
        break
print(number)
"""

Attempt = tuple[str, str, int]


class Flood(t.NamedTuple):
    """Connections that are being opened, and the process that holds them."""

    process: subprocess.Popen[str]
    #: Read the lines of the process until this many connections are established.
    until: t.Callable[[int], None]


class MemberHost:
    """The host of a member and the others around it, as the module's docstring says."""

    def __init__(self, folder: pathlib.Path, ports: t.Sequence[int] = PORTS) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self.host, self.others = self._space("member"), self._space("others")
        self.host.ip("link add eth0 type veth peer name outside0")
        self.host.run("ip", "link", "set", "outside0", "netns", str(self.others.pid))
        for space, name, own in (
            (self.host, "eth0", (MEMBER, MEMBER6)),
            (self.others, "outside0", (NODE, NODE6, OTHER_MEMBER, OTHER_MEMBER6, OPERATOR, OTHER_OPERATOR, STRANGER,
                                       OPERATOR6, SAME_OPERATOR6, STRANGER6)),
        ):  # fmt: skip
            lengths = (f"{address}/{48 if ':' in address else 16}" for address in own)
            space.ip(*(f"address add {address} dev {name}{' nodad' * (':' in address)}" for address in lengths))
            space.ip(f"link set {name} up")
        self._load()
        for space in (self.host, self.others):
            holder = self._start(space, _HOLD)
            assert holder.stdin and holder.stdout
            holder.stdin.write(json.dumps(ports))
            holder.stdin.close()
            assert holder.stdout.readline() == "ready\n"
        self.host.run("ping", "-6", "-c1", "-W10", "-w60", NODE6)  # the link's addresses work

    def container(self) -> Namespace:
        """Return a namespace behind the member's host, which masquerades it: a container of Docker's own bridge."""
        made = self._space("container")
        self.host.ip("link add bridge0 type veth peer name inside0")
        self.host.run("ip", "link", "set", "inside0", "netns", str(made.pid))
        for space, name, number in ((self.host, "bridge0", 1), (made, "inside0", 2)):
            space.ip(f"address add 172.17.0.{number}/24 dev {name}", f"address add fd17::{number}/64 dev {name} nodad",
                     f"link set {name} up")  # fmt: skip
        made.ip("route add default via 172.17.0.1", "route add ::/0 via fd17::1")
        self.host.sysctl({"ip_forward": "1"})
        self.host.sysctl({"conf/all/forwarding": "1"}, "ipv6")
        for iptables, source in (("iptables", "172.17.0.0/24"), ("ip6tables", "fd17::/64")):
            self.host.run(iptables, "-t", "nat", "-A", "POSTROUTING", "-s", source, "-j", "MASQUERADE")
        made.run("ping", "-6", "-c1", "-W10", "-w60", OTHER_MEMBER6)
        return made

    def _space(self, name: str) -> Namespace:
        space = Namespace(name)
        self._stack.callback(space.close)
        return space

    def _load(self) -> None:
        members = allowed_clients.networks("members", [MEMBER, MEMBER6, OTHER_MEMBER, OTHER_MEMBER6])
        plan = {
            "members": allowed_clients.by_version(members),
            "fleet": allowed_clients.by_version([*members, *allowed_clients.networks("nodes", [NODE, NODE6])]),
            "operators": allowed_clients.by_version(
                allowed_clients.networks("operators", ["10.20.9.0/24", "fd00:20:0:9::/64"])
            ),
        }
        text = trust_as_template(_TEMPLATE.read_text("utf-8"))
        rules = Templar(DataLoader(), variables={"calico_etcd_plan": plan}).template(text)
        (self._folder / "firewall.nft").write_text(rules)
        users = "".join(f"{name}:x:{number}:{number}::/:/bin/false\n" for name, number in USERS.items())
        (self._folder / "passwd").write_text(users)
        self._nft("-f", str(self._folder / "firewall.nft"))

    def _nft(self, *arguments: str) -> str:
        """Run nft in the member's namespace, with the users of its host, and return its output."""
        tree = unpacked(ROOT / ".build" / "nftables-bookworm", "bookworm", "nftables", _LIBRARIES)
        libraries = next(tree.glob("usr/lib/*/libnftables.so.1")).parent
        script = f'mount --bind {self._folder / "passwd"} /etc/passwd && exec "$@"'
        nft = ("env", f"LD_LIBRARY_PATH={libraries}", str(tree / "usr/sbin/nft"))
        return self.host.run("unshare", "--mount", "sh", "-ec", script, "sh", *nft, *arguments)

    def dropped(self, chain: str) -> int:
        """Return how many packets the rules of this chain have dropped or rejected."""
        listed = json.loads(self._nft("-j", "list", "chain", "inet", "calico_etcd", chain))["nftables"]
        found = [part for one in listed if "rule" in one for part in one["rule"]["expr"] if "counter" in part]
        return sum(part["counter"]["packets"] for part in found)

    def _start(self, space: Namespace, source: str, *who: str) -> subprocess.Popen[str]:
        command = space.command(*who, sys.executable, "-I", "-c", source)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _answer(self, space: Namespace, source: str, asked: t.Any, *who: str) -> t.Any:
        output, dummy = self._start(space, source, *who).communicate(json.dumps(asked), timeout=300)
        return json.loads(output)

    def local(self, user: str, attempts: t.Sequence[Attempt], *who: str) -> dict[Attempt, str]:
        """Connect as a local user of the member's host, and return what came of each attempt.

        `who` are words before the command, which begin after the change of the user.
        """
        number = USERS[user]
        words = ("setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", *who)
        return dict(zip(attempts, self._answer(self.host, _CONNECT, attempts, *words)))

    def reaches(self, attempts: t.Sequence[Attempt], space: t.Optional[Namespace] = None) -> dict[Attempt, str]:
        """Connect from the other namespace, or from `space`, and return what came of each attempt."""
        return dict(zip(attempts, self._answer(space or self.others, _CONNECT, attempts)))

    def flood(self, *wanted: tuple[str, str, int, int]) -> Flood:
        """Begin connections from the other namespace: (source, address, port, number of them) each."""
        process = self._start(self.others, _FLOOD)
        assert process.stdin and process.stdout
        process.stdin.write(f"{json.dumps(wanted)}\n")
        process.stdin.flush()
        os.set_blocking(process.stdout.fileno(), False)
        seen = [0]

        def until(count: int) -> None:
            def reached() -> bool:
                assert process.stdout
                for line in iter(process.stdout.readline, ""):
                    seen[0] = int(line)
                return seen[0] == count

            wait_for(f"{count} connections", reached)

        return Flood(process, until)

    def hurry(self, source: str, address: str, port: int) -> int:
        """Open and close connections as fast as possible; return how many were accepted before one was dropped."""
        return t.cast(int, self._answer(self.others, _HURRY, [source, address, port]))

    def close(self) -> None:
        self._stack.close()
