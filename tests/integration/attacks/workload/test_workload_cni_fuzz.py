# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a workload whose runtime passes its parameters to the CNI plugin unchecked.

They concern names, labels, bandwidth and prevResult, at random: 1,000 calls, 10,000 with HOST_ROUTING_SOAK=1.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import typing as t

import pytest

from tests.integration.agent.cni.shim import Shim
from tests.integration.agent.daemon_under_test import Daemon
from tests.unit.runtimes.cni.runtime import Answer

CALLS = 10_000 if os.environ.get("HOST_ROUTING_SOAK") == "1" else 1000

HOSTS = "/proc/self/ns/net"
COMMANDS = ("ADD", "ADD", "ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")
RESULT: dict[str, t.Any] = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "cali0", "mac": "02:00:00:00:00:01"}, {"name": "eth0", "sandbox": "/run/netns/x"}],
    "ips": [{"address": "10.244.1.1/32", "interface": 1}],
    "routes": [{"dst": "0.0.0.0/0"}],
    "dns": {},
}
CONFIGURATION: dict[str, t.Any] = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "type": "calico",
    "mtu": 1400,
    "labels": {"app": "web"},
    "ipam": {"type": "calico-ipam", "ipv4_pools": ["default-pool"], "assign_ipv4": "true"},
    "args": {"cni": {"ips": ["10.244.1.1"], "labels": [{"key": "tier", "value": "front"}]}},
    "runtimeConfig": {
        "ips": ["10.244.1.2"],
        "mac": "02:00:00:00:00:01",
        "bandwidth": {"ingressRate": 1000, "ingressBurst": 1000, "egressRate": 1000, "egressBurst": 1000},
        "labels": {"a": "b"},
    },
    "prevResult": RESULT,
    "cni.dev/valid-attachments": [{"containerID": "c", "ifname": "eth0"}],
}
ODD: tuple[t.Any, ...] = (
    *("", " ", "/", "..", "../../../etc/passwd", "a" * 5000, "a\nb", "a\0b", "\x1b[31m", "é", "$(id)", "-", "--help"),
    *("0.0.0.0", "0.0.0.0/0", "::/0", "10.244.1.0/26", "10.244.9.9", "10.10.1.11", "127.0.0.1", "fe80::1%eth0"),
    *("ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "lo", "eth0\n", "x" * 16, "all()", "add a 0.0.0.0/0", "9.9.9", "1.0.0"),
    *(-1, 0, 1, 67, 65536, 2**31, 2**63, 10**300, 1.5, 1e308, True, False, None, [], {}, [None], [[[]]], {"": None}),
)
ARGUMENTS = (
    "IgnoreUnknown=1", "IP=10.244.1.1", "IP=0.0.0.0/0", "MAC=zz", "K8S_POD_NAME=../../x", "K8S_POD_NAMESPACE=a/b",
    "a=b", "=", "a", "a=" + "x" * 70, "K8S_POD_NAME=" + "y" * 5000, "calico/x=1", ";;;", "IP=10.244.1.1,10.244.1.2,::",
    "é=é", "ingressRate=99999999999999999999",
)  # fmt: skip


def spoiled(value: t.Any, chance: random.Random) -> t.Any:
    """Return a copy of a table or list in which one part, at any depth, is missing or replaced by a value of ODD.

    `value` must not be empty.
    """
    copy = json.loads(json.dumps(value))
    inside = copy
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = chance.choice(keys)
        if isinstance(inside[key], (dict, list)) and inside[key] and chance.random() < 0.7:
            inside = inside[key]
        elif chance.random() < 0.2:
            del inside[key]
            return copy
        else:
            inside[key] = chance.choice(ODD)
            return copy


def call(chance: random.Random, netns: str) -> bytes:
    """Return a random request in the shim's form, often an invalid one; `netns` is a valid namespace's path."""
    environment = {
        "CNI_COMMAND": chance.choice(COMMANDS),
        "CNI_CONTAINERID": chance.choice(["c1", "c1", "x" * 128, "x" * 129, "../x", "a b", ".", "é", ""]),
        "CNI_NETNS": chance.choice([netns, netns, "/nowhere", "relative", HOSTS, "/dev/null", "/", "/" * 5000]),
        "CNI_IFNAME": chance.choice(["eth0", "eth0", "lo", "x" * 16, "a/b", ".", "..", "a b", "%d", "é", "-x", ""]),
        "CNI_ARGS": ";".join(chance.choice(ARGUMENTS) for _ in range(chance.randrange(4))),
        "CNI_PATH": "/opt/cni/bin",
    }
    if environment["CNI_NETNS"] == HOSTS:
        environment["CNI_COMMAND"] = "CHECK"  # test_workload_namespace.py tests ADD with the host's own namespace
    if chance.random() < 0.02:
        environment["CNI_ARGS"] = "a=" + "b" * 900_000
    configuration: t.Any = CONFIGURATION
    for _ in range(chance.randrange(1, 4)):
        configuration = spoiled(configuration, chance)
    stdin = json.dumps(configuration).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(stdin))
        stdin = stdin[:at] + chance.choice([b"", b"{", b"\0", b"\xff", b"[" * 20_000, b"9" * 5000]) + stdin[at:]
    lines = "".join(f"{name}={value}\n" for name, value in environment.items()).encode("utf-8", "surrogatepass")
    if chance.random() < 0.05:
        lines += chance.choice([b"CNI_ARGS=\0\n", b"CNI_ARGS=\xff\n", b"no name\n", b"=\n", b"CNI_COMMAND=DEL\n"])
    return b"CNI 1\n" + lines + b"\n" + stdin


def say(daemon: Daemon, data: bytes) -> Answer:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(daemon.socket)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 16):
                heard += chunk
    assert heard[:2] in (b"0\n", b"1\n"), heard[:100]
    return Answer(int(heard[:1]), heard[2:])


def stands(daemon: Daemon) -> dict[str, t.Any]:
    daemon.settled()
    daemon.in_sync()
    status = daemon.call("status")
    return {
        "records": daemon.records,
        "links": daemon.links,
        "routes": daemon.routes,
        "allocated": daemon.allocated(),
        "problems": status["problems"],
        "since": status["since"],
        "files": sorted(str(path) for path in daemon.folder.rglob("*")),
    }


def test_a_thousand_calls(daemon: Daemon) -> None:
    """Make the runtime execute the plugin with random input.

    Gain: A crash of the agent, or a file, an address or a device with a name of the workload's choice.
    Precedent: CVE-2021-20206 (libcni: a name that leads to another program), CWE-20.
    Closed: 0.2.0
    Result: Each call succeeds, or returns an error with a code, a message and no traceback, and leaves nothing behind.
    """
    netns = daemon.netns("c1")
    before = stands(daemon)
    memory = daemon.memory()
    chance = random.Random(int(os.environ.get("HOST_ROUTING_FUZZ_SEED", "7")))
    codes: dict[int, int] = {}
    for _ in range(CALLS):
        asked = call(chance, netns)
        answer = say(daemon, asked)
        if answer.status:
            error = answer.error
            length = len(error["msg"]) + len(error["details"])
            assert error["code"] != 999 and error["msg"] and length < 2000, (asked, error)
            codes[error["code"]] = codes.get(error["code"], 0) + 1
        elif b"CNI_COMMAND=ADD" in asked and b"\nCNI_COMMAND=DEL\n" not in asked:
            attached = json.loads(answer.output)
            assert attached.get("ips") or attached.get("ip4")
            for workload in daemon.call("workload.list")["workloads"]:
                if workload["id"] != "default/web":
                    assert daemon.call("workload.delete", id=workload["id"])["deleted"]
            codes[0] = codes.get(0, 0) + 1
    assert {0, 4, 6, 7} <= codes.keys(), codes
    assert stands(daemon) == before
    assert "Traceback" not in daemon.log.read_text()
    assert daemon.memory() - memory < 12 * 1024


@pytest.mark.parametrize(
    ("variable", "value", "code", "said"),
    [
        ("CNI_ARGS", "a=b\nCNI_COMMAND=DEL", 4, "a CNI_ variable of the environment holds a line break"),
        ("CNI_ARGS", "a=" + "x" * 100, 4, "a label in CNI_ARGS is wrong: "),
        ("CNI_ARGS", "app=\x1b[2J", 4, "a label in CNI_ARGS is wrong: "),
        ("CNI_IFNAME", "../../eth0", 4, "environment variable CNI_IFNAME has the value '../../eth0'"),
        ("CNI_CONTAINERID", "../../c", 4, "environment variable CNI_CONTAINERID has the value '../../c'"),
    ],
    ids=["a line break", "a label", "an escape", "a device", "a container"],
)
def test_wishes_by_the_shim(daemon: Daemon, variable: str, value: str, code: int, said: str) -> None:
    """Give the runtime a parameter that looks like another variable, a path or a terminal command.

    Gain: Another variable, a path, or control characters on an administrator's terminal.
    Precedent: CWE-93.
    Closed: 0.2.0
    Result: The plugin refuses the parameter with an error that says what is wrong, and attaches nothing.
    """
    shim = Shim(daemon.folder / "lib" / "cni", daemon.socket)
    before = stands(daemon)
    variables = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c", "CNI_NETNS": daemon.netns("c1"), "CNI_IFNAME": "eth0"}
    answer = shim.execute({**variables, variable: value}, b'{"cniVersion":"1.0.0","name":"pods","type":"calico"}')
    assert (answer.code, said in answer.error["msg"]) == (code, True), answer.error
    assert "\x1b" not in answer.output.decode()
    assert stands(daemon) == before
