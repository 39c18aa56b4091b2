# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new file beside the one that it is to replace."""

import os
import pathlib
import re
import stat

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import temporary_file


def test_the_file_is_new_empty_private_and_lies_beside_the_other(tmp_path: pathlib.Path) -> None:
    handle, made = temporary_file.beside(str(tmp_path / "bird.cfg"))
    os.write(handle, b"text")
    os.close(handle)
    assert pathlib.Path(made).parent == tmp_path
    assert re.fullmatch(r"\.bird\.cfg\.[0-9a-f]{8}", os.path.basename(made))
    assert stat.S_IMODE(os.stat(made).st_mode) == 0o600
    assert pathlib.Path(made).read_text() == "text"


def test_a_taken_name_is_left_alone_and_another_one_tried(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / ".state.00000000"
    taken.symlink_to(tmp_path / "of-somebody-else")
    numbers = iter([bytes(4), b"\0\0\0\1"])
    monkeypatch.setattr(os, "urandom", lambda size: next(numbers))
    handle, made = temporary_file.beside(str(tmp_path / "state"))
    os.close(handle)
    assert os.path.basename(made) == ".state.00000001"
    assert not (tmp_path / "of-somebody-else").exists()


def test_a_folder_in_which_all_names_are_taken_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".state.00000000").touch()
    monkeypatch.setattr(os, "urandom", bytes)
    with pytest.raises(FileExistsError):
        temporary_file.beside(str(tmp_path / "state"))


def test_a_missing_folder_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        temporary_file.beside(str(tmp_path / "none" / "state"))
