# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a member of group `calico`.

The agent runs as on nodes, processes belong to real users, and the shim is executed as by container runtimes.
bench/hostile_reader.py measures how long an ADD takes during these attacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.bounds import ApiLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Method
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError, root_socket

from tests.integration.agent.cni.shim import Shim
from tests.integration.agent.daemon_under_test import Daemon, install_engine
from tests.integration.attacks import hostile_reader
from tests.integration.attacks.local_users import (
    GID,
    GROUP,
    MEMBER,
    OTHER_MEMBER,
    ask,
    daemon_with_readers,
    say,
    start,
)
from tests.unit.agent.api.live_server import LiveServer, eventually, everything

SOURCE = pathlib.Path(hostile_reader.__file__).read_text("utf-8")

# The program of `held` and of the queueing readers: opens connections, sends the same text on each, prints the first
# answers as a JSON list, and then waits until it is killed.
HOLD = """\
import json, select, signal, socket, sys
count, said, wanted = json.load(sys.stdin)
held = []
for _ in range(count):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect("agent.sock")
    try:
        connection.sendall(said.encode())
    except OSError:
        pass
    held.append(connection)
heard, waiting = [], list(held)
while len(heard) < wanted:
    readable, _, _ = select.select(waiting, [], [], 60)
    assert readable, "nothing is answered"
    for connection in readable:
        heard.append(connection.makefile("rb").readline().decode())
        waiting.remove(connection)
print(json.dumps(heard), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return install_engine(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def daemon(engine: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Daemon]:
    with daemon_with_readers(engine, tmp_path_factory.mktemp("reader")) as daemon:
        daemon.add("web", labels={"app": "web"})
        yield daemon


@contextlib.contextmanager
def held(
    daemon: Daemon, count: int, said: str, wanted: int = 0, uid: int = MEMBER
) -> t.Iterator[list[dict[str, t.Any]]]:
    """Open `count` connections as the user `uid`, a member, and send `said` on each; close them at the end.

    Yield the first `wanted` answers, of different connections, which the user does not close meanwhile. Raise
    ValueError if the kernel refuses a connection, or nothing is answered for 60 seconds.
    """
    process = start(daemon, uid, [GID], HOLD)
    assert process.stdin and process.stdout
    try:
        process.stdin.write(json.dumps([count, said, wanted]).encode())
        process.stdin.close()
        yield [json.loads(line) for line in json.loads(process.stdout.readline())]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def attach(daemon: Daemon, name: str) -> None:
    """Attach a workload through the shim, as a container runtime does, and detach it again.

    Wait until no deletion is under way. Raise AssertionError if an execution fails, or after a wait of 30 seconds.
    """
    shim = Shim(daemon.folder / "lib" / "cni", daemon.socket)
    variables = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": name, "CNI_NETNS": daemon.netns(name), "CNI_IFNAME": "eth0"}
    stdin = b'{"cniVersion":"1.0.0","name":"pods","type":"calico"}'
    answer = shim.execute({**variables, "CNI_PATH": "/opt/cni/bin"}, stdin)
    assert answer.result["ips"]
    assert shim.execute({**variables, "CNI_COMMAND": "DEL"}, stdin).nothing
    daemon.settled()


@pytest.mark.parametrize("number", [1, 255, 256, 257, 3000])
def test_a_supplementary_group_counts(daemon: Daemon, number: int) -> None:
    """Exclude members by giving them more groups than the agent reads.

    They have `number` supplementary groups, that of the readers included.

    Gain: Readers are refused, and administrators make them root instead.
    Precedent: none known.
    Closed: 0.2.0
    Result: The agent reads the kernel's whole list of groups, whatever its length.
    """
    groups = [GID, *range(70000, 70000 + number - 1)]
    assert ask(daemon, MEMBER, "version", groups=groups)["api"] == 1
    if number > 1:
        heard = say(daemon, MEMBER, '{"method":"version"}', groups=groups[1:])
        assert heard == ["Permission denied"]


def test_selectors_are_short_and_not_kept(daemon: Daemon) -> None:
    """Make the agent parse and keep selectors of a megabyte.

    Gain: The memory of a process that the kernel kills last, until none is left.
    Precedent: CWE-770.
    Closed: 0.2.0
    Result: Selectors longer than 4 KiB are refused, and shorter ones are not kept.
    """
    long = "a == 'b'" + " " * 4089
    error = ask(daemon, MEMBER, "workload.list", selector=long)
    assert error == {
        "code": "invalid_params",
        "message": "workload.list: selector has 4097 characters, and at most 4096 are taken. Ask for all workloads, "
        "and select among the answer.",
        "data": {"field": "selector"},
    }
    assert ask(daemon, MEMBER, "workload.list", selector="x" * 20_000) == {
        "code": "too_large",
        "message": "the request is longer than 16384 bytes. Ask for less in one request.",
        "data": {},
    }
    request = '{{"method":"workload.list","params":{{"selector":"{}"}}}}\n'
    selectors = [hostile_reader.longest_selector(4000).replace("(a)", f"(a{number})", 1) for number in range(50)]
    say(daemon, MEMBER, "".join(request.format(text) for text in selectors[:10]))
    before = daemon.memory()
    (heard,) = say(daemon, MEMBER, "".join(request.format(text) for text in selectors))
    assert [set(json.loads(line)) for line in heard.splitlines()] == [{"id", "result"}] * 50
    assert daemon.memory() - before < 2048, "KiB; kept, they would be 7 MiB"


def test_roots_bytes_are_roots_own(daemon: Daemon) -> None:
    """Fill the agent's buffers for incomplete requests.

    Gain: root's ADD is refused, and no container starts.
    Precedent: CWE-770.
    Closed: 0.2.0
    Result: Incomplete requests of other users have a bound of their own, and root attaches.
    """
    before = daemon.memory()
    with contextlib.ExitStack() as stack:
        for uid in range(MEMBER, MEMBER + 4):
            stack.enter_context(held(daemon, 16, '{"a":"' + "a" * 16_000, uid=uid))
            stack.enter_context(held(daemon, 16, '{"a":"' + "a" * 1_000_000, uid=uid))
        attach(daemon, "beside-bytes")
        assert daemon.memory() - before < 8 * 1024


def test_connections_are_limited_for_each_user(daemon: Daemon) -> None:
    """Use up all of the agent's connections.

    Gain: root and all other members are shut out.
    Precedent: CWE-400.
    Closed: 0.2.0
    Result: A user has at most 32 connections and watches 4 streams, all users except root have at most 128 connections,
    and root's are separate.
    """
    with held(daemon, 33, '{"id":7,"method":"watch"}\n', wanted=29) as heard:
        errors = [answer["error"]["message"] for answer in heard]
        shows = f"Try again; `ss -xp src {daemon.socket}` shows who holds them."
        assert sorted(set(errors)) == [
            f"the agent has 32 connections of uid {MEMBER}, which is as many as it takes. {shows}",
            f"uid {MEMBER} watches 4 streams of the agent, which is as many as it gives. End one, then try again.",
        ]
        assert ask(daemon, OTHER_MEMBER, "version")["api"] == 1
        attach(daemon, "beside-connections")
    with contextlib.ExitStack() as stack:
        for uid in range(MEMBER + 10, MEMBER + 14):
            stack.enter_context(held(daemon, 32, "{", uid=uid))
        daemon.until(
            lambda: "128 connections of others than root" in str(ask(daemon, MEMBER + 9, "version")),
            "no more than 128 are taken",
        )
        attach(daemon, "beside-all")


def test_unread_answers_are_bounded(daemon: Daemon) -> None:
    """Ask for large answers on many connections, and read none.

    Gain: the agent's memory.
    Precedent: CWE-770 (the "slow read" attack on web servers).
    Closed: 0.2.0
    Result: A user with 4 MiB of unread answers gets no more.
    """
    names = [f"w{number}" for number in range(6)]
    for name in names:
        daemon.add(name, labels={f"l{n}": "x" * 60 for n in range(900)})
    try:
        size = len(json.dumps(daemon.call("workload.list")))
        assert size > 300_000
        before = daemon.memory()
        with held(daemon, 30, '{"method":"workload.list"}\n' * 3):
            daemon.until(lambda: "answers of the agent unread" in str(ask(daemon, MEMBER, "version")), "it is refused")
            assert ask(daemon, MEMBER, "version") == {
                "code": "try_again",
                "message": f"uid {MEMBER} has answers of the agent unread, as many as it keeps. Read them, then try "
                "again.",
                "data": {},
            }
            assert ask(daemon, OTHER_MEMBER, "version")["api"] == 1
            assert daemon.memory() - before < 16 * 1024
    finally:
        for name in names:
            daemon.delete(name)
        daemon.settled()


def test_a_member_cannot_call_what_is_reserved_for_root(daemon: Daemon) -> None:
    """Change the node through the API that members may read.

    Gain: any address, any workload, any state of the node.
    Precedent: CWE-862.
    Closed: 0.2.0
    Result: Each changing method and each parameter reserved for root is refused by name.
    """
    with AgentClient(daemon.socket) as client:
        methods = ["workload.add", "workload.delete", "workload.label", "node.apply", "resync"]
        methods += ["remote_endpoints.reload", "ipam.release"]
        with pytest.raises(AgentError) as known:
            client.call("no such")
    assert all(method in known.value.message for method in methods)
    before = daemon.status_in_sync()
    for method in methods:
        message = f"{method} changes the node, and uid {MEMBER} may only read. Run it as root."
        assert ask(daemon, MEMBER, method, id="default/web")["message"] == message
    state = ask(daemon, MEMBER, "node.plan", state={})
    assert state["message"] == f"node.plan takes state from root alone, and not from uid {MEMBER}."
    (cni,) = say(daemon, MEMBER, 'CNI 1\nCNI_COMMAND=DEL\n\n{"cniVersion":"1.0.0"}')
    assert json.loads(cni[2:]) == {
        "cniVersion": "1.0.0",
        "code": 100,
        "msg": f"uid {MEMBER} may not attach workloads",
        "details": "Only root may. Run the container runtime as root.",
    }
    assert daemon.status_in_sync() == before


def test_all_of_it_at_once(daemon: Daemon) -> None:
    """Run all ways of hostile_reader.py to flood the API at the same time, as two users.

    Gain: No container starts any more, and the attack fills the journal.
    Precedent: CWE-400.
    Closed: 0.2.0
    Result: Root attaches, other members get answers, memory and journal hardly grow, and the agent works as before.
    """
    daemon.in_sync()
    before, log = daemon.memory(), daemon.log.stat().st_size
    attackers: list[subprocess.Popen[bytes]] = []
    try:
        for uid in (MEMBER, MEMBER + 3):
            process = start(daemon, uid, [GID], SOURCE, "agent.sock", *hostile_reader.SAID)
            attackers.append(process)
            assert process.stdout and process.stdout.readline() == b"ready\n"
        for number in range(5):
            attach(daemon, f"beside-{number}")
        assert [entry["id"] for entry in ask(daemon, OTHER_MEMBER, "workload.list")["workloads"]] == ["default/web"]
        assert set(ask(daemon, OTHER_MEMBER, "node.plan")) >= {"changes", "in_sync"}
        assert ask(daemon, OTHER_MEMBER, "workload.check", id="default/web") == {"problems": []}
    finally:
        for process in attackers:
            process.kill()
            process.communicate()
    daemon.in_sync()
    assert daemon.memory() - before < 12 * 1024
    said = daemon.log.read_bytes()[log:].decode()
    assert "Traceback" not in said and len(said.splitlines()) <= 40, said


class CountingServer:
    """The agent's API in this process, with a record of its calls.

    `order` has "read" for each call of the readers' method, which ends at once, and "begin" and "end" of each CNI
    request. That goes through the event loop 3,000 times, as an ADD that waits for other threads.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.order: list[str] = []
        self.seconds = 0.0  # the time from begin to end of the last CNI request
        self.live = LiveServer(folder, group=GROUP)
        self.live.shim = self._add
        self.live.server.calls._methods["read"] = Method(self._read)  # type: ignore[index]
        folder.chmod(0o755)

    async def _read(self, params: dict[str, t.Any], peer: Peer) -> dict[str, t.Any]:
        self.order.append("read")
        return {}

    async def _add(self, environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
        self.order.append("begin")
        began = time.monotonic()
        for dummy in range(3000):
            await asyncio.sleep(0)
        self.seconds = time.monotonic() - began
        self.order.append("end")
        return 0, b"{}"

    @contextlib.contextmanager
    def stopped(self) -> t.Iterator[None]:
        """Stop the event loop for the with block, so that requests that arrive meanwhile wait in the kernel.

        Raise AssertionError if it does not stop within 60 seconds.
        """
        stopped, go_on = threading.Event(), threading.Event()

        def wait() -> None:
            stopped.set()
            go_on.wait()

        self.live.loop.call_soon_threadsafe(wait)
        assert stopped.wait(60)
        try:
            yield
        finally:
            go_on.set()


def test_an_add_waits_behind_no_queue_of_readers(tmp_path: pathlib.Path) -> None:
    """Queue thousands of requests on as many connections as members may have, before root asks for an ADD.

    Gain: Containers that start late, or not before their runtime gives up.
    Precedent: CWE-400, CWE-405.
    Closed: 0.2.0
    Result: While the ADD waits and runs, the agent handles a few of the queued requests; the others come afterwards.
    """
    server = CountingServer(tmp_path)
    ask = json.dumps({"method": "read"}) + "\n"
    processes = []
    try:
        for uid in range(MEMBER, MEMBER + 4):
            who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", f"--groups={GID}"]
            command = [*who, sys.executable, "-I", "-c", HOLD]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            processes.append(subprocess.Popen(command, cwd=tmp_path, **pipes))
        with server.stopped():
            for process in processes:
                assert process.stdin and process.stdout
                process.stdin.write(json.dumps([32, ask * 200, 0]).encode())
                process.stdin.close()
                assert process.stdout.readline() == b"[]\n"
        eventually(lambda: server.order.count("read") > 10)
        waiting, running = [], []
        for dummy in range(20):
            with socket.socket(socket.AF_UNIX) as root:
                with server.stopped():
                    root.connect(root_socket(server.live.path))
                    root.sendall(b"CNI 1\nCNI_COMMAND=ADD\n\n{}")
                    root.shutdown(socket.SHUT_WR)
                    seen = len(server.order)
                assert everything(root).endswith(b"{}")
            new = server.order[seen:]
            waiting.append(new[: new.index("begin")].count("read"))
            running.append((new[new.index("begin") : new.index("end")].count("read"), server.seconds))
        assert server.order.count("read") < 4 * 32 * 200, "nothing was queued any more"
        assert max(waiting) <= 3 and sum(waiting) <= 30, waiting
        # One request may have begun before the ADD, and one more begins each tenth of a second; see fair_share.py.
        assert all(reads <= 2 + seconds / 0.1 for reads, seconds in running), running
    finally:
        for process in processes:
            process.kill()
            process.wait()
        server.live.close()


@pytest.mark.parametrize("carrier", ["nc", "python3"])
def test_a_refusal_reaches_who_attaches(tmp_path: pathlib.Path, carrier: str) -> None:
    """Make the agent refuse root in a form that a container runtime takes for a stopped agent.

    Gain: A DEL is stored for later and reported as done although the agent runs.
    Precedent: none known.
    Closed: 0.2.0
    Result: a refusal has the form of the request that it refuses, with a code and a message.
    """
    server = LiveServer(tmp_path, limits=ApiLimits(waiting=1000))
    try:
        shim = Shim(tmp_path / "cni", server.path, carrier)
        with server.connect() as full:
            full.sendall(b"x" * 990)
            for _ in range(100):
                server.do(asyncio.sleep(0.01))
                if server.server.bounds.waiting[True] == 990:
                    break
            for command in ("ADD", "DEL", "CHECK", "STATUS"):
                answer = shim.execute({"CNI_COMMAND": command, "CNI_CONTAINERID": "c"}, b'{"cniVersion":"1.0.0"}')
                assert answer.error == {
                    "cniVersion": "1.1.0",  # the agent refused before it read the request's own version
                    "code": 11,
                    "msg": "the agent holds too many requests that are not complete. Try again.",
                    "details": "",
                }
    finally:
        server.close()
