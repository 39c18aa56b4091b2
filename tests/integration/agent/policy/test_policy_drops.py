# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real connections under an agent's policy: calicoctl shows drops, and connections that a new policy denies are cut."""

from __future__ import annotations

import dataclasses
import socket
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import packed_state
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient

from tests.fakes.kernel import FakeKernel
from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import CLOSED, OPEN, add, closed_for, inside, policed, web
from tests.integration.policy.documents import global_policy


def test_calicoctl_shows_what_is_dropped(stopped_daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = stopped_daemon
    daemon.desire(policed(web(OPEN)))
    daemon.start()
    daemon.in_sync()
    client, address = add(daemon, "client"), add(daemon, "web")
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "it is open")
    assert closed_for(daemon, "client", "web", CLOSED)

    def denied() -> list[dict[str, t.Any]]:
        drops = daemon.call("policy.drops", workload="default/web", since=600)["drops"]
        return [drop for drop in drops if drop["destination_port"] == CLOSED]

    daemon.until(denied, "the drop is known")
    (drop,) = denied()
    told = {name: drop[name] for name in ("verdict", "direction", "kind", "tier", "rule", "protocol", "packets")}
    assert told == {
        "verdict": "deny",
        "direction": "Ingress",
        "kind": "tier",
        "tier": "default",
        "rule": 0,
        "protocol": "udp",
        "packets": 1,
    }
    assert drop["source"] == {"address": client, "workload": "default/client", "node": "node1"}
    assert drop["destination"] == {"address": address, "workload": "default/web", "node": "node1"}
    interfaces = [
        daemon.call("workload.get", id=f"default/{one}")["workload"]["interface"] for one in ("client", "web")
    ]
    assert [drop["in_interface"], drop["out_interface"]] == interfaces
    machine = Machine(
        FakeKernel(), store=str(daemon.folder / "lib"), agent=lambda path: None, agent_socket=daemon.socket
    )
    assert command.main(["policy", "drops", "--workload", "web"], machine) == 0
    line = capsys.readouterr().out.splitlines()[-1].split()
    shown = "1 deny ingress default of tier default default/client default/web 5001/udp"
    assert line[2:] == shown.split()


class Talk:
    """An established TCP connection from the workload client to the workload web.

    Raise OSError if it is not established within 5 seconds, AgentError if the agent has no workload web, and
    KernelError if a namespace is missing.
    """

    def __init__(self, daemon: Daemon, port: int) -> None:
        address = daemon.call("workload.get", id="default/web")["workload"]["addresses"][0]
        listener = inside(daemon, "web", lambda: socket.create_server(("0.0.0.0", port)))
        self.client = inside(daemon, "client", lambda: socket.create_connection((address, port), timeout=60))
        self.server, dummy = listener.accept()
        listener.close()
        for one in (self.client, self.server):
            one.settimeout(0.5)

    def goes_on(self) -> bool:
        """Send a question and an answer; return whether exactly these bytes are received, within half a second each.

        Return False also for a closed connection.
        """
        try:
            self.client.sendall(b"question")
            if self.server.recv(64) != b"question":
                return False
            self.server.sendall(b"answer")
            return self.client.recv(64) == b"answer"
        except OSError:
            return False

    def hears(self, words: bytes) -> bool:
        """Return whether the client receives exactly these bytes next, within half a second.

        Return False also for a closed connection.
        """
        try:
            return self.client.recv(64) == words
        except OSError:
            return False

    def close(self) -> None:
        self.client.close()
        self.server.close()


def tcp(*ports: int) -> NodeState:
    """Return a state in which clients reach web by TCP at these ports (one or more), and denied connections are cut."""
    rule = {
        "action": "Allow",
        "protocol": "TCP",
        "source": {"selector": 'app == "client"'},
        "destination": {"ports": list(ports)},
    }
    state = policed(global_policy("web", 'app == "web"', types=["Ingress"], ingress=[rule]))
    assert state.policy is not None
    settings = dataclasses.replace(state.policy.settings, cut_denied_flows=True)
    return dataclasses.replace(state, policy=dataclasses.replace(state.policy, settings=settings))


def test_a_connection_that_is_still_allowed_goes_on_and_one_that_is_not_ends(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(tcp(80, 81, 82))
    daemon.start()
    daemon.in_sync()
    add(daemon, "client"), add(daemon, "web")
    daemon.in_sync()
    talks = {port: Talk(daemon, port) for port in (80, 81, 82)}
    try:
        assert all(talk.goes_on() for talk in talks.values())
        without_cutting = tcp(80, 82)
        with AgentClient(daemon.socket) as agent:
            agent.call("node.apply", state=packed_state.pack(without_cutting), removals=True)
        assert [port for port, talk in talks.items() if talk.goes_on()] == [80, 82]
        with AgentClient(daemon.socket) as agent:
            agent.call("node.apply", state=packed_state.pack(tcp(80)), removals=True)
        assert [port for port, talk in talks.items() if talk.goes_on()] == [80]
        # Policy lets web connect to clients, but data that it sends on a cut connection begins no new one.
        for talk in talks.values():
            talk.server.sendall(b"more")
        assert [port for port, talk in talks.items() if talk.hears(b"more")] == [80]
        assert [port for port, talk in talks.items() if talk.goes_on()] == [80]
        with AgentClient(daemon.socket) as agent:
            agent.call("node.apply", state=packed_state.pack(tcp(80, 82)), removals=True)
        daemon.until(lambda: talks[82].hears(b"more"), "what is allowed again goes on where TCP has not given up")
    finally:
        for talk in talks.values():
            talk.close()
    drops = daemon.call("policy.drops", workload="default/web")["drops"]
    cut = {drop["destination_port"] for drop in drops if drop["name"] == "cut"}
    assert {81, 82} <= cut and 80 not in cut
    assert "1 connection that policy denies now was cut." in daemon.log.read_text()
