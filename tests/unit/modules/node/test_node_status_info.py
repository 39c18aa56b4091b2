# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module node_status_info: one call, and no failure, whatever is down."""

from __future__ import annotations

import datetime
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import (
    node_status_info as status_code,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle, engine_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.modules import node_status_info, tunnel_device

from tests.fakes.forged_engine import whole_engine
from tests.unit.bird.conftest import FakeBird
from tests.unit.cli.commands.test_agent_status import STATUS
from tests.unit.cli.conftest import WEB
from tests.unit.cli.fake_agent import FakeAgent
from tests.unit.modules.test_convergence_info import DIRECT, ROUTED, STATE, TUNNEL, protocols, write

NOW = datetime.datetime(2026, 11, 21, 7, 0, 30, tzinfo=datetime.timezone.utc)


@pytest.fixture
def node(host):
    """A converged host, with an agent and a BIRD, which are closed at the end."""
    wants = host.folder / "root" / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "calico-agent.service").symlink_to("/etc/systemd/system/calico-agent.service")
    (host.folder / "run").mkdir(exist_ok=True)
    host.run(tunnel_device, kind="ipip")
    write(host, TUNNEL, DIRECT, ROUTED)
    Store(host.machine.store).save(Stored(STATE, None, (), "x", complete=True))
    host.agent = FakeAgent(host.machine.agent_socket)
    host.agent.answers.update(
        {
            "status": STATUS,
            "workload.list": {"workloads": [WEB.to_dict()]},
            "ipam.show": {"usage": [{"cidr": "10.244.3.0/26"}], "allocations": []},
        }
    )
    host.bird = FakeBird(host.machine.bird_socket)
    host.bird.answers = {
        "show status": [[b"1000-BIRD 2.0.12\n1011-Router ID is 10.10.1.11\n0013 Daemon is up and running\n"]],
        "show protocols all": [[protocols(Mesh_10_10_1_12="Established", Mesh_10_10_1_13="Established")]],
    }
    yield host
    host.bird.close()
    host.agent.close()


def test_a_node_that_is_well(node):
    answer = status_code.gather(node.machine, NOW)
    sessions = answer["bgp"].pop("sessions")
    assert answer == {
        "node": "node1",
        "plan": "",
        "phase": "converge",
        "complete": True,
        "bgp": {"enabled": True, "running": True},
        "routes": {"expected": 3, "present": 3, "missing": []},
        "blocks": [{"cidr": "10.244.3.0/26"}],
        "workloads": 1,
        "agent": {
            "wanted": True,
            "running": True,
            "version": "0.2.0",
            "since": "2026-11-12T07:00:00Z",
            "uptime": 9 * 86400 + 30,
            "in_sync": True,
            "problems": [],
            "drift": {"total": 9, "day": 3, "kinds": {"sysctl": 1, "route": 2}},
        },
        "problems": [],
    }
    assert sessions[0] == {
        "name": "Mesh_10_10_1_12",
        "node": "node2",
        "address": "10.10.1.12",
        "established": True,
        "state": "Established",
        "since": "2026-11-21 07:13:29",
        "error": "",
        "reason": "",
        "routes_kept": False,
    }


def test_an_altered_engine_is_a_problem(node, tmp_path):
    alarm = tmp_path / "engine-alarm.json"
    node.machine.engine_alarm = str(alarm)
    source = str(pathlib.Path(bundle.__file__).resolve().parents[2])
    digest = bundle.bundle_digest(source)
    bundle.install(whole_engine(), digest, node.machine.engine)
    assert status_code.gather(node.machine, NOW)["problems"] == []
    (pathlib.Path(node.machine.engine) / digest / "host_routing" / "base" / "naming.py").write_text("")
    assert status_code.gather(node.machine, NOW)["problems"] == [
        f"the engine in {node.machine.engine} is not as it was installed: host_routing/base/naming.py was changed or "
        "added. Run site.yml, which installs it again, and find out who changed it."
    ]
    alarm.write_text('{"alarm": "the engine x is not as it was installed."}')
    assert status_code.gather(node.machine, NOW)["problems"] == ["the engine x is not as it was installed."]
    alarm.write_text('["alarm"]')
    assert status_code.gather(node.machine, NOW)["problems"] == [
        f"{alarm} holds an alarm that cannot be read. See journalctl -t calico-agent -p alert."
    ]


def test_an_engine_of_a_release_without_manifests_is_none(node, tmp_path):
    """Only the sources are judged of an engine without a `start` of its own, as those before 0.2.0 are."""
    node.machine.engine_alarm = str(tmp_path / "engine-alarm.json")
    sources = {"__main__.py": b"", "host_routing/naming.py": b"NAME = 1\n"}
    digest = engine_start.sources_digest(sources)
    engine = pathlib.Path(node.machine.engine)
    for name, content in {**sources, "__pycache__/__main__.cpython-311.pyc": b"code"}.items():
        (engine / digest / name).parent.mkdir(parents=True, exist_ok=True)
        (engine / digest / name).write_bytes(content)
    (engine / "current").symlink_to(digest)
    assert status_code.gather(node.machine, NOW)["problems"] == []
    (engine / digest / "host_routing" / "naming.py").write_text("NAME = 2\n")
    assert status_code.gather(node.machine, NOW)["problems"] == [
        f"the engine in {engine} is not as it was installed: __main__.py was changed or added, host_routing/naming.py "
        "was changed or added. Run site.yml, which installs it again, and find out who changed it."
    ]


def test_an_engine_without_its_start_is_a_problem(node, tmp_path):
    """An engine that was robbed of its `start` and its manifest does not pass for one of an older release."""
    node.machine.engine_alarm = str(tmp_path / "engine-alarm.json")
    source = str(pathlib.Path(bundle.__file__).resolve().parents[2])
    digest = bundle.bundle_digest(source)
    bundle.install(whole_engine(), digest, node.machine.engine)
    engine = pathlib.Path(node.machine.engine)
    (engine / digest / "host_routing" / "node" / "engine" / "engine_start.py").unlink()
    (engine / "manifests" / f"{digest}.json").unlink()
    (engine / "start").unlink()
    [problem] = status_code.gather(node.machine, NOW)["problems"]
    assert problem.startswith(f"the engine in {engine} is not as it was installed: ")


def test_sessions_and_routes_that_are_not(node):
    node.bird.answers["show protocols all"] = [[protocols(Mesh_10_10_1_12="Active")]]
    # A superfluous route, which goes by itself after a graceful restart, is not missing.
    write(node, (TUNNEL[0], TUNNEL[1]._replace(gateway="10.10.1.13")), ("10.244.77.0/26", DIRECT[1]))
    answer = status_code.gather(node.machine, NOW)
    assert [(found["node"], found["state"], found["error"]) for found in answer["bgp"]["sessions"]] == [
        ("node2", "Active", ""),
        ("node3", "none", "not in BIRD's configuration"),
    ]
    assert answer["routes"] == {
        "expected": 3,
        "present": 2,
        "missing": [
            "route 10.244.7.0/26 of node2 is via 10.10.1.13 dev tunl0 onlink, expected via 10.10.1.12 dev tunl0 onlink"
        ],
    }


def test_the_status_without_bird_and_agent_names_the_problem(host):
    Store(host.machine.store).save(Stored(STATE, None, (), "x", complete=False))
    Endpoints(host.machine.workloads).save(WEB)
    answer = status_code.gather(host.machine, NOW)
    assert (answer["agent"], answer["complete"], answer["workloads"]) == ({"wanted": False, "running": False}, False, 1)
    assert (answer["bgp"]["running"], answer["routes"]["present"]) == (False, 0)
    assert answer["problems"] == [
        f"BIRD does not answer. Its control socket is {host.machine.bird_socket}: No such file or directory. "
        "See `systemctl status calico-bird.service` and its journal."
    ]


def test_a_host_without_a_state(host):
    answer = host.run(node_status_info)
    assert answer == {"changed": False, "node": None, "agent": {"wanted": False, "running": False}, "problems": []}


def test_a_state_that_cannot_be_read(host):
    (host.folder / "calico").mkdir()
    (host.folder / "calico" / "state.json").write_text("{")
    answer = host.run(node_status_info)
    assert answer["node"] is None
    assert answer["problems"][0].startswith(f"{host.folder}/calico/state.json cannot be read: ")
