# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has of etcd: packages, the unit, files, and the address from which Ansible reaches it."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import subprocess
import typing as t

SETTINGS = "/etc/calico-etcd"
DATA = "/var/lib/calico-etcd"
UNIT = "calico-etcd.service"
PACKAGE = "etcd-server"
#: The unit writes a digest of its files here when it starts.
STARTED_WITH = "/run/calico-etcd/started-with"
#: The files that a running member has read at its start.
_READ = ("ca.pem", "etcd.env", "peer.pem", "peers.pem", "server.pem")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+~:-]{0,63}")
_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class EtcdOnHost:
    """`installed` and `candidate` are versions such as 3.4.23, "" for none. `stale`: files changed since the start."""

    installed: str
    candidate: str
    data: bool
    running: bool
    stale: bool
    controller: str


def observe() -> EtcdOnHost:
    """Return what this host has of etcd. Raise OSError if a program cannot be started, and TimeoutExpired."""
    running = _output(["systemctl", "is-active", UNIT]).strip() in ("active", "activating", "reloading")
    installed = _output(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", PACKAGE])
    return EtcdOnHost(
        installed=upstream(installed, "installed "),
        candidate=upstream(_output(["apt-cache", "policy", PACKAGE]), "Candidate: "),
        data=os.path.isdir(os.path.join(DATA, "member")),
        running=running,
        stale=running and _started_with() != files_digest(),
        controller=controller_address(os.environ, os.getppid()),
    )


def upstream(text: str, after: str) -> str:
    """Return the upstream part of Debian's version that follows the words `after` in a text, "" if there is none."""
    found = text.partition(after)[2].split("\n", 1)[0].strip()
    if not _VERSION.fullmatch(found):
        return ""
    return re.split(r"[-+~]", found.rpartition(":")[2], maxsplit=1)[0]


def files_digest() -> str:
    """Return the digest of the files that a member reads at its start, as the unit computes it."""
    listed = []
    for name in _READ:
        try:
            with open(os.path.join(SETTINGS, name), "rb") as stream:
                listed.append(f"{hashlib.sha256(stream.read()).hexdigest()}  {name}\n")
        except OSError:
            listed.append(f"none  {name}\n")
    return "".join(listed)


def controller_address(environment: t.Mapping[str, str], parent: int) -> str:
    """Return the address from which SSH reaches this host, "" if unknown.

    A become method such as sudo removes the variable, so the environments of the parents are searched, too.
    """
    found = environment.get("SSH_CONNECTION", "")
    while not found and parent > 1:
        try:
            with open(f"/proc/{parent}/environ", "rb") as stream:
                entries = stream.read(1 << 20).split(b"\0")
            with open(f"/proc/{parent}/stat", "rb") as stream:
                parent = int(stream.read(4096).rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        values = [entry.partition(b"=")[2] for entry in entries if entry.startswith(b"SSH_CONNECTION=")]
        found = values[0].decode("ascii", "replace") if values else ""
    return found.split(" ")[0]


def _started_with() -> str:
    try:
        with open(STARTED_WITH, encoding="utf-8") as stream:
            return stream.read(4096)
    except (OSError, UnicodeDecodeError):
        return ""


def _output(command: t.Sequence[str]) -> str:
    """Return what a program prints, whatever its status; "" if there is no such program."""
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        done = subprocess.run(
            list(command), capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=_SECONDS,
            env=environment,
        )  # fmt: skip
    except FileNotFoundError:
        return ""
    return done.stdout
