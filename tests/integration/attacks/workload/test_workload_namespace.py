# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a local user who controls where the path of a network namespace leads.

The agent runs as on nodes, and the shim calls it as a container runtime does. The namespaces have IPv4 and IPv6.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import typing as t

import pytest

from tests.integration.attacks.node_under_attack import ELSEWHERE, SOAK, Node, node_under_attack
from tests.integration.host_under_test import HOST

SWAPPED_ADDS = 200 * SOAK


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Node]:
    with node_under_attack(tmp_path_factory.mktemp("attacked")) as found:
        yield found


@pytest.fixture
def node(shared: Node) -> t.Iterator[Node]:
    yield shared
    shared.reset()


def test_a_path_that_is_used_again_is_not_attached_to(node: Node) -> None:
    """Reuse the path of a container that ended, through its process ID or name, to get its address.

    Gain: The address of a container that ended, and with it its permissions in policy.
    Precedent: CWE-367, and CWE-340 for reused inodes.
    Closed: 0.2.0
    Result: The new namespace is not changed, the agent reports it once, and DEL releases the address.
    """
    before, inode = node.said(), node.path("pod").stat().st_ino
    device = node.run("ADD", node.path("pod")).host_end
    node.destroy("pod")
    node.gone(device)
    deadline = time.monotonic() + 300  # labs that run beside may have the number for a while
    while node.path("pod").stat().st_ino != inode:
        assert time.monotonic() < deadline, "the kernel did not use the inode number again within 300 s"
        node.destroy("pod")  # the kernel uses an inode number again some time after the former namespace is gone
        time.sleep(0.02)
    node.repaired()
    assert node.holds("pod") == ([], [])
    assert node.daemon.links == set()
    # Repairs between the attempts above may have found and reported other namespaces at that path.
    reported = node.said()
    assert reported > before
    node.repaired()
    assert node.said() == reported
    checked = node.daemon.call("workload.check", id=f"pods.{'c' * 64}.eth0")["problems"]
    assert checked == [f"{node.path('pod')} {ELSEWHERE}"]
    node.released(node.path("pod"))


def test_a_link_to_another_container_is_not_followed_by_a_repair(node: Node) -> None:
    """Change the link of an attached container to another container, then have the agent repair.

    Gain: an interface and an address inside a container of another user.
    Precedent: CWE-61; of the same kind as CVE-2021-30465 (runc).
    Closed: 0.2.0
    Result: Nothing is created in the other container, and the first one keeps its interface.
    """
    link = node.link(node.path("mine"))
    added = node.run("ADD", link)
    other = node.path("victim")
    mine = node.holds("mine")
    node.link(other)
    node.repaired()
    assert (node.holds("victim"), node.holds("mine")) == (([], []), mine)
    node.daemon.kernel.link_delete(added.host_end)
    node.repaired()
    assert (node.holds("victim"), node.daemon.links) == (([], []), set())
    node.link(node.path("mine"))
    node.daemon.call("resync")  # the link leads to the attached namespace again
    assert node.holds("mine") == mine
    node.link(other)
    node.released(link)
    assert node.holds("victim") == ([], [])


@pytest.mark.parametrize("of", ["agent", "init"])
def test_a_link_to_the_hosts_own_namespace_is_not_followed_by_a_repair(node: Node, of: str) -> None:
    """Change the link to the namespace of the agent, of the host or of process 1, then have the agent repair.

    Gain: The container's address and default route on the host, whose traffic then goes to the container.
    Precedent: CWE-61.
    Closed: 0.2.0
    Result: Nothing is created in the host's namespace, and the agent is in sync.
    """
    link = node.link(node.path("mine"))
    added = node.run("ADD", link)
    node.link(f"/proc/{node.daemon.pid if of == 'agent' else 1}/ns/net")
    node.daemon.kernel.link_delete(added.host_end)
    node.repaired()
    assert "169.254.1.1/32" not in {to for to, dummy in node.daemon.kernel.routes()}
    assert node.daemon.links == set()
    node.released(link)


@pytest.mark.parametrize("of", ["agent", "init", "by name"])
def test_the_hosts_own_namespace_is_refused(node: Node, of: str) -> None:
    """Attach the host's own namespace by its name, or by the /proc path of the agent or of process 1.

    Gain: a second default route and an address on the host.
    Precedent: none known; CWE-610.
    Closed: 0.2.0
    Result: An error with code 4 names the variable, and nothing is created or kept. Where process 1 belongs to another
    user, only the code is checked.
    """
    path = f"/proc/{node.daemon.pid}/ns/net" if of == "agent" else "/proc/1/ns/net"
    if of == "by name":
        path = str(node.daemon.folder / "netns" / HOST)
    answer = node.run("ADD", path)
    if not os.access(path, os.R_OK):  # in a container, where process 1 may belong to another user
        assert answer.code == 4
        return
    assert (answer.code, answer.error["msg"]) == (4, "environment variable CNI_NETNS cannot be used")
    assert answer.error["details"] == (
        f"default/{'c' * 12}.eth0 was not attached: {path} is the network namespace of this host itself, which is no"
        " workload's. Give it one of its own, such as /run/netns/NAME or /proc/PID/ns/net."
    ).replace("c" * 12, "c" * 64)
    node.released(path)


def _fifo(home: pathlib.Path) -> str:
    os.mkfifo(home / "fifo")
    return str(home / "fifo")


def _file(home: pathlib.Path) -> str:
    (home / "file").write_text("")
    return str(home / "file")


def _socket(home: pathlib.Path) -> str:
    subprocess.run(
        [sys.executable, "-c", "import socket, sys; socket.socket(1).bind(sys.argv[1])", home / "s"], check=True
    )
    return str(home / "s")


@pytest.mark.parametrize(
    "made",
    [
        _fifo,
        _file,
        _socket,
        str,
        lambda home: "/dev/null",
        lambda home: "/proc/self/ns/mnt",
        lambda home: "/proc/self/ns/user",
        lambda home: "/proc/self/ns/pid",
    ],
    ids=["fifo", "file", "socket", "folder", "device", "mount namespace", "user namespace", "pid namespace"],
)
def test_a_path_that_is_no_network_namespace_is_refused_at_once(
    node: Node, made: t.Callable[[pathlib.Path], str]
) -> None:
    """Give a FIFO, a device or a namespace of another kind as a network namespace.

    Gain: Threads of the agent that hang or open a device, so that no container is attached any more.
    Precedent: CWE-66, CWE-775; of the same kind as CVE-2016-9962 (files of others opened by a privileged process).
    Closed: 0.2.0
    Result: an error with code 4 at once, and the next container is attached.
    """
    link = node.link(made(node.home))
    answer = node.run("ADD", link)
    assert (answer.code, answer.error["details"]) == (
        4,
        f"default/{'c' * 64}.eth0 was not attached: {link} is not a network namespace. Give it one of its own, such as"
        " /run/netns/NAME or /proc/PID/ns/net.",
    )
    assert node.run("ADD", node.path("next"), "d" * 64).address
    node.released(link, "d" * 64)


def test_a_fifo_in_place_of_an_attached_namespace_blocks_nothing(node: Node) -> None:
    """Replace an attached container's namespace by a FIFO.

    Gain: Every repair, poll and attachment of the node waits for a writer.
    Precedent: CWE-66.
    Closed: 0.2.0
    Result: The workload counts as ended, and all others are maintained.
    """
    link = node.link(node.path("mine"))
    node.run("ADD", link)
    node.link(_fifo(node.home))
    node.repaired()
    assert node.run("ADD", node.path("next"), "d" * 64).address
    node.run("DEL", node.path("next"), "d" * 64)
    node.released(link)


def test_a_mount_that_is_replaced_is_not_attached_to(node: Node) -> None:
    """Mount another namespace over the name of an attached one, then have the agent repair.

    Gain: An address inside a container that was never attached.
    Precedent: CWE-367.
    Closed: 0.2.0
    Result: The namespace that is mounted there now is not changed.
    """
    path, victim = node.path("pod"), node.path("victim")
    device = node.run("ADD", path).host_end
    subprocess.run(["umount", "--lazy", path], check=True)
    subprocess.run(["mount", "--bind", victim, path], check=True)
    node.gone(device)
    node.repaired()
    assert node.holds("victim") == ([], [])
    node.released(path)


def test_a_link_that_turns_while_adding_never_splits_a_workload(node: Node) -> None:
    """Change the link all the time between two namespaces and the host's own, while containers are attached.

    Gain: an interface in one namespace with an address in another, or on the host.
    Precedent: CVE-2021-30465 (runc), CWE-367.
    Closed: 0.2.0
    Result: Each attachment is complete in one namespace, which is the recorded one, or is refused; the host gets none.
    """
    targets = [node.path("one"), node.path("two"), pathlib.Path(f"/proc/{node.daemon.pid}/ns/net")]
    link, ended = node.link(targets[0]), threading.Event()
    host = node.daemon.kernel
    devices = {name for name in (one.name for one in host.links()) if not name.startswith("cali")}

    def turn() -> None:
        while not ended.is_set():
            for target in targets:
                node.link(target)
                time.sleep(0.0005)  # an ADD takes a few milliseconds

    turning = threading.Thread(target=turn)
    turning.start()
    seen = {"one": 0, "two": 0, "refused": 0}
    try:
        for number in range(SWAPPED_ADDS):
            device = f"eth{number}"
            try:
                added = node.daemon.add(f"w{number}", netns=link, peer_interface=device)
            except Exception as error:  # noqa: BLE001
                assert "is the network namespace of this host itself" in str(error), error
                seen["refused"] += 1
                continue
            where = [name for name in ("one", "two") if node.daemon.kernel.inside(name).link(device)]
            assert len(where) == 1, where
            (name,) = where
            inner = host.inside(name)
            held = [one.address for family in (4, 6) for one in inner.addresses(device, family)]
            assert {address for address in held if not address.startswith("fe80:")} == set(added["addresses"])
            outer, inside = host.link(added["interface"]), inner.link(device)
            assert outer is not None and inside is not None
            assert (outer.peer_index, inside.peer_index) == (inside.index, outer.index)
            record = json.loads((node.daemon.folder / f"run/workloads/default%2Fw{number}.json").read_text())
            assert record["netns_identity"] == inner.identity
            seen[name] += 1
            node.daemon.delete(f"w{number}")
    finally:
        ended.set()
        turning.join()
        for name in ("one", "two"):
            host.leave(name)
    assert {one.name for one in host.links() if not one.name.startswith("cali")} == devices
    assert all(seen.values()), seen


def test_a_namespace_that_was_made_anew_is_not_deleted_with_the_workload(node: Node) -> None:
    """Recreate a namespace with the name and inode of one that the agent made and would delete.

    Gain: Another user's namespace is unmounted and its devices are deleted.
    Precedent: CWE-367; the kernel uses inode numbers of namespaces again.
    Closed: 0.2.0
    Result: The agent's marker belongs to another namespace, so deleting the workload does not delete this one.
    """
    kernel, path = node.daemon.kernel, node.daemon.folder / "netns" / "owned"
    marker = node.daemon.folder / "markers" / "owned"
    added = node.daemon.add("owned", netns_owned=True)
    assert kernel.netns_owners() == {"owned": "default/owned"}
    kept = json.loads(marker.read_text())
    node.daemon.kill()
    kernel.netns_delete("owned")
    node.gone(added["interface"])
    kernel.netns_add("owned", "")
    # The kernel gives a free inode number out again. Which one depends on the other processes of the machine, so the
    # marker gets the number of the new namespace.
    marker.write_text(json.dumps({**kept, "inode": path.stat().st_ino}))
    assert kernel.netns_owners() == {}
    node.daemon.start()
    node.repaired()
    assert node.holds("owned") == ([], [])
    assert node.daemon.delete("owned")
    node.daemon.settled()
    assert path.stat().st_ino and "owned" in kernel.netns_list()


def test_a_record_without_an_identity_is_not_repaired_into_another_namespace(node: Node) -> None:
    """Change the link of a container that an earlier release attached, while the agent is upgraded.

    Gain: An interface and an address in another namespace, for every container from before the upgrade.
    Precedent: CWE-61.
    Closed: 0.2.0
    Result: The agent adopts the namespace that contains the inner interface. If the path leads elsewhere, it adopts
    none.
    """
    link = node.link(node.path("mine"))
    node.run("ADD", link)
    staying = node.run("ADD", node.path("other"), "d" * 64)
    node.daemon.kill()
    folder = node.daemon.folder / "run" / "workloads"
    for path in folder.glob("*.json"):
        record = json.loads(path.read_text())
        del record["netns_identity"]
        path.write_text(json.dumps(record))
    node.link(node.path("victim"))
    node.daemon.start()
    node.repaired()
    assert node.holds("victim") == ([], [])
    records = {path.name.split(".")[1][0]: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert records["d"]["netns_identity"] == node.daemon.kernel.inside("other").identity
    assert "netns_identity" not in records["c"]
    node.daemon.kernel.link_delete(staying.host_end)
    node.daemon.call("resync")
    assert node.holds("other")[1] == sorted(record["address"].partition("/")[0] for record in staying.result["ips"])
    node.run("DEL", node.path("other"), "d" * 64)
    node.released(link)


def test_a_container_that_is_started_again_at_its_path_is_attached_again(node: Node) -> None:
    """Restart a container, whose namespace then has another identity than the recorded one.

    Gain: Containers that a runtime restarts after a crash have no network.
    Precedent: none known.
    Closed: 0.2.0
    Result: The runtime's ADD decides: the former attachment is removed, and the new namespace has the interface.
    """
    first = node.run("ADD", node.path("pod"))
    node.destroy("pod")
    node.gone(first.host_end)
    again = node.run("ADD", node.path("pod"))
    assert node.holds("pod")[1] == sorted(record["address"].partition("/")[0] for record in again.result["ips"])
    assert len(node.daemon.allocated()) == 1
    assert len(node.daemon.records) == 1
    node.repaired()
    node.released(node.path("pod"))
