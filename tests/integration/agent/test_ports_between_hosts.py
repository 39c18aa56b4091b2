# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports for clients of another host: the rows of the table in docs/how-to/ports.md, with packets."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    ALLOW_ALL,
    PolicyState,
    allow_all,
)

from tests.integration.agent.test_ports import CLIENT, SERVER
from tests.integration.agent.two_hosts import SIX, Host, TwoHosts, block, two_hosts, underlay_address
from tests.integration.host_under_test import HOST

pytestmark = pytest.mark.root

NODE1, NODE1_6, NODE2, NODE2_6, SECOND = "10.77.1.2", "fd77:1::2", "10.77.2.2", "fd77:2::2", "10.77.2.3"
#: Workloads of the first host in one of the pools, which policy denies by selector.
DENIED = Endpoint(
    WORKLOAD_ENDPOINT,
    "default/denied",
    "node1",
    "calidenied",
    tuple(f"{block('db', 1).rpartition('.')[0]}.{number}" for number in range(7)),
    (("app", "denied"),),
    (ALLOW_ALL,),
    namespace="default",
)
POLICY = PolicyState(
    policy_set(
        [],
        [Policy("no", ingress=(PolicyRule("Deny", source=Entity(selector="app == 'denied'")), PolicyRule("Allow")))],
        [allow_all()],
    ),
    (DENIED,),
)


def ask(host: Host, netns: str, address: str, kind: str = "tcp", port: int = 8080) -> str:
    """Return the address that the server sees for a client of `host`; "! ..." without an answer."""
    command = [
        f"--net={host.daemon.folder / 'netns' / netns}",
        sys.executable,
        "-I",
        "-c",
        CLIENT,
        kind,
        address,
        str(port),
    ]
    done = subprocess.run(["nsenter", *command], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


@pytest.fixture
def serving(request: pytest.FixtureRequest, engine: pathlib.Path, tmp_path: pathlib.Path) -> t.Iterator[TwoHosts]:
    """Two hosts with the requested value of calico_nat_outgoing_exclusions; the second one publishes its port 8080."""
    with two_hosts(engine, tmp_path, request.param, POLICY) as hosts:
        for host in (hosts.first, hosts.second):
            host.run(f"ip route add default via {underlay_address(SIX, host.number, 1)}")
        hosts.second.run(f"ip address add {SECOND}/24 dev eth0")
        ports = [{"host_port": 8080, "port": 80, "protocol": protocol} for protocol in ("tcp", "udp")]
        hosts.second.daemon.add("web", pools=["web", "six"], ports=ports)
        with contextlib.ExitStack() as servers:
            # The router stands for all that is outside.
            for netns, port in ((hosts.second.daemon.folder / "netns" / "web", "80"), (hosts.netns, "8080")):
                command = ["nsenter", f"--net={netns}", sys.executable, "-I", "-c", SERVER, port]
                server = servers.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
                servers.callback(server.kill)
                assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            yield hosts


@pytest.mark.parametrize("serving", ["IPPoolsOnly", "IPPoolsAndHostIPs", None], indirect=True)
def test_the_source_of_clients_of_another_host(serving: TwoHosts, request: pytest.FixtureRequest) -> None:
    """A workload that a selector denies passes by the port if its node masquerades it, and only then."""
    nat = request.node.callspec.params["serving"]
    client = serving.first.daemon.add("client", pools=["web", "six"])
    own, own6 = client["addresses"]
    web, web6 = serving.second.daemon.call("workload.get", id="default/web")["workload"]["addresses"]
    serving.first.daemon.add("denied", pools=["db", "six"])
    for kind in ("tcp", "udp"):
        assert ask(serving.first, "client", NODE2, kind) == (NODE1 if nat == "IPPoolsOnly" else own)
        assert ask(serving.first, "client", NODE2_6, kind) == (NODE1_6 if nat == "IPPoolsOnly" else own6)
        # Only the address in the inventory is known to be a node's.
        assert ask(serving.first, "client", SECOND, kind) == (NODE1 if nat else own)
        # An address in a pool, and one of nobody in the fleet.
        assert ask(serving.first, "client", web, kind, 80) == own
        assert ask(serving.first, "client", web6, kind, 80) == own6
        assert ask(serving.first, "client", underlay_address("web", 1, 1), kind) == (NODE1 if nat else own)
        assert ask(serving.first, "client", underlay_address(SIX, 1, 1), kind) == (NODE1_6 if nat else own6)
        assert ask(serving.first, HOST, NODE2, kind) == NODE1
        assert ask(serving.first, HOST, NODE2_6, kind) == NODE1_6
        denied = ask(serving.first, "denied", NODE2, kind)
        assert denied == NODE1 if nat == "IPPoolsOnly" else denied.startswith("!")
