# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of calico-runtimes.service: `python3 -I /usr/local/lib/calico/start runtimes`.

It ends when another engine has been installed, and systemd starts that one: what a runtime tells later is not lost,
because each start begins with all containers.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
import typing as t

from ...wire import protocol
from ...wire.container_description import DOCKER, PODMAN
from ...wire.protocol import AgentError
from .engine_api import EngineApi
from .reporter import PAUSE, Reporter, dockerd_runs

_ENGINES = "/usr/local/lib/calico/current"


def main(arguments: t.Sequence[str]) -> int:
    """Report names and labels of containers until another engine is installed, and return the exit status 0."""
    parser = argparse.ArgumentParser(prog="runtimes", description="Tell the agent names and labels of containers.")
    parser.add_argument("--agent", default=protocol.runtimes_socket(protocol.SOCKET), help="the agent's socket")
    parser.add_argument("--docker", default="/run/docker.sock", help="the socket of Docker's API")
    parser.add_argument("--dockerd", default="/run/docker.pid", help="the file with the process id of dockerd")
    parser.add_argument("--podman", default="/run/podman/podman.sock", help="the socket of podman's API")
    parser.add_argument("--engine", default=_ENGINES, help="what leads to the installed engine")
    options = parser.parse_args(arguments)
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(message)s")
    apis = {DOCKER: EngineApi(options.docker), PODMAN: EngineApi(options.podman)}
    reporter = Reporter(options.agent, apis, lambda: dockerd_runs(options.dockerd), threading.Event())
    engine = os.path.realpath(options.engine)
    reporter.start()
    while os.path.realpath(options.engine) == engine:
        try:
            reporter.follow_agent()
        except AgentError as error:
            logging.getLogger("calico.runtimes").debug("%s", error)
        # An agent that was installed anew has restarted, and with it the stream has ended.
        time.sleep(PAUSE)
    return 0
