# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of DELs that the shim accepted while the agent was down."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.runtimes.cni.fake_agent import FakeRuntime
from tests.unit.runtimes.cni.runtime import Container


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "deleted").mkdir()
    return tmp_path / "deleted"


def taken(container: Container, network: str = "pods", ifname: str = "eth0") -> bytes:
    """Return the bytes of the request that the shim stores for a DEL of the container's `ifname` on `network`."""
    variables = {
        "CNI_COMMAND": "DEL",
        "CNI_CONTAINERID": container.id,
        "CNI_NETNS": container.netns,
        "CNI_IFNAME": ifname,
    }
    stdin = json.dumps({"cniVersion": "1.0.0", "name": network, "type": "calico"})
    return "\n".join(["CNI 1", *(f"{key}={value}" for key, value in variables.items()), "", stdin, ""]).encode()


def complete(runtime: FakeRuntime) -> int:
    return asyncio.run(runtime.deleted.complete())


def test_stored_dels_are_completed_and_their_files_removed(runtime: FakeRuntime, folder: pathlib.Path) -> None:
    one, two = runtime.container(), runtime.container()
    runtime.add(one)
    kept = runtime.add(two)
    (folder / "a.request").write_bytes(taken(one))
    (folder / "b.request").write_bytes(taken(two, ifname="net1"))  # a DEL of net1, which no ADD has made
    assert complete(runtime) == 2
    assert list(runtime.allocated()) == [kept.address]
    assert list(folder.iterdir()) == []


def test_a_file_that_is_being_written_is_ignored(runtime: FakeRuntime, folder: pathlib.Path) -> None:
    (folder / ".abc").write_bytes(b"CNI 1\nCNI_COM")
    assert complete(runtime) == 0
    assert [path.name for path in folder.iterdir()] == [".abc"]


def test_one_that_cannot_be_completed_waits(
    runtime: FakeRuntime, folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    container = runtime.container()
    runtime.add(container)
    (folder / "a.request").write_bytes(taken(container))
    runtime.agent.fail["delete"] = AgentError(protocol.NOT_WRITTEN, "the disk is full.")
    assert complete(runtime) == 0
    assert caplog.messages == [
        f"The DEL of {container.id}.eth0 on pods, from when the agent was down, waits: the disk is full."
    ]
    assert complete(runtime) == 1
    assert runtime.allocated() == {}


def test_an_add_waits_for_the_older_del_of_its_own_container(runtime: FakeRuntime, folder: pathlib.Path) -> None:
    container, other = runtime.container(), runtime.container()
    runtime.add(container)
    (folder / "a.request").write_bytes(taken(container))
    for add, refused in ((container, True), (other, False)):
        runtime.agent.fail["delete"] = AgentError(protocol.NOT_WRITTEN, "the disk is full.")
        answer = runtime.run("ADD", add)
        assert (answer.status, (folder / "a.request").exists()) == (int(refused), True)
        if refused:
            assert (answer.code, answer.error["msg"], answer.error["details"]) == (
                11,
                f"an older DEL of eth0 of container {container.id} on network pods is not done yet: the disk is full.",
                "The agent tries it again before each ADD and every 10 seconds: correct what it says, then try again.",
            )
    assert runtime.run("ADD", container).status == 0
    assert list(folder.iterdir()) == []


def test_a_file_that_cannot_be_removed_keeps_nothing_else_from_its_end(
    runtime: FakeRuntime, folder: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the file of a stored DEL cannot be removed, the other files are processed, and an error is logged.

    Its DEL is not repeated in this process, because the runtime may have added a container of the same id since. Once
    the file can be removed, it is, and that container's address stays.
    """
    one, two = runtime.container(), runtime.container()
    runtime.add(one)
    runtime.add(two)
    stuck = folder / "a.request"
    stuck.write_bytes(taken(one))
    (folder / "b.request").write_bytes(taken(two))
    unlink = os.unlink

    def refuse(path: str) -> None:
        if path == str(stuck):
            raise OSError(errno.EROFS, "Read-only file system")
        unlink(path)

    caplog.set_level("ERROR")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert complete(runtime) == 1
        assert runtime.allocated() == {} and list(folder.iterdir()) == [stuck]
        newer = runtime.add(one)
        assert complete(runtime) == 0
    assert caplog.messages == [
        f"{stuck}, a removal from when the agent was down, is done, but its file cannot be removed: "
        "Read-only file system. Remove it before the agent starts again."
    ]
    assert complete(runtime) == 1
    assert list(runtime.allocated()) == [newer.address] and list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is not in the shim's framing."),
        (b"nonsense", "it is not in the shim's framing."),
        (
            b"CNI 1\nCNI_COMMAND=DEL\n",
            "the request has no end of its environment. After the lines NAME=value comes an empty one, then the network"
            " configuration. The shim was cut short: try again.",
        ),
        (
            b'CNI 1\n\n{"name": "a"}',
            "required environment variables missing: CNI_CONTAINERID, CNI_IFNAME. The runtime sets them, see"
            " section 2 of the CNI specification.",
        ),
        (
            b"CNI 1\nCNI_CONTAINERID=a\nCNI_IFNAME=b\n\n{",
            "the network configuration on stdin is not JSON (line 1, column 2). The runtime sends one JSON object, see"
            " section 3 of the CNI specification.",
        ),
        (b"CNI 1\nCNI_CONTAINERID=a\nCNI_IFNAME=b\n\n{}", "name is missing. Give the network one."),
    ],
)
def test_one_that_says_nothing_is_dropped(
    runtime: FakeRuntime, folder: pathlib.Path, caplog: pytest.LogCaptureFixture, content: bytes, why: str
) -> None:
    path = folder / "a.request"
    path.write_bytes(content)
    assert complete(runtime) == 1
    what = "DEL" if content.startswith(b"CNI 1") else "removal"
    assert caplog.messages == [f"{path}, a {what} from when the agent was down, says nothing and is dropped: {why}"]
    assert not path.exists()


@pytest.mark.parametrize("command", ["ADD", "GC", "STATUS"])
def test_a_later_request_finds_them_completed(runtime: FakeRuntime, folder: pathlib.Path, command: str) -> None:
    """ADD, GC and STATUS complete stored DELs first: the shim may store one just before the agent opens its socket."""
    container = runtime.container()
    first = runtime.add(container)
    (folder / "a.request").write_bytes(taken(container))
    if command == "ADD":
        # The stored DEL has released the workload's address, so ADD assigns the same one again.
        assert runtime.add(container).address == first.address
        assert len(runtime.agent.asked) == 2
    else:
        runtime.run(command, **{"cni.dev/valid-attachments": [{"containerID": container.id, "ifname": "eth0"}]})
        assert runtime.allocated() == {}
    assert list(folder.iterdir()) == []


def test_an_old_delete_does_not_take_a_newer_workload(runtime: FakeRuntime, folder: pathlib.Path) -> None:
    container = runtime.container()
    runtime.add(container)
    (folder / "a.request").write_bytes(taken(container))
    again = runtime.add(container)
    assert complete(runtime) == 0
    assert again.address in runtime.allocated()


def test_many_callers_complete_each_once(runtime: FakeRuntime, folder: pathlib.Path) -> None:
    containers = [runtime.container() for _ in range(5)]
    for container in containers:
        runtime.add(container)
    for number, container in enumerate(containers):
        (folder / f"{number}.request").write_bytes(taken(container))

    async def at_once() -> int:
        return sum(await asyncio.gather(*(runtime.deleted.complete() for _ in range(4))))

    assert asyncio.run(at_once()) == 5


def test_no_folder_is_no_error(runtime: FakeRuntime, tmp_path: pathlib.Path) -> None:
    assert not os.path.exists(tmp_path / "deleted")
    assert complete(runtime) == 0
