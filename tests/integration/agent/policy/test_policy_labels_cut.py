# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calico_policy_cut_denied_flows`: connections of both IP versions that new labels or a new policy deny are cut."""

from __future__ import annotations

import dataclasses
import socket
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import packed_state
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import inside, policed
from tests.integration.policy.documents import global_policy
from tests.unit.agent.workloads.test_dual_stack import DUAL

PORT = 5000


class Connection:
    """A TCP connection from the workload client to the workload web, to the port PORT of web's `address`.

    Raise OSError if it is not established within 10 seconds, and KernelError if a namespace is missing.
    """

    def __init__(self, daemon: Daemon, family: int, address: str) -> None:
        self._listener = inside(daemon, "web", lambda: socket.socket(family, socket.SOCK_STREAM))
        self._listener.bind((address, PORT))
        self._listener.listen()
        self._client = inside(daemon, "client", lambda: socket.socket(family, socket.SOCK_STREAM))
        self._client.settimeout(10)
        self._client.connect((address, PORT))
        self._server, dummy = self._listener.accept()
        self._sent = 0

    def passes(self, patience: float = 15.0) -> bool:
        """Return whether data passes in both directions; each read waits at most `patience` seconds.

        The data of this call has to arrive; earlier data that arrives late is not enough. TCP retransmits more rarely
        the longer nothing gets through. Raise OSError if the connection was reset, and AssertionError if the other end
        has closed it.
        """
        for sender, receiver in ((self._client, self._server), (self._server, self._client)):
            receiver.settimeout(patience)
            self._sent += 1
            sender.send(b"%08d" % self._sent)
            received = b""
            while not received.endswith(b"%08d" % self._sent):
                try:
                    more = receiver.recv(4096)
                except socket.timeout:
                    return False
                assert more, "the other end has closed the connection"
                received += more
        return True

    def close(self) -> None:
        for one in (self._client, self._server, self._listener):
            one.close()


def _cutting(port: int) -> NodeState:
    """Return a state in which clients reach web at this TCP port, and denied connections are cut."""
    rule = {
        "action": "Allow",
        "protocol": "TCP",
        "source": {"selector": 'app == "client"'},
        "destination": {"ports": [port]},
    }
    web = global_policy("web", 'app == "web"', types=["Ingress"], ingress=[rule])
    state = policed(web, base=dataclasses.replace(DUAL, bird=None))
    assert state.policy is not None
    settings = dataclasses.replace(state.policy.settings, cut_denied_flows=True)
    return dataclasses.replace(state, policy=dataclasses.replace(state.policy, settings=settings))


@pytest.fixture
def connections(stopped_daemon: Daemon) -> t.Iterator[list[Connection]]:
    daemon = stopped_daemon
    daemon.desire(_cutting(PORT))
    daemon.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
    daemon.start()
    found = daemon.add("web", labels={"app": "web"})["addresses"]
    daemon.add("client", labels={"app": "client"})
    daemon.in_sync()
    made = [Connection(daemon, socket.AF_INET6 if ":" in one else socket.AF_INET, one) for one in found]
    yield made
    for one in made:
        one.close()


def test_other_labels_end_connections_of_both_families(stopped_daemon: Daemon, connections: list[Connection]) -> None:
    daemon = stopped_daemon
    assert [one.passes() for one in connections] == [True, True]
    daemon.call("workload.label", id="default/client", labels={"tier": "front"})
    assert [one.passes() for one in connections] == [True, True]
    daemon.call("workload.label", id="default/client", labels={"app": "other"})
    assert [one.passes(0.4) for one in connections] == [False, False]
    daemon.call("workload.label", id="default/client", labels={"app": "client"})
    assert [one.passes() for one in connections] == [True, True]


def test_a_changed_policy_cuts_connections_of_both_families(
    stopped_daemon: Daemon, connections: list[Connection]
) -> None:
    daemon = stopped_daemon
    assert [one.passes() for one in connections] == [True, True]
    daemon.call("node.apply", state=packed_state.pack(_cutting(PORT + 1)), removals=True)
    assert [one.passes(0.4) for one in connections] == [False, False]
    drops = daemon.call("policy.drops", workload="default/web")["drops"]
    assert {":" in drop["source"]["address"] for drop in drops if drop["name"] == "cut"} == {False, True}
    daemon.call("node.apply", state=packed_state.pack(_cutting(PORT)), removals=True)
    assert [one.passes() for one in connections] == [True, True]
