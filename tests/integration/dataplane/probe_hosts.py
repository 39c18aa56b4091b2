# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts with probe endpoints and a router between them, as network namespaces.

probe1 == host1 -- router -- host2 == probe2
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.probing import (
    ProbeResult,
    Sending,
    Target,
    probe,
)

#: The addresses of both ends of the path by IP version: pool addresses of the endpoints, hosts and router.
ENDPOINT = {4: ("10.244.3.63", "10.244.7.63"), 6: ("fd00:10:244:3::3f", "fd00:10:244:7::3f")}
HOST = {4: ("10.10.1.11", "10.10.2.12"), 6: ("fd00:10:10:1::11", "fd00:10:10:2::12")}
ROUTER = {4: ("10.10.1.1", "10.10.2.1"), 6: ("fd00:10:10:1::1", "fd00:10:10:2::1")}
BLOCK = {4: ("10.244.3.0/26", "10.244.7.0/26"), 6: ("fd00:10:244:3::/122", "fd00:10:244:7::/122")}
_LENGTH = {4: (24, 32), 6: (64, 128)}
_GATEWAY = {4: "169.254.1.1", 6: "fe80::ecee:eeff:feee:eeee"}
_MAC = "ee:ee:ee:ee:ee:ee"
SECRET = bytes(range(16))


class Hosts:
    """The namespaces, whose names `of` returns. `sh` runs a command in one of them."""

    def __init__(self) -> None:
        self._mark = f"{os.getpid() % 100000}"
        names = ("host1", "probe1", "router", "host2", "probe2")
        for name in names:
            subprocess.run(["ip", "netns", "add", self.of(name)], check=True)
            self.sh(name, "ip link set lo up")
            for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=0"):
                self.sh(name, f"sysctl -qw {setting} net.ipv4.conf.default.rp_filter=0")
            self.sh(name, "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0")
            self.sh(name, "sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0")
        for number in (0, 1):
            host, endpoint = f"host{number + 1}", f"probe{number + 1}"
            self._join(host, "eth0", "router", f"eth{number}")
            self._join(endpoint, "eth0", host, "caliprobe")
            self.sh(host, f"ip link set caliprobe address {_MAC}")
            for version in (4, 6):
                self._address(version, number, host, endpoint)

    def of(self, name: str) -> str:
        return f"{name}-{self._mark}"

    def sh(self, name: str, command: str) -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", self.of(name), *command.split()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (name, command, done.stderr)
        return done.stdout

    def tables(self, version: int, name: str, command: str) -> None:
        """Run iptables or ip6tables with the arguments `command`."""
        self.sh(name, f"{'ip6tables' if version == 6 else 'iptables'} {command}")

    def close(self) -> None:
        for name in ("host1", "probe1", "router", "host2", "probe2"):
            subprocess.run(["ip", "netns", "delete", self.of(name)], check=False, capture_output=True)

    def _join(self, one: str, own: str, other: str, theirs: str) -> None:
        self.sh(one, f"ip link add {own} type veth peer name {theirs} netns {self.of(other)}")
        for name, device in ((one, own), (other, theirs)):
            self.sh(name, f"ip link set {device} up")

    def _address(self, version: int, number: int, host: str, endpoint: str) -> None:
        wide, narrow = _LENGTH[version]
        own, gateway = ENDPOINT[version][number], _GATEWAY[version]
        flag = "nodad" if version == 6 else ""
        ip = f"ip -{version}"
        self.sh(host, f"{ip} address add {HOST[version][number]}/{wide} dev eth0 {flag}")
        self.sh("router", f"{ip} address add {ROUTER[version][number]}/{wide} dev eth{number} {flag}")
        self.sh(host, f"{ip} route add default via {ROUTER[version][number]}")
        self.sh("router", f"{ip} route add {BLOCK[version][number]} via {HOST[version][number]}")
        self.sh(host, f"{ip} route add {own}/{narrow} dev caliprobe")
        self.sh(host, f"{ip} route add blackhole {BLOCK[version][number]}")
        self.sh(endpoint, f"{ip} address add {own}/{narrow} dev eth0 {flag}")
        self.sh(endpoint, f"{ip} neighbour replace {gateway} lladdr {_MAC} dev eth0 nud permanent")
        self.sh(endpoint, f"{ip} route add default via {gateway} dev eth0 onlink")

    def there(self, name: str, work: t.Callable[[], t.Any]) -> t.Any:
        """Return what `work` returns in a thread that is in the namespace."""
        found: list[t.Any] = []

        def run() -> None:
            handle = os.open(f"/run/netns/{self.of(name)}", os.O_RDONLY)
            try:
                _setns(handle)
                home = os.stat("/proc/thread-self/ns/net").st_ino
                found.append(work())
                assert os.stat("/proc/thread-self/ns/net").st_ino == home, "the thread is in another namespace now"
            except BaseException as error:  # noqa: BLE001 - raised again below
                found.append(error)
            finally:
                os.close(handle)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(60)
        if isinstance(found[-1], BaseException):
            raise found[-1]
        return found[0]

    def probe(
        self, version: int, number: int = 0, size: int = 1500, tos: int = 0, secret: bytes = SECRET, attempts: int = 1
    ) -> ProbeResult:
        """Return the result of probes from the endpoint of host1 (number 0) or host2 to that of the other one."""
        own, other = ENDPOINT[version][number], ENDPOINT[version][1 - number]
        sending = Sending(tos, namespace=self.of(f"probe{number + 1}"), secret=secret)
        target = Target(other, size, f"host{2 - number}", "default", own)
        found = self.there(f"host{number + 1}", lambda: probe([target], 3, 0.1, 0.5, attempts, sending))
        return t.cast(ProbeResult, found[0])

    def both(self, version: int, **options: t.Any) -> list[ProbeResult]:
        """Return the results of probes of both hosts to each other at the same time."""
        found: dict[int, ProbeResult] = {}
        threads = [
            threading.Thread(target=lambda n=n: found.update({n: self.probe(version, n, attempts=3, **options)}))
            for n in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return [found[0], found[1]]


def _setns(handle: int) -> None:
    from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import namespaces

    namespaces.call("enter the namespace", "setns", handle, namespaces.CLONE_NEWNET)


@contextlib.contextmanager
def two_hosts() -> t.Iterator[Hosts]:
    made = Hosts()
    try:
        yield made
    finally:
        made.close()
