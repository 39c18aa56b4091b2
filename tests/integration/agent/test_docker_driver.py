# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of the Docker driver beside a real agent: the requests of dockerd, with packets, kills and a new engine.

The tests do what dockerd does: they send its requests, and move and configure the inner end.
"""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.fake_dockerd import NETWORK, Driver, FakeContainer


@pytest.fixture
def driver(daemon: Daemon, engine: pathlib.Path) -> t.Iterator[Driver]:
    made = Driver(daemon, engine)
    made.make_network(**{"label.tier": "back"})
    yield made
    made.close()


@pytest.fixture
def container(driver: Driver) -> FakeContainer:
    return FakeContainer(driver, "box", 0x2D54)


def started(container: FakeContainer) -> str:
    """Do what dockerd does for a new container; return its address."""
    return container.start().address.partition("/")[0]


def test_a_container_comes_reaches_others_and_goes(daemon: Daemon, driver: Driver, container: FakeContainer) -> None:
    web = daemon.add("web")["addresses"][0]
    address = started(container)
    assert daemon.reaches("box", web) and daemon.reaches("web", address)
    daemon.in_sync()
    assert daemon.call("workload.check", id=f"docker/{container.endpoint}")["problems"] == []
    assert daemon.call("ipam.check")["problems"] == 0 and daemon.call("node.plan")["changes"] == []
    (listed,) = daemon.call("workload.list", selector="app == 'web' && tier == 'back'")["workloads"]
    assert listed["handed_over"] and listed["addresses"] == [address]
    for _ in range(2):
        assert driver.ask("NetworkDriver.Leave", EndpointID=container.endpoint) == {}
        assert driver.ask("NetworkDriver.DeleteEndpoint", EndpointID=container.endpoint) == {}
        assert driver.ask("IpamDriver.ReleaseAddress", PoolID="v4:", Address=address) == {}
    daemon.settled()
    assert address not in daemon.allocated().values() and len(daemon.links) == 1
    assert daemon.kernel.inside("box").link("eth0") is None
    assert [path.name for path in driver.networks.iterdir()] == [f"{NETWORK}.json"]
    assert driver.ask("NetworkDriver.DeleteNetwork", NetworkID=NETWORK) == {}
    assert [*driver.networks.iterdir()] == []


def test_an_agent_that_is_killed_meanwhile(daemon: Daemon, driver: Driver, container: FakeContainer) -> None:
    address = started(container)
    daemon.kill()
    driver.connection.request("POST", "/NetworkDriver.DeleteEndpoint", json.dumps({"EndpointID": container.endpoint}))
    daemon.start()
    assert json.loads(driver.connection.getresponse().read()) == {}
    assert driver.ask("IpamDriver.ReleaseAddress", PoolID="v4:", Address=address) == {}
    daemon.settled()
    assert daemon.allocated() == {} and daemon.links == set() and daemon.records == set()


def test_a_host_end_that_others_change_is_put_right(daemon: Daemon, container: FakeContainer) -> None:
    address = started(container)
    (workload,) = daemon.call("workload.list")["workloads"]
    daemon.in_sync()
    daemon.kernel.link_set(workload["interface"], up=False)
    daemon.until(lambda: daemon.kernel.link(workload["interface"]).up, "the host end is up again")
    daemon.until(lambda: f"{address}/32" in daemon.destinations, "its route is back")
    web = daemon.add("web")["addresses"][0]
    assert daemon.reaches("box", web)


def test_it_executes_another_engine_once_it_is_installed(
    daemon: Daemon, driver: Driver, tmp_path: pathlib.Path
) -> None:
    assert driver.ask("Plugin.Activate") == {"Implements": ["NetworkDriver", "IpamDriver"]}
    assert driver.process.poll() is None
    driver.current.unlink()
    driver.current.symlink_to(tmp_path)
    assert driver.ask("Plugin.Activate") == {"Implements": ["NetworkDriver", "IpamDriver"]}
    # Its connections end, and its process stays.
    assert driver.connection.sock is not None
    assert driver.connection.sock.recv(1) == b""
    driver.connection.close()
    assert driver.ask("Plugin.Activate") == {"Implements": ["NetworkDriver", "IpamDriver"]}
    assert driver.process.poll() is None and driver.log.read_text() == ""


def test_a_signal_ends_it(driver: Driver) -> None:
    driver.process.send_signal(signal.SIGTERM)
    assert driver.process.wait(40) == 0


def test_without_a_socket_it_says_so(engine: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(engine), "docker"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (
        1,
        "systemd handed over no socket. Start calico-docker.socket, or name one by --socket.\n",
    )
