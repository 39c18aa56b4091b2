# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module drain: what runs, what is refused afterwards, and what ends it."""

from __future__ import annotations

import json

from ansible_collections.baremetal.host_routing.plugins.module_utils.node import drain
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import boot
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.modules import drain as drain_module
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.unit.modules.node.test_node import PARAMS


def test_a_drained_node_stays_drained_until_the_next_run(host):
    """The mark that drain sets survives check mode, a repetition and a reboot; a run removes it and says so."""
    assert host.run(drain_module)["changed"] is False, "a host that has nothing of ours takes nothing anyway"
    host.run(node, **PARAMS)
    Endpoints(host.machine.workloads).save(AttachedWorkload("default/web", "web", addresses=("10.244.3.2",)))
    planned, done = host.four_times(drain_module, who="admin@ctl")
    assert (planned["workloads"], done["workloads"]) == (["default/web"], ["default/web"])
    path = drain.path(host.machine.store)
    assert planned["diff"] == {"prepared": f"+ file {path}    takes no new workloads\n"}
    assert str(drain.load(host.machine.store)).endswith(" by admin@ctl, to leave the fleet")
    boot.restore(host.machine)
    assert drain.load(host.machine.store)
    again, back = host.four_times(node, **PARAMS)
    assert [change["subject"] for change in again["changes"] if change["kind"] == "file"] == [path]
    assert back["changed"] is True and drain.load(host.machine.store) is None


def test_a_file_that_cannot_be_read_counts(host):
    host.run(node, **PARAMS)
    path = drain.path(host.machine.store)
    for content in ("{", json.dumps([]), json.dumps({"who": "x"})):
        with open(path, "w") as stream:
            stream.write(content)
        assert drain.load(host.machine.store) == drain.Drained("a time", "somebody")
