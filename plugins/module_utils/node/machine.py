# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine that modules and the boot unit work on: its kernel and its paths. Tests replace it, and nothing else."""

from __future__ import annotations

import dataclasses
import typing as t

from ..bird import client, configuration, dropped_segments, version
from ..bird.errors import NotAnswering
from ..dataplane.kernel.linux import LinuxKernel
from ..dataplane.kernel.port import Kernel
from ..wire.running_agent import RunningAgent
from .engine import engine_start
from .host import detached_process, ssh_session, units
from .paths import NodePaths
from .store import lock, unconfirmed


def is_bird_answering(socket: str) -> bool:
    """Return whether BIRD answers at its control socket `socket`: it has 5 seconds to accept, and 5 to greet."""
    try:
        with client.BirdClient(socket, timeout=5.0):
            return True
    except NotAnswering:
        return False


@dataclasses.dataclass
class Machine(NodePaths):
    """The kernel, paths, programs and waiting times of a node; tests use other ones.

    `agent` returns a connection to the agent at a socket, or None if no agent listens there, and raises TimeoutError or
    AgentRefused; `agent` None means that no agent is looked for. `root` is the folder below which the preflight reads
    and the node's files are written.
    """

    kernel: Kernel
    agent: t.Optional[t.Callable[[str], t.Optional[RunningAgent]]] = None
    lock: str = lock.PATH
    engine_alarm: str = engine_start.ALARM
    bird_config: str = configuration.PATH
    bird_socket: str = client.SOCKET
    bird_program: str = version.PROGRAM
    netstat: str = dropped_segments.PATH
    watched: float = dropped_segments.WATCHED  # seconds for which the counters in netstat are watched
    systemctl: str = units.PROGRAM
    podman: str = "podman"
    docker_socket: str = "/run/docker.sock"
    cni_deleted: str = "/var/lib/calico/cni/deleted"
    writer_lock: str = "/run/calico/writer.lock"  # the agent holds it as long as it lives, others while they write
    # The most seconds that a module for one kind of object waits for each of the two locks, and a starting agent for
    # writer_lock. Modules with a parameter lock_timeout wait for `lock` as long as that says.
    lock_timeout: float = 60.0
    boot_wait: float = 60.0  # the most seconds that the boot unit waits for the node's addresses
    # The most seconds to wait until an agent that has begun to start listens, and for writer_lock to become free before
    # write.writer applies a plan without an agent.
    agent_patience: float = 10.0
    # A function that returns this process's SSH session first, then the others to the same port; () if it has none.
    sessions: t.Callable[[], t.Sequence[ssh_session.SshSession]] = ssh_session.here
    uptime: t.Callable[[], unconfirmed.Uptime] = unconfirmed.uptime
    start_detached: t.Callable[[t.Sequence[str]], None] = detached_process.start
    # A function that returns whether BIRD answers at the socket with the given path.
    bird_answers: t.Callable[[str], bool] = is_bird_answering


def here(
    agent: t.Optional[t.Callable[[str], t.Optional[RunningAgent]]] = None, mounts: t.Optional[str] = None
) -> Machine:
    """Return the machine that this process runs on.

    `mounts` is the path of the mount namespace in which network namespaces are mounted, None for this process's own.
    """
    return Machine(LinuxKernel(mounts=mounts), agent)
