# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as a process: `python3 -I /usr/local/lib/calico/start agent`, run by calico-agent.service.

It reads its settings, takes the lock that makes it the only agent, starts all parts and handles signals. If any part
ends, the process ends with status 1 and systemd starts it again; the data plane is not touched by that.

SIGTERM and SIGINT end it, SIGHUP makes it read state.json again, and SIGUSR1 makes it write its dump (dump.py).
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import gc
import logging
import os
import signal
import sys
import typing as t

from ..base import terminal_text, typed_json
from ..bird.status import Session
from ..dataplane.kernel.linux import LinuxKernel
from ..dataplane.kernel.port import Kernel
from ..files import bounded
from ..node.machine import Machine
from ..node.store import lock
from ..runtimes.cni.dispatch import CniPlugin
from ..runtimes.deleted import DeletedWhileDown
from ..runtimes.netavark.dispatch import NetavarkPlugin
from ..sockets.notify import Notifier
from ..wire import protocol
from ..wire import settings as settings_
from ..wire.settings import AgentSettings, SettingsError
from ..wire.shim_framing import CNI, NETAVARK
from .agent import Agent
from .agent_metrics import watch_agent
from .api.bounds import ApiLimits
from .api.server import Server, SocketInUse
from .concurrency.fair_share import FairShare
from .known.host import AgentHost
from .log import journal
from .methods import Methods
from .metrics import bgp_metrics
from .metrics.http import MetricsServer
from .metrics.instruments import Instruments
from .metrics.metrics import Registry
from .metrics.process_metrics import watch_loop, watch_process
from .node.dump import dump
from .policy_log.log_listener import LogListener
from .reconcile.polling import Polling
from .watch.monitor import Monitor

_log = logging.getLogger("calico")

#: Seconds that the parts of the agent have to end when it is stopped.
_PARTING = 5.0
#: The most bytes of a request about a container.
_DESCRIPTION_LIMIT = 64 << 10

#: The keywords of LinuxKernel that a file of --paths may have.
_FOLDERS = ("netns_folder", "marker_folder")


#: The reader of a file of --paths, which may also have those fields of Machine that are texts and numbers.
_PATHS = typed_json.table(
    {},
    {
        **{name: typed_json.text() for name in _FOLDERS},
        **{
            field.name: typed_json.text() if isinstance(field.default, str) else typed_json.number()
            for field in dataclasses.fields(Machine)
            if isinstance(field.default, (str, float))
        },
    },
)


def main(arguments: t.Sequence[str]) -> int:
    """Run the agent until it is stopped, and return the exit status: 0 if it was stopped, or 1 after a failure.

    Unusable settings and paths are written to stderr, other failures are logged. writer.lock, for which it waits
    `lock_timeout` seconds of the machine, is held until the end. Exit with status 2 if the arguments or the file of
    --paths are wrong.
    """
    parser = argparse.ArgumentParser(prog="calico-agent", description="The daemon of one node; see calicoctl(8).")
    parser.add_argument("--settings", default=settings_.PATH, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--paths", metavar="FILE", help="a JSON object of paths that are not the usual ones; for tests")
    parser.add_argument(
        "--mounts",
        metavar="FILE",
        help="mount namespace of the host, where a sandboxed agent mounts network namespaces",
    )
    options = parser.parse_args(arguments)
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, _nothing_to_do)
    try:
        settings, digest = settings_.load(options.settings)
        machine, kernels = _here(options.paths, options.mounts)
    except typed_json.Unreadable as error:
        parser.error(f"{options.paths}: {terminal_text.text(error)}. Correct or remove it.")
    except (SettingsError, OSError, ValueError) as error:
        sys.stderr.write(f"calico-agent: {terminal_text.text(error)}\n")
        return 1
    journal.log_to_stderr(settings.log_level)
    try:
        # A module that found no agent and applies changes itself holds the lock while it writes: wait for that.
        with lock.held("calico-agent", machine.lock_timeout, machine.writer_lock):
            return asyncio.run(_serve(machine, settings, digest, kernels))
    except lock.LockError as error:
        _log.error("The agent does not start: %s", error)
    except SocketInUse as error:
        _log.error("%s", error)
    return 1


def _here(paths: t.Optional[str], mounts: t.Optional[str]) -> tuple[Machine, t.Callable[[], Kernel]]:
    """Return this machine and the function that makes its kernels, by the options --paths and --mounts, or None."""
    given: dict[str, t.Any] = {}
    if paths is not None:
        try:
            content = bounded.read_json(paths)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or error
            raise ValueError(f"{paths} cannot be read: {reason}. Correct it, or leave --paths out.") from error
        given = _PATHS(content)
    folders = {name: given.pop(name) for name in _FOLDERS if name in given}

    def kernels() -> Kernel:
        return LinuxKernel(**folders, mounts=mounts)

    return Machine(kernels(), **given), kernels


async def _serve(machine: Machine, settings: AgentSettings, digest: str, kernels: t.Callable[[], Kernel]) -> int:
    """Run the agent's parts until SIGTERM or SIGINT, and return 0, or until one of them ends, and return 1."""
    notifier = Notifier()
    instruments = Instruments(Registry())
    made: list[Kernel] = []

    def kernel() -> Kernel:
        made.append(kernels())
        return made[-1]

    agent = Agent(AgentHost(machine, settings, kernel), instruments, notifier.alive)
    workloads = agent.transactions
    deleted = DeletedWhileDown(workloads, machine.cni_deleted, (CniPlugin.stored, NetavarkPlugin.stored))
    shims = {
        CNI.name: CniPlugin(workloads, deleted, observed=instruments.answered_cni).handle,
        NETAVARK.name: NetavarkPlugin(workloads, deleted, observed=instruments.answered_netavark).handle,
    }
    # The loop calls the handlers only when it waits, and by then `start` has read the disk.
    _on_requests(agent, machine)
    await agent.start()
    await deleted.complete()
    methods = Methods(agent, digest)
    server = Server(
        machine.agent_socket,
        methods.table,
        shims=shims,
        group=settings.group,
        observed=instruments.answered,
    )
    await server.start()
    runtimes = await _for_runtimes(machine, methods, instruments)
    stopped = asyncio.Event()
    _on_stop(stopped)
    notifier.ready()
    _settle()
    parts = {
        **agent.run(),
        "monitor": Monitor(
            agent.passes.stages,
            ports=lambda: [kernel.netlink_port for kernel in made],
            wanted=agent.workloads.wanted,
            on_lost=instruments.lost_events,
            on_addresses=agent.changes.interfaces.changed,
        ).run(),
        "polling": Polling(agent.passes.stages).run(),
        "policy log": LogListener(
            agent.policy_log,
            agent.persisted.nflog_group,
            on_problem=functools.partial(agent.persisted.note, "policy log"),
        ).run(),
        "deleted containers": deleted.run(),
        "bgp figures": bgp_metrics.watch(
            instruments,
            machine.bird_socket,
            agent.persisted.has_bird,
            functools.partial(_see_sessions, agent),
        ),
        "paths": agent.paths.run(),
        "loop": watch_loop(instruments),
        "signals": stopped.wait(),
    }
    tasks = {name: asyncio.ensure_future(part) for name, part in parts.items()}
    metrics = await _metrics(agent, settings, instruments, server.share)
    try:
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        return 0 if stopped.is_set() else _ended(tasks)
    finally:
        notifier.stopping()
        await server.stop()
        if runtimes is not None:
            await runtimes.stop()
        for task in tasks.values():
            task.cancel()
        # A limit is needed: before Python 3.12 wait_for() may lose a cancellation that coincides with the result.
        await asyncio.wait(tasks.values(), timeout=_PARTING)
        if metrics is not None:
            await metrics.stop()


async def _for_runtimes(machine: Machine, methods: Methods, instruments: Instruments) -> t.Optional[Server]:
    """Start the server for calico-runtimes.service and return it, None if its folder is missing or it cannot listen.

    That unit has no other way to the agent, and this server has no other methods than those that it needs.
    """
    path = protocol.runtimes_socket(machine.agent_socket)
    if not os.path.isdir(os.path.dirname(path)):
        return None
    limits = ApiLimits(line=_DESCRIPTION_LIMIT, connections=8, waiting=8 * _DESCRIPTION_LIMIT)
    server = Server(path, methods.for_runtimes, group="", limits=limits, observed=instruments.answered)
    try:
        await server.start()
    except SocketInUse as error:
        _log.error("Names and labels of containers are not learned: %s", error)
        return None
    return server


def _see_sessions(agent: Agent, sessions: t.Sequence[Session], unknown: str) -> None:
    """Pass BIRD's sessions on; `unknown` is why they cannot be read, "" if they were."""
    agent.datastore.see_sessions(sessions, unknown)
    agent.paths.see_sessions(
        (session.description for session in sessions if not session.established),
        (session.description for session in sessions if session.established),
    )


async def _metrics(
    agent: Agent, settings: AgentSettings, instruments: Instruments, share: FairShare
) -> t.Optional[MetricsServer]:
    """Start the HTTP server for metrics and return it; None if none is wanted or, a problem, it cannot listen."""
    watch_process(instruments)
    watch_agent(instruments, agent)
    if not settings.metrics_port:
        return None
    server = MetricsServer(
        instruments.registry,
        agent.status.liveness,
        agent.status.readiness,
        address=settings.metrics_address,
        port=settings.metrics_port,
        share=share,
    )
    try:
        await server.start()
    except OSError as error:
        where = f"{settings.metrics_address} port {settings.metrics_port}"
        agent.persisted.broken["metrics"] = (
            f"metrics cannot be served on {where}: {error.strerror}. Choose another metrics_address or metrics_port in"
            " agent.json, then restart calico-agent."
        )
        _log.error("%s", agent.persisted.broken["metrics"])
        return None
    return server


def _ended(parts: t.Mapping[str, asyncio.Future[t.Any]]) -> int:
    """Log each part that ended without being cancelled, with its error if it has one; return the exit status 1."""
    for name, part in parts.items():
        if part.done() and not part.cancelled():
            error = part.exception()
            _log.error("%s ended, and so does the agent; systemd starts it again.", name, exc_info=error)
    return 1


def _nothing_to_do(number: int, frame: object) -> None:
    """Let SIGHUP or SIGUSR1 pass: nothing was read yet to read again or to dump. Their default ends the process."""


def _on_requests(agent: Agent, machine: Machine) -> None:
    """Let SIGHUP make the agent read its files again, and SIGUSR1 make it write its dump beside its socket."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, agent.changes.reload)
    path = os.path.join(os.path.dirname(machine.agent_socket), "agent-dump.json")
    parts = agent.status, agent.desired_state, agent.transactions, agent.changes
    loop.add_signal_handler(signal.SIGUSR1, dump, *parts, path)


def _on_stop(stopped: asyncio.Event) -> None:
    """Let SIGTERM and SIGINT set `stopped`. Before, they end the process at once, which loses nothing."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)


def _settle() -> None:
    """Exempt the objects made so far from garbage collection, since they live as long as the process."""
    gc.collect()
    gc.freeze()
