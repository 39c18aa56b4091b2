# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of documents that are no files, which are refused in words and leave no descriptor open."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import document_file, document_text


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_a_file_is_read_without_its_byte_order_mark(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfkind: IPPool\n")
    before = descriptors()
    assert document_file.read(str(path)) == "kind: IPPool\n"
    assert descriptors() == before


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_a_path_that_is_no_file_is_refused(tmp_path: pathlib.Path, kind: str) -> None:
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


def test_a_number_with_a_colon_is_text_as_for_calico() -> None:
    """YAML 1.1 counts in sixties: it makes 1230 of the range of ports 20:30."""
    [(document, dummy)] = document_text.documents_of("ports: [20:30, 80, 0x10, 010, 1.5, 1:30.5]\n", "a.yaml")
    assert document == {"ports": ["20:30", 80, 16, 8, 1.5, "1:30.5"]}
