# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of an inventory's policy on a real kernel: the example of docs/how-to/policy.md, changed while packets flow."""

from __future__ import annotations

import itertools
import pathlib
import re
import socket
import threading

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.integration.bird.network import wait_for
from tests.unit.fleet.fleets import build, pool, states

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "how-to" / "policy.md"
EXAMPLE = yaml.safe_load(re.findall(r"```yaml\n(# group_vars.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0])
POLICIES = EXAMPLE["calico_policies"]
WORKLOADS = [{**entry, "node": "node1"} for entry in EXAMPLE["calico_workloads"]]
SQL = 5432
#: Seconds in which a connection that policy allows is answered, unless the machine is very busy.
MOMENT = 0.4
_SO_RCVBUFFORCE = 33  # socket(7)


def state_with(policies=POLICIES, workloads=WORKLOADS, **variables):
    """Return the compiled state of node1, the only node, with these policies, workloads and further variables."""
    fleet = build(
        pool("direct"),
        nodes={"node1": "10.10.1.11/24"},
        workloads=workloads,
        policies=policies,
        bgp_enabled=True,
        **variables,
    )
    return states(fleet)["node1"]


class Traffic:
    """Packets between the workloads of a host."""

    def __init__(self, host, state):
        self.host = host
        self.address = {found.name: found.address for found in state.workloads}
        self.sockets = []

    def at(self, name, make):
        made = self.host.kernel.inside(name)._there(make)
        self.sockets.append(made)
        return made

    def close(self):
        for one in self.sockets:
            one.close()

    def listen(self, name, kind=socket.SOCK_STREAM):
        def make():
            made = socket.socket(socket.AF_INET, kind)
            made.bind(("0.0.0.0", SQL))
            if kind == socket.SOCK_STREAM:
                made.listen()
            made.settimeout(5)
            return made

        return self.at(name, make)

    def has_carrier(self, name):
        """Wait until both ends of a new workload's link have a carrier, which takes up to a second.

        Raise AssertionError after 60 seconds for one end.
        """
        interface = naming.interface_name("default", name)
        for kernel, device in ((self.host.kernel, interface), (self.host.kernel.inside(name), "eth0")):
            wait_for(
                f"{name}: carrier of {device}",
                lambda kernel=kernel, device=device: (
                    " state UP " in kernel.run(["ip", "-o", "link", "show", device]).output
                ),
            )

    def connects(self, source, target, port=SQL, patience=10):
        """Return whether a TCP connection is answered within `patience` seconds; a refusal of the target is an answer.

        `source` and `target` are names of workloads. Give MOMENT where no answer is expected. The connection stays open
        until `close`.
        """

        def make():
            made = socket.socket()
            made.settimeout(patience)
            return made

        try:
            self.at(source, make).connect((self.address[target], port))
        except ConnectionRefusedError:
            return True  # policy let the packet pass: the target's kernel refused the connection itself
        except OSError:
            return False
        return True

    def allowed(self, expected):
        """Return the set of (source, target) of all workloads between which TCP connections are answered.

        Those that are `expected` are given time for that, so that a busy machine causes no failure.
        """
        names = sorted(self.address)
        pairs = [(one, other) for one in names for other in names if one != other]
        return {pair for pair in pairs if self.connects(*pair, patience=10 if pair in expected else MOMENT)}


@pytest.fixture
def traffic(host):
    made = []

    def begin(state):
        made.append(Traffic(host, state))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def test_check_do_check_do(host):
    planned, dummy = host.four_times(node, state=state_with().to_dict())
    lines = [line for line in planned["plan"] if line.startswith("+ policy")]
    assert [line.split()[2] for line in lines] == ["default/app", "default/db", "default/web", "workloads", "settings"]
    assert [line.split("of policy")[0].split() for line in planned["plan"] if "of policy" in line] == [
        ["+", "ipset", "sets"],
        ["+", "iptables", "chains"],
    ]


def test_only_allowed_packets_pass(host, traffic):
    state = state_with()
    host.run(node, state=state.to_dict())
    seen = traffic(state)
    expected = {("web", "app"), ("app", "db"), ("app", "web"), ("db", "web")}
    assert seen.allowed(expected) == expected


def test_without_policy_everything_passes_again(host, traffic):
    state = state_with()
    host.run(node, state=state.to_dict())
    answer = host.four_times(node, state=state_with([]).to_dict())[0]
    assert [line.split()[2] for line in answer["plan"] if line.startswith("- policy")][:3] == [
        "default/app",
        "default/db",
        "default/web",
    ]
    chains = re.findall(r"^:(cali-\S+)", host.kernel.run(["ip6tables-save"]).output, re.MULTILINE)
    assert sorted(chains) == [
        "cali-PREROUTING", "cali-encapsulated", "cali-spoofed", "cali-wl-link-local", "cali-wl-sources",
    ]  # fmt: skip
    everything = set(itertools.permutations(("app", "db", "web"), 2))
    assert traffic(state).allowed(everything) == everything


def test_an_unchanged_policy_writes_nothing(host, monkeypatch):
    state = state_with().to_dict()
    host.run(node, state=state)
    commands = []
    run = type(host.kernel).run
    monkeypatch.setattr(
        type(host.kernel),
        "run",
        lambda self, command, *rest, **more: commands.append(command) or run(self, command, *rest, **more),
    )
    assert host.run(node, state=state)["changed"] is False
    assert [command for command in commands if "restore" in " ".join(command)] == []
    assert any(command[0] == "iptables-save" for command in commands)


def test_a_change_lets_no_allowed_packet_be_lost_and_cuts_the_others(host, traffic):
    state = state_with()
    host.run(node, state=state.to_dict())
    seen = traffic(state)
    receiver, sender = (
        seen.listen("db", socket.SOCK_DGRAM),
        seen.at("app", lambda: socket.socket(type=socket.SOCK_DGRAM)),
    )
    receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 25)
    stopped, sent = threading.Event(), []

    def stream():
        """Send packets without answers, so that each is new to connection tracking and passes through policy."""
        while not stopped.wait(0.002):
            sender.sendto(b"%d" % len(sent), (seen.address["db"], SQL))
            sent.append(1)

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        udp = {"action": "Allow", "protocol": "UDP", "source": {"selector": "app == 'app'"}}
        db = next(policy for policy in POLICIES if policy["name"] == "db")
        others = [policy for policy in POLICIES if policy["name"] not in ("db", "app")]
        with_udp = {**db, "ingress": [*db["ingress"], udp]}
        answer = host.run(node, state=state_with([*others, with_udp]).to_dict(), diff=True)
        for ingress in ([udp], [udp, *db["ingress"]], [{"action": "Log"}, udp]):
            host.run(node, state=state_with([*others, {**db, "ingress": ingress}]).to_dict())
    finally:
        stopped.set()
        thread.join()
    received = set()
    receiver.settimeout(0.2)
    try:
        while True:
            received.add(int(receiver.recv(64)))
    except TimeoutError:
        pass
    first = min(received)
    assert received == set(range(first, len(sent))), "packets that policy allowed all the time were lost"
    assert first > 0, "packets that policy denied at first passed"
    assert not seen.connects("app", "db", patience=MOMENT), "TCP is allowed no more"
    assert seen.connects("db", "app"), "who reaches app is not said any more"
    assert "~ policy   default/db" in "\n".join(answer["plan"])
    added = '+ingress  Allow udp from (projectcalico.org/namespace == "default" && app == "app")'
    assert added in answer["diff"]["prepared"].splitlines()


def test_a_workload_between_runs_is_guarded_by_its_labels(host, traffic):
    """Policy applies by labels to a workload that is attached between runs.

    Nothing passes until the boot unit or the module has written its rules.
    """
    state = state_with()
    host.run(node, state=state.to_dict())
    host.attach("stranger")
    seen = traffic(state)
    seen.has_carrier("stranger")
    assert not seen.connects("stranger", "web", patience=MOMENT)
    assert command.main(["apply"], host.machine) == 0
    assert seen.connects("stranger", "web")
    assert not seen.connects("stranger", "db", patience=MOMENT)
    assert host.run(node, state=state.to_dict())["changed"] is False
