# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks of this collection that container runtimes of a node have, and the containers that run in them.

A teardown takes running containers off these networks, and removes the networks, as long as plugins and agent answer.
Afterwards no runtime asks for a plugin that is gone: dockerd waits half a minute for one with each container that it
removes. What runtimes answer is input: it is bounded, and what is not understood counts as absent.
"""

from __future__ import annotations

import glob
import http.client
import json
import os
import socket
import subprocess
import typing as t
import urllib.parse

from ...base import terminal_text
from ...base.typed_json import parse
from ...dataplane.change import Change
from ...files import bounded
from ..machine import Machine
from ..store.endpoints import Endpoints

DRIVER = "calico"
PODMAN_NETWORKS = "/etc/containers/networks"
_SECONDS = 30.0  # for each answer of a runtime; a call of the driver by dockerd has 25 for an agent that restarts
_LIMIT = 16 << 20  # the most bytes of an answer
_FILE_LIMIT = 64 << 10  # the most bytes of a file of podman that are read
_NAMES = 10  # the most containers that a sentence names


class Container(t.NamedTuple):
    """A running container in a network: its id, and its name, runtime and network, for people."""

    id: str
    name: str
    runtime: str
    network: str

    def __str__(self) -> str:
        return f"{terminal_text.text(self.name)} ({self.runtime}, network {terminal_text.text(self.network)})"


class RuntimeNetwork(t.NamedTuple):
    """A network of Docker, or the network that running containers of podman are in."""

    runtime: str
    id: str
    name: str
    containers: tuple[Container, ...]


class RuntimesState(t.NamedTuple):
    """What runtimes have: networks to take containers off, all running containers, and what could not be asked."""

    networks: tuple[RuntimeNetwork, ...]
    containers: tuple[Container, ...]
    unknown: tuple[str, ...]


class RuntimeFailed(Exception):
    """The error for a runtime that refuses, or does not answer in time. Its text says which, why and the remedy."""


def observe(machine: Machine) -> RuntimesState:
    """Return what the runtimes of this node have, by the agent's records if a runtime cannot be asked."""
    records = Endpoints(machine.workloads).load()[0]
    networks: list[RuntimeNetwork] = []
    unknown: list[str] = []
    docker_answers = True
    try:
        networks += _docker_networks(machine)
    except RuntimeFailed as error:
        docker_answers = False
        unknown.append(str(error))
    attached = {record.container: record for record in records if record.container}
    found = [container for network in networks for container in network.containers]
    by_podman: dict[str, list[Container]] = {}
    for id, name in _podman_containers(machine, attached).items():
        by_podman.setdefault(attached[id].network, []).append(Container(id, name, "podman", attached[id].network))
    for name, containers in sorted(by_podman.items()):
        networks.append(RuntimeNetwork("podman", name, name, tuple(containers)))
        found += containers
    for record in records:
        by = record.attached_by
        if by and not (by == "docker" and docker_answers) and record.container not in {entry.id for entry in found}:
            runtime = {"docker": "Docker", "cni": "CNI"}.get(by, by)
            found.append(Container(record.container or record.id, record.name, runtime, record.network))
    return RuntimesState(tuple(networks), tuple(found), tuple(unknown))


def refusal(found: RuntimesState) -> str:
    """Return the sentence that refuses a teardown while these containers run, "" if there is nothing to refuse."""
    count = len(found.containers)
    said = []
    if count:
        names = ", ".join(str(container) for container in found.containers[:_NAMES])
        more = f" and {count - _NAMES} more" if count > _NAMES else ""
        verb = "containers run" if count > 1 else "container runs"
        said.append(f"{count} {verb} in networks of this node, which would go: {names}{more}.")
    said += found.unknown
    if not said:
        return ""
    return (
        f"{' '.join(said)} Stop the containers, and run again; or add -e force=true, which takes their network away. "
        "Nothing was changed."
    )


def changes(found: RuntimesState) -> tuple[Change, ...]:
    """Return the removal of each network, and of podman's containers from their networks; `remove` makes them."""
    made = []
    for network in found.networks:
        count = len(network.containers)
        text = f"{count} running container{'' if count == 1 else 's'}"
        of = "Docker" if network.runtime == "docker" else "podman"
        made.append(Change("network", "-", network.name, f"of {of}, {text}", None, "", network))
    return tuple(made)


def podman_files(machine: Machine) -> list[str]:
    """Return the files of networks of podman that have our driver, by name."""
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(machine.placed(PODMAN_NETWORKS)), "*.json"))):
        try:
            document = bounded.read_json(path, _FILE_LIMIT)
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and document.get("driver") == DRIVER:
            found.append(path)
    return found


def remove(machine: Machine, removals: t.Sequence[Change], force: bool) -> None:
    """Take running containers off their networks, then remove the networks of Docker. What has gone is no failure.

    Raise RuntimeFailed at the first that a runtime refuses or does not do in 30 seconds; with `force` do the rest.
    """
    for change in removals:
        try:
            _remove(machine, change.old)
        except RuntimeFailed:
            if not force:
                raise


def _remove(machine: Machine, network: RuntimeNetwork) -> None:
    if network.runtime == "podman":
        for container in network.containers:
            _podman(machine, "network", "disconnect", "-f", network.id, container.id)
        return
    for container in network.containers:
        body = {"Container": container.id, "Force": True}
        _docker(machine, "POST", f"/networks/{network.id}/disconnect", body)
    _docker(machine, "DELETE", f"/networks/{network.id}")


def _docker_networks(machine: Machine) -> list[RuntimeNetwork]:
    """Return Docker's networks of our driver; [] if no Docker is there."""
    kept = glob.glob(os.path.join(glob.escape(machine.store), "docker", "*.json"))
    if not os.path.exists(machine.docker_socket):
        if not kept:
            return []
        raise RuntimeFailed(
            f"Docker has {len(kept)} network{'' if len(kept) == 1 else 's'} of the driver {DRIVER}, and dockerd does "
            "not run. Start it with systemctl start docker."
        )
    query = urllib.parse.urlencode({"filters": json.dumps({"driver": [DRIVER]})})
    listed = _docker(machine, "GET", f"/networks?{query}")
    found = []
    for entry in listed if isinstance(listed, list) else ():
        id = _text(entry, "Id")
        if not id or _text(entry, "Driver") != DRIVER:
            continue
        name = _text(entry, "Name") or id
        whole = _docker(machine, "GET", f"/networks/{id}")
        inside = whole.get("Containers") if isinstance(whole, dict) else None
        containers = tuple(
            Container(key, _text(value, "Name") or key[:12], "Docker", name)
            for key, value in (inside.items() if isinstance(inside, dict) else ())
            if key.isalnum()
        )
        found.append(RuntimeNetwork("docker", id, name, containers))
    return found


def _text(entry: t.Any, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, str) or not value:
        return ""
    return "" if key == "Id" and not value.isalnum() else value


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


def _docker(machine: Machine, method: str, path: str, body: t.Any = None) -> t.Any:
    """Return dockerd's answer, None for an empty one or for something that is not there."""
    connection = _UnixConnection(machine.docker_socket)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        data = answer.read(_LIMIT)
        if answer.status == 404:
            return None
        said = parse(data) if data.strip() else None
        if answer.status >= 400:
            why = _text(said, "message") or f"status {answer.status}"
            raise RuntimeFailed(
                f"Docker does not release its networks of the driver {DRIVER}. It said: {terminal_text.text(why)}. "
                "See that calico-agent and calico-docker.socket run (systemctl start), or remove the networks by "
                "docker network rm."
            )
        return said
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RuntimeFailed(
            f"Docker cannot be asked for its networks of the driver {DRIVER}: {machine.docker_socket}: "
            f"{terminal_text.text(error)}. See that dockerd runs (systemctl status docker)."
        ) from error
    finally:
        connection.close()


def _podman_containers(machine: Machine, attached: t.Collection[str]) -> dict[str, str]:
    """Return {id: name} of podman's running containers among `attached`; {} if podman is not there or fails."""
    if not attached:
        return {}
    try:
        listed = _podman(machine, "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}")
    except RuntimeFailed:
        return {}
    pairs = (line.partition(" ")[::2] for line in listed.splitlines())
    return {id: name for id, name in pairs if id in attached}


def _podman(machine: Machine, *words: str) -> str:
    """Return what podman prints, at most 16 MiB, within 30 seconds."""
    try:
        done = subprocess.run(
            [machine.podman, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeFailed(f"podman {' '.join(words[:2])} cannot be run: {error}. Stop its containers.") from error
    if done.returncode:
        why = terminal_text.text(done.stderr.decode(errors="replace").strip()[-500:] or f"status {done.returncode}")
        raise RuntimeFailed(f"podman {' '.join(words[:2])} failed: {why} Stop its containers, then run again.")
    return done.stdout[:_LIMIT].decode(errors="replace")
