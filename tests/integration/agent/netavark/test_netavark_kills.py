# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 of podman with netavark and its plugin, and of the agent, at the steps of a setup and of a teardown.

What podman has forgotten comes in no call, and is free after the time of grace. tests/lab/scenarios/test_runtimes.py
kills the real programs at random moments.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.failpoints import ADD, DELETE

from tests.integration.agent.cni.real_runtime import STATE
from tests.integration.agent.cni.shim import NETAVARK, Shim
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.agent.fake_dockerd import end_namespace
from tests.long_form import LONG
from tests.unit.runtimes.netavark.podman import attachment

#: Seconds from the beginning of a call to the kill. The agent is stopped from then on, so each is another step.
DELAYS = tuple(number / 1000 for number in ((0, 2, 5, 10, 20, 50) if not LONG else range(0, 100, 2)))
CONTAINER = "e2cf780eccff"
#: The points at which the agent is killed; those that differ most are in `make test`.
SHORT = ("add.assigned", "add.linked", "add.committed", "delete.begun", "delete.released", "delete.unlinked")
POINTS = [point if point in SHORT else pytest.param(point, marks=pytest.mark.soak) for point in (*ADD, *DELETE)]


@pytest.fixture
def daemon(engine: pathlib.Path, tmp_path: pathlib.Path) -> t.Iterator[Daemon]:
    with daemon_under_test(engine, tmp_path, STATE) as daemon:
        daemon.settings(cooldown=0.0, leak_grace=1.0)
        yield daemon


@pytest.fixture
def shim(daemon: Daemon) -> Shim:
    return Shim(daemon.folder / "lib" / "cni", daemon.socket, source=NETAVARK)


def asked(number: int = 0) -> bytes:
    """Return what netavark sends for a container."""
    return json.dumps(attachment(container_id=f"{number:04x}{CONTAINER}", container_name=f"web{number}")).encode()


def call(shim: Shim, command: str, netns: str, number: int = 0) -> int:
    return shim.execute({}, asked(number), arguments=[command, netns]).status


def killed(daemon: Daemon, shim: Shim, command: str, netns: str, number: int, delay: float) -> None:
    """Begin a call, and kill all of its processes after `delay`; the agent does not notice before they are gone."""
    words = [str(shim.path), command, netns]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdin is not None
    process.stdin.write(asked(number))
    process.stdin.close()
    time.sleep(delay)
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    daemon.process.send_signal(signal.SIGCONT)


def left(daemon: Daemon) -> list[object]:
    """Return what is there beside the workload `kept`: addresses, links, records."""
    kept = {one["interface"] for one in daemon.call("workload.list")["workloads"] if one["id"] == "default/kept"}
    return [
        *(handle for handle in daemon.allocated() if handle != "default/kept"),
        *(daemon.links - kept),
        *(record for record in daemon.records if record != "default%2Fkept.json"),
    ]


def is_as_before(daemon: Daemon, shim: Shim) -> None:
    """Raise AssertionError unless all is free in time, the node is in sync, and nothing waits on the disk."""
    daemon.until(lambda: not left(daemon), "nothing is left")
    daemon.in_sync()
    assert daemon.call("ipam.check")["problems"] == 0
    assert daemon.call("node.plan")["changes"] == []
    daemon.until(lambda: not shim.deleted.exists() or not list(shim.deleted.iterdir()), "no teardown waits")


@pytest.mark.parametrize("command", ["setup", "teardown"])
def test_podman_is_killed_in_a_call_and_forgets_the_container(daemon: Daemon, shim: Shim, command: str) -> None:
    """The namespace goes with the container, and no call names it again."""
    daemon.start()
    daemon.add("kept")
    for number, delay in enumerate(DELAYS):
        name = f"box{number}"
        netns = daemon.netns(name)
        if command == "teardown":
            assert call(shim, "setup", netns, number) == 0
        killed(daemon, shim, command, netns, number, delay)
        end_namespace(daemon, name)
    is_as_before(daemon, shim)


def test_podman_is_killed_in_a_setup_and_starts_the_container_again(daemon: Daemon, shim: Shim) -> None:
    """The next setup, in another namespace, gets one address, and the teardown after it leaves nothing."""
    daemon.start()
    daemon.add("kept")
    for number, delay in enumerate(DELAYS):
        killed(daemon, shim, "setup", daemon.netns(f"box{number}"), number, delay)
        again = daemon.netns(f"again{number}")
        assert call(shim, "setup", again, number) == 0
        end_namespace(daemon, f"box{number}")
        [found] = [one for one in daemon.call("workload.list")["workloads"] if one["id"] != "default/kept"]
        assert found["netns"] == again
        assert daemon.reaches("kept", found["addresses"][0])
        assert call(shim, "teardown", again, number) == 0
        daemon.settled()
    is_as_before(daemon, shim)


@pytest.mark.parametrize("point", POINTS)
def test_the_agent_is_killed_in_a_call(daemon: Daemon, shim: Shim, point: str) -> None:
    """A setup that fails is repeated, a teardown succeeds at once, and the next agent completes both."""
    daemon.start()
    daemon.add("kept")
    netns = daemon.netns("box")
    if point in DELETE:
        assert call(shim, "setup", netns) == 0
    daemon.kill()
    daemon.start(fault=point)
    status = call(shim, "setup" if point in ADD else "teardown", netns)
    daemon.wait_killed()
    daemon.start()
    if point in ADD:
        assert status == 1
        assert call(shim, "setup", netns) == 0
        [found] = [one for one in daemon.call("workload.list")["workloads"] if one["id"] != "default/kept"]
        assert daemon.reaches("kept", found["addresses"][0])
        assert call(shim, "teardown", netns) == 0
    else:
        assert status == 0
    daemon.settled()
    is_as_before(daemon, shim)
