# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl node diags`: the diagnostics of a node in one archive without passwords."""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import typing as t

from ....bird.client import BirdClient
from ....bird.errors import BirdError
from ....files import folders
from ...errors import DONE, CommandError
from ...sources import Sources

#: {file in the archive, without .txt: command whose output it holds}. The file of a command that is not installed says
#: that.
COMMANDS: dict[str, tuple[str, ...]] = {
    "date": ("date", "--iso-8601=seconds"),
    "hostname": ("hostname",),
    "uname": ("uname", "-a"),
    "uptime": ("uptime",),
    "links": ("ip", "-details", "-statistics", "link"),
    "addresses": ("ip", "address"),
    "routes": ("ip", "-details", "route", "show", "table", "all"),
    "routes6": ("ip", "-6", "-details", "route", "show", "table", "all"),
    "rules": ("ip", "rule"),
    "neighbors": ("ip", "neighbor"),
    "fdb": ("bridge", "fdb", "show"),
    "netns": ("ip", "netns", "list-id"),
    "sockets": ("ss", "-tulnp"),
    "iptables": ("iptables-save", "-c"),
    "ip6tables": ("ip6tables-save", "-c"),
    "nftables": ("nft", "list", "ruleset"),
    "ipsets": ("ipset", "list"),
    "units": (
        "systemctl",
        "--no-pager",
        "status",
        "calico-agent",
        "calico-bird",
        "calico-node-state",
        "calico-firewall",
    ),
    "journal": ("journalctl", "--no-pager", "--lines=5000", "--unit=calico-agent", "--unit=calico-bird"),
    "kernel-log": ("journalctl", "--no-pager", "--dmesg", "--lines=1000"),
}
BIRD_COMMANDS = ("show status", "show protocols all", "show route all")
API_METHODS = ("status", "workload.list", "ipam.show", "ipam.check")

SETTINGS = "/etc/calico/agent.json"

_SECONDS = 20.0
_FILE_LIMIT = 16 << 20  # the most bytes that are taken of one file, or of the output of one command
#: Passwords to hide: BIRD's `password "..."`, in bird.cfg and inside JSON, and quoted ones in other configurations.
#: A name may also end in such a word after a sign that is no letter or digit: bgp_passwords, but not mypassword.
_SECRET = re.compile(
    r"""(?imx) (?<![a-z0-9]) (passwords?|passwd|passphrase|secret|token) (\W{1,6}?) (\\?["']) .*? (?=\3|$) """
)


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    name = f"diags-{datetime.datetime.now():%Y%m%d_%H%M%S}"
    path = os.path.join(arguments.log_dir, f"{name}.tar.gz")
    if not sources.is_node:
        sources.warn(f"{sources.no_node()} What is gathered is of this host alone.")
    sys.stdout.write("Collecting diagnostics\n")
    try:
        folders.make(arguments.log_dir, folders.PRIVATE)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for member, text in collect(sources):
                _add(archive, f"{name}/{member}", redacted(text))
    except OSError as error:
        raise CommandError(
            f"{path} could not be written: {error.strerror}. Name another folder with --log-dir."
        ) from error
    sys.stdout.write(f"Diags saved to {path}\n")
    return DONE


def redacted(text: str) -> str:
    return _SECRET.sub(r"\1\2\3********", text)


def collect(sources: Sources) -> t.Iterator[tuple[str, str]]:
    """Yield (path below the archive's folder, text); an unreadable source has an error message as its text.

    Passwords are still in the text (see `redacted`). A command may take 20 seconds. Texts are the last 16 MiB of its
    output, and the first 16 MiB of a file.
    """
    for name, command in COMMANDS.items():
        yield f"{name}.txt", _said(command)
    for question in BIRD_COMMANDS:
        yield f"bird/{question.replace(' ', '-')}.txt", _bird(sources.machine.bird_socket, question)
    for method in API_METHODS:
        yield f"agent/{method}.json", _agent(sources, method)
    machine = sources.machine
    for folder, title in ((machine.store, "state"), (machine.workloads, "workloads"), (machine.ipam, "ipam")):
        yield from _folder(folder, title)
    yield "bird/bird.cfg", _file(machine.bird_config)
    yield "settings.json", _file(SETTINGS)


def _said(command: t.Sequence[str]) -> str:
    head = f"$ {' '.join(command)}\n"
    environment = {**os.environ, "LC_ALL": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SECONDS,
            env=environment, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{head}no end within {_SECONDS:g} s\n"
    except OSError as error:
        return f"{head}{error.strerror}\n"
    status = f"exit status {done.returncode}\n" if done.returncode else ""
    return head + done.stdout[-_FILE_LIMIT:].decode(errors="replace") + status


def _bird(socket: str, command: str) -> str:
    try:
        with BirdClient(socket) as client:
            return f"{client.ask(command).text}\n"
    except BirdError as error:
        return f"{error}\n"


def _agent(sources: Sources, method: str) -> str:
    params = {"selector": None} if method == "workload.list" else {}
    try:
        return json.dumps(sources.agent.ask(method, **params), indent=2) + "\n"
    except CommandError as error:
        return f"{error}\n"


def _folder(folder: str, title: str) -> t.Iterator[tuple[str, str]]:
    """Yield (`title`/name, text) of each file in `folder`, without subfolders and symbolic links, sorted by name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        yield f"{title}.txt", f"{folder}: {error.strerror}\n"
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            yield f"{title}/{name}", _file(path)


def _file(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(_FILE_LIMIT).decode(errors="replace")
    except OSError as error:
        return f"{path}: {error.strerror}\n"


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(data))
