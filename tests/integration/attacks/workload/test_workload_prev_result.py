# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by the `prevResult` of an earlier plugin in the chain, which the runtime passes to the CNI plugin."""

from __future__ import annotations

import json
import random
import typing as t

import pytest

from tests.integration.attacks.node_under_attack import SOAK, Node, node_under_attack

FUZZED = 100 * SOAK
FOREIGN = "10.244.1.63"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Node]:
    with node_under_attack(tmp_path_factory.mktemp("attacked")) as found:
        yield found


@pytest.fixture
def node(shared: Node) -> t.Iterator[Node]:
    yield shared
    shared.reset()


def add(node: Node, previous: t.Any, version: str = "1.1.0", command: str = "ADD") -> t.Any:
    environment = {
        "CNI_COMMAND": command, "CNI_CONTAINERID": "c" * 64, "CNI_NETNS": str(node.path("pod")), "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
    }  # fmt: skip
    text = previous if isinstance(previous, str) else json.dumps(previous)
    stdin = f'{{"cniVersion": "{version}", "name": "pods", "type": "calico", "prevResult": {text}}}'
    return node.shim.execute(environment, stdin.encode())


def nothing_left(node: Node) -> None:
    node.daemon.settled()
    assert (node.daemon.links, node.daemon.records, node.daemon.allocated()) == (set(), set(), {})
    assert node.holds("pod") == ([], [])


@pytest.mark.parametrize(
    ("previous", "version", "code"),
    [
        ('{"x": NaN}', "1.1.0", 6),
        ('{"x": -Infinity}', "1.1.0", 6),
        ('{"x": ' + "[" * 700 + "]" * 700 + "}", "1.1.0", 7),
        ('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", "1.1.0", 6),
        ('{"ip4": {"ip": "192.0.2.1/32"}}', "0.2.0", 7),
        ('{"interfaces": [{"name": ["eth0"]}], "ips": [{"interface": -1}]}', "1.1.0", 7),
        ('{"ips": [{"interface": true}]}', "1.1.0", 7),
        ('{"routes": {"dst": "0.0.0.0/0"}}', "1.1.0", 7),
    ],
    ids=["NaN", "infinity", "deep", "deeper", "its address", "no interface", "no number", "no list"],
)
def test_a_prev_result_that_cannot_be_printed_attaches_nothing(
    node: Node, previous: str, version: str, code: int
) -> None:
    """Make an ADD fail after the attachment, by a prevResult that cannot be printed.

    Gain: an address for each attempt, until the node has none left.
    Precedent: CWE-460, CWE-674.
    Closed: 0.2.0
    Result: An error with a code is returned, and no device, address or record is left.
    """
    answer = add(node, previous, version)
    assert answer.code == code, answer.output
    nothing_left(node)


def test_addresses_of_others_are_passed_on_and_nothing_is_done_for_them(node: Node) -> None:
    """Put a foreign address, host routes and a MAC into a prevResult.

    Gain: A route of the host to the container for an address that it does not have.
    Precedent: CWE-441.
    Closed: 0.2.0
    Result: The result has the address as given. The host has routes to the workload's own addresses only.
    """
    previous = {
        "interfaces": [{"name": "cali0", "mac": "ee:ee:ee:ee:ee:01"}],
        "ips": [{"address": f"{FOREIGN}/32", "interface": 0}],
        "routes": [{"dst": "10.10.1.0/24", "gw": "169.254.1.1"}],
    }
    result = add(node, previous).result
    own = {entry["address"] for entry in result["ips"]} - {f"{FOREIGN}/32"}
    routes = {to for to, through in node.daemon.routes if through.device}
    routes |= {to for to, through in node.daemon.kernel.routes(protocol=179, family=6) if through.device}
    assert routes == own
    assert node.holds("pod")[1] == sorted(address.partition("/")[0] for address in own)
    answer = add(node, {**previous, "ips": []}, command="CHECK")
    assert answer.code == 110
    node.released(node.path("pod"))


def test_any_prev_result_gives_a_result_or_an_error(node: Node) -> None:
    """Send random documents as prevResult to ADD, CHECK and DEL.

    Gain: an internal error, or an address for each attempt.
    Precedent: CWE-20.
    Closed: 0.2.0
    Result: ADD and CHECK get a result or an error that is not internal, DEL succeeds, and nothing is left behind.
    """
    rng = random.Random(14)

    def value(depth: int) -> t.Any:
        kind = rng.randrange(8 if depth else 6)
        if kind >= 6:
            keys = ("name", "sandbox", "interface", "address", "version", "dst", "gw", "mac", "x")
            if kind == 6:
                return [value(depth - 1) for _each in range(rng.randrange(3))]
            return {rng.choice(keys): value(depth - 1) for _each in range(rng.randrange(4))}
        return (
            None,
            True,
            rng.randrange(-2, 3),
            1e308,
            "\ud800\n\x1b[2J",
            rng.choice(("eth0", str(node.path("pod")))),
        )[kind]

    fields = ("interfaces", "ips", "routes", "dns", "ip4", "ip6", "cniVersion", "x")
    for number in range(FUZZED):
        previous = {name: value(3) for name in fields if rng.random() < 0.5}
        version = rng.choice(("0.2.0", "0.4.0", "1.0.0", "1.1.0"))
        for command in ("ADD", "CHECK"):
            answer = add(node, previous, version, command)
            if answer.status:
                assert answer.code != 999, (number, previous, answer.output)
            elif command == "ADD":
                json.loads(answer.output, parse_constant=pytest.fail)
        assert add(node, previous, version, "DEL").nothing
    nothing_left(node)
