# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of an ADD's promise under policy: once it is answered allowed packets pass, and denied ones never do."""

from __future__ import annotations

import concurrent.futures

import pytest

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import CLOSED, OPEN, Datagrams, add, open_for, policed, web
from tests.integration.policy.documents import global_policy


@pytest.fixture
def daemon(stopped_daemon: Daemon) -> Daemon:
    stopped_daemon.desire(policed(web(OPEN)))
    stopped_daemon.start()
    stopped_daemon.in_sync()
    return stopped_daemon


def members(daemon: Daemon, kind: str) -> dict[str, set[str]]:
    """Return {name: members} of the IPv4 sets whose names begin with `cali40<kind>:`."""
    found: dict[str, set[str]] = {}
    for line in daemon.kernel.run(["ipset", "save"]).output.splitlines():
        command, name, rest = line.split(None, 2)
        if name.startswith(f"cali40{kind}:"):
            found.setdefault(name, set())
            if command == "add":
                found[name].add(rest)
    return found


def test_allowed_packets_pass_once_an_add_is_answered(daemon: Daemon) -> None:
    """Allowed packets pass once an ADD is answered, also for a second workload that only joins sets.

    Packets to other ports and from other workloads do not pass.
    """
    add(daemon, "client")
    for name in ("web", "web2"):
        add(daemon, name, labels={"app": "web"})
        assert open_for(daemon, "client", name, OPEN) and not open_for(daemon, "client", name, CLOSED)
    add(daemon, "other")
    assert not open_for(daemon, "other", "web", OPEN)


def test_concurrent_adds_are_all_under_policy(daemon: Daemon) -> None:
    add(daemon, "client")
    daemon.netns("w0")
    names = [f"w{number}" for number in range(4)] + ["a", "b"]
    for name in names:
        daemon.netns(name)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        labels = [{"app": "web" if name.startswith("w") else name} for name in names]
        addresses = list(pool.map(lambda name, found: add(daemon, name, labels=found), names, labels))
    (pairs,) = [found for name, found in members(daemon, "w").items() if len(found) == 4]
    assert {pair.partition(",")[0] for pair in pairs} == set(addresses[:4])
    assert all(open_for(daemon, "client", name, OPEN) for name in names)
    assert not any(open_for(daemon, "a", name, OPEN) for name in names[:4])
    daemon.in_sync()
    assert daemon.call("status")["drift"]["total"] == 0


def test_the_next_owner_of_an_address_has_nothing_of_the_former(daemon: Daemon) -> None:
    add(daemon, "web")
    address = add(daemon, "client")
    assert open_for(daemon, "client", "web", OPEN)
    daemon.delete("client")
    assert add(daemon, "other", address=address) == address
    (allowed,) = members(daemon, "s").values()
    assert allowed == set()
    assert not open_for(daemon, "other", "web", OPEN)


def test_workloads_that_change_their_group_lose_no_packet(daemon: Daemon) -> None:
    """Workloads lose no packet when another policy applies to them, and they move from one set to another.

    No packet arrives that both policies deny.
    """
    add(daemon, "client")
    add(daemon, "web")
    daemon.until(lambda: open_for(daemon, "client", "web", OPEN), "it is open")
    with Datagrams(daemon, "client", "web", OPEN) as open_, Datagrams(daemon, "client", "web", CLOSED) as closed:
        for number in range(6):
            more = [global_policy(f"more{number}", 'app == "web"', types=["Ingress"])] if number % 2 else []
            daemon.desire(policed(web(OPEN), *more))
            assert daemon.call("node.apply", removals=True)["problems"] == []
    assert len(open_.sent) > 50 and open_.lost() == []
    assert closed.arrived() == []


def test_a_resync_without_changes_writes_nothing(daemon: Daemon) -> None:
    add(daemon, "client")
    add(daemon, "web")
    daemon.in_sync()
    before = daemon.kernel.ruleset_mark()
    for _time in range(3):
        assert daemon.call("resync")["changes"] == []
    assert daemon.kernel.ruleset_mark() == before
