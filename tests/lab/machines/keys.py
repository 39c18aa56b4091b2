# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files with which SSH reaches the hosts from outside their namespaces: keys, known_hosts, ssh_config."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from ..shell import run
from ..topology import CONTROL_NET, NODES, Places


def _key(path: Path, comment: str) -> str:
    if not path.exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])
    return path.with_name(path.name + ".pub").read_text()


def make(places: Places, patience: int = 1) -> None:
    """Write the lab's key, a host key for each host and for the emulated machine, known_hosts and ssh_config.

    Keys that exist are kept. If HOST_ROUTING_LAB_KEYS names a folder, its keys replace them first. Host keys exist
    before the hosts boot, so known_hosts is complete from the start. SSH waits 20 seconds for a new connection, and 30
    for a silent host, both times `patience`. Raise LabError if ssh-keygen fails, and OSError if a file cannot be read
    or written.
    """
    state = places.state
    (state / "cp").mkdir(parents=True, exist_ok=True)
    (state / "cp").chmod(0o700)
    given = os.environ.get("HOST_ROUTING_LAB_KEYS")  # in an emulated machine: the folder of the outer lab's keys
    if given:
        shutil.copytree(given, state, dirs_exist_ok=True)
    _key(state / "id_ed25519", f"host-routing-lab-{places.name}")
    known = ""
    machine = {"machine": f"{CONTROL_NET}.1"}
    for name in [*NODES, *machine]:
        (state / "hostkeys").mkdir(exist_ok=True)
        kind, key, *_ = _key(state / "hostkeys" / name, name).split()
        known += f"{name} {kind} {key}\n"
    (state / "known_hosts").write_text(known)
    text = f"# Written by tests/lab/lab up, for the lab called {places.name}.\n"
    # A host's underlay address is its alias, since inventories of real networks name hosts by it.
    addresses = {node.name: (node.control_address, f" {node.address}") for node in NODES.values()}
    addresses |= {name: (address, "") for name, address in machine.items()}
    for name, (address, alias) in addresses.items():
        text += f"Host {name}{alias}\n    HostName {address}\n    HostKeyAlias {name}\n"
    # nc passes the connected socket on and exits: the connection belongs to the lab's namespace, without a relay.
    text += (
        "Host *\n"
        "    User root\n"
        f"    IdentityFile {state}/id_ed25519\n"
        "    IdentitiesOnly yes\n"
        f"    UserKnownHostsFile {state}/known_hosts\n"
        "    GlobalKnownHostsFile /dev/null\n"
        "    StrictHostKeyChecking yes\n"
        f"    ConnectTimeout {20 * patience}\n"
        "    ServerAliveInterval 5\n"
        f"    ServerAliveCountMax {6 * patience}\n"
        "    LogLevel ERROR\n"
        f"    ControlPath {state}/cp/%C\n"
        f"    ProxyCommand nsenter --net=/run/netns/{places.netns('control')} nc.openbsd -F %h %p\n"
        "    ProxyUseFdpass yes\n"
    )
    places.ssh_config.write_text(text)


def drop_connections(places: Places) -> None:
    """End the shared SSH connections of this lab, which otherwise hang when a host is gone.

    The socket of a connection that does not end within 5 seconds is removed all the same.
    """
    for socket in (places.state / "cp").glob("*"):
        command = ["ssh", "-F", "/dev/null", "-o", f"ControlPath={socket}", "-O", "exit", "lab"]
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
        except subprocess.TimeoutExpired:
            pass
        socket.unlink(missing_ok=True)
