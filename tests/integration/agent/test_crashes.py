# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at the failpoints of an add and of a delete: the next agent leaves no trace of incomplete work."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.failpoints import ADD, DELETE
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import NotRunning

from tests.integration.agent.daemon_under_test import Daemon


def answered(call, *arguments, **more) -> bool:
    try:
        call(*arguments, **more)
    except NotRunning:
        return False
    return True


@pytest.mark.parametrize("point", ADD)
def test_an_add_that_was_not_answered_left_nothing(stopped_daemon: Daemon, point: str) -> None:
    daemon = stopped_daemon
    daemon.start()
    kept = daemon.add("kept")
    daemon.kill()
    daemon.start(fault=point)
    assert not answered(daemon.add, "web", netns_owned=True)
    daemon.wait_killed()
    daemon.start()
    if point == "add.committed":  # the agent was killed after the commit, so the workload exists
        assert len(daemon.links) == 2 and len(daemon.records) == 2
    else:
        assert daemon.links == {kept["interface"]}
        assert daemon.records == {"default%2Fkept.json"}
        assert daemon.allocated() == {"default/kept": "10.244.1.0"}
        assert "web" not in daemon.kernel.netns_list()
    web = daemon.add("web", netns_owned=True)
    assert web["addresses"] != kept["addresses"]
    assert daemon.destinations >= {"10.244.1.0/32", f"{web['addresses'][0]}/32"}
    assert daemon.reaches("web", "10.244.1.0")
    daemon.in_sync()
    assert daemon.call("node.plan")["changes"] == []


@pytest.mark.parametrize("point", DELETE)
def test_a_delete_that_began_is_done(stopped_daemon: Daemon, point: str) -> None:
    daemon = stopped_daemon
    daemon.start(fault=point)
    daemon.add("kept")
    daemon.add("web", netns_owned=True)
    told = answered(daemon.delete, "web")
    daemon.wait_killed()
    daemon.start()
    if not told:
        daemon.delete("web")
    daemon.settled()
    assert daemon.records == {"default%2Fkept.json"}
    assert daemon.allocated() == {"default/kept": "10.244.1.0"}
    assert len(daemon.links) == 1 and "web" not in daemon.kernel.netns_list()
    assert "10.244.1.1/32" not in daemon.destinations
    assert daemon.add("next")["addresses"] != ["10.244.1.0"]
    daemon.in_sync()
    assert daemon.call("node.plan")["changes"] == []
