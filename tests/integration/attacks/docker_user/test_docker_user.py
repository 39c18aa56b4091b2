# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a user of Docker, whose texts dockerd passes on, and by a program that speaks in dockerd's place.

They concern HTTP and JSON, at random: 1,000 requests, 10,000 with HOST_ROUTING_SOAK=1.
"""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import threading
import time
import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.fake_dockerd import NETWORK, Driver, FakeContainer, UnixConnection, is_running
from tests.integration.attacks.local_users import STRANGER
from tests.integration.attacks.workload.test_workload_cni_fuzz import spoiled, stands

REQUESTS = 10_000 if os.environ.get("HOST_ROUTING_SOAK") == "1" else 1000
ENDPOINT = "2d54" * 16
POST = b"POST /NetworkDriver.Join HTTP/1.1\r\nHost: x\r\n"
#: A valid body of each method that looks at it.
BODIES: dict[str, dict[str, t.Any]] = {
    "IpamDriver.RequestPool": {
        "AddressSpace": "calico",
        "Pool": "",
        "SubPool": "",
        "Options": {"pool": ""},
        "V6": False,
    },
    "IpamDriver.RequestAddress": {"PoolID": "v4:", "Address": "", "Options": {}},
    "IpamDriver.ReleaseAddress": {"PoolID": "v4:", "Address": "10.244.1.3"},
    "NetworkDriver.CreateNetwork": {
        "NetworkID": NETWORK,
        "Options": {"com.docker.network.generic": {"mtu": "1400", "label.tier": "back"}},
        "IPv4Data": [{"AddressSpace": "calico", "Gateway": "0.0.0.0/0", "Pool": "0.0.0.0/0"}],
        "IPv6Data": [],
    },
    "NetworkDriver.CreateEndpoint": {
        "NetworkID": NETWORK,
        "EndpointID": ENDPOINT,
        "Interface": {"Address": "10.244.1.3/32", "AddressIPv6": "", "MacAddress": ""},
        "Options": {"com.docker.network.portmap": [], "name": "web", "app": "web", "mtu": "1300"},
    },
    "NetworkDriver.Join": {"EndpointID": ENDPOINT, "SandboxKey": "/var/run/docker/netns/a", "Options": {}},
    "NetworkDriver.DeleteEndpoint": {"EndpointID": ENDPOINT},
    "NetworkDriver.Leave": {"EndpointID": ENDPOINT},
}


@pytest.fixture(scope="module")
def driver(daemon: Daemon) -> t.Iterator[Driver]:
    made = Driver(daemon, daemon._engine)
    made.make_network()
    yield made
    made.close()


def said(driver: Driver, data: bytes, end: bool = False) -> tuple[int, t.Any]:
    """Return the status and the object of the answer to `data`, (0, None) without one; `end` ends the request there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(driver.path)
        try:
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return 0, None


def posted(driver: Driver, method: str, body: bytes) -> tuple[int, t.Any]:
    return said(driver, b"POST /%s HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (method.encode(), len(body)) + body)


def refused(answer: tuple[int, t.Any]) -> str:
    """Return the words of a refusal, which are fit for a terminal."""
    status, told = answer
    assert status in (200, 400, 404, 413, 414, 431, 501, 503, 505), answer
    ((key, words),) = told.items()
    assert key in ("Err", "Error") and words.isprintable() and len(words) < 2000, answer
    return t.cast("str", words)


def whole(driver: Driver) -> bool:
    """Return whether the driver answers, has written no traceback, and has used at most 200 of its 256 MiB."""
    answers = driver.ask("Plugin.Activate") == {"Implements": ["NetworkDriver", "IpamDriver"]}
    return is_running(driver) and answers and "Traceback" not in driver.log.read_text() and peak(driver) < 200 << 10


def peak(driver: Driver) -> int:
    """Return the driver's largest resident memory so far, in KiB."""
    text = pathlib.Path(f"/proc/{driver.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:"))


def cleared(driver: Driver) -> None:
    """Remove what requests that were no attack have made."""
    daemon = driver.daemon
    for workload in daemon.call("workload.list")["workloads"]:
        if workload["id"] != "default/web":
            daemon.call("workload.delete", id=workload["id"])
    for handle, address in daemon.allocated().items():
        if handle.startswith("reserved:"):
            daemon.call("ipam.unreserve", address=address)


def test_hundreds_of_requests(driver: Driver) -> None:
    """Send random requests to the driver: wrong types, paths as ids, control characters, deep or truncated JSON.

    Gain: A crash of the driver or the agent, or a file, an address or a device with a name of the user's choice.
    Precedent: CWE-20, CVE-2021-20206 (libcni: a name that leads to another program).
    Closed: 0.3.0
    Result: Each request succeeds, or is refused with a message and without a traceback, and leaves nothing behind.
    """
    daemon = driver.daemon
    before, memory = stands(daemon), daemon.memory()
    chance = random.Random(int(os.environ.get("HOST_ROUTING_FUZZ_SEED", "7")))
    refusals = done = 0
    for _ in range(REQUESTS):
        method = chance.choice([*BODIES])
        body: t.Any = BODIES[method]
        for _ in range(chance.randrange(4)):
            body = spoiled(body, chance) if body else body
        data = json.dumps(body).encode()
        if chance.random() < 0.1:
            at = chance.randrange(len(data))
            data = data[:at] + chance.choice([b"", b"{", b"\0", b"\xff", b"[" * 20_000, b"9" * 5000]) + data[at:]
        status, answer = posted(driver, method, data)
        if answer.keys() & {"Err", "Error"}:
            words = refused((status, answer))
            assert "error in its code" not in words and "did not expect" not in words, (method, data, words)
            refusals += 1
        else:
            done += 1
            cleared(driver)
    assert refusals > REQUESTS / 5 and done > REQUESTS / 20, (refusals, done)
    assert driver.ask("NetworkDriver.CreateNetwork", **BODIES["NetworkDriver.CreateNetwork"]) == {}
    assert stands(daemon) == before and whole(driver)
    assert "Traceback" not in daemon.log.read_text() and daemon.memory() - memory < 12 * 1024


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (POST + b"Content-Length: 99999999\r\n\r\n", 413),
        (POST + b"Content-Length: 1000000\r\n\r\n" + b"[" * 1_000_000, 200),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"FFFF\r\n" + b"x" * 0xFFFF + b"\r\nFFFFFFFF\r\n", 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 300_000 + b"0\r\n\r\n", 200),
        (POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n{}", 400),
        (POST + b"Content-Length: 9\r\n\r\n{}", 400),
        (POST + b"A: b\r\n" * 1000 + b"\r\n", 431),
        (POST[:20], 0),
        (b"\x16\x03\x01" + b"\0" * 100, 0),
        (POST + b'Content-Length: 42\r\n\r\n{"EndpointID": "a", "EndpointID": ["b", 1]}', 200),
    ],
    ids=["length", "deep", "chunk", "chunks", "lengths", "cut body", "headers", "cut head", "TLS", "keys"],
)
def test_requests_without_bounds(driver: Driver, data: bytes, status: int) -> None:
    """Send dockerd's request with an endless body, a million brackets, or one byte in each chunk.

    Gain: The memory or processor time of the node, and a driver that serves no container.
    Precedent: CWE-400, CWE-444, CVE-2023-39325 (HTTP/2 rapid reset).
    Closed: 0.3.0
    Result: The driver refuses the request, closes the connection, and answers the next one.
    """
    answer = said(driver, data, end=True)
    assert answer[0] == status
    if status:
        refused(answer)
    assert whole(driver)


def test_many_large_bodies_at_once(daemon: Daemon) -> None:
    """Send sixty bodies of 1 MB at once, made of nested lists, and hold back the last byte of each.

    Gain: The driver exceeds its memory limit and is killed while it starts a container.
    Precedent: CWE-770.
    Closed: 0.3.0
    Result: Only two large bodies are in memory at once. Small requests are answered meanwhile.
    """
    (daemon.folder / "large").mkdir()
    driver = _second_driver(daemon, daemon.folder / "large")
    body = b"[" + b"[[]]," * 190_000 + b"[]]"
    threads = [threading.Thread(target=_held_back, args=(driver, body)) for _ in range(60)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert driver.ask("Plugin.Activate")["Implements"]
        time.sleep(0.1)
    assert whole(driver), peak(driver)
    driver.close()


def _held_back(driver: Driver, body: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(driver.path)
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1])
        time.sleep(0.1)
        connection.sendall(body[-1:])
        assert connection.recv(1)


def test_a_thousand_connections(daemon: Daemon) -> None:
    """Open a thousand connections to the driver and send nothing.

    Gain: No container can be started or stopped any more.
    Precedent: CWE-400 (Slowloris).
    Closed: 0.3.0
    Result: 256 are accepted and the others wait. Each is closed after 30 seconds without a request. Then a container's
    request is answered.
    """
    (daemon.folder / "thousand").mkdir()
    driver = _second_driver(daemon, daemon.folder / "thousand")
    silent = []
    for _ in range(1000):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(driver.path)
        silent.append(connection)
    try:
        threads = pathlib.Path(f"/proc/{driver.process.pid}/task")
        daemon.until(lambda: len([*threads.iterdir()]) > 250, "connections are accepted")
        time.sleep(0.5)
        assert len([*threads.iterdir()]) <= 260
        first = silent[0]
        first.settimeout(90)
        assert first.recv(1) == b""
        for connection in silent:
            connection.close()
        assert driver.ask("Plugin.Activate")["Implements"]
    finally:
        for connection in silent:
            connection.close()
        driver.close()


def _second_driver(daemon: Daemon, folder: pathlib.Path) -> Driver:
    """Start another driver of the same agent, with files of its own in `folder`."""
    holder = daemon.folder
    daemon.folder = folder
    try:
        return Driver(daemon, daemon._engine)
    finally:
        daemon.folder = holder


_CONNECT = """\
import socket, sys
connection = socket.socket(socket.AF_UNIX)
try:
    connection.connect(sys.argv[1])
    connection.sendall(b"POST /Plugin.Activate HTTP/1.1\\r\\nContent-Length: 0\\r\\n\\r\\n")
    print(connection.recv(100))
except OSError as error:
    print(error.strerror)
"""


def test_a_user_other_than_root_cannot_use_the_driver(driver: Driver) -> None:
    """Connect to the driver's socket as a user who is not root.

    Gain: Addresses, devices and labels of that user's choice.
    Precedent: CWE-732, CVE-2021-41091 (Docker: permissions of its folders).
    Closed: 0.3.0
    Result: The socket's mode refuses it; where the mode is wrong, the driver closes the connection unanswered.
    """
    # The user begins in the socket's folder: another run of pytest closes the folders above at its start.
    folder, name = os.path.split(driver.path)
    os.chmod(folder, os.stat(folder).st_mode | 0o011)
    allowed = {0o600: "Permission denied\n", 0o666: ("b''\n", "Connection reset by peer\n", "Broken pipe\n")}
    for mode, expected in allowed.items():
        os.chmod(driver.path, mode)
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-c", _CONNECT, name],
            cwd=folder,
            user=STRANGER,
            group=STRANGER,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stdout in expected, (mode, done)
    os.chmod(driver.path, 0o600)
    assert whole(driver)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("10.244.1.0/32", "belongs to"),
        ("10.244.9.9/32", "lies in none of this node's blocks"),
        ("192.0.2.1/32", "lies in none of this node's blocks"),
        ("10.10.1.11/32", "lies in none of this node's blocks"),
        ("169.254.1.1/32", "lies in none of this node's blocks"),
        ("127.0.0.1/8", "lies in none of this node's blocks"),
        ("0.0.0.0/32", "lies in none of this node's blocks"),
        ("255.255.255.255", "lies in none of this node's blocks"),
    ],
)
def test_an_address_of_others(driver: Driver, address: str, words: str) -> None:
    """Request the address of another workload, of another node, of the host, or of the gateway.

    Gain: Packets for others.
    Precedent: CWE-284, CVE-2024-29018 (Docker: traffic of internal networks).
    Closed: 0.3.0
    Result: The driver refuses it, for IPAM and for the endpoint. The owner stays reachable.
    """
    daemon = driver.daemon
    before = stands(daemon)
    owner = daemon.call("workload.get", id="default/web")["workload"]
    assert owner["addresses"] == ["10.244.1.0"]
    asked = driver.ask("IpamDriver.RequestAddress", PoolID="v4:", Address=address, Options=None)
    assert words in asked["Error"], asked
    body = {**BODIES["NetworkDriver.CreateEndpoint"], "Interface": {"Address": address}}
    assert words in driver.ask("NetworkDriver.CreateEndpoint", **body)["Err"]
    assert driver.ask("IpamDriver.ReleaseAddress", PoolID="v4:", Address=address) == {}
    assert stands(daemon) == before and daemon.call("workload.get", id="default/web")["workload"] == owner


def test_one_address_for_two_at_once(driver: Driver) -> None:
    """Start two containers with the same --ip at the same moment, five times.

    Gain: An address that two containers have.
    Precedent: CWE-362.
    Closed: 0.3.0
    Result: One of them gets it. The other is refused with a message, and its release does not free the address.
    """
    daemon = driver.daemon
    for number in range(5):
        address = f"10.244.1.{2 + number}"
        answers: list[dict[str, t.Any]] = []
        threads = [
            threading.Thread(target=_contend, args=(driver, f"{2 * number + one:02x}" * 32, address, answers))
            for one in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        refusals = [answer["Err"] for answer in answers if "Err" in answer]
        assert len(answers) == 2 and len(refusals) == 1 and f"{address} belongs to" in refusals[0], answers
        (held,) = [handle for handle, one in daemon.allocated().items() if one == address]
        assert held.startswith("docker/")
    cleared(driver)
    assert list(daemon.allocated()) == ["default/web"]


def _contend(driver: Driver, endpoint: str, address: str, answers: list[dict[str, t.Any]]) -> None:
    connection = UnixConnection(driver.path)

    def ask(method: str, **body: t.Any) -> dict[str, t.Any]:
        connection.request("POST", f"/{method}", json.dumps(body))
        return t.cast("dict[str, t.Any]", json.loads(connection.getresponse().read()))

    ask("IpamDriver.RequestAddress", PoolID="v4:", Address=address, Options=None)
    body = {**BODIES["NetworkDriver.CreateEndpoint"], "EndpointID": endpoint, "Interface": {"Address": address}}
    answers.append(ask("NetworkDriver.CreateEndpoint", **body))
    if "Err" in answers[-1]:
        ask("IpamDriver.ReleaseAddress", PoolID="v4:", Address=address)


@pytest.mark.parametrize(
    ("method", "changed", "words"),
    [
        ("CreateEndpoint", {"EndpointID": "../" * 21 + "a"}, ", not an id of Docker's: 64 hex digits."),
        ("CreateEndpoint", {"NetworkID": "../" * 21 + "a"}, ", not an id of Docker's: 64 hex digits."),
        ("CreateNetwork", {"NetworkID": "../../../../etc/passwd"}, ", not an id of Docker's: 64 hex digits."),
        ("DeleteNetwork", {"NetworkID": "../../../../etc/passwd"}, ", not an id of Docker's: 64 hex digits."),
        ("CreateEndpoint", {"Options": {"name": "../../x"}}, "is not a name"),
        ("CreateEndpoint", {"Options": {"app": "\x1b[2J"}}, "A driver-opt is a label, and "),
        ("CreateEndpoint", {"Options": {"a\nb": "c"}}, "A driver-opt is a label, and "),
        ("CreateEndpoint", {"Options": {f"k{number}": "v" for number in range(300)}}, "Options is a table of 300, not"),
        ("Join", {"SandboxKey": "/proc/1/ns/../../../x y"}, "must be the absolute path of a network namespace"),
        ("Join", {"SandboxKey": "a\0b"}, "must be the absolute path of a network namespace"),
    ],
)
def test_texts_that_read_as_something_else(driver: Driver, method: str, changed: dict[str, t.Any], words: str) -> None:
    """Give a container or a network a name, label or id that is a path or has terminal commands.

    Gain: A file of the driver or the agent in another place, or control characters on an administrator's terminal.
    Precedent: CWE-22, CWE-93, CWE-150.
    Closed: 0.3.0
    Result: The driver refuses it in printable words, and creates neither a file nor a device.
    """
    before = stands(driver.daemon)
    body = {**BODIES.get(f"NetworkDriver.{method}", {}), **changed}
    assert words in refused((200, driver.ask(f"NetworkDriver.{method}", **body)))
    assert stands(driver.daemon) == before


def test_the_endpoint_of_a_running_container_is_not_replaced(driver: Driver) -> None:
    """Request a running container's endpoint again, with another address and other labels.

    Gain: A running container that loses its address, or gets labels for which policy allows more.
    Precedent: CWE-694.
    Closed: 0.3.0
    Result: The driver refuses it. The container keeps its address and labels.
    """
    container = FakeContainer(driver, "box", 77).start()
    before = driver.daemon.call("workload.get", id=f"docker/{container.endpoint}")
    body = {**BODIES["NetworkDriver.CreateEndpoint"], "EndpointID": container.endpoint, "Options": {"app": "db"}}
    words = driver.ask("NetworkDriver.CreateEndpoint", **body)["Err"]
    assert "exists already" in words or "is attached already" in words, words
    assert driver.daemon.call("workload.get", id=f"docker/{container.endpoint}") == before
    for step in container.last_steps:
        step()
