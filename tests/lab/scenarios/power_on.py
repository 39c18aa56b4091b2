# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets to a host that boots, from before its network is up until it is in sync, and counts of those that arrive.

The host brings up its underlay link itself, by a unit after network-pre.target, as distributions do. A program that
listens on the targets' ports starts before that, and in workloads' namespaces as soon as they exist. The packets come
from the router, so that reaching the host takes no BGP route.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.handle import BaseLab
from tests.lab.topology import NODES

_LISTENER = "/usr/local/bin/lab-listener"
_COUNTS = "/run/lab-listener.json"

LISTENER = '''#!/usr/bin/python3
"""Counts datagrams: lab-listener '[[netns or null, port], ...]'. Binds in a network namespace when that is there."""
import ctypes, json, os, selectors, socket, sys, threading, time

def listen(netns, port):
    if netns:
        path = f"/run/netns/{netns}"
        while True:
            try:
                handle = os.open(path, os.O_RDONLY)
                if ctypes.CDLL(None).setns(handle, 0x40000000) == 0:
                    break
            except OSError:
                pass
            time.sleep(0.002)
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("0.0.0.0", port))
    bound.release()
    while True:
        receiver.recv(2048)
        counts[f"{netns or ''}:{port}"] += 1

wanted = json.loads(sys.argv[1])
counts = {f"{netns or ''}:{port}": 0 for netns, port in wanted}
bound = threading.Semaphore(0)
for netns, port in wanted:
    threading.Thread(target=listen, args=(netns, port), daemon=True).start()
for netns, port in wanted:
    if not netns:
        bound.acquire()
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
while True:
    with open("/run/lab-listener.new", "w") as stream:
        json.dump(counts, stream)
    os.replace("/run/lab-listener.new", "/run/lab-listener.json")
    time.sleep(0.1)
'''

LISTENER_UNIT = """[Unit]
DefaultDependencies=no
After=network-pre.target
Wants=network-pre.target
Before=network.target
[Service]
Type=notify
ExecStart={program} '{wanted}'
[Install]
WantedBy=multi-user.target
"""

NETWORK_UNIT = """[Unit]
DefaultDependencies=no
After=network-pre.target lab-listener.service
Wants=network-pre.target network.target
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link set eth0 up && ip route replace default via {gateway} dev eth0'
[Install]
WantedBy=multi-user.target
"""

#: A program that sends to each target about every 2 ms until it is terminated. Then it prints how many packets were
#: sent, and how many were answered by "port unreachable": those passed the firewall, too.
SENDER = """
import json, signal, socket, sys, time
targets = json.loads(sys.argv[1])
found = {f"{address}:{port}": {"sent": 0, "refused": 0} for address, port in targets}
senders = []
for address, port in targets:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setblocking(False)
    senders.append((f"{address}:{port}", (address, port), sender))
going = [True]
signal.signal(signal.SIGTERM, lambda *_: going.clear())
print("sending", file=sys.stderr, flush=True)
while going:
    for name, where, sender in senders:
        try:
            sender.connect(where)
            sender.send(b"x" * 32)
            found[name]["sent"] += 1
        except ConnectionRefusedError:
            found[name]["refused"] += 1
        except OSError:
            pass
    time.sleep(0.002)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Target:
    """A UDP port of the host, or of its workload in the network namespace `netns`."""

    address: str
    port: int
    netns: str | None = None

    @property
    def received(self) -> str:
        return f"{self.netns or ''}:{self.port}"

    @property
    def sent(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Count:
    sent: int
    received: int
    refused: int


def prepare(lab: BaseLab, node: str, targets: Sequence[Target], folder: Path) -> None:
    """Make the host bring up its link itself from the next boot on, and listen on the targets.

    It listens on its own ports before the link is up, and in namespaces as soon as they exist. `folder` is for a
    temporary file. Raise CommandFailed if the host refuses a step.
    """
    wanted = json.dumps([[target.netns, target.port] for target in targets])
    files = {
        _LISTENER: LISTENER,
        "/etc/systemd/system/lab-listener.service": LISTENER_UNIT.format(program=_LISTENER, wanted=wanted),
        "/etc/systemd/system/lab-network.service": NETWORK_UNIT.format(gateway=NODES[node].gateway),
    }
    for path, text in files.items():
        (folder / "file").write_text(text)
        lab.put(node, folder / "file", path, "755" if path == _LISTENER else "644")
    lab.exec(node, "systemctl daemon-reload && systemctl enable lab-listener lab-network")
    (lab.places.state / node / "late").touch()


def undo(lab: BaseLab, node: str) -> None:
    """Undo `prepare`: end the listener now, and let the lab bring up the host's link from the next boot on.

    Program and units stay on the host's disk, disabled. Raise CommandFailed if the host does not run.
    """
    (lab.places.state / node / "late").unlink(missing_ok=True)
    lab.exec(node, "systemctl disable --now lab-listener; systemctl disable lab-network")


@contextlib.contextmanager
def sending(lab: BaseLab, node: str, targets: Sequence[Target], counts: dict[Target, Count]) -> Iterator[None]:
    """Send to all targets from the router while the with block runs; fill `counts` at its end.

    `counts` is filled also if the block raises. Meanwhile the router has /32 routes to the targets in namespaces. Raise
    LabError if the sending program does not start, or if the host's counts cannot be read at the end; then the routes
    stay.
    """
    for target in targets:
        if target.netns:
            lab.router_exec(["ip", "route", "replace", f"{target.address}/32", "via", NODES[node].address])
    program = lab.background(
        "router", ["python3", "-c", SENDER, json.dumps([[target.address, target.port] for target in targets])]
    )
    program.wait_for(b"sending")
    try:
        yield
    finally:
        sent = json.loads(program.stop())
        time.sleep(0.3)  # until the last packets have arrived and their numbers are written
        received = received_by(lab, node)
        for target in targets:
            if target.netns:
                lab.router_exec(["ip", "route", "del", f"{target.address}/32"], check=False)
            one = sent[target.sent]
            counts[target] = Count(one["sent"], received.get(target.received, 0), one["refused"])


def received_by(lab: BaseLab, node: str) -> dict[str, int]:
    answer: dict[str, int] = json.loads(lab.exec(node, ["cat", _COUNTS]).stdout)
    return answer
