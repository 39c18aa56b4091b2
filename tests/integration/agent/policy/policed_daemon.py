# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent whose node has policy, and datagrams between its workloads that show what was open, and when.

daemon.desire(policed(web(OPEN)))
daemon.start()
add(daemon, "web"), add(daemon, "client")
with Datagrams(daemon, "client", "web", OPEN) as open_, Datagrams(daemon, "client", "web", CLOSED) as closed:
    ...
assert open_.lost() == [] and closed.arrived() == []
"""

from __future__ import annotations

import dataclasses
import re
import socket
import struct
import threading
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables import COMMENT
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Kernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import from_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState, allow_all

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.policy.documents import Document, global_policy
from tests.unit.agent.node_under_test import STATE

#: A node's state without policy and without BGP: these hosts have no BIRD.
BASE = dataclasses.replace(STATE, bird=None)
OPEN, CLOSED = 5000, 5001

_BETWEEN = 0.002  # seconds between two datagrams
_ARRIVING = 0.1  # seconds in which a datagram normally arrives
_PATIENCE = 2.0  # seconds in which a datagram arrives even on a busy machine
_TIME = struct.Struct("d")
#: The seed of a set's hashes, which differs each time, and what only sets are printed with that the program made.
_SEED = re.compile(r" (?:initval|bucketsize) \S+")
_SO_RCVBUFFORCE = 33  # socket(7)


def policed(*documents: Document, base: NodeState = BASE) -> NodeState:
    """Return `base` with these documents (tiers, policies, profiles, sets) and a profile that allows all as its policy.

    Raise ResourceError for an invalid document, and ValueError if two policies have the same name.
    """
    found = from_resources.policy_set([resources.parse(one) for one in documents])
    found = dataclasses.replace(found, profiles=(*found.profiles, allow_all()))
    return dataclasses.replace(base, policy=PolicyState(found))


def web(*ports: int, name: str = "web") -> Document:
    """Return the GlobalNetworkPolicy `name`, which lets workloads labelled `app: client` reach `app: web` by UDP.

    It allows the UDP ports `ports` (at least one), and nothing else to `app: web`.
    """
    rule = {
        "action": "Allow",
        "protocol": "UDP",
        "source": {"selector": 'app == "client"'},
        "destination": {"ports": list(ports)},
    }
    return global_policy(name, 'app == "web"', types=["Ingress"], ingress=[rule])


def add(daemon: Daemon, name: str, **more: t.Any) -> str:
    """Add a workload with the label `app: <name>`, and return its first address.

    `more` are further parameters of workload.add; `labels` replaces this label. Raise what `Daemon.add` raises.
    """
    return str(daemon.add(name, **{"labels": {"app": name}, **more})["addresses"][0])


class Datagrams:
    """Datagrams from one workload's namespace to another's, one about every 2 milliseconds while the context lasts.

    None is answered, so that connection tracking never takes one for part of an established connection. `address` is
    that of the workload `target`; without it the agent is asked, and AgentError is raised if it has no such workload.
    Raise KernelError if a namespace is missing, and OSError if another socket of the target has the UDP port. At its
    end the context waits 0.1 seconds, and up to 2 more for the last datagram if any has arrived; then it closes the
    sockets. `sent` has the times of sending, in seconds of the monotonic clock.
    """

    def __init__(self, daemon: Daemon, source: str, target: str, port: int, address: str = "") -> None:
        self._to = (
            address or str(daemon.call("workload.get", id=f"default/{target}")["workload"]["addresses"][0]),
            port,
        )
        self._receiver = inside(daemon, target, lambda: _receiver(port))
        self._sender = inside(daemon, source, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.sent: list[float] = []
        self._arrived: list[float] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Datagrams:
        self._thread.start()
        return self

    def __exit__(self, *dummy: object) -> None:
        self._end.set()
        self._thread.join()
        time.sleep(_ARRIVING)
        until = time.monotonic() + _PATIENCE
        while self.arrived() and self.sent[-1] not in self._arrived[-50:] and time.monotonic() < until:
            time.sleep(_ARRIVING)
        self.close()

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()

    def _run(self) -> None:
        while not self._end.wait(_BETWEEN):
            self.send()
            self._drain()  # no buffer holds the datagrams of minutes

    def send(self) -> None:
        now = time.monotonic()
        self.sent.append(now)
        try:
            self._sender.sendto(_TIME.pack(now), self._to)
        except OSError:
            return  # a datagram that the kernel refuses counts as sent, and does not arrive

    def _drain(self) -> None:
        while self._receiver.fileno() >= 0:
            try:
                self._arrived.append(_TIME.unpack(self._receiver.recv(64))[0])
            except BlockingIOError:
                return

    def arrived(self) -> list[float]:
        """Return the times at which the datagrams that have arrived so far were sent, in the order of arrival.

        Each call returns the same list, with the new times appended.
        """
        self._drain()
        return self._arrived

    def lost(self) -> list[float]:
        """Return the sorted times, in seconds of the monotonic clock, at which the lost datagrams were sent.

        Call it after the context has ended. Raise AssertionError if no datagram was sent at all.
        """
        assert self.sent
        return sorted(set(self.sent) - set(self._arrived))

    def passes(self, patience: float = _ARRIVING) -> bool:
        """Send a datagram, and return whether this one arrives within `patience` seconds."""
        self.send()
        until = time.monotonic() + patience
        while time.monotonic() < until and self.sent[-1] not in self.arrived():
            time.sleep(0.001)
        return self.sent[-1] in self.arrived()


_T = t.TypeVar("_T")


def inside(daemon: Daemon, name: str, make: t.Callable[[], _T]) -> _T:
    """Run `make` in the network namespace `name`, and return its result; raise KernelError if there is none.

    Exceptions of `make` are passed on.
    """
    return daemon.kernel.inside(name)._there(make)


def _receiver(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
    made.bind(("0.0.0.0", port))
    made.setblocking(False)
    return made


def closed_for(daemon: Daemon, source: str, target: str, port: int) -> bool:
    """Send a datagram to a UDP port of `target`; return whether it fails to arrive within 0.1 seconds.

    Raise AgentError if the agent has no workload `target`, KernelError if a namespace is missing, and OSError if a
    socket of the target has the port.
    """
    return not open_for(daemon, source, target, port, patience=_ARRIVING)


def open_for(
    daemon: Daemon, source: str, target: str, port: int, address: str = "", patience: float = 10 * _PATIENCE
) -> bool:
    """Send a datagram to a UDP port of `target`; return whether it arrives within `patience` seconds.

    Without `address`, raise AgentError if the agent has no workload `target`. Raise KernelError if a namespace is
    missing, and OSError if a socket of the target has the port.
    """
    datagrams = Datagrams(daemon, source, target, port, address)
    try:
        return datagrams.passes(patience)
    finally:
        datagrams.close()


def ours(kernel: Kernel) -> list[str]:
    """Return the collection's rules, and then its sets, as the kernel's programs save them.

    Rules of both IP versions begin with program and table, and keep their order; sets are sorted, and their hash seeds
    and bucket sizes removed. "behind others" marks a rule after another program's rule in its chain, unless it accepts.
    Nothing is returned of a program that fails.
    """
    found: list[str] = []
    for program in ("iptables", "ip6tables"):
        table = ""
        foreign: set[str] = set()  # the chains of `table` in which a line read so far is another program's rule
        for line in kernel.run([f"{program}-save"]).output.splitlines():
            if line.startswith("*"):
                table, foreign = line, set()
            elif line.startswith("-A") and COMMENT not in line:
                foreign.add(line.split()[1])
            elif line.startswith("-A"):
                behind = line.split()[1] in foreign and "-j ACCEPT" not in line  # our accepting rules stay last
                found.append(f"{program} {table} {'behind others ' if behind else ''}{line}")
    sets = (_SEED.sub("", line) for line in kernel.run(["ipset", "save"]).output.splitlines())
    return [*found, *sorted(line for line in sets if "cali" in line)]
