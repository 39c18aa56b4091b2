# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""calicoctl(1): the programs that show manual pages find no fault in it."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "roles" / "calico_node" / "files" / "shell" / "calicoctl.1"
READERS = {
    "groff": ["groff", "-man", "-ww", "-z"],
    "man": ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"],
    # The page has no date, so that it changes with calicoctl alone. mandoc would warn of that.
    "mandoc": ["mandoc", "-T", "lint", "-W", "error"],
}


@pytest.mark.parametrize("reader", READERS)
def test_programs_find_no_fault_in_the_manual(reader: str) -> None:
    done = subprocess.run([*READERS[reader], str(PAGE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
