# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the distribution: dpkg's status file lists those that a host has, and apt tells what it can install."""

from __future__ import annotations

import re
import typing as t

from .files import Files

STATUS = "/var/lib/dpkg/status"

#: The packages that a node needs. BIRD 3 is the package bird3; `judge` checks the version of either.
NEEDED = ("bird2", "ipset", "iptables", "python3-pyroute2")
BIRD = ("bird3", "bird2")
#: Optional packages that make the CNI plugin faster.
CNI = ("netcat-openbsd",)
#: podman, and the program by which it makes networks. Both are the host's own.
PODMAN = ("podman", "netavark")
#: The program by which netavark writes its rules if its firewall_driver says so.
NFTABLES = "nftables"
_PLUGINS_SINCE = (4, 5)  # the first release of podman that knows netavark's plugins


def installed(files: Files, names: t.Iterable[str]) -> dict[str, t.Optional[str]]:
    """Return {package: version, or None if it is not installed} for `names`; all None without dpkg's file."""
    status = files.read_bytes(STATUS)
    return {name: _version(status, name) for name in names}


def _version(status: bytes, name: str) -> t.Optional[str]:
    start = status.find(f"Package: {name}\n".encode())
    while start > 0 and status[start - 1 : start] != b"\n":
        start = status.find(f"Package: {name}\n".encode(), start + 1)
    if start < 0:
        return None
    end = status.find(b"\n\n", start)
    paragraph = status[start : end if end >= 0 else len(status)].decode(errors="replace")
    if re.search(r"^Status: \S+ \S+ installed$", paragraph, re.MULTILINE) is None:
        return None
    version = re.search(r"^Version: (\S+)$", paragraph, re.MULTILINE)
    return version.group(1) if version else None


def of_node(files: Files) -> dict[str, t.Optional[str]]:
    """Return {package: version, or None if it is not installed} for all packages that matter to a node."""
    return installed(files, {*NEEDED, *BIRD, *CNI, *PODMAN, NFTABLES})


def takes_netavark_plugins(found: t.Mapping[str, t.Optional[str]]) -> bool:
    """Return whether podman makes networks by plugins of netavark: podman 4.5 or later, with netavark."""
    match = re.match(r"(?:\d{1,9}:)?(\d{1,9})\.(\d{1,9})", found.get("podman") or "", re.ASCII)
    if match is None or not found.get("netavark"):
        return False
    return (int(match.group(1)), int(match.group(2))) >= _PLUGINS_SINCE


def missing(found: t.Mapping[str, t.Optional[str]]) -> list[str]:
    """Return the packages of NEEDED that have no version in `found`, as `of_node` returns it. bird3 counts as bird2."""
    return [
        name
        for name in NEEDED
        if not found.get(name) and not (name in BIRD and any(found.get(other) for other in BIRD))
    ]


def candidate(run: t.Callable[..., t.Any], name: str = "bird2") -> t.Optional[str]:
    """Return the version of the package `name` that apt would install, or the installed one if apt keeps it.

    None if there is no apt, package, or fetched list, or no answer within 30 seconds. `run` is called as Kernel.run.
    """
    # Without its caches, apt-cache writes nothing: check mode requires that.
    off = ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
    result = run(["apt-cache", *off, "policy", name], timeout=30.0)
    match = re.search(r"^\s*Candidate:\s*(\S+)$", result.output, re.MULTILINE) if result.code == 0 else None
    return match.group(1) if match and match.group(1) != "(none)" else None
