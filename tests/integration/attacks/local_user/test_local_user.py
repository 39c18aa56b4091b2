# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a local user who is in no group of the collection."""

from __future__ import annotations

import json
import pathlib
import stat
import subprocess
import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon, install_engine
from tests.integration.attacks.local_users import GID, MEMBER, STRANGER, ask, daemon_with_readers, start
from tests.integration.host_under_test import HOST

PORT = 19091
GET = b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n".decode("unicode_escape")

# The program of `tried`: opens files, lists folders and connects to sockets (names that end with .sock). It prints
# {name: "opened", the list of a folder's entries, or the system's error message}.
TRY = """\
import json, os, socket, sys
found = {}
for name in json.load(sys.stdin):
    try:
        if name.endswith(".sock"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(name)
        elif os.path.isdir(name):
            found[name] = os.listdir(name)
            continue
        else:
            open(name).close()
        found[name] = "opened"
    except OSError as error:
        found[name] = error.strerror
json.dump(found, sys.stdout)
"""
# A slow client: holds connections to the port open, sends a text on each, and closes those that are closed or answered.
# On request it replaces them; otherwise it ends when none is left.
SLOW = """\
import json, select, socket, sys
port, count, said, again = json.load(sys.stdin)
def connect():
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(said.encode())
    return connection
held = [connect() for _ in range(count)]
print("ready", flush=True)
while True:
    ended = select.select(held, [], [], 1)[0]
    for connection in ended:
        held.remove(connection)
        connection.close()
        if again:
            held.append(connect())
    if not again and not held:
        break
"""
# The program of `scraped`: reads the page as a monitoring system does, and prints its size in bytes, or 0 if
# the connection is refused.
SCRAPE = """\
import sys, urllib.error, urllib.request
try:
    print(len(urllib.request.urlopen("http://{}:{}/metrics".format(*sys.argv[1:]), timeout=30).read()))
except urllib.error.URLError as error:
    assert isinstance(error.reason, ConnectionRefusedError), error
    print(0)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Daemon]:
    engine = install_engine(tmp_path_factory.mktemp("engine"))
    folder: pathlib.Path = tmp_path_factory.mktemp("local")
    with daemon_with_readers(engine, folder, metrics_port=PORT) as daemon:
        daemon.add("web")
        subprocess.run(["nsenter", f"--net={folder}/netns/{HOST}", "ip", "link", "set", "lo", "up"], check=True)
        yield daemon


def tried(daemon: Daemon, uid: int, *names: str, groups: t.Sequence[int] = ()) -> dict[str, t.Any]:
    output, _ = start(daemon, uid, groups, TRY).communicate(json.dumps(names).encode(), timeout=60)
    return t.cast("dict[str, t.Any]", json.loads(output))


def test_neither_socket_takes_him(daemon: Daemon) -> None:
    """Connect to the agent's sockets.

    Gain: Everything that the agent does for root or reveals to members.
    Precedent: CVE-2020-15257 (containerd's socket for all of a network namespace).
    Closed: 0.2.0
    Result: The kernel refuses the connection; root's socket refuses members as well.
    """
    names = ("agent.sock", "agent-root.sock")
    assert tried(daemon, STRANGER, *names) == dict.fromkeys(names, "Permission denied")
    assert tried(daemon, MEMBER, *names, groups=[GID]) == {
        "agent.sock": "opened",
        "agent-root.sock": "Permission denied",
    }
    folder = daemon.folder / "run"
    modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in names]
    owners = [(found.st_uid, found.st_gid) for found in ((folder / name).stat() for name in names)]
    assert (modes, owners) == ([0o660, 0o600], [(0, GID), (0, 0)])


def test_workloads_cannot_be_listed(daemon: Daemon) -> None:
    """List /run/calico/workloads, whose files are named after the workloads.

    Gain: Knowledge of what runs on the node, by namespace and name.
    Precedent: CWE-732.
    Closed: 0.2.0
    Result: Only root can read both folders and all records, even if an earlier release left them open.
    """
    names = ["workloads", "workloads/default%2Fweb.json", "workloads/unfinished"]
    for uid, groups in ((STRANGER, ()), (MEMBER, (GID,))):
        found = tried(daemon, uid, *names, groups=groups)
        assert set(found.values()) == {"Permission denied"}, found
    assert [one["id"] for one in ask(daemon, MEMBER, "workload.list")["workloads"]] == ["default/web"]
    daemon.stop()
    folder = daemon.folder / "run" / "workloads"
    folder.chmod(0o755)
    (folder / "default%2Fweb.json").chmod(0o644)
    daemon.start()
    assert set(tried(daemon, STRANGER, *names).values()) == {"Permission denied"}
    assert daemon.records == {"default%2Fweb.json"}
    daemon.in_sync()


@pytest.mark.parametrize(
    ("said", "again"),
    [("", True), ("GET /metrics HT", True), (GET, False), (GET, True)],
    ids=["silent", "half a request", "unread", "unread and again"],
)
def test_slow_clients_do_not_blind_metrics(daemon: Daemon, said: str, again: bool) -> None:
    """Hold all connections of /metrics open without a request, or without reading.

    Each connection sends `said`. With `again` the attackers open a new one for each that is closed.

    Gain: Monitoring gets no metrics, so no alarm is raised.
    Precedent: CVE-2007-6750 (Slowloris).
    Closed: 0.2.0
    Result: Connections without a request are closed for new ones, and a scraper gets its answer. The agent still adds
    workloads, and its memory grows by less than 12 MiB.
    """
    attackers = []
    before = daemon.memory()
    try:
        for _ in range(2):
            attackers.append(start(daemon, STRANGER, (), SLOW, bufsize=0))
            attacker = attackers[-1]
            assert attacker.stdin and attacker.stdout
            attacker.stdin.write(json.dumps([PORT, 64, said, again]).encode())
            attacker.stdin.close()
        for attacker in attackers:
            assert attacker.stdout and attacker.stdout.readline() == b"ready\n"
        for _ in range(5):
            assert scraped(daemon, "127.0.0.1") > 5000
        assert daemon.add("beside")["addresses"]
        assert daemon.delete("beside")
    finally:
        for attacker in attackers:
            attacker.kill()
            attacker.wait()
            assert attacker.stdout
            attacker.stdout.close()
    assert daemon.memory() - before < 12 * 1024
    assert "Traceback" not in daemon.log.read_text()


def scraped(daemon: Daemon, address: str) -> int:
    """Return the size in bytes of the metrics page, read by a user in no group; 0 if the connection is refused.

    Raise ValueError with the client's traceback if it cannot be read otherwise, as when the server is silent for
    30 seconds. Raise subprocess.TimeoutExpired if reading takes 60 seconds.
    """
    client = start(daemon, STRANGER, (), SCRAPE, address, str(PORT), stderr=subprocess.STDOUT)
    output, _ = client.communicate(timeout=60)
    return int(output)


def test_metrics_are_reachable_on_loopback_only(daemon: Daemon) -> None:
    """Read /metrics by the host's underlay address, as another host or a workload would.

    Gain: Names of policies and pools, and the load of the node.
    Precedent: CWE-200.
    Closed: 0.2.0
    Result: It listens on loopback only, unless metrics_address has another address.
    """
    assert scraped(daemon, "127.0.0.1") > 5000
    assert scraped(daemon, "10.10.1.11") == 0
