# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script that runs on a lab host, prints as JSON what tests need to know of it, and sends pings.

    python3 - observe               one object, see `observe`
    python3 - ping '[{...}]'        [{"netns": str or null, "address": str, "size": bytes or null, "answer": bool}]
                                    -> [{"received": int, "ttl": int or null, "said": str}]

It uses nothing of the collection, so that the tests compare it with an independent source. Standard library only,
Python 3.9.
"""

from __future__ import annotations

import concurrent.futures
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
from typing import Any

BIRD_SOCKET = "/run/calico/bird.ctl"
UNITS = (
    "calico-bird.service",
    "calico-files.timer",
    "calico-firewall.service",
    "calico-node-state.service",
    "calico-agent.service",
    "bird.service",
)
SYSCTLS = (
    *("conf/*/rp_filter", "conf/*/proxy_arp", "conf/*/forwarding", "neigh/*/proxy_delay", "ip_forward"),
    "udp_early_demux",
)
#: Folders that a run may write to.
FILES = (
    *("/etc", "/opt", "/root/.ssh", "/run/calico", "/usr/local", "/var/lib/calico"),
    "/usr/share/bash-completion/completions",
)
#: Files that change without a run: caches of the linker and systemd, the machine's identity, its DNS servers and
#: mounts, and backups and locks of the user database.
MOVING = re.compile(
    r"/etc/(ld\.so\.cache|machine-id|resolv\.conf|mtab|\.updated|\.pwd\.lock|passwd-|group-|shadow-|gshadow-)$"
)


def said(*command: str) -> str:
    """Return what a command prints to stdout, "" if it cannot run or fails. After 90 s, raise TimeoutExpired."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=90, check=False)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def parsed(*command: str) -> list[Any]:
    answer: list[Any] = json.loads(said(*command) or "[]")
    return answer


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def sysctls() -> dict[str, Any]:
    return {
        path[len("/proc/sys/") :]: read(path).strip()
        for pattern in SYSCTLS
        for path in glob.glob("/proc/sys/net/ipv4/" + pattern)
    }


def files() -> dict[str, Any]:
    found = {}
    for top in FILES:
        for folder, folders, names in os.walk(top):
            # Python's caches depend on which programs ran.
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
                path = os.path.join(folder, name)
                if MOVING.search(path):
                    continue
                if os.path.islink(path):
                    found[path] = "-> " + os.readlink(path)
                elif os.path.isfile(path):
                    with open(path, "rb") as stream:
                        found[path] = hashlib.sha256(stream.read()).hexdigest()
    return found


def routes(*arguments: str) -> list[str]:
    """Return the lines of `ip -4 ARGUMENTS route show table main`; next hops follow their route in one line."""
    text = said("ip", "-4", "-o", *arguments, "route", "show", "table", "main")
    return [line.replace("\\\t", "").strip() for line in text.splitlines()]


def namespace(name: str) -> dict[str, Any]:
    inside = ("ip", "-n", name)
    return {
        "links": parsed(*inside, "-j", "-d", "link"),
        "addresses": parsed(*inside, "-j", "-4", "address"),
        "routes": routes("-n", name),
    }


def units() -> dict[str, Any]:
    found = {}
    for unit in UNITS:
        # A timer's SubState changes whenever its time has come.
        moving = "" if unit.endswith(".timer") else ",SubState"
        text = said("systemctl", "show", "-p", f"LoadState,ActiveState,UnitFileState,NRestarts{moving}", unit)
        found[unit] = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return found


def observe() -> dict[str, Any]:
    state = read("/var/lib/calico/state.json")
    birdc = ("birdc", "-r", "-s", BIRD_SOCKET, "show")
    return {
        "routes": routes(),
        "tables": parsed("ip", "-4", "-j", "route", "show", "table", "all"),
        "rules": parsed("ip", "-4", "-j", "rule"),
        "links": parsed("ip", "-j", "-d", "link"),
        "addresses": parsed("ip", "-j", "-4", "address"),
        "neighbors": parsed("ip", "-4", "-j", "neigh", "show", "nud", "permanent"),
        "fdb": parsed("bridge", "-j", "fdb", "show"),
        "iptables": said("iptables-save"),
        "ip6tables": said("ip6tables-save"),
        "ipsets": said("ipset", "save"),
        "sysctls": sysctls(),
        "namespaces": {name: namespace(name) for name in sorted(os.listdir("/run/netns"))}
        if os.path.isdir("/run/netns")
        else {},
        "units": units(),
        "bird_processes": said("pidof", "bird").split(),
        "bird_protocols": said(*birdc, "protocols", "all"),
        "bird_routes": said(*birdc, "route", "all"),
        "bird_config": read("/etc/calico/bird.cfg"),
        "state": json.loads(state) if state else None,
        "packages": said("dpkg-query", "-W", "-f", "${Package}\n").split(),
        "files": files(),
    }


def ping(wanted: dict[str, Any]) -> dict[str, Any]:
    # -W is the seconds to wait for the answer: an emulated machine may take one or two. Where no answer is expected,
    # ping waits for all of them, so they are fewer.
    command = ["ping", "-n", "-W", "5" if wanted.get("answer", True) else "2", "-c", "1"]
    if wanted.get("size"):
        # `size` is that of the whole IP packet, which must not be fragmented: 20 bytes of IP and 8 of ICMP are not
        # payload.
        command += ["-M", "do", "-s", str(wanted["size"] - 28)]
    if wanted.get("netns"):
        command = ["ip", "netns", "exec", wanted["netns"]] + command
    # The first ping may wait for a neighbour's address, or learn the path's MTU. Where no answer is expected, one
    # attempt is enough.
    for _attempt in range(3 if wanted.get("answer", True) else 1):
        done = subprocess.run(
            command + [wanted["address"]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False
        )
        text = done.stdout.decode(errors="replace")
        ttl = re.search(r"ttl=(\d+)", text)
        if done.returncode == 0 and ttl:
            return {"received": 1, "ttl": int(ttl.group(1)), "said": text}
    return {"received": 0, "ttl": None, "said": text}


def main() -> None:
    if sys.argv[1] == "observe":
        result: Any = observe()
    else:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            result = list(pool.map(ping, json.loads(sys.argv[2])))
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
