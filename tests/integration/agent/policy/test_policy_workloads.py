# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that come and go under policy, through the running agent; numbers are as in policy/semantics.py."""

from __future__ import annotations

import select
import socket

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import (
    CLOSED,
    OPEN,
    Datagrams,
    add,
    closed_for,
    inside,
    open_for,
    policed,
    web,
)
from tests.integration.policy.documents import global_policy


def test_a_workload_has_its_policy_from_its_first_packet_on(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(policed(web(OPEN)))
    daemon.start()
    add(daemon, "client"), add(daemon, "stranger")
    for _again in range(3):
        add(daemon, "web")
        assert open_for(daemon, "client", "web", OPEN)
        assert closed_for(daemon, "client", "web", CLOSED) and closed_for(daemon, "stranger", "web", OPEN)
        daemon.delete("web")
        daemon.settled()


def test_20_a_workload_that_goes_is_closed_and_has_no_route_and_is_open_again_when_it_is_back(
    stopped_daemon: Daemon,
) -> None:
    daemon = stopped_daemon
    daemon.desire(policed(web(OPEN)))
    daemon.start()
    client, address = add(daemon, "client"), add(daemon, "web")
    add(daemon, "other", labels={"app": "web"})
    assert open_for(daemon, "client", "other", OPEN)
    with Datagrams(daemon, "client", "other", OPEN) as others:
        assert open_for(daemon, "client", "web", OPEN)
        daemon.delete("web")
        assert f"{address}/32" not in daemon.destinations and f"{client}/32" in daemon.destinations
        daemon.settled()
        again = add(daemon, "web")
        assert f"{again}/32" in daemon.destinations
        assert open_for(daemon, "client", "web", OPEN)
    assert len(others.sent) > 10 and others.lost() == []


def test_45_an_address_that_moves_takes_no_open_connection_along(stopped_daemon: Daemon) -> None:
    """If a workload's address goes to another one, which policy closes, open connections do not reach the new one."""
    daemon = stopped_daemon
    daemon.desire(policed(web(OPEN), global_policy("next", 'app == "next"', types=["Ingress"])))
    daemon.start()
    add(daemon, "client")
    address = add(daemon, "web")
    with (
        inside(daemon, "client", datagrams) as client,
        inside(daemon, "web", lambda: datagrams(OPEN)) as former,
    ):
        assert asks(client, address, former)
        former.sendto(b"answer", former.recvfrom(64)[1])
        assert client.recv(64) == b"answer"
        # The connection is established, so that policy would not be evaluated for its further packets.
        daemon.call("workload.delete", id="default/web")
        assert add(daemon, "next", address=address) == address
        with inside(daemon, "next", lambda: datagrams(OPEN)) as following:
            assert not asks(client, address, following, 0.2)
            # The node's own packets reach the new workload, which shows that its socket can receive.
            with daemon.kernel._there(datagrams) as host:
                assert asks(host, address, following)


def datagrams(port: int = 0) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("0.0.0.0", port))
    made.settimeout(2.0)
    return made


def asks(sender: socket.socket, address: str, receiver: socket.socket, patience: float = 2.0) -> bool:
    """Send a datagram to the port OPEN of `address`; return whether `receiver` has one within `patience` seconds.

    The datagram is not read: it stays in the receiver's queue, and one that is there already counts as well.
    """
    sender.sendto(b"question", (address, OPEN))
    return bool(select.select([receiver], [], [], patience)[0])
