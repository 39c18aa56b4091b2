# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders have their mode whatever the umask is: those of the maker itself, and those of everything that writes."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, secrets_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.node import diagnostics
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import folders, replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.allocation_journal import (
    AllocationJournal,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import watch
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import atomic_file, lock
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker.networks import Networks
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.options import ContainerOptions
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import etcd_folder


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=lambda umask: f"umask {umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_each_made_folder_has_its_mode(umask: int, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o750)
    kept = mode(there)
    path = there / "a" / "b" / "c"
    assert folders.missing(str(path)) == [str(there / "a"), str(there / "a" / "b"), str(path)]
    assert folders.make(str(path), 0o700) == [str(there / "a"), str(there / "a" / "b"), str(path)]
    assert [mode(folder) for folder in (there, there / "a", there / "a" / "b", path)] == [kept, 0o755, 0o755, 0o700]
    assert folders.make(str(path), 0o755) == [] and mode(path) == 0o700
    assert folders.missing(str(path)) == []
    inner = there / "p" / "q"
    folders.make(str(inner), folders.PRIVATE, folders.PRIVATE)
    assert (mode(inner), mode(inner.parent)) == (0o700, 0o700)


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        folders.make(str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError):
        folders.make(str(tmp_path / "file" / "below"))


def test_a_folder_that_cannot_get_its_mode_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(PermissionError):
        folders.make(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def _lock(path: str) -> None:
    with lock.held("test", path=path):
        pass


def _snapshot(path: str) -> None:
    etcd_folder.make_empty(path)


def _journal(path: str) -> None:
    journal = AllocationJournal(path)
    journal.append([{"assign": 1}])
    journal.close()


def _diagnostics(path: str) -> None:
    class NoSources:
        is_node = True

    def nothing(sources: object) -> list[tuple[str, str]]:
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnostics, "collect", nothing)
        diagnostics.run(argparse.Namespace(log_dir=os.path.dirname(path)), NoSources())  # type: ignore[arg-type]


#: What writes a file at a path, and the mode of the folder that it makes.
WRITERS: dict[str, tuple[Callable[[str], object], int]] = {
    "a file of the node": (lambda path: replacement.store(path, "text\n", 0o644), 0o755),
    "bird.cfg": (lambda path: configuration.install("router id 1.2.3.4;\n", path, "/bin/true"), 0o755),
    "passwords of BIRD": (lambda path: secrets_file.install(path, {"name": "secret"}), 0o755),
    "the node's lock": (_lock, 0o755),
    "the lock of a watch": (lambda path: os.close(watch._open_lock(path)), 0o755),
    "a stored state": (lambda path: atomic_file.make_folder(os.path.dirname(path)), 0o700),
    "the journal of addresses": (_journal, 0o700),
    "options of Docker's networks": (
        lambda path: Networks(os.path.dirname(path)).save("0" * 64, ContainerOptions()),
        0o700,
    ),
    "diagnostics": (_diagnostics, 0o700),
    "a snapshot of etcd": (_snapshot, 0o700),
    "keys of etcd": (lambda path: etcd_folder.EtcdFolder(os.path.dirname(path)).write("ca.key", b"key"), 0o700),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_each_writer_makes_its_folder_with_its_mode(writer: str, umask: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    write, wanted = WRITERS[writer]
    write(str(tmp_path / "folder" / "file"))
    assert mode(tmp_path / "folder") == wanted
