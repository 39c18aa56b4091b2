# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that the lab needs on the machine that carries it, from Debian's own archive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..shell import progress, run
from ..topology import LabError

# program -> package. No package here starts a service: BIRD, tcpdump and the like run from the host image.
NATIVE = {
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "nc.openbsd": "netcat-openbsd",  # plain `nc` may be another implementation, which cannot pass a socket on
    "nsenter": "util-linux",
}
IMAGES = {"mmdebstrap": "mmdebstrap", "apt-ftparchive": "apt-utils"}
QEMU = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "mkfs.ext4": "e2fsprogs",
    "cpio": "cpio",
    "depmod": "kmod",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "nc.openbsd": "netcat-openbsd",  # plain `nc` may be another implementation, which cannot pass a socket on
}


def install(needs: dict[str, str]) -> None:
    """Install the packages of the programs that are missing.

    `needs` is {program: package}. Raise LabError if apt-get fails, and without root even if nothing is missing.
    """
    if os.geteuid() != 0:
        raise LabError("The lab makes network namespaces and boots containers: it needs root.")
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
    missing = sorted({package for program, package in needs.items() if not shutil.which(program, path=path)})
    if not missing:
        return
    progress(f"installing {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *missing]
    lists = Path("/var/lib/apt/lists")
    if not any(lists.glob("*_Packages*")) or run(command, check=False, env=environment).returncode:
        run(["apt-get", "update", "-qq", "-o", "DPkg::Lock::Timeout=300"], env=environment)
        run(command, env=environment)
