# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a workload whose parameters podman passes to netavark's plugin unchecked.

They concern names, labels, options and JSON, at random: 600 calls, 6,000 with HOST_ROUTING_SOAK=1.
"""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest

from tests.integration.agent.cni.shim import NETAVARK, Shim
from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.attacks.workload.test_workload_cni_fuzz import HOSTS, say, spoiled, stands
from tests.unit.runtimes.netavark.podman import CREATED, attachment

CALLS = 6000 if os.environ.get("HOST_ROUTING_SOAK") == "1" else 600
COMMANDS = ("create", "setup", "setup", "setup", "teardown", "info", "")
SENT = attachment(
    network={
        "options": {"pool": "default-pool", "mtu": "1400", "label.app": "web", "dns": "10.0.0.53", "dns_search": "a.b"},
        "network_dns_servers": ["10.0.0.53"],
        "subnets": [],
        "routes": [],
    },
    options={
        "static_ips": ["10.244.1.1"],
        "static_mac": "02:00:00:00:00:01",
        "options": {"tier": "front", "label.x": "y", "mtu": "1300"},
    },
    port_mappings=[],
)


def call(chance: random.Random, netns: str) -> tuple[str, bytes]:
    """Return (command, request) at random, often an invalid one; `netns` is a valid namespace's path."""
    command = chance.choice(COMMANDS)
    sent: t.Any = {**CREATED, **SENT["network"]} if command == "create" else SENT
    for _ in range(chance.randrange(1, 4)):
        sent = spoiled(sent, chance) if sent else sent
    stdin = json.dumps(sent).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(stdin))
        stdin = stdin[:at] + chance.choice([b"", b"{", b"\0", b"\xff", b"[" * 20_000, b"9" * 5000]) + stdin[at:]
    if chance.random() < 0.02:
        stdin = b'{"x":"' + b"y" * 1_100_000 + b'"}'
    path = chance.choice([netns, netns, netns, "/nowhere", "relative", "/dev/null", "/", "/" * 5000, ""])
    lines = f"NETAVARK_COMMAND={command}\nNETAVARK_NETNS={path}\n".encode()
    if chance.random() < 0.05:
        lines += chance.choice([b"NETAVARK_NETNS=\0\n", b"NETAVARK_NETNS=\xff\n", b"no name\n", b"=\n"])
    return command, b"NETAVARK 1\n" + lines + b"\n" + stdin


def test_hundreds_of_calls(daemon: Daemon) -> None:
    """Have podman execute the netavark plugin with random input: deep, huge, with NUL, newlines, paths as names.

    Gain: A crash of the agent, or a file, an address or a device with a name of the workload's choice.
    Precedent: CVE-2021-20206 (libcni: a name that leads to another program), CWE-20.
    Closed: 0.2.0
    Result: Each call succeeds, or returns an error message and no traceback, and leaves nothing behind.
    """
    netns = daemon.netns("c1")
    before, memory = stands(daemon), daemon.memory()
    chance = random.Random(int(os.environ.get("HOST_ROUTING_FUZZ_SEED", "7")))
    attached = refused = 0
    for _ in range(CALLS):
        command, asked = call(chance, netns)
        answer = say(daemon, asked)
        if answer.status:
            told = json.loads(answer.output)
            assert list(told) == ["error"] and told["error"].isprintable() and len(told["error"]) < 2000, (asked, told)
            assert "error in its code" not in told["error"] and "did not expect" not in told["error"], (asked, told)
            refused += 1
        elif command == "setup":
            assert json.loads(answer.output)["interfaces"]
            for workload in daemon.call("workload.list")["workloads"]:
                if workload["id"] != "default/web":
                    assert daemon.call("workload.delete", id=workload["id"])["deleted"]
            attached += 1
    assert attached and refused, (attached, refused)
    assert stands(daemon) == before
    assert "Traceback" not in daemon.log.read_text()
    assert daemon.memory() - memory < 12 * 1024


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("network", {"name": "../../../etc/passwd"}, "is not the name of a network"),
        ("network", {"name": "a\nb"}, "is not the name of a network"),
        ("options", {"options": {"app": "a\nb"}}, "a label in network_options.options is wrong: "),
        ("options", {"options": {"app": "\x1b[2J"}}, "a label in network_options.options is wrong: "),
        ("options", {"options": {"dns_search": "x\0y"}}, "is not a domain"),
        ("options", {"interface_name": "../../eth0"}, "cannot be the name of a device"),
    ],
    ids=["a path", "a line", "a label", "an escape", "a name server", "a device"],
)
def test_options_by_the_shim(daemon: Daemon, part: str, value: dict[str, t.Any], said: str) -> None:
    """Give podman an option that looks like a path, another line or a terminal command.

    Gain: A path, another line of a container's resolv.conf, or control characters on an administrator's terminal.
    Precedent: CWE-93.
    Closed: 0.3.0
    Result: The plugin refuses the option with an error that says what is wrong, and attaches nothing.
    """
    shim = Shim(daemon.folder / "lib" / "cni", daemon.socket, source=NETAVARK)
    before = stands(daemon)
    stdin = json.dumps(attachment(**{part: value})).encode()
    answer = shim.execute({}, stdin, arguments=["setup", daemon.netns("c1")])
    assert answer.status == 1 and said in json.loads(answer.output)["error"], answer
    assert "\x1b" not in answer.output.decode()
    assert stands(daemon) == before


def test_the_namespace_of_the_host(daemon: Daemon) -> None:
    """Have podman attach a container that shares the host's network namespace.

    Gain: A default route of the host that leads through the workload.
    Precedent: CWE-20.
    Closed: 0.3.0
    Result: The plugin refuses it with a message, and the host has no new device.
    """
    shim = Shim(daemon.folder / "lib" / "cni", daemon.socket, source=NETAVARK)
    before = stands(daemon)
    answer = shim.execute({}, json.dumps(attachment()).encode(), arguments=["setup", HOSTS])
    assert answer.status == 1 and "network namespace" in json.loads(answer.output)["error"], answer
    assert stands(daemon) == before


def test_many_names(daemon: Daemon) -> None:
    """Make a hundred containers, each under another name, so that an address is kept for each, then restart one.

    Gain: All addresses of the node kept for containers that are gone, or the address of a container that runs.
    Precedent: CWE-770.
    Closed: 0.3.0
    Result: Each address is kept for one container at most. Others get addresses meanwhile. A name gives none in use.
    """
    netns, second = daemon.netns("c1"), daemon.netns("c2")
    before, memory = stands(daemon), daemon.memory()

    def ask(command: str, digits: int, name: str, netns: str = netns) -> str:
        sent = attachment(container_id=f"{digits:064x}"[::-1], container_name=name)
        lines = f"NETAVARK_COMMAND={command}\nNETAVARK_NETNS={netns}\n".encode()
        answer = say(daemon, b"NETAVARK 1\n" + lines + b"\n" + json.dumps(sent).encode())
        assert answer.status == 0, answer
        return answer.output.decode() if command == "teardown" else shown(json.loads(answer.output))

    def shown(status: t.Any) -> str:
        return str(status["interfaces"]["eth0"]["subnets"][0]["ipnet"])

    for number in range(1, 101):
        address = ask("setup", number, f"name{number}")
        ask("teardown", number, f"name{number}")
    assert ask("setup", 100, "name100") == address
    assert ask("setup", 101, "name100", second) != address  # the container of that name runs
    for number in (100, 101):
        ask("teardown", number, "name100")
    for number in range(3):
        daemon.call("workload.add", name=f"other{number}", netns=daemon.netns(f"o{number}"))
        assert daemon.call("workload.delete", id=f"default/other{number}")["deleted"]
    after = stands(daemon)
    assert {**after, "files": 0, "routes": 0} == {**before, "files": 0, "routes": 0}
    assert daemon.memory() - memory < 12 * 1024
