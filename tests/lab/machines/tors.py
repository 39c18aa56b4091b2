# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
r"""Top-of-rack switches: two in each rack, FRR in network namespaces of their own.

        spine (10.10.255.0/24, a bridge)
       /      |        |       \
    tor1a   tor1b    tor2a   tor2b        eBGP between racks, BFD; no session within a rack
       \      /          \      /
        br1                br2            eBGP with any host in the rack's subnet, BFD

They learn routes to workloads by BGP only. The router beside them stays the hosts' default gateway and knows no block
unless nodes peer with it, too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..shell import run, wait_until
from ..topology import RACKS, RACKS_IPV6, TORS, LabError, Places, Tor
from . import hosts, images, underlay

HERE = Path(__file__).resolve().parent
#: The passwords that a switch expects from hosts in its rack, as in inventories/as-per-rack-tor.
PASSWORDS = {1: "change-me-rack-a", 2: "change-me-rack-b"}


def frr_conf(tor: Tor) -> str:
    """Return FRR's configuration of a switch, which accepts and passes on blocks of workloads only.

    Prefixes of 16 to 28 bits in 10.0.0.0/8 (without 10.10.0.0/16) and 172.16.0.0/12 count as blocks, and those of 48
    to 124 bits in fd00::/8 (without fd00:10:10::/48). Sessions of each IP version carry its routes alone. With
    suppress-fib-pending the switch announces only routes that it can forward. Without that setting, hosts learn routes
    up to 50 ms too early. BFD waits for 1.5 s: on a busy machine, programs may not run for half a second.
    """
    others = [other for other in TORS.values() if other.rack != tor.rack]
    neighbors = "".join(
        f" neighbor {other.spine_address} remote-as {other.as_number}\n"
        f" neighbor {other.spine_address} peer-group SPINE\n"
        f" neighbor {other.spine_address6} remote-as {other.as_number}\n"
        f" neighbor {other.spine_address6} peer-group SPINE6\n"
        for other in others
    )
    groups = "".join(_peer_groups(suffix, PASSWORDS[tor.rack]) for suffix in ("", "6"))
    return f"""hostname {tor.name}
log file /run/frr/frr.log informational
bfd
 profile patient
  transmit-interval 300
  receive-interval 300
  detect-multiplier 5
!
ip prefix-list BLOCKS seq 5 deny 10.10.0.0/16 le 32
ip prefix-list BLOCKS seq 10 permit 10.0.0.0/8 ge 16 le 28
ip prefix-list BLOCKS seq 15 permit 172.16.0.0/12 ge 16 le 28
ipv6 prefix-list BLOCKS6 seq 5 deny fd00:10:10::/48 le 128
ipv6 prefix-list BLOCKS6 seq 10 permit fd00::/8 ge 48 le 124
route-map BLOCKS permit 10
 match ip address prefix-list BLOCKS
!
route-map BLOCKS6 permit 10
 match ipv6 address prefix-list BLOCKS6
!
router bgp {tor.as_number}
 bgp router-id {tor.address}
 bgp log-neighbor-changes
 no bgp default ipv4-unicast
 bgp bestpath as-path multipath-relax
 bgp suppress-fib-pending
 timers bgp 3 9
{groups}{neighbors} bgp listen range {RACKS[tor.rack]}.0/24 peer-group HOSTS
 bgp listen range {RACKS_IPV6[tor.rack]}/64 peer-group HOSTS6
{_address_family("ipv4", "")}{_address_family("ipv6", "6")}!
"""


def _peer_groups(suffix: str, password: str) -> str:
    """Return the peer groups of one IP version for hosts of the rack and for other switches."""
    return f""" neighbor HOSTS{suffix} peer-group
 neighbor HOSTS{suffix} remote-as external
 neighbor HOSTS{suffix} password {password}
 neighbor HOSTS{suffix} bfd
 neighbor HOSTS{suffix} bfd profile patient
 neighbor SPINE{suffix} peer-group
 neighbor SPINE{suffix} timers connect 1
 neighbor SPINE{suffix} bfd
 neighbor SPINE{suffix} bfd profile patient
"""


def _address_family(family: str, suffix: str) -> str:
    lines = "".join(
        f"  neighbor {group}{suffix} activate\n"
        f"  neighbor {group}{suffix} route-map BLOCKS{suffix} in\n"
        f"  neighbor {group}{suffix} route-map BLOCKS{suffix} out\n"
        for group in ("HOSTS", "SPINE")
    )
    return f" address-family {family} unicast\n{lines}  maximum-paths 2\n exit-address-family\n"


def make(places: Places) -> None:
    """Create the spine if it is missing, start all switches that do not run, and wait until FRR answers on each.

    Raise LabError if one cannot be connected, or does not answer within a minute.
    """
    router = places.netns("router")
    if run(["ip", "-n", router, "link", "show", "spine"], check=False).returncode:
        underlay.ip_batch(
            router, f"link add spine address 02:10:00:00:00:fe type bridge {underlay.BRIDGE}\nlink set spine up\n"
        )
    for tor in TORS.values():
        power_on(places, tor, wait=False)
    wait(places)


def power_on(places: Places, tor: Tor, wait: bool = True) -> None:
    if _answers(places, tor):
        return
    _wire(places, tor)
    here = places.state / tor.name
    (here / "root").mkdir(parents=True, exist_ok=True)
    (here / "frr.conf").write_text(frr_conf(tor))
    lower = ":".join(map(str, images.switch_layers()))
    groups = " ".join(map(str, places.cgroups))
    (here / "env").write_text(f"LAB={places.name}\nLOWER='{lower}'\nCGROUPS='{groups}'\n")
    (here / "pid").write_text("")
    with (here / "log").open("w") as log:
        subprocess.Popen(
            [HERE / "run-tor", places.state, tor.name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.defpath + ":/usr/sbin:/sbin"},
        )
    if wait:
        wait_for(places, tor)


def power_off(places: Places, tor: Tor) -> None:
    """Cut the power of a switch: links go first, so that no last packet gets out.

    Raise LabError if its processes survive SIGKILL for 20 seconds.
    """
    router = places.netns("router")
    for link in (tor.name, f"{tor.name}s"):
        run(["ip", "-n", router, "link", "del", link], check=False)
    hosts.kill_group(places, tor.name)
    hosts.remove_group(places, tor.name)
    run(["ip", "netns", "del", places.netns(tor.name)], check=False)


def remove(places: Places) -> None:
    for tor in TORS.values():
        if (places.state / tor.name).exists() or places.netns(tor.name) in underlay.namespaces():
            power_off(places, tor)


def wait(places: Places) -> None:
    for tor in TORS.values():
        wait_for(places, tor)


def wait_for(places: Places, tor: Tor) -> None:
    try:
        wait_until(f"FRR of {tor.name} answers", lambda: _answers(places, tor), 60)
    except LabError as error:
        raise LabError(f"{error} It said: {(places.state / tor.name / 'log').read_text()[-1000:]}") from None


def _wire(places: Places, tor: Tor) -> None:
    router, own = places.netns("router"), places.netns(tor.name)
    run(["ip", "netns", "add", own])
    underlay.ip_batch(
        own,
        f"link set lo up\n"
        f"link add rack type veth peer name {tor.name} netns {router}\n"
        f"link add spine type veth peer name {tor.name}s netns {router}\n"
        f"addr add {tor.address}/24 brd + dev rack\n"
        f"addr add {tor.spine_address}/24 brd + dev spine\n"
        f"addr add {tor.address6}/64 dev rack nodad\n"
        f"addr add {tor.spine_address6}/64 dev spine nodad\n"
        f"link set rack up\nlink set spine up\n",
    )
    underlay.settings(
        own,
        "cd /proc/sys/net/ipv4; echo 1 > ip_forward\n"
        "for scope in all default rack spine; do\n"
        "echo 0 > conf/$scope/rp_filter; echo 0 > conf/$scope/send_redirects; echo 1 > conf/$scope/forwarding\ndone\n"
        "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
    )
    underlay.ip_batch(
        router,
        f"link set {tor.name} master br{tor.rack}\nlink set {tor.name} up\n"
        f"link set {tor.name}s master spine\nlink set {tor.name}s up\n",
    )


def _answers(places: Places, tor: Tor) -> bool:
    """Return whether the switch's bgpd runs and has read its configuration."""
    if not (places.state / tor.name / "env").exists():
        return False
    command = [str(HERE / "enter"), str(places.state), tor.name, "vtysh", "-c", "show running-config bgpd"]
    return f"router bgp {tor.as_number}" in run(command, check=False).stdout
