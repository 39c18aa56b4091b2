# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reporter: the agent and dockerd say which containers to look at, and one thread looks and reports.

    agent's stream  ── workloads of podman, and that Docker has some ──┐
                                                                       ├─► pending ──► runtime's API ──► agent
    dockerd's events ── a container joined a network, was renamed ─────┘

While nothing is started or renamed, each thread waits for something that does not come. podman is asked about those
containers alone that the agent names: its API is a program that systemd starts for each question, and that ends soon.
"""

from __future__ import annotations

import logging
import os
import threading
import typing as t

from ...base import container_labels, terminal_text
from ...wire import protocol
from ...wire.client import AgentClient
from ...wire.container_description import DESCRIBE, DOCKER, ENDPOINTS_LIMIT, PODMAN, WATCH, ContainerDescription
from ...wire.protocol import AgentError
from .engine_api import EngineApi, EngineError

_log = logging.getLogger("calico.runtimes")

#: Seconds until the next attempt after the agent or a runtime did not answer, and between two looks for a dockerd.
PAUSE, ABSENT = 1.0, 30.0
#: Seconds between two looks: what changes more often is looked at less often than it changes.
GATHERED = 0.2
#: The most containers that wait to be looked at. Of Docker, all are looked at instead then.
PENDING_LIMIT = 4096
#: Attempts at one container, and the most containers whose oddities have a line in the log.
_ATTEMPTS, _NOTED = 5, 1000
#: In place of an id: all running containers.
ALL = ""

_Entry = tuple[str, str]


class Pending:
    """The containers to look at, by runtime and id, in the order in which they were first named."""

    def __init__(self) -> None:
        self._attempts: dict[_Entry, int] = {}
        self._changed = threading.Condition()

    def add(self, runtime: str, id: str, attempts: int = 0) -> None:
        """Add a container, or with ALL all of a runtime. Drop it if too many of podman's wait, or after 5 attempts."""
        with self._changed:
            if attempts >= _ATTEMPTS:
                return
            if len(self._attempts) >= PENDING_LIMIT:
                if runtime != DOCKER:
                    return
                self._attempts = {entry: n for entry, n in self._attempts.items() if entry[0] != DOCKER}
                id = ALL
            self._attempts.setdefault((runtime, id), attempts)
            self._changed.notify()

    def take(self) -> list[tuple[str, str, int]]:
        """Wait for containers and return all: the runtime of each, its id, and the attempts that failed."""
        with self._changed:
            while not self._attempts:
                self._changed.wait()
            found = [(*entry, attempts) for entry, attempts in self._attempts.items()]
            self._attempts.clear()
            return found


class Reporter:
    """The threads that report names and labels.

    `apis` are the APIs of Docker and podman by the runtime's name, and `agent` is the path of the agent's socket for
    this unit. `runs` returns whether a dockerd runs: a connection to its socket would start one that was stopped.
    Threads that do not wait end once `stop` is set. All pauses are multiplied by `pace`.
    """

    def __init__(
        self,
        agent: str,
        apis: t.Mapping[str, EngineApi],
        runs: t.Callable[[], bool],
        stop: threading.Event,
        pace: float = 1.0,
    ) -> None:
        self._agent = agent
        self._apis = apis
        self._runs = runs
        self._stop = stop
        self._pace = pace
        self._pending = Pending()
        self._prefixes: tuple[str, ...] = ()
        self._wanted = threading.Event()  # a workload of Docker's was added
        self._followed = threading.Event()  # the agent has said what it wants
        self._hears = False
        self._noted: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Start the threads that look at containers and hear dockerd's events. They end with the process."""
        for work in (self._look, self._hear_docker):
            threading.Thread(target=self._for_ever, args=(work,), daemon=True).start()

    def follow_agent(self) -> None:
        """Follow one stream of the agent's until it ends, and note the containers that it names. Raise AgentError."""
        with AgentClient(self._agent) as agent:
            for event in agent.stream(WATCH):
                if event.get("event") == "known":
                    self._prefixes = tuple(event.get("prefixes", ()))
                    self._followed.set()
                    if self._hears:
                        self._pending.add(DOCKER, ALL)
                if event.get("docker"):
                    self._wanted.set()
                # Without prefixes there is nothing to ask podman: it says the names itself.
                for id in event.get("containers", ()) if self._prefixes else ():
                    self._pending.add(PODMAN, id)

    # --- threads

    def _for_ever(self, work: t.Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                work()
            except Exception:  # noqa: BLE001 - names and labels of other containers are still reported
                _log.exception("A thread failed because of an error in this program. Please report it.")
            self._pause(PAUSE)

    def _hear_docker(self) -> None:
        """Follow dockerd's events until it ends; without one, wait until it may run."""
        self._followed.wait()
        if not self._runs():
            self._wanted.wait(ABSENT)
            self._wanted.clear()
            return
        try:
            for id in self._apis[DOCKER].changed():
                # What happened before events are received is in the list of all, which `changed` begins with.
                self._hears = True
                self._pending.add(DOCKER, id)
        except (EngineError, OSError) as error:
            self._note(DOCKER, f"Docker's events cannot be read: {error}")
        finally:
            self._hears = False

    def _look(self) -> None:
        while not self._stop.is_set():
            for runtime, id, attempts in self._pending.take():
                self._look_at(runtime, id, attempts)
            self._pause(GATHERED)

    def _look_at(self, runtime: str, id: str, attempts: int) -> None:
        try:
            if id == ALL:
                for one in self._apis[runtime].containers() if self._runs() else ():
                    self._pending.add(runtime, one)
                return
            if runtime == PODMAN or self._runs():
                self._report(runtime, id)
        except (EngineError, OSError) as error:
            self._refused(runtime, id, attempts, error)
        except AgentError as error:
            if error.code in (protocol.TRY_AGAIN, protocol.TIMEOUT, protocol.NOT_WRITTEN, protocol.UNAVAILABLE):
                self._pause(PAUSE)
                # An agent that restarts asks again for everything, so that nothing is lost with the last attempt.
                self._pending.add(runtime, id, attempts + (error.code != protocol.TRY_AGAIN))
                return
            self._note(id, f"The agent refuses the name or labels of container {id[:12]}: {error}")

    def _refused(self, runtime: str, id: str, attempts: int, error: Exception) -> None:
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            if runtime == PODMAN:
                self._note(
                    PODMAN,
                    "podman.socket does not run, so labels of podman's containers are not known. Start it:"
                    " systemctl enable --now podman.socket",
                )
            return  # Docker's events begin with a list of all, and podman's containers are named at each start.
        self._note(id or runtime, f"{runtime} does not say what container {id[:12] or 'runs'} is: {error}")
        if isinstance(error, TimeoutError):
            self._pending.add(runtime, id, attempts + 1)

    def _report(self, runtime: str, id: str) -> None:
        found = self._apis[runtime].inspect(id)
        if found is None:
            return
        labels, left_out = container_labels.chosen(found.labels, self._prefixes)
        if left_out:
            self._note(
                id, f"{left_out} labels of container {found.name} are not taken: they are not valid, or too many."
            )
        endpoints = tuple(found.endpoints[:ENDPOINTS_LIMIT])
        description = ContainerDescription(runtime, id, found.name, endpoints, labels)
        with AgentClient(self._agent) as agent:
            agent.call(DESCRIBE, **description.to_params())

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds * self._pace)

    def _note(self, subject: str, text: str) -> None:
        """Log a line once for a subject."""
        if (subject, text) not in self._noted and len(self._noted) < _NOTED:
            self._noted.add((subject, text))
            _log.warning("%s", terminal_text.line(text))


def dockerd_runs(path: str) -> bool:
    """Return whether the process runs whose id is in the file `path`, as dockerd writes it."""
    try:
        with open(path, encoding="ascii") as stream:
            os.kill(int(stream.read(20)), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True
