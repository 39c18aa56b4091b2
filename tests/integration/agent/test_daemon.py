# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as a process: signals, a second one, states, many callers at once, disks that fail, and packets."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    KernelRoute,
    Link,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import packed_state
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, NodeIpam, Route
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.integration.agent.daemon_under_test import Daemon
from tests.unit.agent.node_under_test import BLOCK, STATE, with_state

MANY = with_state(
    ipam=NodeIpam(1, (Block("10.244.1.0/24", "default-pool"),)), routes=(Route("10.244.1.0/24", "blackhole"),)
)


def test_workloads_reach_each_other_and_a_deleted_one_cannot_be_reached(daemon: Daemon) -> None:
    web, db = daemon.add("web"), daemon.add("db")
    assert (web["addresses"], db["addresses"]) == (["10.244.1.0"], ["10.244.1.1"])
    daemon.in_sync()
    assert daemon.reaches("web", "10.244.1.1") and daemon.reaches("db", "10.244.1.0")
    assert daemon.delete("db") is True
    assert daemon.destinations == {BLOCK, "10.244.1.0/32"}
    daemon.settled()
    assert daemon.links == {web["interface"]} and daemon.call("node.plan")["changes"] == []
    assert daemon.delete("db") is False


def test_stopping_and_starting_touches_nothing(daemon: Daemon) -> None:
    daemon.add("web")
    daemon.in_sync()

    def found() -> tuple[list[t.Optional[Link]], list[KernelRoute]]:
        # Each device is looked at alone: then its carrier, which the kernel notices in a work queue, has been noticed.
        return [daemon.kernel.link(link.name) for link in daemon.kernel.links()], daemon.routes

    before = found()
    assert daemon.stop() == 0
    assert found() == before
    assert daemon.reaches("web", "10.10.1.11")
    daemon.start()
    daemon.in_sync()
    assert found() == before
    assert daemon.call("status")["workloads"] == 1


def test_there_is_one_agent(daemon: Daemon) -> None:
    pid, process = daemon.pid, daemon.process
    daemon.start(wait=False)
    assert daemon.process is not None and daemon.process.wait(60) == 1
    daemon.process = process
    assert f"this node is being changed by calico-agent (pid {pid}, since" in daemon.log.read_text()
    assert daemon.call("status")["pid"] == pid


def test_a_new_state_is_read_at_sighup_and_what_is_known_is_written_down_at_sigusr1(daemon: Daemon) -> None:
    daemon.in_sync()
    daemon.desire(with_state(routes=(*STATE.routes, Route("10.244.9.0/29", "blackhole"))))
    os.kill(daemon.pid, signal.SIGHUP)
    daemon.until(lambda: "10.244.9.0/29" in daemon.destinations, "the new route is there")
    os.kill(daemon.pid, signal.SIGUSR1)
    dump = daemon.folder / "run" / "agent-dump.json"
    daemon.until(dump.exists, "the dump is there")
    known = json.loads(dump.read_text())
    assert dump.stat().st_mode & 0o777 == 0o600
    assert known["desired"]["node"] == "node1" and known["workloads"] == [] and known["plan"] == []
    assert known["status"]["pid"] == daemon.pid and known["status"]["problems"] == []


def test_transactions_are_logged_while_root_wants_that(daemon: Daemon) -> None:
    daemon.in_sync()
    daemon.add("before")
    assert daemon.call("log.level", level="debug") == {"level": "debug", "before": "info"}
    pid, web = daemon.pid, daemon.add("web")
    daemon.delete("web")
    assert daemon.call("log.level", level="info") == {"level": "info", "before": "debug"}
    daemon.add("after")
    lines = daemon.log.read_text().splitlines()
    assert 'attach "default/web": begun' in lines and 'detach "default/web": begun' in lines
    attached = f"{web['addresses'][0]} on {web['interface']}"
    assert any(line.startswith('attach "default/web": done in ') and line.endswith(attached) for line in lines)
    assert not any(line.startswith(('attach "default/before"', 'attach "default/after"')) for line in lines)
    assert daemon.pid == pid  # the same process


def test_a_state_is_handed_over(daemon: Daemon) -> None:
    daemon.add("web")
    daemon.in_sync()
    state = with_state(routes=(Route(BLOCK, "blackhole"), Route("10.244.8.0/29", "blackhole")))
    for form in (state.to_dict(), packed_state.pack(state)):
        planned = daemon.call("node.plan", state=form)
        assert [(change["action"], change["subject"]) for change in planned["changes"]] == [("+", "10.244.8.0/29")]
    assert daemon.call("node.apply", state=packed_state.pack(state), removals=False)["in_sync"] is True
    assert daemon.call("node.apply", state=packed_state.pack(state), removals=True)["problems"] == []
    assert daemon.destinations == {BLOCK, "10.244.1.0/32", "10.244.8.0/29"}
    with pytest.raises(AgentError, match=r"node.apply: state is not one that this agent reads: .* Run site.yml"):
        daemon.call("node.apply", state={"version": 99})


def test_two_hundred_at_once(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(MANY)
    daemon.start()
    names = [f"w{number}" for number in range(200)]
    for name in names:
        daemon.netns(name)
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        added = list(pool.map(daemon.add, names))
        assert len({workload["addresses"][0] for workload in added}) == len(daemon.links) == 200
        daemon.in_sync()
        assert daemon.call("node.plan")["changes"] == []
        assert daemon.allocated() == {workload["id"]: workload["addresses"][0] for workload in added}
        assert all(pool.map(daemon.delete, names))
    assert daemon.destinations == {"10.244.1.0/24"} and daemon.allocated() == {}
    daemon.settled()
    assert daemon.links == set() and daemon.records == set()


@pytest.fixture
def small_disk(stopped_daemon: Daemon) -> t.Iterator[pathlib.Path]:
    """The journal's folder, on a file system of 64 KiB."""
    folder = stopped_daemon.folder / "lib" / "ipam"
    folder.mkdir(mode=0o700, parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(folder)], check=True)
    yield folder
    stopped_daemon.close()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: pathlib.Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(4096)):
                pass
        except OSError:
            return


def read_only(folder: pathlib.Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def free(folder: pathlib.Path) -> None:
    (folder / "filler").unlink()


def writable(folder: pathlib.Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)


@pytest.mark.parametrize(("spoil", "repair"), [(fill, free), (read_only, writable)])
def test_a_disk_that_refuses(stopped_daemon: Daemon, small_disk: pathlib.Path, spoil: t.Any, repair: t.Any) -> None:
    daemon = stopped_daemon
    daemon.start()
    added = {"old": daemon.add("old")["addresses"][0]}
    daemon.in_sync()
    daemon.stop()  # a journal that is open for writing keeps a file system from becoming read-only
    spoil(small_disk)
    daemon.start()
    with pytest.raises(AgentError) as caught:
        for number in range(60):  # on a full disk the first may succeed: the journal's last page has room
            name = f"new-{number}-{'x' * 110}"
            added[name] = daemon.add(name)["addresses"][0]
    assert caught.value.code == "not_written" and str(small_disk) in caught.value.message
    routed = {one for one in daemon.destinations if one.endswith("/32")}
    assert routed == {f"{address}/32" for address in added.values()}
    assert daemon.records == {f"default%2F{name}.json" for name in added}
    # A release takes less room than an assignment: a full disk may still take the first release, but not all.
    assert all(daemon.delete(name) is True for name in added)
    assert BLOCK in daemon.destinations and not any(one.endswith("/32") for one in daemon.destinations)
    daemon.until(lambda: daemon.links == set(), "the links of the deleted workloads are gone")
    daemon.until(lambda: str(small_disk) in " ".join(daemon.call("status")["problems"]), "the problem is told")
    repair(small_disk)
    daemon.settled()
    assert daemon.allocated() == {} and daemon.records == set() and daemon.call("status")["problems"] == []
    daemon.add("new")


def test_an_agent_starts_on_a_full_run_folder(daemon: Daemon) -> None:
    """Running workloads are repaired, adds are refused with the remedy, and deletes succeed."""
    daemon.add("web")
    daemon.add("old")
    daemon.stop()  # an agent that is killed leaves a page of the file system to the next one, in the lock
    folder = daemon.folder / "run"
    subprocess.run(["mount", "-o", "remount,size=64k", str(folder)], check=True)
    fill(folder)
    daemon.start()
    daemon.in_sync()
    daemon.kernel.link_set(next(iter(daemon.links)), up=False)
    daemon.in_sync()
    with pytest.raises(AgentError, match="Make room or correct the file system, then try again") as caught:
        daemon.add("new")
    assert caught.value.code == "not_written"
    assert daemon.delete("old") and daemon.reaches("web", "10.10.1.11")
    free(folder)
    daemon.add("new")
    assert daemon.reaches("new", "10.10.1.11")


def test_a_damaged_journal_is_reported_and_running_workloads_stay(daemon: Daemon) -> None:
    daemon.add("web")
    daemon.kill()
    journal = daemon.folder / "lib" / "ipam" / "allocations"
    content = journal.read_bytes()
    journal.write_bytes(b"x" + content)
    daemon.start()
    status = daemon.call("status")
    assert str(journal) in status["problems"][0] and status["in_sync"] is False
    with pytest.raises(AgentError, match="no workload can be added to this node") as caught:
        daemon.add("new")
    assert caught.value.code == "unavailable"
    assert daemon.reaches("web", "10.10.1.11")
    assert daemon.call("resync")["changes"] == []


def test_a_route_that_somebody_deletes_is_back_after_a_resync(daemon: Daemon) -> None:
    daemon.add("web")
    daemon.in_sync()
    daemon.call("resync")
    attributes = dict(daemon.kernel.routes(table=254))["10.244.1.0/32"]
    assert daemon.kernel.route_batch([RouteOperation("delete", "10.244.1.0/32", attributes)]) == []
    daemon.call("resync")
    assert "10.244.1.0/32" in daemon.destinations
    assert daemon.call("workload.check", id="default/web")["problems"] == []
