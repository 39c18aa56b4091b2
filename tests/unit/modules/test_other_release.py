# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules on a node whose state a newer release stored, with a field that this one does not know.

They are those of all playbooks: each says so, and changes nothing.
"""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.modules import (
    convergence_info,
    node,
    node_info,
    node_status_info,
    remote_endpoints_info,
    soak,
    teardown,
)

from .node.test_node import PARAMS

SENTENCES = (
    "{} cannot be read: NodeState has no field 'later'. It was damaged or written by another release. Use that "
    "release, or move the file away if the lockfile on the controller has this node's blocks; the next run then stores "
    "the state anew."
)


@pytest.fixture
def newer(host):
    """A host whose state.json has a field of a later release; `host.said` is what modules say about it."""
    host.run(node, **PARAMS)
    path = host.folder / "calico" / "state.json"
    stored = json.loads(path.read_text("utf-8"))
    stored["state"]["later"] = True
    path.write_text(json.dumps(stored), "utf-8")
    host.said = SENTENCES.format(path)
    return host


@pytest.mark.parametrize(
    ("module", "params"),
    [
        (node_info, {"gather": ["state"]}),
        (node, PARAMS),
        (convergence_info, {}),
        (soak, {"timeout": 0, "seconds": 0}),
        (remote_endpoints_info, {}),
    ],
    ids=["node_info", "node", "convergence_info", "soak", "remote_endpoints_info"],
)
def test_a_state_of_a_newer_release_is_an_error_with_its_remedy(newer, module, params):
    before = newer.snapshot()
    answer = newer.run(module, **params)
    assert (answer["failed"], answer["msg"]) == (True, newer.said)
    assert newer.snapshot() == before


def test_the_status_has_it_as_a_problem(newer):
    assert newer.run(node_status_info)["problems"] == [newer.said]


def test_a_teardown_removes_nothing(newer):
    before = newer.snapshot()
    assert newer.run(teardown)["msg"] == (
        f"{newer.said} Nothing was removed: without that state, the node's files and BIRD's routes would be left. To "
        "tear the node down without it, move the file away, and remove these by hand."
    )
    assert newer.snapshot() == before
