# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts for Ansible made of namespaces: a network, processes, and folders of their own, without systemd and SSH.

All are connected to one router, each in a subnet of its own, so that each resolves only the router's address: the
kernel has one limit of neighbours for all namespaces together (gc_thresh3 of arp(7)). Hosts go away with this process.
"""

from __future__ import annotations

import ipaddress
import os
import pathlib
import subprocess
import time
import typing as t

_HERE = pathlib.Path(__file__).resolve().parent
_UNDERLAY = ipaddress.IPv4Network("172.20.0.0/16")
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")
#: The folders to which a run of site.yml writes, besides /run: each host's changes to them are its own.
_FOLDERS = ("etc", "opt", "usr/local", "var/lib")
_BOOT = """
mount -t tmpfs tmpfs "$1"
for top in {folders}; do
    mkdir -p "$1/$top/upper" "$1/$top/work"
    mount -t overlay -o "lowerdir=/$top,upperdir=$1/$top/upper,workdir=$1/$top/work" overlay "/$top"
done
rm -rf /etc/calico /var/lib/calico /usr/local/lib/calico
mount -t tmpfs tmpfs /run
install -m 755 "$2" /usr/local/bin/systemctl
ip link set lo up
: > /run/booted
while :; do
    sleep 3600 &
    wait $!
done
"""


class Space:
    """A process that holds a network namespace and, for a host, its mount and process namespaces as well.

    `options` are those of unshare(1), `pid` is the process id. The constructor raises AssertionError if the process
    ends at once.
    """

    def __init__(self, *options: str, command: t.Sequence[str] = ("sleep", "infinity")) -> None:
        unshare = ["unshare", "--net", "--fork", "--kill-child", *options, "--", *command]
        self._holder = subprocess.Popen([*_DIES_WITH_US, *unshare], stdin=subprocess.DEVNULL)
        self.pid = self._child()

    def _child(self) -> int:
        children = pathlib.Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        while True:
            assert self._holder.poll() is None, "unshare ended"
            found = children.read_text().split()
            if found and os.readlink(f"/proc/{found[0]}/ns/net") != os.readlink("/proc/self/ns/net"):
                return int(found[0])
            time.sleep(0.005)

    def run(self, *command: str, lines: t.Iterable[str] = ()) -> None:
        """Run a command in the network namespace only, `lines` as its input; raise CalledProcessError if it fails."""
        enter = ["nsenter", f"--target={self.pid}", "--net", "--", *command]
        subprocess.run(enter, input="\n".join(lines), text=True, check=True)

    def ip(self, lines: t.Iterable[str]) -> None:
        """Run commands of the program `ip`, one a line; raise CalledProcessError if one fails."""
        self.run("ip", "-batch", "-", lines=lines)

    def wait_for(self, path: str) -> None:
        """Wait until the file `path` (relative to /) exists on the host; raise AssertionError if the host ends before.

        There is no time limit.
        """
        while not pathlib.Path(f"/proc/{self.pid}/root/{path}").exists():
            assert self._holder.poll() is None, "a simulated host did not boot"
            time.sleep(0.005)

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()


class SimulatedHosts:
    """The hosts host1 to host`count`, at most 16,384, and their router.

    `addresses` is {host: address with its prefix length}, `spaces` is {host: its `Space`}. Each host mounts its own
    files at `folder`, which must exist. The constructor waits until all have booted. It raises AssertionError if one
    does not, and CalledProcessError if `ip` fails.
    """

    def __init__(self, count: int, folder: pathlib.Path) -> None:
        boot = _BOOT.format(folders=" ".join(_FOLDERS))
        command = ("sh", "-ec", boot, "sh", str(folder), str(_HERE / "systemctl"))
        self.router = Space()
        self.spaces: dict[str, Space] = {}
        self.addresses: dict[str, str] = {}
        links, gateways = ["link set lo up"], []
        for index, subnet in zip(range(1, count + 1), _UNDERLAY.subnets(new_prefix=30)):
            host = f"host{index}"
            space = Space("--mount", "--pid", "--mount-proc", command=command)
            self.spaces[host] = space
            gateway, address = subnet.hosts()
            self.addresses[host] = f"{address}/30"
            links.append(f"link add {host} type veth peer name eth0 netns {space.pid}")
            links.append(f"link set {host} up")
            links.append(f"addr add {gateway}/30 dev {host}")
            gateways.append(str(gateway))
        self.router.ip(links)
        self.router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for (host, space), gateway in zip(self.spaces.items(), gateways):
            address = self.addresses[host]
            space.ip([f"addr add {address} dev eth0", "link set eth0 up", f"route add default via {gateway}"])
            space.wait_for("run/booted")

    def close(self) -> None:
        for space in (*self.spaces.values(), self.router):
            space.close()

    def __enter__(self) -> SimulatedHosts:
        return self

    def __exit__(self, *dummy: object) -> None:
        self.close()
