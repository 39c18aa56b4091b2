# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A teardown names running containers, refuses, and with force takes them off their networks before anything else."""

from __future__ import annotations

import http.server
import json
import os
import socketserver
import threading
import urllib.parse

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.modules import node, teardown

from tests.unit.modules.node.test_node import PARAMS
from tests.unit.node.systemctl import Systemctl

POD, WEB = "a" * 64, "b" * 64


class Dockerd(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A dockerd with networks: {id: (name, driver, {container's id: name})}. `refuses` is its error, "" for none."""

    daemon_threads = True

    def __init__(self, path):
        super().__init__(path, Requests)
        self.networks = {}
        self.refuses = ""
        self.answer = None
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Requests(http.server.BaseHTTPRequestHandler):
    """The part of Docker's API that a teardown uses."""

    def log_message(self, *arguments):
        pass

    def address_string(self):
        return "test"

    def reply(self, status, value=None):
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data:
            self.wfile.write(data)

    def do_GET(self):
        path, dummy, query = self.path.partition("?")
        if self.server.answer is not None:
            self.reply(200, self.server.answer)
        elif path == "/networks":
            [driver] = json.loads(urllib.parse.parse_qs(query)["filters"][0])["driver"]
            self.reply(200, [self.shown(id) for id, found in self.server.networks.items() if found[1] == driver])
        else:
            id = path.rpartition("/")[2]
            self.reply(200, self.shown(id)) if id in self.server.networks else self.reply(404, {"message": "no"})

    def shown(self, id):
        name, driver, inside = self.server.networks[id]
        return {
            "Id": id,
            "Name": name,
            "Driver": driver,
            "Containers": {key: {"Name": it} for key, it in inside.items()},
        }

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.refuses:
            return self.reply(500, {"message": self.server.refuses})
        assert body["Force"] is True
        del self.server.networks[self.path.split("/")[2]][2][body["Container"]]
        return self.reply(200)

    def do_DELETE(self):
        id = self.path.rpartition("/")[2]
        if self.server.networks[id][2]:
            return self.reply(403, {"message": f"network {id} has active endpoints"})
        del self.server.networks[id]
        return self.reply(204)


@pytest.fixture
def dockerd(host):
    path = host.folder / "docker.sock"
    host.machine.docker_socket = str(path)
    server = Dockerd(str(path))
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def installed(host):
    """A node with its state, and a podman that knows the container POD as `pod` and notes what it is asked."""
    host.machine.systemctl = str(Systemctl(host.folder / "systemd").program)
    host.machine.docker_socket = str(host.folder / "docker.sock")
    host.machine.podman = str(host.folder / "podman")
    program = host.folder / "podman"
    program.write_text(f'#!/bin/sh\ncase $1 in ps) echo {POD} pod;; *) echo "$*" >> {host.folder}/asked;; esac\n')
    program.chmod(0o755)
    host.run(node, **PARAMS)
    return host


def attach(host, **fields):
    more = {"interface": f"cali{fields['name']:0>11}", "netns": fields["name"], "addresses": ("10.244.3.9",)}
    Endpoints(host.machine.workloads).save(AttachedWorkload(**more, **fields))
    assert Endpoints(host.machine.workloads).load()[1] == []


def with_all(host, dockerd):
    attach(host, id=f"calico.{POD}.eth0", name="pod", network="calico", container=POD, runtime="podman")
    attach(host, id=f"net.{WEB}.eth0", name="web", network="net", container=WEB)
    attach(host, id="default/box", name="box", handed_over=True)
    attach(host, id="default/job", name="job")  # by calicoctl: no container
    dockerd.networks = {
        "1" * 64: ("pods", "calico", {"c" * 64: "box"}),
        "2" * 64: ("unused", "calico", {}),
        "3" * 64: ("bridge", "bridge", {"d" * 64: "other"}),
    }


ALL = "3 containers run in networks of this node, which would go: box (Docker, network pods), pod (podman, network " \
    "calico), web (CNI, network net)."  # fmt: skip
REMEDY = (
    "Stop the containers, and run again; or add -e force=true, which takes their network away. Nothing was changed."
)


def test_running_containers_are_named_and_nothing_changes(installed, dockerd):
    with_all(installed, dockerd)
    before = installed.snapshot()
    answer = installed.run(teardown)
    assert answer["failed"] and answer["msg"] == f"{ALL} {REMEDY}"
    assert installed.snapshot() == before and len(dockerd.networks) == 3
    planned = installed.run(teardown, check=True)
    assert planned["refusal"] == answer["msg"]
    assert planned["containers"] == [
        "box (Docker, network pods)", "pod (podman, network calico)", "web (CNI, network net)"
    ]  # fmt: skip


def test_force_takes_them_off_their_networks_first(installed, dockerd):
    with_all(installed, dockerd)
    done = installed.run(teardown, force=True)
    assert [line.split() for line in done["plan"][:3]] == [
        "- network pods of Docker, 1 running container".split(),
        "- network unused of Docker, 0 running containers".split(),
        "- network calico of podman, 1 running container".split(),
    ]
    assert [name for name, *dummy in dockerd.networks.values()] == ["bridge"]
    assert (installed.folder / "asked").read_text() == f"network disconnect -f calico {POD}\n"
    assert not (installed.folder / "calico").exists()


def test_unused_networks_need_no_force(installed, dockerd):
    dockerd.networks = {"2" * 64: ("unused", "calico", {})}
    assert installed.run(teardown)["changed"] is True
    assert dockerd.networks == {}


def test_a_docker_that_refuses_stops_the_teardown(installed, dockerd):
    with_all(installed, dockerd)
    dockerd.refuses = "timeout\x1b[2J"
    before = installed.snapshot()
    installed.run(teardown)
    assert installed.snapshot() == before
    answer = installed.run(teardown, force=True)
    assert answer["changed"] is True and len(dockerd.networks) == 2  # what it refuses stays, and all else goes


def test_a_network_that_docker_does_not_release_stops_the_teardown(installed, dockerd):
    """A container came into the network after the plan was made."""
    dockerd.networks = {"2" * 64: ("unused", "calico", {})}
    dockerd.answer = [{"Id": "2" * 64, "Name": "unused", "Driver": "calico"}]
    dockerd.networks["2" * 64][2]["e" * 64] = "late"
    answer = installed.run(teardown)
    assert answer["msg"] == (
        f"Docker does not release its networks of the driver calico. It said: network {'2' * 64} has active endpoints. "
        "See that calico-agent and calico-docker.socket run (systemctl start), or remove the networks by docker "
        "network rm. Then run again, or add -e force=true. The node is as it was."
    )
    assert (installed.folder / "calico" / "state.json").exists()


def test_a_dockerd_that_is_down_may_have_networks(installed):
    folder = installed.folder / "calico" / "docker"
    folder.mkdir()
    (folder / f"{'1' * 64}.json").write_text("{}")
    assert installed.run(teardown)["msg"] == (
        "Docker has 1 network of the driver calico, and dockerd does not run. Start it with systemctl start docker. "
        f"{REMEDY}"
    )
    assert installed.run(teardown, force=True)["changed"] is True


@pytest.mark.parametrize("answer", [{}, [1], [{"Id": "../x", "Driver": "calico"}], [{"Id": 5}], "text", 7])
def test_answers_that_are_none_of_docker_name_no_network(installed, dockerd, answer):
    dockerd.answer = answer
    assert installed.run(teardown, check=True)["containers"] == []


def test_a_docker_socket_that_refuses_connections_stops_the_teardown(installed):
    path = installed.folder / "docker.sock"
    path.write_text("")
    answer = installed.run(teardown)
    assert answer["msg"] == (
        f"Docker cannot be asked for its networks of the driver calico: {path}: [Errno 111] Connection refused. See "
        f"that dockerd runs (systemctl status docker). {REMEDY}"
    )


def test_networks_of_podman_with_our_driver_go_whoever_made_them(installed):
    folder = installed.folder / "root" / "etc/containers/networks"
    folder.mkdir(parents=True)
    (folder / "own.json").write_text('{"driver": "calico"}')
    (folder / "podman.json").write_text('{"driver": "bridge"}')
    (folder / "broken.json").write_text("[")
    installed.run(teardown)
    assert sorted(os.listdir(folder)) == ["broken.json", "podman.json"]
