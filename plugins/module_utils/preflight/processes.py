# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes in this network namespace and the owners of sockets, read from /proc (proc(5))."""

from __future__ import annotations

import re
import typing as t

from .files import Files

#: The unit of the BIRD that this collection runs, and its control socket.
OWN_BIRD_UNIT = "calico-bird.service"
OWN_BIRD_SOCKET = "/run/calico/bird.ctl"

_LISTEN = "0A"  # TCP_LISTEN in the kernel's include/net/tcp_states.h
_UNCONNECTED = "07"  # the state of a UDP socket without a peer
_SOCKET = re.compile(r"socket:\[(\d+)\]")


class Process(t.NamedTuple):
    pid: int
    name: str  # comm, at most 15 characters
    unit: str  # its systemd service, by its cgroup; "" outside of any
    own_bird: bool  # whether it is the BIRD that this collection runs


def names_here(files: Files) -> dict[int, str]:
    """Return {pid: comm} of the processes in this network namespace, without containers that have their own.

    A process whose namespace cannot be read counts as in this one, and so do all if the own one cannot be read.
    """
    own = files.link("/proc/self/ns/net")
    names = {}
    for entry in files.listing("/proc"):
        if entry.isdecimal():
            name = files.read(f"/proc/{entry}/comm").strip()
            if name:
                names[int(entry)] = name
    if own:
        return {pid: name for pid, name in names.items() if files.link(f"/proc/{pid}/ns/net") in (own, "")}
    return names


def describe(files: Files, pid: int) -> Process:
    cgroup = files.read(f"/proc/{pid}/cgroup")
    unit = next((part for part in re.split(r"[/\n]", cgroup) if part.endswith(".service")), "")
    command = files.read(f"/proc/{pid}/cmdline").split("\0")
    return Process(
        pid,
        files.read(f"/proc/{pid}/comm").strip(),
        unit,
        unit == OWN_BIRD_UNIT or OWN_BIRD_SOCKET in command,
    )


def sockets(files: Files, protocol: str) -> dict[int, set[str]]:
    """Return {local port: inodes} of IPv4 and IPv6 sockets that listen (`protocol` "tcp") or have no peer ("udp")."""
    wanted = _LISTEN if protocol == "tcp" else _UNCONNECTED
    found: dict[int, set[str]] = {}
    for name in (protocol, protocol + "6"):
        for line in files.read(f"/proc/net/{name}").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == wanted:
                port = int(fields[1].rpartition(":")[2], 16)
                found.setdefault(port, set()).add(fields[9])
    return found


def owners(files: Files, inodes: t.AbstractSet[str], pids: t.Iterable[int]) -> list[Process]:
    """Return the processes of our own BIRD and among `pids` that hold one of the sockets with these inodes.

    Of several holders of the same sockets only the first is returned: our own BIRD, then `pids` in ascending order.
    Once each socket has a holder, no further process is examined: on a converged node, BIRD holds them all. Without
    root's rights, no process of others is found. A socket of the kernel itself (inode "0") has none.
    """
    missing = {inode for inode in inodes if inode != "0"}
    found = []
    first = files.read(f"/sys/fs/cgroup/system.slice/{OWN_BIRD_UNIT}/cgroup.procs").split()
    for pid in dict.fromkeys([*(int(pid) for pid in first if pid.isdecimal()), *sorted(pids)]):
        if not missing:
            break
        held = set()
        for descriptor in files.listing(f"/proc/{pid}/fd"):
            match = _SOCKET.fullmatch(files.link(f"/proc/{pid}/fd/{descriptor}"))
            if match:
                held.add(match.group(1))
        if held & missing:
            found.append(describe(files, pid))
            missing -= held
    return found
