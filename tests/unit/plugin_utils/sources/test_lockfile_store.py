# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile on the disk."""

from __future__ import annotations

import dataclasses
import errno
import os
import pathlib
import stat

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lockfile_store

from tests.unit.fleet.fleets import build

PLAN = build().allocation


def test_it_is_read_back_as_it_was_written(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / ".calico.lock.yml")
    assert lockfile_store.read(path) is None
    lockfile_store.write(path, PLAN)
    assert lockfile_store.read(path) == PLAN
    assert pathlib.Path(path).read_text() == lockfile_store.text(PLAN)
    assert os.stat(path).st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == [".calico.lock.yml"]


def test_a_write_that_fails_leaves_the_old_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".calico.lock.yml"
    lockfile_store.write(str(path), PLAN)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FleetError) as caught:
        lockfile_store.write(str(path), AllocationPlan())
    assert str(caught.value) == (
        f"lockfile {path} cannot be written: No space left on device. "
        f"No host was touched. Make the folder {tmp_path} writable, or set calico_lockfile to another path."
    )
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [".calico.lock.yml"]


def test_a_plan_that_cannot_be_read_back_is_not_written(tmp_path: pathlib.Path) -> None:
    """A plan that `read` would refuse is refused before anything is written, and the old file stays."""
    path = tmp_path / ".calico.lock.yml"
    lockfile_store.write(str(path), PLAN)
    before = path.read_bytes()
    (pool,) = PLAN.pools
    with pytest.raises(FleetError) as caught:
        lockfile_store.write(str(path), dataclasses.replace(PLAN, encapsulations={pool: "NoneCrossSubnet"}))
    assert str(caught.value) == (
        f"lockfile {path} is not written: it could not be read back, because it has a wrong field: "
        f"pools.{pool}.encapsulation is NoneCrossSubnet, not one of IPIP, IPIPCrossSubnet, VXLAN, VXLANCrossSubnet, "
        "None. The old one is unchanged. Report this as a bug, with the answers of the nodes."
    )
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [".calico.lock.yml"]


def test_a_folder_that_cannot_be_synced_has_the_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the lockfile's folder cannot be synced, the new file is in place, and the error says so."""
    path = str(tmp_path / ".calico.lock.yml")

    sync = os.fsync

    def refuse_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    with pytest.raises(FleetError) as caught:
        lockfile_store.write(path, PLAN)
    assert str(caught.value) == (
        f"lockfile {path} is written, but a power failure may undo that: its folder cannot be synced: Input/output "
        "error. No host was touched. Correct the file system, then run again."
    )
    assert lockfile_store.read(path) == PLAN


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: pathlib.Path) -> None:
    """The file that the link leads to has the new plan, whether it existed or not, and no folder has another file."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "plans").mkdir()
    link, file = tmp_path / "inventory" / ".calico.lock.yml", tmp_path / "plans" / "prod.yml"
    link.symlink_to("../plans/prod.yml")
    for plan in (PLAN, AllocationPlan()):
        lockfile_store.write(str(link), plan)
        assert file.read_text() == lockfile_store.text(plan)
        assert os.readlink(link) == "../plans/prod.yml"
    assert [os.listdir(tmp_path / name) for name in ("inventory", "plans")] == [[".calico.lock.yml"], ["prod.yml"]]


def test_a_folder_behind_a_link_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    link = tmp_path / ".calico.lock.yml"
    link.symlink_to("plans/prod.yml")
    with pytest.raises(FleetError) as caught:
        lockfile_store.write(str(link), PLAN)
    assert str(caught.value) == (
        f"lockfile {link} cannot be written: No such file or directory. No host was touched. Make the folder "
        f"{tmp_path}/plans writable, or set calico_lockfile to another path."
    )


def test_a_folder_that_is_not_there(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "missing" / "lock.yml")
    with pytest.raises(FleetError, match=r"cannot be written: No such file or directory\."):
        lockfile_store.write(path, PLAN)


def test_a_file_that_is_no_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / ".calico.lock.yml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FleetError, match=r"cannot be read: it is not text\."):
        lockfile_store.read(str(path))


def test_a_folder_is_no_lockfile(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FleetError) as caught:
        lockfile_store.read(str(tmp_path))
    assert str(caught.value) == (
        f"lockfile {tmp_path} is a folder, no file. Restore the file from version control, or set calico_lockfile."
    )


def test_the_lockfile_is_at_the_given_path_or_beside_the_inventory(tmp_path: pathlib.Path) -> None:
    assert lockfile_store.path_for(None, {"inventory_dir": "/srv/prod"}) == "/srv/prod/.calico.lock.yml"
    assert lockfile_store.path_for("/srv/plan.yml", {"inventory_dir": "/srv/prod"}) == "/srv/plan.yml"
    assert lockfile_store.path_for("../plan.yml", {"inventory_dir": "/srv/prod"}) == "/srv/plan.yml"
    assert lockfile_store.path_for("plan.yml", {}) == os.path.join(os.getcwd(), "plan.yml")
    with pytest.raises(FleetError) as caught:
        lockfile_store.path_for(None, {"inventory_dir": None})
    assert str(caught.value) == (
        "calico_lockfile is not set, and the inventory has no folder to keep the plan of blocks in. "
        "Use an inventory that is a file or a folder, or set calico_lockfile to a path."
    )
