# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine that modules and the boot unit work on: its kernel and where things lie. The one seam for tests."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ..bird import client, configuration, dropped_segments, version
from ..bird.errors import NotAnswering
from ..dataplane.kernel.linux import LinuxKernel
from ..dataplane.kernel.port import Kernel
from . import units
from .change import detached_process, ssh_session
from .engine import bundle, engine_start
from .ipam import local_ipam
from .store import endpoints, lock, store, unconfirmed


class Agent(t.Protocol):
    """A connection to the agent that runs on this node, and what the agent said of itself.

    `engine` is the digest of the engine that it runs, `settings` that of its agent.json, 16 hex digits of the sha256
    or, without one, "".
    """

    engine: str
    settings: str

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]:
        """Raises TimeoutError where the answer did not come in time, AgentRefused for all else, with texts for
        people."""

    def close(self) -> None: ...


class AgentRefused(Exception):
    """What the agent answered instead of doing it."""


def is_bird_answering(socket: str) -> bool:
    """Return whether BIRD answers at its control socket."""
    try:
        with client.Client(socket, timeout=5.0):
            return True
    except NotAnswering:
        return False


@dataclasses.dataclass
class Machine:
    """`agent` connects to the agent at a socket; None where nobody listens there. Without it nobody ever does.

    Paths are those of a node; tests put them elsewhere. `root` is for what the preflight reads and files go to."""

    kernel: Kernel
    agent: t.Optional[t.Callable[[str], t.Optional[Agent]]] = None
    root: str = "/"
    store: str = store.FOLDER
    lock: str = lock.PATH
    engine: str = bundle.ROOT
    engine_alarm: str = engine_start.ALARM
    bird_config: str = configuration.PATH
    bird_socket: str = client.SOCKET
    bird_program: str = version.PROGRAM
    netstat: str = dropped_segments.PATH
    watched: float = dropped_segments.WATCHED  # seconds for which it is looked at
    systemctl: str = units.PROGRAM
    ipam: str = local_ipam.FOLDER
    cni_deleted: str = "/var/lib/calico/cni/deleted"
    workloads: str = endpoints.FOLDER
    agent_socket: str = "/run/calico/agent.sock"
    writer_lock: str = "/run/calico/writer.lock"  # held by the agent as long as it lives
    lock_timeout: float = 60.0  # seconds that a module waits for another one
    boot_wait: float = 60.0  # seconds that the boot unit waits for the node's address
    agent_patience: float = 10.0  # seconds that an agent which has begun to start may take until it listens
    # SSH sessions of this host: first the one by which this process came; none if it came otherwise.
    sessions: t.Callable[[], t.Sequence[ssh_session.Session]] = ssh_session.here
    uptime: t.Callable[[], unconfirmed.Uptime] = unconfirmed.uptime
    leave_behind: t.Callable[[t.Sequence[str]], None] = detached_process.start
    # Whether BIRD answers at its socket.
    bird_answers: t.Callable[[str], bool] = is_bird_answering

    def placed(self, path: str) -> str:
        """Return where `path` of a node lies on this machine: below `root`."""
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))


def here(agent: t.Optional[t.Callable[[str], t.Optional[Agent]]] = None, mounts: t.Optional[str] = None) -> Machine:
    """Return the machine that this process runs on. Whoever brings a node to a state gives agent.agent_start.connect.

    `mounts` is as in LinuxKernel."""
    return Machine(LinuxKernel(mounts=mounts), agent)
