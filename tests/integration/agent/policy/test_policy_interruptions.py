# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that policy has no gap while an agent is stopped, killed or upgraded, gets its first policy, or a node boots.

Datagrams that policy forbids do not get through. Others, which policy allows, show that the path is open.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    endpoint_routes,
    endpoint_sysctls,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, VethEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import NotRunning

from tests.integration.agent.daemon_under_test import Daemon, install_engine
from tests.integration.agent.policy.policed_daemon import (
    BASE,
    CLOSED,
    OPEN,
    Datagrams,
    add,
    closed_for,
    open_for,
    policed,
    web,
)
from tests.integration.agent.test_hand_over import here
from tests.integration.policy.documents import Document, global_policy

OLD_PORT, NEW_PORT = 7000, 7001
#: Programs that write policy. One test kills the agent before or after the n-th call that writes, the calls of all
#: counted together; another makes them slow.
WRITERS = ("ipset", "iptables-restore", "ip6tables-restore")
_SLOW = """#!/bin/sh
case "$*" in *save*|*list*) ;; *) sleep 0.2 ;; esac
exec {program} "$@"
"""
_KILLING = """#!/bin/sh
case "$*" in *save*|*list*) exec {program} "$@" ;; esac
echo x >> {folder}/calls
at=$(cat {folder}/kill-at) calls=$(wc -l < {folder}/calls)
[ "$at" = "before $calls" ] && kill -9 $PPID && exit 1
{program} "$@"
status=$?
[ "$at" = "after $calls" ] && kill -9 $PPID
exit $status
"""


@pytest.fixture
def guarded(stopped_daemon: Daemon) -> Daemon:
    """A running agent with policy and two workloads: client reaches web at the ports OPEN and OLD_PORT."""
    daemon = stopped_daemon
    daemon.settings(cooldown=0.0, cleanup_grace=0.0)
    daemon.desire(policed(web(OPEN, OLD_PORT)))
    daemon.start()
    daemon.in_sync()
    add(daemon, "client"), add(daemon, "web")
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "it is open")
    daemon.in_sync()
    return daemon


@contextlib.contextmanager
def nothing_else_gets_through(daemon: Daemon) -> t.Iterator[None]:
    with (
        Datagrams(daemon, "client", "web", OPEN) as open_,
        Datagrams(daemon, "client", "web", CLOSED) as closed,
    ):
        yield
    assert len(closed.sent) > 20 and closed.arrived() == []
    assert open_.lost() == []


def test_restart_kill_and_reload(guarded: Daemon) -> None:
    with nothing_else_gets_through(guarded):
        for end in (guarded.stop, guarded.kill):
            end()
            guarded.start()
            guarded.in_sync()
        os.kill(guarded.pid, signal.SIGHUP)
        guarded.in_sync()
        # The policy changes while no agent runs, and again while one does.
        guarded.stop()
        guarded.desire(policed(web(OPEN, NEW_PORT)))
        guarded.start()
        guarded.in_sync()
        guarded.desire(policed(web(OPEN, OLD_PORT)))
        os.kill(guarded.pid, signal.SIGHUP)
        daemon_opens(guarded, OLD_PORT)


def test_policy_has_no_gap_while_an_agent_is_upgraded(guarded: Daemon, tmp_path: pathlib.Path) -> None:
    with nothing_else_gets_through(guarded):
        guarded.stop()
        guarded._engine = install_engine(tmp_path / "another-engine")
        guarded.start()
        guarded.in_sync()
        assert guarded.call("resync")["changes"] == []


def in_place_of_writers(script: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Put a script in the place of each of WRITERS, for processes that are started later; return the scripts' folder.

    `script` has the fields {program}, the path of the real program, and {folder}, the scripts' folder. Raise
    AssertionError if one of the programs is not installed, and FileExistsError at a second call.
    """
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in WRITERS:
        program = shutil.which(name, path="/usr/sbin:/sbin")
        assert program, f"install {name} to run these tests"
        (folder / name).write_text(script.format(program=program, folder=folder))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def running(daemon: Daemon) -> bool:
    return daemon.process is not None and daemon.process.poll() is None


def daemon_opens(daemon: Daemon, port: int) -> None:
    daemon.until(lambda: not closed_for(daemon, "client", "web", port), f"port {port} is open")


def states() -> t.Iterator[tuple[int, int, NodeState]]:
    """Yield two states in turn without end, as (port that the state opens, port that it closes, state).

    They differ in rules, sets and members of sets.
    """

    def others(number: int) -> Document:
        rule = {"action": "Allow", "source": {"selector": f'app == "client" || app == "other{number}"'}}
        return global_policy(f"others{number}", 'app == "client"', types=["Ingress"], ingress=[rule])

    while True:
        yield NEW_PORT, OLD_PORT, policed(web(OPEN, NEW_PORT), others(1))
        yield OLD_PORT, NEW_PORT, policed(web(OPEN, OLD_PORT), others(2))


def test_a_kill_between_writes_leaves_the_former_policy_or_the_next(
    guarded: Daemon, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = in_place_of_writers(_KILLING, tmp_path, monkeypatch)
    (folder / "kill-at").write_text("")
    guarded.stop()
    guarded.start()
    guarded.in_sync()
    killed = 0
    turns = states()
    address = guarded.call("workload.get", id="default/web")["workload"]["addresses"][0]

    def is_open(port: int) -> bool:
        return open_for(guarded, "client", "web", port, address, 0.3)

    with nothing_else_gets_through(guarded):
        for moment in ("before 1", "before 2", "after 1", "after 2"):  # Sets are written without a program.
            opened, closed, state = next(turns)
            guarded.desire(state)
            (folder / "calls").write_text("")
            (folder / "kill-at").write_text(moment)
            try:
                guarded.call("node.apply", removals=True)
            except NotRunning:
                guarded.wait_killed()
                killed += 1
            (folder / "kill-at").write_text("")
            if not running(guarded):
                # Exactly one of the two policies is in force.
                assert is_open(opened) != is_open(closed), moment
                guarded.start()
                guarded.in_sync()
            assert is_open(opened) and not is_open(closed), moment
    assert killed >= 4


def test_the_first_policy_cuts_what_it_denies_and_nothing_else(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(BASE)
    daemon.settings(cooldown=0.0, cleanup_grace=0.0)
    daemon.start()
    add(daemon, "client"), add(daemon, "web")
    with (
        Datagrams(daemon, "client", "web", OPEN) as open_,
        Datagrams(daemon, "client", "web", CLOSED) as closed,
    ):
        daemon.until(lambda: closed.arrived() and open_.arrived(), "all is open")
        began = len(open_.arrived())
        daemon.desire(policed(web(OPEN)))
        assert daemon.call("node.apply", removals=True)["in_sync"]
        in_force = time.monotonic()
        time.sleep(0.3)
    assert [when for when in closed.arrived() if when > in_force] == []
    assert [when for when in open_.lost() if when > open_.arrived()[began - 1]] == []


def test_the_boot_unit_has_policy_in_force_before_anybody_is_reachable(
    stopped_daemon: Daemon, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot unit has policy in force before any workload is reachable.

    A host beyond the node sends all the time, while the node boots and its agent starts. No denied packet arrives, and
    no allowed one is lost after the first that arrives. The programs that write policy are slow, as with a large
    policy.
    """
    in_place_of_writers(_SLOW, tmp_path, monkeypatch)
    daemon = stopped_daemon
    outside(daemon)
    daemon.kernel.netns_add("web", "default/web")
    endpoint = VethEndpoint(
        "web",
        "cali0123456789a",
        "10.244.1.5",
        1400,
        "default-pool",
        netns="web",
        labels={"app": "web"},
    )
    rule = {"action": "Allow", "protocol": "UDP", "destination": {"ports": [OPEN]}}
    state = dataclasses.replace(
        policed(global_policy("web", 'app == "web"', types=["Ingress"], ingress=[rule])),
        workloads=(endpoint,),
        routes=(*BASE.routes, *endpoint_routes(endpoint)),
        sysctls=(*BASE.sysctls, *endpoint_sysctls(endpoint)),
    )
    daemon.store.save(Stored(state, complete=True))
    with (
        Datagrams(daemon, "outside", "web", OPEN, endpoint.address) as open_,
        Datagrams(daemon, "outside", "web", CLOSED, endpoint.address) as closed,
    ):
        time.sleep(0.1)
        assert command.main(["apply"], here(daemon)) == 0
        daemon.until(open_.arrived, "web is reachable")
        daemon.start()
        daemon.in_sync()
        time.sleep(0.1)
    assert len(closed.sent) > 20 and closed.arrived() == []
    first = open_.arrived()[0]
    assert [when for when in open_.lost() if when > first] == []


def outside(daemon: Daemon) -> None:
    """Create a namespace `outside`, a host beyond the node, and make the node forward as one that boots may do.

    The node has 192.0.2.1 towards it, and it has 192.0.2.2. Raise AssertionError if a command fails, and
    KernelError if the namespace cannot be created.
    """
    daemon.netns("outside")
    script = f"""
ip link add ext0 type veth peer name ext0 netns {daemon.folder}/netns/outside
ip address add 192.0.2.1/24 dev ext0
ip link set ext0 up
echo 1 > /proc/sys/net/ipv4/ip_forward
nsenter --net={daemon.folder}/netns/outside sh -euc '
  ip address add 192.0.2.2/24 dev ext0
  ip link set ext0 up
  ip route add default via 192.0.2.1'
"""
    done = daemon.kernel.run(["sh", "-euc", script])
    assert done.code == 0, done.errors
