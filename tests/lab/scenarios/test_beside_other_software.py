# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/reference/beside-other-software.md: other software restarts under traffic, on Debian 12 and 13.

Each row of the page's tables is an event here. An event may lose as many packets as the page says, and the node is in
sync after it.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.lab.fleet import workloads
from tests.lab.handle import BaseLab
from tests.lab.machines import downloads
from tests.lab.measure.checks import Pool
from tests.lab.measure.streams import Report, Stream, Streams
from tests.lab.shell import wait_until
from tests.lab.topology import NODES as HOSTS
from tests.long_form import LONG

from . import inventory
from .conftest import LAB, ROOT, Fleet, new_lab, start_docker

PAGE = ROOT / "docs" / "reference" / "beside-other-software.md"
#: One of Debian 12 and one of 13 in a subnet, and one behind the router.
NODES = ("node1", "node2", "node3")
#: {Debian's version: the host that the events of this version happen on}.
DEBIAN = {"12": "node1", "13": "node2"}
PACKAGES = ("firewalld", "ufw", "nftables", "network-manager", "ifupdown")
#: Installs PACKAGES without starting what they bring.
INSTALL = (
    "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d;"
    " export DEBIAN_FRONTEND=noninteractive;"
    " apt-get install -qq -y --no-install-recommends -o DPkg::Options::=--force-unsafe-io"
    f" {' '.join(PACKAGES)} >/dev/null && rm /usr/sbin/policy-rc.d && systemctl reload dbus"
)
#: Packets per second of each stream.
PPS = 200
POLICY = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "GlobalNetworkPolicy",
    "metadata": {"name": "open"},
    "spec": {"selector": "app == 'w'", "types": ["Ingress"], "ingress": [{"action": "Allow"}]},
}


@dataclass(frozen=True)
class Event:
    """What happens around a command of the page.

    `before` makes the host one on which the command means something, and `after` undoes that. Both are lines for sh,
    with {address} and {gateway} of the host. The streams go on for `seconds` after the command. `short` are the
    versions of Debian that `make test` tries it on; the long form tries it on both.
    """

    before: str = "true"
    after: str = "true"
    seconds: float = 2
    short: tuple[str, ...] = ()


_NETWORK_FILE = "/etc/systemd/network/10-eth0.network"
_NETWORKD = "systemd-networkd.service systemd-networkd.socket"
NETWORKD = Event(
    f"printf '[Match]\\nName=eth0\\n[Network]\\nAddress={{address}}/24\\nGateway={{gateway}}\\n' > {_NETWORK_FILE};"
    f" systemctl unmask -q {_NETWORKD}; systemctl start systemd-networkd",
    f"systemctl stop {_NETWORKD}; rm {_NETWORK_FILE}; systemctl mask -q {_NETWORKD}",
    short=("12",),
)
_CONNECTION = "/etc/NetworkManager/system-connections/eth0.nmconnection"
# Ansible reaches the lab's hosts by mgmt0.
NETWORK_MANAGER = Event(
    "printf '[keyfile]\\nunmanaged-devices+=interface-name:mgmt0\\n' > /etc/NetworkManager/conf.d/00-lab.conf;"
    " printf '[connection]\\nid=eth0\\ntype=ethernet\\ninterface-name=eth0\\n[ipv4]\\nmethod=manual\\n"
    f"address1={{address}}/24,{{gateway}}\\n[ipv6]\\nmethod=ignore\\n' > {_CONNECTION}; chmod 600 {_CONNECTION};"
    " systemctl start NetworkManager; nmcli -w 20 connection up eth0",
    f"systemctl stop NetworkManager; rm {_CONNECTION}; ip route replace default via {{gateway}}",
    short=("13",),
)
IFUPDOWN = Event(
    "printf 'auto lo\\niface lo inet loopback\\nauto eth0\\niface eth0 inet static\\n  address {address}/24\\n"
    "  gateway {gateway}\\n' > /etc/network/interfaces; systemctl start networking;"
    " ip address flush dev eth0; ifup --force eth0",
    "echo > /etc/network/interfaces; ip route replace default via {gateway}",
    seconds=4,
    short=("12", "13"),
)
DOCKER = Event("systemctl start docker", "systemctl stop docker docker.socket containerd")
UFW = Event("ufw --force enable", "ufw --force disable")
_ALTERNATIVE = "update-alternatives --set iptables /usr/sbin/iptables-"
_BACK = f"{_ALTERNATIVE}nft; {_ALTERNATIVE.replace('iptables', 'ip6tables')}nft"
# A new name, as udev gives it while a host boots or when its rules change.
RENAMED = "ip link set eth0 name enp1s0"
_NAMED_BACK = "ip link set enp1s0 name eth0; ip link set eth0 up; ip route replace default via {gateway}"
_TWO_DEFAULTS = "ip route replace default via {gateway} metric 100; ip route del default metric 0;"
_ONE_DEFAULT = "ip route flush default; ip route add default via {gateway}"
SECOND_DEFAULT = "ip route add default via 10.10.1.1 metric 500"
#: {a command of the page: what happens around it}.
EVENTS = {
    RENAMED: Event(after=_NAMED_BACK, short=("13",)),
    f"ip link set eth0 down; {RENAMED}; ip link set enp1s0 up": Event(after=_NAMED_BACK),
    SECOND_DEFAULT: Event(_TWO_DEFAULTS, _ONE_DEFAULT),
    "ip route del default metric 100": Event(_TWO_DEFAULTS + SECOND_DEFAULT, _ONE_DEFAULT, short=("12",)),
    "systemctl restart systemd-networkd": NETWORKD,
    "networkctl reload; networkctl reconfigure eth0": dataclasses.replace(NETWORKD, short=()),
    "systemctl restart NetworkManager": dataclasses.replace(NETWORK_MANAGER, short=()),
    "nmcli connection up eth0": NETWORK_MANAGER,
    "systemctl restart networking": IFUPDOWN,
    "systemctl restart nftables": Event(short=("13",)),
    "systemctl stop nftables": Event("systemctl start nftables"),
    "systemctl start docker": Event(after=DOCKER.after),
    "systemctl restart docker": dataclasses.replace(DOCKER, short=("13",)),
    f"{_ALTERNATIVE}legacy": Event(after=_BACK, seconds=4, short=("12",)),
    f"{_ALTERNATIVE}nft": Event(_BACK.replace("nft", "legacy") + "; sleep 4", seconds=4),
    "ufw enable": Event(after=UFW.after, short=("12",)),
    "ufw reload": UFW,
    "ufw disable": UFW,
}
#: What a command needs besides its words on the page.
WORDS = {
    f"ip link set eth0 down; {RENAMED}; ip link set enp1s0 up": (
        f"ip link set eth0 down; {RENAMED}; ip link set enp1s0 up; ip route add default via 10.10.1.1"
    ),
    "ufw enable": "ufw --force enable",
    f"{_ALTERNATIVE}legacy": _BACK.replace("nft", "legacy"),
    f"{_ALTERNATIVE}nft": _BACK,
}


def rows() -> list[tuple[str, str, int]]:
    """Return (command, version of Debian, packets that may be lost) of each command in the page's tables.

    A row's first cell has the commands, each in backquotes. The next two are the packets lost on Debian 12 and 13.
    """
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or not (commands := re.findall(r"`([^`]+)`", cells[0])):
            continue
        for command in commands:
            for version, cell in zip(DEBIAN, cells[1:3]):
                if match := re.fullmatch(r"0|up to (\d+)", cell):
                    found.append((command, version, int(match[1] or 0)))
    return found


def selected() -> list[tuple[str, str, int]]:
    """Return the `rows` to try: all in the long form, and otherwise those that are `Event.short`."""
    return [row for row in rows() if LONG or row[1] in EVENTS[row[0]].short]


def install(lab: BaseLab, node: str) -> None:
    """Install the software of the page on a host, and leave all of it stopped."""
    downloads.give_repository(lab, node, downloads.debs(HOSTS[node].release, PACKAGES))
    lab.exec(node, INSTALL, timeout=200)
    start_docker(lab, node)
    lab.exec(node, "systemctl disable -q --now docker.service docker.socket containerd.service")


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-beside", NODES, docker=True) as lab:
        with ThreadPoolExecutor(len(DEBIAN)) as pool:
            list(pool.map(functools.partial(install, lab), DEBIAN.values()))
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    pool = Pool("default", "10.244.0.0/16", "vxlan-crosssubnet", nat_outgoing=True)
    workloads = [inventory.workload(f"w-{node[-1]}", node, labels={"app": "w"}) for node in NODES]
    folder = tmp_path_factory.mktemp("beside")
    path = inventory.write(
        folder,
        [inventory.pool(pool)],
        workloads,
        NODES,
        bgp_peers=inventory.ROUTER,
        policies=[POLICY],
        node_cni_default=True,
    )
    fleet = Fleet(lab, path)
    fleet.site("-ecalico_node_soak_seconds=1").check()
    return fleet


def streams_of(lab: BaseLab, node: str, pps: float = PPS) -> list[Stream]:
    """Return four streams between the workload of `node` and those of the other two, both ways."""
    address = {found.node: found.address for found in workloads(lab, NODES)}
    return [
        Stream(source, f"w-{source[-1]}", target, f"w-{target[-1]}", address[target], size=200, pps=pps)
        for other in NODES
        if other != node
        for source, target in ((other, node), (node, other))
    ]


def in_sync(lab: BaseLab, node: str) -> bool:
    """Return whether nothing is left to change on a node, its agent says so too, and all its sessions run."""
    looks = "calicoctl node status >/dev/null && calicoctl status >/dev/null && calicoctl plan"
    done = lab.exec(node, looks, check=False)
    return done.returncode == 0 and done.stdout == "nothing to change\n"


def settle(lab: BaseLab, node: str) -> None:
    """Wait until a node is `in_sync`. For a minute after its start the agent removes nothing."""
    wait_until(f"{node} is in sync", functools.partial(in_sync, lab, node), 120, 0.5)


def during(lab: BaseLab, node: str, command: str, seconds: float, pps: float = PPS) -> Report:
    """Run a command on a host under traffic that goes on for `seconds` after it; return what was lost."""
    with Streams(lab, streams_of(lab, node, pps)) as streams:
        time.sleep(0.5)
        lab.exec(node, command, timeout=60)
        time.sleep(seconds)
        return streams.stop()


@pytest.mark.parametrize(("command", "version", "most"), selected())
def test_a_row_of_the_page(
    lab: BaseLab,
    fleet: Fleet,
    command: str,
    version: str,
    most: int,
    record_property: Callable[[str, object], None],
) -> None:
    node, event = DEBIAN[version], EVENTS[command]
    words = {"address": HOSTS[node].address, "gateway": HOSTS[node].gateway}
    lab.exec(node, event.before.format(**words), timeout=60)
    try:
        settle(lab, node)
        report = during(lab, node, WORDS.get(command, command), event.seconds)
        settle(lab, node)
    finally:
        lab.exec(node, event.after.format(**words), check=False, timeout=60)
    record_property("lost", f"{command}, Debian {version}: {report.lost}")
    print(f"lost {report.lost}, longest gap {max(one.longest_gap_ms for one in report.streams):.0f} ms")
    assert not report.silent_hosts and report.sent > PPS * 4 * event.seconds / 2, report.summary()
    assert report.lost_by_us <= most, report.summary()


@pytest.mark.parametrize("version", DEBIAN if LONG else ["13"])
def test_firewalld_cuts_workloads_off_until_the_remedy(lab: BaseLab, fleet: Fleet, version: str) -> None:
    """Nothing passes while firewalld runs, nor after its reload. After the remedy of the page everything passes."""
    node = DEBIAN[version]
    try:
        lab.exec(node, "systemctl reload dbus; systemctl start firewalld")
        assert during(lab, node, "firewall-cmd --reload", 1).received == 0
    finally:
        lab.exec(node, "systemctl disable -q --now firewalld")
    settle(lab, node)
    assert during(lab, node, "true", 1).lost_by_us == 0
    assert lab.exec(node, "nft list tables").stdout.count("firewalld") == 0


#: The addresses that the DHCP server of `test_a_lease_that_changes` gives node1: its own in the inventory, and another.
OWN, OTHER = HOSTS["node1"].address, "10.10.1.62"
LEASED = "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n[DHCPv4]\nUseDNS=no\n"


def lease(lab: BaseLab, address: str) -> None:
    """Let node2's DHCP server give node1 this address from now on, for 20 seconds at a time."""
    settings = (
        f"start {address}\nend {address}\ninterface eth0\nlease_file /tmp/leases\npidfile /run/udhcpd.pid\n"
        "option subnet 255.255.255.0\noption router 10.10.1.1\noption lease 20\nmin_lease 10\n"
        f"static_lease {HOSTS['node1'].mac} {address}\n"
    )
    lab.exec("node2", "cat > /tmp/udhcpd.conf; rm -f /tmp/leases; touch /tmp/leases", input=settings)
    lab.exec("node2", "systemctl stop dhcp; systemd-run -q --collect -u dhcp busybox udhcpd -f /tmp/udhcpd.conf")


def has(lab: BaseLab, address: str) -> bool:
    return f" {address}/24 " in str(lab.exec("node1", "ip -o -4 address show dev eth0").stdout)


@pytest.mark.soak
def test_a_lease_that_changes(lab: BaseLab, fleet: Fleet) -> None:
    """A renewal loses nothing. With another address tunnels fail, and the node says why, until it has its own again."""
    lease(lab, OWN)
    lab.exec("node1", f"cat > {_NETWORK_FILE}; systemctl unmask -q {_NETWORKD}", input=LEASED)
    try:
        lab.exec("node1", "ip address flush dev eth0; systemctl start systemd-networkd")
        wait_until("the lease is there", functools.partial(has, lab, OWN), 60)
        settle(lab, "node1")
        report = during(lab, "node1", "true", 25)  # a renewal comes after half a lease
        assert report.lost_by_us == 0, report.summary()
        lease(lab, OTHER)
        wait_until("the lease is another one", functools.partial(has, lab, OTHER), 60)
        said = functools.partial(lab.exec, "node1", "calicoctl status", check=False)
        wait_until("the agent says so", lambda: f"eth0 has {OTHER}/24 instead, with a lifetime" in said().stdout, 30)
        report = during(lab, "node1", "true", 1)
        by_tunnel = [one for one in report.streams if "node3" in (one.stream.src, one.stream.dst)]
        assert len(by_tunnel) == 2 and not any(one.received for one in by_tunnel), report.summary()
        lease(lab, OWN)
        wait_until("the lease is the first one", functools.partial(has, lab, OWN), 60)
        settle(lab, "node1")
        assert during(lab, "node1", "true", 1).lost_by_us == 0
    finally:
        words = {"address": OWN, "gateway": HOSTS["node1"].gateway}
        lab.exec("node2", "systemctl stop dhcp", check=False)
        back = "ip address flush dev eth0; ip address add {address}/24 dev eth0; ip route replace default via {gateway}"
        lab.exec("node1", f"{NETWORKD.after}; {back}".format(**words), check=False)
    settle(lab, "node1")
