# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dockerd, the driver and the agent killed at every step: nothing leaks, and a running container keeps its address.

dockerd's own list of endpoints comes as requests: after its start it deletes the endpoints that it finds stale. What it
has forgotten is in no container, and is free after the time of grace.
"""

from __future__ import annotations

import json
import pathlib
import signal
import threading
import time
import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.fake_dockerd import Driver, FakeContainer, UnixConnection, end_namespace

#: Seconds of grace in these tests, the least that there is for Docker's workloads.
GRACE = 10.0
STEPS = 6
LAST_STEPS = 4


@pytest.fixture
def driver(stopped_daemon: Daemon, engine: pathlib.Path) -> t.Iterator[Driver]:
    stopped_daemon.settings(cooldown=0.0, leak_grace=1.0)
    stopped_daemon.start()
    made = Driver(stopped_daemon, engine)
    made.make_network()
    yield made
    made.close()


def stopped_containers(driver: Driver) -> list[FakeContainer]:
    """Return a container for each step after which dockerd may be killed: those of a run, then those of a stop."""
    found = []
    for number in range(1, STEPS + LAST_STEPS + 1):
        container = FakeContainer(driver, f"box{number}", number)
        for step in [*container.steps, *container.last_steps][:number]:
            step()
        found.append(container)
    return found


def left(daemon: Daemon, *kept: FakeContainer) -> list[str]:
    """Return what is there beside the containers `kept`: addresses, links, records, in words."""
    names = {f"docker/{one.endpoint}" for one in kept}
    workloads = daemon.call("workload.list")["workloads"]
    links = {one["interface"] for one in workloads if one["id"] in names}
    return [
        *(f"workload {one['id']}" for one in workloads if one["id"] not in names),
        *(f"address {handle}" for handle in daemon.allocated() if handle not in names),
        *(f"link {name}" for name in daemon.links - links),
    ]


def is_whole(daemon: Daemon, container: FakeContainer) -> bool:
    """Return whether a running container still has its address, and answers."""
    address = container.address.partition("/")[0]
    return daemon.allocated().get(f"docker/{container.endpoint}") == address and daemon.reaches("web", address)


def test_dockerd_is_killed_after_each_step_and_forgets_the_endpoint(driver: Driver) -> None:
    """What dockerd has forgotten is free after the time of grace; a live-restored container keeps its address."""
    daemon = driver.daemon
    daemon.add("web")
    alive = FakeContainer(driver, "alive", 99).start()
    for container in stopped_containers(driver):
        end_namespace(daemon, container.name)
    daemon.delete("web")
    daemon.kill()
    daemon.start()
    began = time.monotonic()
    assert len({word.partition(" ")[2] for word in left(daemon, alive) if word.startswith("address")}) == 9
    daemon.until(lambda: not left(daemon, alive), "nothing is left")
    assert time.monotonic() - began > GRACE - 1
    daemon.add("web")
    assert is_whole(daemon, alive) and daemon.call("ipam.check")["problems"] == 0


def test_dockerd_is_killed_after_each_step_and_deletes_what_is_stale(driver: Driver) -> None:
    """All is free as soon as dockerd has deleted its stale endpoints, which it may do twice."""
    daemon = driver.daemon
    daemon.kill()
    daemon.settings(cooldown=0.0)
    daemon.start()
    daemon.add("web")
    alive = FakeContainer(driver, "alive", 99).start()
    for container in stopped_containers(driver):
        for _ in range(2):
            container.leave()
            container.delete_endpoint()
            container.release_address()
    daemon.delete("web")
    daemon.settled()
    assert left(daemon, alive) == []
    daemon.add("web")
    assert is_whole(daemon, alive) and daemon.call("ipam.check")["problems"] == 0


def test_an_address_of_another_is_not_released(driver: Driver) -> None:
    """A late ReleaseAddress frees no address that another container has."""
    daemon = driver.daemon
    daemon.add("web")
    first, second = FakeContainer(driver, "box1", 1), FakeContainer(driver, "box2", 2)
    first.start()
    second.address = first.address
    second.release_address()
    second.delete_endpoint()
    assert is_whole(daemon, first)


def test_the_driver_is_killed_in_each_call(driver: Driver) -> None:
    """Docker fails the command, or repeats its request without the body; nothing of it stays."""
    daemon = driver.daemon
    calls = ["request_address", "create_endpoint", "join", "delete_endpoint", "release_address"]
    containers = []
    for number, call in enumerate(calls):
        container = FakeContainer(driver, f"box{number}", number + 1)
        for step in [*container.steps, *container.last_steps]:
            if step.__name__ == call:
                break
            step()
        containers.append(container)
    daemon.process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]
    ended: list[str] = []
    threads = [threading.Thread(target=_cut, args=(driver, *entry, ended)) for entry in zip(containers, calls)]
    for thread in threads:
        thread.start()
    daemon.until(lambda: driver.threads() > len(calls), "the driver has all calls")
    time.sleep(1.0)  # so that some of them wait for the agent
    driver.kill()
    driver.start()
    daemon.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
    for thread in threads:
        thread.join(60)
    assert sorted(ended) == sorted(calls)
    for container in containers:
        connection = UnixConnection(driver.path)
        connection.request("POST", "/NetworkDriver.DeleteEndpoint")
        assert json.loads(connection.getresponse().read())["Err"].startswith("The request came without its body")
        end_namespace(daemon, container.name)
    daemon.until(lambda: not left(daemon), "nothing is left")


def _cut(driver: Driver, container: FakeContainer, call: str, ended: list[str]) -> None:
    """Make a call of a container's on a connection of its own, and note in `ended` that the driver's end cut it off."""
    connection = UnixConnection(driver.path)

    def say(method: str, **body: t.Any) -> dict[str, t.Any]:
        connection.request("POST", f"/{method}", json.dumps(body))
        return t.cast("dict[str, t.Any]", json.loads(connection.getresponse().read()))

    container.say = say
    try:
        getattr(container, call)()
    except OSError:
        ended.append(call)


@pytest.mark.parametrize("point", ["add.assigned", "add.linked", "add.committed", "delete.begun", "delete.unlinked"])
def test_the_agent_is_killed_while_dockerd_calls(stopped_daemon: Daemon, engine: pathlib.Path, point: str) -> None:
    """The driver waits for the next agent: each call succeeds."""
    daemon = stopped_daemon
    daemon.start(fault=point)
    driver = Driver(daemon, engine)
    again = threading.Thread(target=_start_again, args=(daemon,))
    again.start()
    try:
        driver.make_network()
        container = FakeContainer(driver, "box", 1)
        for step in [*container.steps, *container.last_steps]:
            step()
    finally:
        daemon.until(lambda: not again.is_alive(), "the agent was killed and runs again")
        driver.close()
    daemon.settled()
    assert left(daemon) == [] and daemon.call("ipam.check")["problems"] == 0


def _start_again(daemon: Daemon) -> None:
    daemon.wait_killed()
    daemon.start()
