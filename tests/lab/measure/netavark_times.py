# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The times of netavark's setup and teardown by its bridge driver and by the plugin, in turns; runs on a host.

Prints a JSON object of medians in milliseconds by driver. Uses the standard library alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

NETAVARK = "/usr/lib/podman/netavark"
PLUGINS = "/usr/local/libexec/netavark"
CONFIG = "/run/netavark-times"
DRIVERS = ("bridge", "calico")


def configuration(driver: str, number: int) -> str:
    """Return what podman sends netavark for one container, as JSON."""
    is_bridge = driver == "bridge"
    network = {
        "name": f"times-{driver}",
        "id": f"{DRIVERS.index(driver):064x}",
        "driver": driver,
        "internal": False,
        "ipv6_enabled": False,
        "dns_enabled": False,
        "network_interface": "times0" if is_bridge else None,
        "options": {},
        "ipam_options": {"driver": "host-local" if is_bridge else "none"},
        "subnets": [{"subnet": "198.51.100.0/24", "gateway": "198.51.100.1"}] if is_bridge else None,
    }
    address = [f"198.51.100.{number + 2}"] if is_bridge else None
    options = {"interface_name": "eth0", "static_ips": address, "aliases": None, "static_mac": None}
    return json.dumps(
        {
            "container_id": f"{2 * number + DRIVERS.index(driver) + 1:064x}",
            "container_name": f"times-{number}",
            "networks": {network["name"]: options},
            "network_info": {network["name"]: network},
        }
    )


def call(verb: str, netns: str, sent: str) -> float:
    """Run netavark once; return how long it took, in seconds. Raise CalledProcessError if it fails."""
    command = [NETAVARK, "--config", CONFIG, "--plugin-directory", PLUGINS, verb, netns]
    began = time.perf_counter()
    subprocess.run(command, input=sent, text=True, check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - began


def main() -> None:
    """Attach and detach as many containers of each driver as the first argument says."""
    os.makedirs(CONFIG, exist_ok=True)
    times: dict[str, list[float]] = {driver: [] for driver in DRIVERS}
    for number in range(int(sys.argv[1])):
        for driver in DRIVERS:
            name = f"times-{driver}"
            subprocess.run(["ip", "netns", "add", name], check=True)
            sent, netns = configuration(driver, number), f"/run/netns/{name}"
            times[driver].append(call("setup", netns, sent) + call("teardown", netns, sent))
            subprocess.run(["ip", "netns", "del", name], check=True)
    print(json.dumps({driver: 1000 * statistics.median(seconds) for driver, seconds in times.items()}))


main()
