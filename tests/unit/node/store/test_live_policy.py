# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live policy on the disk: read as it was written, whole or not at all."""

from __future__ import annotations

import json
import os
import pathlib
import stat

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.live_documents import LiveValue
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.live_reader import ReadDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.live_policy import (
    NOTHING_STORED,
    LivePolicyUnreadable,
    StoredLivePolicy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Entity,
    Policy,
    PolicyNetworkSet,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.live_policy import resolve

VALUES: dict[DocumentKey, LiveValue] = {
    DocumentKey("GlobalNetworkPolicy", "", "web"): Policy(
        "web",
        tier="security",
        order=2.5,
        ingress=(PolicyRule("Deny", protocol="tcp", source=Entity(selector='role == "a"')),),
    ),
    DocumentKey("StagedNetworkPolicy", "blue", "web"): Policy("blue/staged:web", kind="NetworkPolicy", staged=True),
    DocumentKey("StagedGlobalNetworkPolicy", "", "gone"): None,
    DocumentKey("GlobalNetworkSet", "", "bad"): PolicyNetworkSet("bad", nets=("10.0.0.0/8",), labels=(("a", "b"),)),
    DocumentKey("Tier", "", "early"): PolicyTier("early", 1.0, "Pass"),
}
INVENTORY = policy_set([PolicyTier("security", 10.0)])
STORED = StoredLivePolicy(
    resolve(INVENTORY, [value for value in VALUES.values() if value is not None]),
    {key: ReadDocument(value, live_documents.pack(value)) for key, value in VALUES.items()},
    14841639068965178418,
    5120,
)


def test_it_is_read_as_it_was_written_and_by_root_alone(tmp_path: pathlib.Path) -> None:
    assert live_policy.load(str(tmp_path)) == NOTHING_STORED
    live_policy.save(str(tmp_path), STORED)
    assert live_policy.load(str(tmp_path)) == STORED
    assert stat.S_IMODE(os.stat(live_policy.path(str(tmp_path))).st_mode) == 0o600
    live_policy.save(str(tmp_path), NOTHING_STORED)
    assert live_policy.load(str(tmp_path)) == NOTHING_STORED


def test_a_file_that_is_not_whole_or_of_another_form_is_not_used(tmp_path: pathlib.Path) -> None:
    live_policy.save(str(tmp_path), STORED)
    path = pathlib.Path(live_policy.path(str(tmp_path)))
    whole = path.read_text()
    lines = whole.splitlines()
    header = json.loads(lines[0])
    damaged = [
        "",
        "\n",
        "[]\n",
        "\n".join(lines[:-1]),
        whole[:-20],
        "\n".join([json.dumps({**header, "version": 2}), *lines[1:]]),
        "\n".join([json.dumps({**header, "cluster": "x"}), *lines[1:]]),
        "\n".join([json.dumps({**header, "referred": [{"no": 1}]}), *lines[1:]]),
        "\n".join([json.dumps({**header, "referred": []}), *lines[1:]]),
        "\n".join([*lines[:-1], json.dumps(["/host-routing/v1/endpoints/a/b", "x"])]),
        "\n".join([*lines[:-1], json.dumps([json.loads(lines[-1])[0], "rubbish"])]),
        "\n".join(
            [*lines[:-1], json.dumps([json.loads(lines[-1])[0], live_documents.pack(VALUES[next(iter(VALUES))])])]
        ),
        "\n".join([*lines[:-1], "1"]),
        "\n".join([*lines[:-1], json.dumps([True, json.loads(lines[-1])[1]])]),
        "\n".join([*lines[:-1], json.dumps([[], json.loads(lines[-1])[1]])]),
        "[" * 100_000,
    ]
    for text in damaged:
        path.write_text(text)
        with pytest.raises(LivePolicyUnreadable, match=r"cannot be read: .*IP sets and rules stay as they are, and no"):
            live_policy.load(str(tmp_path))
    path.write_bytes(b"\xff")
    with pytest.raises(LivePolicyUnreadable):
        live_policy.load(str(tmp_path))
