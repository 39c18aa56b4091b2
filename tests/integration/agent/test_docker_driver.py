# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of the Docker driver beside a real agent: the requests of dockerd, with packets, kills and a new engine.

The tests do what dockerd does: they send its requests, and move and configure the inner end.
"""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.host_under_test import HOST

ENDPOINT = "2d54" * 16


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("plugin.moby.localhost", timeout=40)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Driver:
    """The driver's process, which asks the agent of `daemon`; `current` leads to its engine."""

    def __init__(self, daemon: Daemon, engine: pathlib.Path) -> None:
        self.current = daemon.folder / "current"
        self.current.symlink_to(engine.resolve())
        self.path = str(daemon.folder / "calico.sock")
        command = [sys.executable, "-I", str(engine), "docker", "--socket", self.path, "--agent", daemon.socket]
        self.process = subprocess.Popen([*command, "--engine", str(self.current)])
        daemon.until(lambda: os.path.exists(self.path), "the driver listens")
        self.connection = UnixConnection(self.path)

    def ask(self, method: str, **body: t.Any) -> dict[str, t.Any]:
        self.connection.request(
            "POST", f"/{method}", json.dumps(body), {"Transfer-Encoding": "chunked"}, encode_chunked=True
        )
        return t.cast("dict[str, t.Any]", json.loads(self.connection.getresponse().read()))


@pytest.fixture
def driver(daemon: Daemon, engine: pathlib.Path) -> t.Iterator[Driver]:
    made = Driver(daemon, engine)
    yield made
    made.process.kill()
    made.process.wait(10)


def started(daemon: Daemon, driver: Driver) -> str:
    """Do what dockerd does for a new container in the namespace `box`; return its address."""
    pool = driver.ask("IpamDriver.RequestPool", Pool="", SubPool="", Options={}, V6=False)["PoolID"]
    address = driver.ask("IpamDriver.RequestAddress", PoolID=pool, Address="", Options=None)["Address"]
    interface = {"Address": address, "AddressIPv6": "", "MacAddress": ""}
    made = driver.ask("NetworkDriver.CreateEndpoint", EndpointID=ENDPOINT, Interface=interface, Options={"app": "web"})
    path = daemon.netns("box")
    joined = driver.ask("NetworkDriver.Join", EndpointID=ENDPOINT, SandboxKey=path, Options={})
    source, gateway = joined["InterfaceName"]["SrcName"], joined["Gateway"]
    host, box = (["nsenter", f"--net={daemon.folder}/netns/{name}", "ip"] for name in (HOST, "box"))
    for command in (
        [*host, "link", "set", "dev", source, "netns", path, "name", "eth0"],
        [*box, "link", "set", "dev", "eth0", "address", made["Interface"]["MacAddress"]],
        [*box, "address", "add", address, "dev", "eth0"],
        [*box, "link", "set", "dev", "eth0", "up"],
        [*box, "route", "add", joined["StaticRoutes"][0]["Destination"], "dev", "eth0", "scope", "link"],
        [*box, "route", "add", "default", "via", gateway],
    ):
        subprocess.run(command, check=True)
    return str(address.partition("/")[0])


def test_a_container_comes_reaches_others_and_goes(daemon: Daemon, driver: Driver) -> None:
    web = daemon.add("web")["addresses"][0]
    address = started(daemon, driver)
    assert daemon.reaches("box", web) and daemon.reaches("web", address)
    daemon.in_sync()
    assert daemon.call("workload.check", id=f"docker/{ENDPOINT}")["problems"] == []
    assert daemon.call("ipam.check")["problems"] == 0 and daemon.call("node.plan")["changes"] == []
    (listed,) = daemon.call("workload.list", selector="app == 'web'")["workloads"]
    assert listed["handed_over"] and listed["addresses"] == [address]
    for _ in range(2):
        assert driver.ask("NetworkDriver.Leave", EndpointID=ENDPOINT) == {}
        assert driver.ask("NetworkDriver.DeleteEndpoint", EndpointID=ENDPOINT) == {}
        assert driver.ask("IpamDriver.ReleaseAddress", PoolID="v4:", Address=address) == {}
    daemon.settled()
    assert address not in daemon.allocated().values() and len(daemon.links) == 1
    assert daemon.kernel.inside("box").link("eth0") is None


def test_an_agent_that_is_killed_meanwhile(daemon: Daemon, driver: Driver) -> None:
    address = started(daemon, driver)
    daemon.kill()
    driver.connection.request("POST", "/NetworkDriver.DeleteEndpoint", json.dumps({"EndpointID": ENDPOINT}))
    daemon.start()
    assert json.loads(driver.connection.getresponse().read()) == {}
    assert driver.ask("IpamDriver.ReleaseAddress", PoolID="v4:", Address=address) == {}
    daemon.settled()
    assert daemon.allocated() == {} and daemon.links == set() and daemon.records == set()


def test_a_host_end_that_others_change_is_put_right(daemon: Daemon, driver: Driver) -> None:
    address = started(daemon, driver)
    (workload,) = daemon.call("workload.list")["workloads"]
    daemon.in_sync()
    daemon.kernel.link_set(workload["interface"], up=False)
    daemon.until(lambda: daemon.kernel.link(workload["interface"]).up, "the host end is up again")
    daemon.until(lambda: f"{address}/32" in daemon.destinations, "its route is back")
    web = daemon.add("web")["addresses"][0]
    assert daemon.reaches("box", web)


def test_it_ends_when_another_engine_is_installed(daemon: Daemon, driver: Driver, tmp_path: pathlib.Path) -> None:
    assert driver.ask("Plugin.Activate") == {"Implements": ["NetworkDriver", "IpamDriver"]}
    assert driver.process.poll() is None
    driver.current.unlink()
    driver.current.symlink_to(tmp_path)
    assert driver.ask("Plugin.Activate") == {"Implements": ["NetworkDriver", "IpamDriver"]}
    assert driver.process.wait(40) == 0


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
