# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of the Docker driver beside a real agent, and a dockerd that can be stopped after each of its steps.

A step is a request to the driver, or what dockerd does to the inner end itself. The order is that of dockerd 20.10 and
26.1 (docs/how-to/docker.md, "How it works").
"""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import typing as t

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.host_under_test import HOST

NETWORK = "4379" * 16


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float = 40) -> None:
        super().__init__("plugin.moby.localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Driver:
    """The driver's process, which asks the agent of `daemon`; `current` leads to its engine.

    It listens on a socket of this process's, as on systemd's: the socket outlives the driver.
    """

    def __init__(self, daemon: Daemon, engine: pathlib.Path) -> None:
        self.daemon = daemon
        self.current = daemon.folder / "current"
        self.current.symlink_to(engine.resolve())
        self.path = str(daemon.folder / "calico.sock")
        self.networks = daemon.folder / "lib" / "docker"
        self.log = daemon.folder / "driver.log"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.path)
        self._listening.listen(4096)
        self._engine = engine
        self.process: subprocess.Popen[bytes]
        self.start()
        self.connection = UnixConnection(self.path)

    def start(self) -> None:
        """Start the process, as systemd does for the first request: the socket is its descriptor 3."""
        arguments = ["--agent", self.daemon.socket, "--networks", str(self.networks), "--engine", str(self.current)]
        arguments += ["--start", str(self._engine)]
        command = [sys.executable, "-I", str(self._engine), "docker", *arguments]
        handed = self._listening.fileno()
        script = f'exec 3<&{handed}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", script, "bash", *command], pass_fds=[handed], stdout=log, stderr=log
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def threads(self) -> int:
        """Return the number of threads of the process; each connection has one."""
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def close(self) -> None:
        self.kill()
        self._listening.close()

    def ask(self, method: str, /, **body: t.Any) -> dict[str, t.Any]:
        """Return the answer to a request. Raise OSError if the driver ends meanwhile."""
        self.connection.request(
            "POST", f"/{method}", json.dumps(body), {"Transfer-Encoding": "chunked"}, encode_chunked=True
        )
        return t.cast("dict[str, t.Any]", json.loads(self.connection.getresponse().read()))

    def make_network(self, **options: str) -> None:
        """Do what dockerd does for `docker network create`; `options` are those of -o."""
        self.ask("IpamDriver.RequestPool", Pool="", SubPool="", Options={}, V6=False)
        data = [{"AddressSpace": "calico", "Gateway": "0.0.0.0/0", "Pool": "0.0.0.0/0"}]
        generic = {"com.docker.network.generic": options}
        assert self.ask("NetworkDriver.CreateNetwork", NetworkID=NETWORK, Options=generic, IPv4Data=data) == {}


class FakeContainer:
    """A container of the fake dockerd. `steps` are those of `docker run`, `last_steps` those of `docker stop`.

    `name` is its namespace's. `say` sends a request, by default on the driver's connection.
    """

    def __init__(self, driver: Driver, name: str, number: int) -> None:
        self.driver, self.name = driver, name
        self.endpoint = f"{number:064x}"
        self.say: t.Callable[..., dict[str, t.Any]] = driver.ask
        self.address = ""
        self.source = ""
        self._mac = ""
        self._gateway = ""

    @property
    def steps(self) -> list[t.Callable[[], None]]:
        return [self.request_address, self.create_endpoint, self.join, self.move, self.configure, self.ask_about_it]

    @property
    def last_steps(self) -> list[t.Callable[[], None]]:
        return [self.leave, self.move_back, self.delete_endpoint, self.release_address]

    def start(self) -> FakeContainer:
        for step in self.steps:
            step()
        return self

    def request_address(self) -> None:
        self.address = self.say("IpamDriver.RequestAddress", PoolID="v4:", Address="", Options=None)["Address"]

    def create_endpoint(self) -> None:
        interface = {"Address": self.address, "AddressIPv6": "", "MacAddress": ""}
        made = self.say(
            "NetworkDriver.CreateEndpoint",
            NetworkID=NETWORK,
            EndpointID=self.endpoint,
            Interface=interface,
            Options={"app": "web"},
        )
        self._mac = made["Interface"]["MacAddress"]

    def join(self) -> None:
        path = str(self.driver.daemon.folder / "netns" / self.name)
        joined = self.say("NetworkDriver.Join", EndpointID=self.endpoint, SandboxKey=path, Options={})
        self.source, self._gateway = joined["InterfaceName"]["SrcName"], joined["Gateway"]

    def move(self) -> None:
        path = self.driver.daemon.netns(self.name)
        self._ip(HOST, "link", "set", "dev", self.source, "netns", path, "name", "eth0")

    def configure(self) -> None:
        for words in (
            f"link set dev eth0 address {self._mac}",
            f"address add {self.address} dev eth0",
            "link set dev eth0 up",
            f"route add {self._gateway}/32 dev eth0 scope link",
            f"route add default via {self._gateway}",
        ):
            self._ip(self.name, *words.split())

    def ask_about_it(self) -> None:
        assert self.say("NetworkDriver.EndpointOperInfo", EndpointID=self.endpoint) == {"Value": {}}

    def leave(self) -> None:
        assert self.say("NetworkDriver.RevokeExternalConnectivity", EndpointID=self.endpoint) == {}
        assert self.say("NetworkDriver.Leave", EndpointID=self.endpoint) == {}

    def move_back(self) -> None:
        """Move the inner end to the host, as dockerd does before it deletes an endpoint."""
        home = str(self.driver.daemon.folder / "netns" / HOST)
        self._ip(self.name, "link", "set", "dev", "eth0", "netns", home, "name", self.source)

    def delete_endpoint(self) -> None:
        assert self.say("NetworkDriver.DeleteEndpoint", EndpointID=self.endpoint) == {}

    def release_address(self) -> None:
        address = self.address.partition("/")[0]
        assert self.say("IpamDriver.ReleaseAddress", PoolID="v4:", Address=address) == {}

    def _ip(self, where: str, *words: str) -> None:
        path = self.driver.daemon.folder / "netns" / where
        subprocess.run(["nsenter", f"--net={path}", "ip", *words], check=True)


def end_namespace(daemon: Daemon, name: str) -> None:
    """End a container's namespace, as with its last process, if there is one; interfaces in it are gone."""
    if name in daemon.kernel.netns_list():
        daemon.kernel.leave(str(daemon.folder / "netns" / name))
        daemon.kernel.netns_delete(name)


def is_running(driver: Driver) -> bool:
    return driver.process.poll() is None and os.path.exists(driver.path)
