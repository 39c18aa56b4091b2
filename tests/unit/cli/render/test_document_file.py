# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of documents that are no files, which are refused in words and leave no descriptor open."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import document_file


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_a_file_is_read_without_its_byte_order_mark(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfkind: IPPool\n")
    before = descriptors()
    assert document_file.read(str(path)) == "kind: IPPool\n"
    assert descriptors() == before


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_refused(tmp_path: pathlib.Path, kind: str) -> None:
    path = pathlib.Path("/dev/zero") if kind == "device" else tmp_path / "a.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    before = descriptors()
    with pytest.raises(BeyondLimits) as caught:
        document_file.read(str(path))
    assert str(caught.value) == f"is a {kind}, no file. Give the path of a file."
    assert descriptors() == before
