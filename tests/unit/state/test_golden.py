# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that commit 862d17f wrote (golden/): each is read, and what is written from it has the same bytes.

The state has a value in every field that 862d17f knew. A release that adds a field leaves it out at its default: an
older one refuses fields that it does not know.
"""

from __future__ import annotations

import json
import pathlib
import shutil

from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.allocation_journal import (
    AllocationJournal,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import RemoteEndpoints

GOLDEN = pathlib.Path(__file__).with_name("golden")


def text(name: str) -> str:
    return (GOLDEN / name).read_text("utf-8")


def stored_again(tmp_path: pathlib.Path, name: str) -> str:
    """Read a state.json as the node does, write it, and return the text of the new file.

    `name` is a file in GOLDEN. Raise StoreError if it cannot be read.
    """
    shutil.copy(GOLDEN / name, tmp_path / "state.json")
    store = Store(str(tmp_path))
    stored = store.load()
    assert stored is not None
    (tmp_path / "state.json").unlink()
    store.save(stored)
    return (tmp_path / "state.json").read_text("utf-8")


def test_a_golden_state_is_written_again_with_the_same_bytes(tmp_path: pathlib.Path) -> None:
    assert stored_again(tmp_path, "state.json") == text("state.json")


def test_the_state_of_a_node_with_nothing(tmp_path: pathlib.Path) -> None:
    assert stored_again(tmp_path, "state_bare.json") == text("state_bare.json")


def test_every_field_of_the_state_has_a_value() -> None:
    """No field of the state in state.json is empty, because an empty one does not show how the field is written."""
    assert [
        name for name, value in json.loads(text("state.json"))["state"].items() if value in ("", None, [], {})
    ] == []


def test_the_packed_policy_is_read_as_the_plain_one() -> None:
    state = NodeState.from_dict(json.loads(text("state.json"))["state"])
    packed = state.to_wire()
    assert isinstance(packed["policy"], str)
    assert NodeState.from_dict(packed) == state


def test_a_golden_generation_is_written_again_with_the_same_bytes(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "generations"
    folder.mkdir()
    shutil.copy(GOLDEN / "generation.json", folder / "1.json")
    shutil.copy(GOLDEN / "state.json", tmp_path / "state.json")
    store = Store(str(tmp_path))
    stored = store.load()
    assert stored is not None
    assert stored.state.digest == json.loads(text("generation.json"))["digest"]
    assert store.record(stored) is None, "it is the newest generation"
    (folder / "1.json").unlink()
    assert store.record(stored) == 1
    assert (folder / "1.json").read_text("utf-8") == text("generation.json")


def test_the_record_of_a_workload() -> None:
    workload = AttachedWorkload.from_dict(json.loads(text("workload.json")))
    assert json.dumps(workload.to_record()) == json.dumps(workload.to_dict()) == text("workload.json")


def test_the_endpoints_of_other_nodes() -> None:
    endpoints, left_out = RemoteEndpoints.from_dict(json.loads(text("remote_endpoints.json")))
    assert left_out == ()
    assert json.dumps(endpoints.to_dict()) == text("remote_endpoints.json")


def test_the_journal_of_addresses(tmp_path: pathlib.Path) -> None:
    shutil.copy(GOLDEN / "journal.txt", tmp_path / "old")
    records = AllocationJournal(str(tmp_path / "old")).load()
    lines = [json.loads(line[9:]) for line in text("journal.txt").splitlines()]
    assert records == [record for line in lines for record in line]
    journal = AllocationJournal(str(tmp_path / "new"))
    journal.load()
    for line in lines:
        journal.append(line)
    journal.close()
    assert (tmp_path / "new").read_bytes() == (GOLDEN / "journal.txt").read_bytes()


def test_a_golden_lockfile_is_written_again_with_the_same_bytes() -> None:
    assert lockfile.dump(lockfile.load(text("lockfile.txt"))) == text("lockfile.txt")
