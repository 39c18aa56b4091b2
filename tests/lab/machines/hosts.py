# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host of the lab: prepare its files, start it, cut its power, wait for its SSH."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from ..shell import run, wait_until
from ..topology import NODES, UNDERLAY_MTU, LabError, Node, Places
from . import images

HERE = Path(__file__).resolve().parent
SYSTEMD = "etc/systemd/system.conf.d"
PACKAGES = "usr/lib/python3/dist-packages"  # the path is the same for every Python 3 of Debian


def prepare(
    places: Places, node: Node, baked: bool, podman: bool = False, ipv6: bool = False, docker: bool = False
) -> None:
    """Write the host's own files into the upper layer of its overlay, and the environment for run-host.

    Files that the host's disk has already are kept. The environment is always written anew. Raise FileNotFoundError if
    the lab has no keys yet.
    """
    work, here = places.work / node.name, places.state / node.name
    here.mkdir(parents=True, exist_ok=True)
    upper = work / "upper"
    folders = (work / "work", work / "root", *(upper / name for name in ("etc/ssh", "root/.ssh", PACKAGES, SYSTEMD)))
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    (upper / "root").chmod(0o700)
    (upper / "root/.ssh").chmod(0o700)
    names = "".join(f"{other.address} {other.name}\n" for other in NODES.values())
    identity = hashlib.sha256(f"{places.name}/{node.name}/{os.urandom(8).hex()}".encode()).hexdigest()[:32]
    files = {
        "etc/hostname": f"{node.name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n{names}",
        "etc/machine-id": f"{identity}\n",
        "root/.ssh/authorized_keys": (places.state / "id_ed25519.pub").read_text(),
        "etc/ssh/ssh_host_ed25519_key": (places.state / "hostkeys" / node.name).read_text(),
        "etc/ssh/ssh_host_ed25519_key.pub": (places.state / "hostkeys" / f"{node.name}.pub").read_text(),
        f"{PACKAGES}/zip_byte_code.py": (HERE / "zip_byte_code.py").read_text(),
        f"{PACKAGES}/zip_byte_code.pth": "import zip_byte_code\n",
    }
    if podman and not docker:  # dockerd needs more time
        # At a shutdown systemd waits this long for containers whose first process ignores SIGTERM. Its default is 90
        # seconds. The collection's units set their own times.
        files[f"{SYSTEMD}/lab.conf"] = "[Manager]\nDefaultTimeoutStopSec=10s\n"
    for path, text in files.items():
        target = upper / path
        if not target.exists():
            target.write_text(text)
            target.chmod(0o600 if path.endswith("_key") else 0o644)
    values = {
        "LAB": places.name,
        "MAC": node.mac,
        "CONTROL_MAC": node.control_mac,
        "ADDRESS": node.address,
        "CONTROL_ADDRESS": node.control_address,
        "GATEWAY": node.gateway,
        "ADDRESS6": node.address6 if ipv6 else "",
        "GATEWAY6": node.gateway6 if ipv6 else "",
        "RACK": node.rack,
        "MTU": UNDERLAY_MTU,
        "WORK": work,
        "LOWER": ":".join(map(str, images.layers(node.release, baked, podman, docker))),
        "CGROUPS": " ".join(map(str, places.cgroups)),
    }
    (here / "env").write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))


def _alive(file: Path, *words: str) -> int | None:
    """Return the process id in ``file`` if that process runs with each of ``words`` as an argument, else None."""
    for _ in range(20):
        try:
            pid = int(file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return None
        if command != [b""]:
            return pid if all(word.encode() in command for word in words) else None
        if state == "Z":
            return None
        time.sleep(0.005)  # during exec the command line is empty for a moment
    return None


def nspawn_pid(places: Places, node: Node) -> int | None:
    """Return the process id of the host's systemd-nspawn, None if there is none: off, or between two boots."""
    return _alive(places.state / node.name / "pid", "systemd-nspawn", f"--machine={node.name}")


def leader(places: Places, node: Node) -> int | None:
    """Return the process id, as seen from outside, of the host's PID 1, None if there is none."""
    pid = nspawn_pid(places, node)
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if pid else []
        for child in children:
            status = Path(f"/proc/{child}/status").read_text()
            if [line for line in status.splitlines() if line.startswith("NSpid:") and line.split()[-1] == "1"]:
                return int(child)
    except OSError:
        pass
    return None


def supervisor_pid(places: Places, node: Node) -> int | None:
    """Return the process id of the host's run-host, which starts the host again after a reboot, None if it is off."""
    return _alive(places.state / node.name / "supervisor", str(places.state), node.name)


def power_on(places: Places, node: Node) -> None:
    """Start the host unless it runs, without waiting for it; raise FileNotFoundError if it was never prepared."""
    if supervisor_pid(places, node):
        return
    here = places.state / node.name
    with (here / "log").open("a") as log:
        process = subprocess.Popen(
            [HERE / "run-host", places.state, node.name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        )
    (here / "supervisor").write_text(f"{process.pid}\n")


def power_off(places: Places, node: Node) -> None:
    """Cut the power: first the links, so that no last packet gets out, then all processes and the namespace.

    A host that is off stays so. Raise LabError if processes live on for 20 seconds, and FileNotFoundError if the host
    has no folder in the lab's state.
    """
    for who in ("router", "control"):
        run(["ip", "-n", places.netns(who), "link", "del", node.name], check=False)
    pid = supervisor_pid(places, node)
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    kill_group(places, node.name)
    (places.state / node.name / "pid").write_text("")
    run(["ip", "netns", "del", places.netns(node.name)], check=False)
    remove_group(places, node.name)


def _group_pids(places: Places, who: str) -> set[int]:
    pids: set[int] = set()
    for top in places.cgroups:
        for file in (top / who).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                pids |= {int(word) for word in file.read_text().split()}
    return pids - {0}


def kill_group(places: Places, who: str) -> None:
    """Kill all processes in the cgroups of ``who`` and wait until they are gone; raise LabError after 20 seconds."""

    def gone() -> bool:
        pids = _group_pids(places, who)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_until(f"the processes of {who} end", gone, 20, 0.02)


def remove_group(places: Places, who: str) -> None:
    for top in places.cgroups:
        folders = sorted((top / who).rglob("*/"), key=lambda path: -len(path.parts)) if (top / who).is_dir() else []
        for folder in [*folders, top / who]:
            with contextlib.suppress(OSError):
                folder.rmdir()


def remove_files(places: Places, node: Node) -> None:
    for folder in (places.work / node.name, places.state / node.name):
        shutil.rmtree(folder, ignore_errors=True)


def _enter_netns(netns: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{netns}") as handle:
        if libc.setns(handle.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), f"setns {netns}")


def ssh_banner(netns: str, address: str, timeout: float = 2) -> bool:
    """Return whether an SSH server answers at ``address`` port 22, seen from the namespace ``netns``.

    Connecting and reading may take ``timeout`` seconds each. Every failure is False.
    """
    answers: list[bool] = []

    def ask() -> None:
        # This thread alone enters the namespace `netns`, not the whole process, and ends after the attempt.
        with contextlib.suppress(OSError):
            _enter_netns(netns)
            with socket.create_connection((address, 22), timeout) as connection:
                connection.settimeout(timeout)
                answers.append(connection.recv(4) == b"SSH-")

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return bool(answers and answers[0])


def wait_for_ssh(places: Places, node: Node, timeout: float = 60) -> None:
    def ready() -> bool:
        if not supervisor_pid(places, node):
            log = (places.state / node.name / "log").read_text(errors="replace")[-1500:]
            raise LabError(f"{node.name} did not start. Its console said:\n{log}")
        return ssh_banner(places.netns("control"), node.control_address)

    wait_until(f"SSH of {node.name} answers (console: {places.state / node.name / 'log'})", ready, timeout, 0.05)
