# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of the Docker driver: `python3 -I /usr/local/lib/calico/start docker`, which systemd starts on demand.

It listens where its unit calico-docker.socket does. When another engine has been installed, it executes that one in
place of itself: an end and a start by systemd could wait for dockerd, which waits for an answer while it is stopped.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
import typing as t

from ...wire import protocol
from ...wire.client import AgentClient
from .driver import DockerDriver
from .http_socket import PluginServer
from .networks import FOLDER, Networks

_log = logging.getLogger("calico.docker")

#: The first file descriptor that systemd hands over (sd_listen_fds(3)).
_FIRST = 3
_ENGINES = "/usr/local/lib/calico/current"
_START = "/usr/local/lib/calico/start"


class _Agents:
    """A connection to the agent for each thread that asks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._own = threading.local()

    def __call__(self) -> AgentClient:
        client = getattr(self._own, "client", None)
        if client is None:
            client = self._own.client = AgentClient(self._path)
        return client


def main(arguments: t.Sequence[str]) -> int:
    """Serve Docker until SIGTERM, and return the exit status; execute another engine once it is installed.

    The status is 1 if no socket was handed over and none is named.
    """
    parser = argparse.ArgumentParser(prog="docker", description="Docker's network and IPAM driver calico.")
    parser.add_argument("--socket", help="listen there, if systemd hands over no socket")
    parser.add_argument("--agent", default=protocol.SOCKET, help="the agent's socket")
    parser.add_argument("--engine", default=_ENGINES, help="what leads to the installed engine")
    parser.add_argument("--networks", default=FOLDER, help="the folder for the options of networks")
    parser.add_argument("--start", default=_START, help="what runs the installed engine")
    options = parser.parse_args(arguments)
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(message)s")
    listening = _listening(options.socket)
    if listening is None:
        sys.stderr.write("systemd handed over no socket. Start calico-docker.socket, or name one by --socket.\n")
        return 1
    stop, replaced = threading.Event(), threading.Event()
    engine = _engine(options.engine)

    def served() -> None:
        if _engine(options.engine) != engine:
            replaced.set()
            stop.set()

    def terminated(*_: object) -> None:
        replaced.clear()
        stop.set()

    server = PluginServer(
        listening, DockerDriver(_Agents(options.agent), Networks(options.networks)).answer, os.geteuid(), served
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, terminated)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stop.wait()
    server.shutdown()
    server.finish(_PARTING)
    if replaced.is_set() and options.socket is None:
        # The listening socket, its descriptor and this process's id stay as systemd handed them over.
        os.execv(sys.executable, [sys.executable, "-I", options.start, "docker", *arguments])
    return 0


#: Seconds that requests have to end before the process does.
_PARTING = 30.0


def _listening(path: t.Optional[str]) -> t.Optional[socket.socket]:
    """Return the listening socket that systemd hands over, or a new one at `path`, None if there is neither."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1":
        return socket.socket(fileno=_FIRST)
    if path is None:
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(path)
    os.chmod(path, 0o600)
    made.listen()
    return made


def _engine(path: str) -> str:
    return os.path.realpath(path) if os.path.lexists(path) else ""
