# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths as they are shown to people."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines.shown_path import shown_path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/work/here/hosts.yml:3", "hosts.yml:3"),
        ("/work/here/group_vars/all.yml", "group_vars/all.yml"),
        ("/work/here/..hidden/hosts.yml", "..hidden/hosts.yml"),
        ("/work/hosts.yml:3", "/work/hosts.yml:3"),
        ("/work/here-too/hosts.yml", "/work/here-too/hosts.yml"),
    ],
)
def test_below_the_current_folder_it_is_relative(
    path: str, shown: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "work" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    found = shown_path(f"{tmp_path}{path}")
    assert found == (f"{tmp_path}{shown}" if shown.startswith("/") else shown)
