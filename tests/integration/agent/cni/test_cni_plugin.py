# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conformance tests on the real agent, through the shim, and tests that need the real agent and kernel."""

from __future__ import annotations

import json
import pathlib
import subprocess
import typing as t

import pytest

from tests.integration.agent.cni.real_runtime import RealRuntime, real_runtime
from tests.unit.runtimes.cni.suite_conformance import *  # noqa: F403


@pytest.fixture(scope="module")
def shared(engine: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[RealRuntime]:
    with real_runtime(engine, tmp_path_factory.mktemp("cni")) as runtime:
        yield runtime


@pytest.fixture
def runtime(shared: RealRuntime) -> t.Iterator[RealRuntime]:
    yield shared
    shared.reset()


def test_check_finds_a_lost_reservation(runtime: RealRuntime) -> None:
    """A reservation that is lost from the journal is restored when the agent starts, and CHECK then succeeds.

    This test replaces the suite's, in which CHECK fails: only the journal's file can lose a reservation, and the agent
    compares the file with its workloads when it starts.
    """
    container = runtime.container()
    added = runtime.add(container)
    runtime.release(container)
    assert runtime.allocated() == {added.address: f"pods.{container.id}.eth0"}
    assert runtime.check(container, added).nothing


def test_a_container_reaches_the_host_and_the_other(runtime: RealRuntime) -> None:
    one, two = runtime.container(), runtime.container()
    first, second = runtime.add(one), runtime.add(two)
    one.run("ping", "-n", "-c", "1", "-W", "2", "10.10.1.11")
    one.run("ping", "-n", "-c", "1", "-W", "2", second.address)
    two.run("ping", "-n", "-c", "1", "-W", "2", first.address)


def test_a_delete_while_the_agent_is_down_is_completed(runtime: RealRuntime) -> None:
    container, other = runtime.container(), runtime.container()
    added, kept = runtime.add(container), runtime.add(other)
    runtime.daemon.kill()
    assert runtime.delete(container, prevResult=added.result).nothing
    assert added.host_end in runtime.daemon.links
    runtime.daemon.start()
    assert list(runtime.allocated()) == [kept.address]
    runtime.daemon.settled()
    assert runtime.daemon.links == {kept.host_end}
    assert list(runtime.shim.deleted.iterdir()) == []


def test_a_delete_is_completed_although_the_namespace_went(runtime: RealRuntime) -> None:
    """A delete is completed although the namespace has gone.

    podman does so: DEL, then no namespace, then the agent returns.
    """
    container = runtime.container()
    runtime.add(container)
    runtime.daemon.kill()
    assert runtime.delete(container).nothing
    container.remove()
    runtime.daemon.start()
    assert runtime.allocated() == {}
    assert runtime.daemon.links == set()


def test_a_delete_that_no_socket_took_is_completed_by_the_next_add(runtime: RealRuntime) -> None:
    container, other = runtime.container(), runtime.container()
    runtime.add(container)
    variables = {"CNI_COMMAND": "DEL", "CNI_CONTAINERID": container.id, "CNI_IFNAME": "eth0"}
    text = "\n".join(["CNI 1", *(f"{key}={value}" for key, value in variables.items()), "", '{"name":"pods"}'])
    runtime.shim.deleted.mkdir(parents=True, exist_ok=True)
    (runtime.shim.deleted / "x.request").write_text(text)
    added = runtime.add(other)
    assert list(runtime.allocated()) == [added.address]


def test_attachments_survive_the_agent(runtime: RealRuntime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    runtime.daemon.kill()
    assert runtime.run("STATUS").code == 50
    runtime.daemon.start()
    assert runtime.check(container, added).nothing
    assert runtime.add(container).result == added.result


def test_gc_after_a_reboot_frees_addresses(runtime: RealRuntime) -> None:
    """GC after a reboot releases addresses, which are on the disk, while /run and the kernel are empty."""
    container = runtime.container()
    added = runtime.add(container)
    runtime.daemon.kill()
    for path in (runtime.daemon.folder / "run" / "workloads").rglob("*.json"):
        path.unlink()
    runtime.daemon.kernel.link_delete(added.host_end)
    runtime.daemon.start()
    assert added.address in runtime.allocated()
    assert runtime.collect().nothing
    assert runtime.allocated() == {}


def test_python_in_the_place_of_netcat(engine: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with real_runtime(engine, tmp_path, "python3") as runtime:
        container = runtime.container()
        added = runtime.add(container)
        assert runtime.check(container, added).nothing
        assert runtime.delete(container).nothing


def test_other_users_are_refused(runtime: RealRuntime) -> None:
    container = runtime.container()
    variables = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": container.id, "CNI_NETNS": container.netns}
    request = "\n".join(["CNI 1", *(f"{key}={value}" for key, value in variables.items()), "CNI_IFNAME=eth0", "", "{}"])
    for path in (runtime.daemon.folder, runtime.daemon.folder / "run"):
        path.chmod(0o755)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "nc", "-N", "-U", runtime.daemon.socket]
    done = subprocess.run(command, input=request.encode(), capture_output=True, check=False)
    if done.stdout:
        assert json.loads(done.stdout[1:])["code"] == 100
    else:
        assert b"Permission denied" in done.stderr, done  # this user may not even open the socket
    assert container.addresses() is None
