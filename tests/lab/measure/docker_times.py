# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The times of Docker's network connect and disconnect, with its bridge driver and with ours in turns; runs on a host.

dockerd is asked by its API, since the start of the command line would hide what drivers take. Prints a JSON object:
{"plain", "port": {driver: seconds of each pair, or the reason of a refusal}}. Uses the standard library alone.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
import typing as t

DRIVERS = ("bridge", "calico")
#: The port of the host that containers of "port" publish, by driver, so that both may have theirs at once.
PORTS = {"bridge": 18080, "calico": 18081}


class _Connection(http.client.HTTPConnection):
    """A connection to dockerd's Unix socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/docker.sock")


class Refused(Exception):
    """An answer of dockerd with a status of 400 or more; the text is its reason."""


def ask(method: str, path: str, document: dict[str, t.Any] | None = None) -> t.Any:
    """Return what dockerd answers to one request, None for an empty answer; raise Refused."""
    connection = _Connection("docker", timeout=120)
    body = json.dumps(document) if document is not None else None
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status >= 400:
        raise Refused(json.loads(text)["message"])
    return json.loads(text) if text else None


def remove(kind: str, name: str) -> None:
    """Remove a container or a network. Do nothing if it does not exist."""
    try:
        ask("DELETE", f"/{kind}/{name}" + ("?force=1" if kind == "containers" else ""))
    except Refused:
        pass


def start(driver: str, port: bool) -> None:
    """Make a network of the driver and a container on it, which publishes its port 80 if `port`; raise Refused."""
    name = f"times-{driver}"
    remove("containers", name)
    remove("networks", name)
    network: dict[str, t.Any] = {"Name": name, "Driver": driver}
    if driver == "calico":
        network["IPAM"] = {"Driver": "calico"}
    ask("POST", "/networks/create", network)
    bindings = {"80/tcp": [{"HostPort": str(PORTS[driver])}]} if port else {}
    container = {
        "Image": "box",
        "Cmd": ["/bin/sleep", "100000"],
        "ExposedPorts": {"80/tcp": {}},
        "HostConfig": {"NetworkMode": name, "PortBindings": bindings},
    }
    ask("POST", f"/containers/create?name={name}", container)
    ask("POST", f"/containers/{name}/start")


def pair(driver: str) -> float:
    """Disconnect the container from its network and connect it again; return how long both took, in seconds."""
    name = f"times-{driver}"
    began = time.perf_counter()
    ask("POST", f"/networks/{name}/disconnect", {"Container": name})
    ask("POST", f"/networks/{name}/connect", {"Container": name})
    return time.perf_counter() - began


def turns(count: int, port: bool) -> dict[str, t.Any]:
    """Return {driver: seconds of each of `count` pairs}, measured in turns; {"calico": reason} if ours refuses."""
    try:
        for driver in DRIVERS:
            start(driver, port)
        for driver in DRIVERS:
            pair(driver)  # so that everything has been read from the disk once
        times: dict[str, list[float]] = {driver: [] for driver in DRIVERS}
        for number in range(count):
            for driver in DRIVERS if number % 2 else DRIVERS[::-1]:
                times[driver].append(pair(driver))
        return times
    except Refused as error:
        return {"calico": str(error)}
    finally:
        for driver in DRIVERS:
            remove("containers", f"times-{driver}")
            remove("networks", f"times-{driver}")


print(json.dumps({"plain": turns(int(sys.argv[1]), False), "port": turns(int(sys.argv[1]), True)}))
