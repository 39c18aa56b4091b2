# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Namespaces, bridges and the router between the hosts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..shell import run, wait_until
from ..topology import (
    CONTROL_NET,
    NODES,
    OUTSIDE_ADDRESS,
    OUTSIDE_NET_IPV6,
    OUTSIDE_ROUTER,
    RACKS,
    RACKS_IPV6,
    ROUTER_AS,
    LabError,
    Places,
)
from . import images

BRIDGE = "stp_state 0 forward_delay 0 mcast_snooping 0"
HERE = Path(__file__).resolve().parent


def namespaces() -> set[str]:
    folder = Path("/run/netns")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def ip_batch(netns: str, lines: str) -> None:
    run(["ip", "-n", netns, "-batch", "-"], input=lines)


def settings(netns: str, script: str) -> None:
    run(["nsenter", f"--net=/run/netns/{netns}", "sh", "-ec", script])


def make(places: Places) -> None:
    """Create the namespaces of the router, the outside host and the control network, where missing.

    Each new one gets its links, addresses and routes. Raise LabError if one cannot be created.
    """
    there = namespaces()
    router, outside, control = (places.netns(who) for who in ("router", "outside", "control"))
    if control not in there:
        run(["ip", "netns", "add", control])
        ip_batch(
            control,
            "link set lo up\n"
            f"link add br0 address 02:20:00:00:ff:01 type bridge {BRIDGE}\n"
            f"addr add {CONTROL_NET}.1/24 dev br0\n"
            "link set br0 up\n",
        )
    if router not in there:
        run(["ip", "netns", "add", router])
        lines = "link set lo up\n"
        for rack, prefix in RACKS.items():
            lines += (
                f"link add br{rack} address 02:10:00:00:0{rack}:fe type bridge {BRIDGE}\n"
                f"addr add {prefix}.1/24 brd + dev br{rack}\n"
                f"link set br{rack} up\n"
            )
        ip_batch(router, lines)
        settings(
            router,
            "cd /proc/sys/net/ipv4; echo 1 > ip_forward\n"
            "for scope in all default br1 br2; do\n"
            "echo 0 > conf/$scope/rp_filter; echo 0 > conf/$scope/send_redirects; echo 0 > conf/$scope/proxy_arp\n"
            "echo 1 > conf/$scope/forwarding\ndone",
        )
    if outside not in there:
        # `outside` has a route to the hosts' addresses and none to the pools: a packet whose source is a pool address
        # gets no answer.
        run(["ip", "netns", "add", outside])
        ip_batch(
            outside,
            f"link set lo up\nlink add eth0 type veth peer name outside netns {router}\n"
            f"addr add {OUTSIDE_ADDRESS}/24 dev eth0\nlink set eth0 up\nroute add 10.10.0.0/16 via {OUTSIDE_ROUTER}\n",
        )
        ip_batch(router, f"addr add {OUTSIDE_ROUTER}/24 dev outside\nlink set outside up\n")


def make_ipv6(places: Places) -> None:
    """Add IPv6 to both subnets and to the outside host; raise LabError at a second call."""
    router, outside = places.netns("router"), places.netns("outside")
    settings(router, "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
    lines = "".join(f"addr add {prefix}1/64 dev br{rack} nodad\n" for rack, prefix in RACKS_IPV6.items())
    ip_batch(router, f"{lines}addr add {OUTSIDE_NET_IPV6}1/64 dev outside nodad\n")
    ip_batch(
        outside,
        f"addr add {OUTSIDE_NET_IPV6}10/64 dev eth0 nodad\nroute add fd00:10:10::/48 via {OUTSIDE_NET_IPV6}1\n",
    )


def bird_conf(ipv6: bool = False) -> str:
    """Return the configuration of the router's BIRD.

    The router waits for the session of every host, accepts blocks and advertises nothing. Blocks are prefixes of at
    least 12, 14 or 16 bits (see the filter) in private ranges and 198.18.0.0/15, but not in the lab's own networks.
    The router takes the session of a host that comes back within seconds; BIRD's default after an error is 60 s. With
    `ipv6` the router has sessions over IPv6 as well, and accepts prefixes of at least 16 bits in fd00::/8, without
    fd00:10:10::/48.
    """
    text = f"""log stderr {{ warning, error, fatal, bug, auth }};
router id {RACKS[1]}.1;
protocol device {{ scan time 10; }}
protocol kernel {{ metric 64; ipv4 {{ import none; export where source = RTS_BGP; }}; }}
filter blocks {{
    if net ~ 10.10.0.0/16 || net ~ {CONTROL_NET}.0/24 || net ~ {OUTSIDE_ROUTER[:-1]}0/24 then reject;
    if net ~ [ 10.0.0.0/8{{12,32}}, 172.16.0.0/12{{14,32}} ] then accept;
    if net ~ [ 192.168.0.0/16{{16,32}}, 198.18.0.0/15{{16,32}} ] then accept;
    reject;
}}
template bgp host {{
    passive on;
    direct;
    connect delay time 1;
    error wait time 1, 10;
    ipv4 {{ import filter blocks; export none; }};
}}
"""
    for node in NODES.values():
        # `external` accepts any AS number but the router's own, so that tests can change a host's AS number.
        text += f"protocol bgp {node.name} from host {{ local {node.gateway} as {ROUTER_AS}; "
        text += f"neighbor {node.address} external; }}\n"
    return text + (_bird_conf_ipv6() if ipv6 else "")


def _bird_conf_ipv6() -> str:
    text = """
protocol kernel { metric 64; ipv6 { import none; export where source = RTS_BGP; }; }
filter blocks6 { if net ~ fd00:10:10::/48 then reject; if net ~ [ fd00::/8{16,128} ] then accept; reject; }
template bgp host6 {
    passive on;
    direct;
    connect delay time 1;
    error wait time 1, 10;
    ipv6 { import filter blocks6; export none; };
}
"""
    for node in NODES.values():
        text += f"protocol bgp {node.name}_ipv6 from host6 {{ local {node.gateway6} as {ROUTER_AS}; "
        text += f"neighbor {node.address6} external; }}\n"
    return text


def router_pid(places: Places) -> int | None:
    try:
        pid = int((places.state / "router/pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if b"bird" in command else None


def start_router(places: Places, ipv6: bool = False) -> None:
    """Start the router's BIRD and wait until it answers, unless it runs; raise LabError after 30 seconds.

    Its configuration file is written anew in either case. A BIRD that runs does not read it.
    """
    here = places.state / "router"
    (here / "root").mkdir(parents=True, exist_ok=True)
    (here / "bird.conf").write_text(bird_conf(ipv6))
    lower = ":".join(map(str, images.layers("bookworm", baked=True)))
    groups = " ".join(map(str, places.cgroups))
    (here / "env").write_text(f"LAB={places.name}\nLOWER='{lower}'\nCGROUPS='{groups}'\n")
    if router_pid(places):
        return
    with (here / "log").open("w") as log:
        subprocess.Popen(
            [HERE / "run-router", places.state],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.defpath + ":/usr/sbin:/sbin"},
        )

    def answers() -> bool:
        if not router_pid(places):
            return False
        done = run(
            [HERE / "enter", places.state, "router", "birdc", "-s", "/run/bird/bird.ctl", "show", "status"], check=False
        )
        return "Daemon is up" in done.stdout

    try:
        wait_until("the router's BIRD answers", answers, 30)
    except LabError as error:
        raise LabError(f"{error} It said: {(here / 'log').read_text()[-1000:]}") from None
