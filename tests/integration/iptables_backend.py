# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's `iptables` of one backend, as after `update-alternatives --set iptables`."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest


def choose(backend: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `iptables` and `ip6tables`, and their `-save` and `-restore`, those of `backend`, nft or legacy.

    This holds for this process and its children, until `monkeypatch` undoes it. `folder` is the test's own. Raise
    AssertionError if iptables is not installed, and FileExistsError at a second call for the same folder.
    """
    programs = shutil.which(f"xtables-{backend}-multi", path="/usr/sbin:/sbin")
    assert programs, "install iptables to run these tests"
    alternatives = folder / "alternatives"
    alternatives.mkdir()
    for name in ("iptables", "ip6tables"):
        for program in (name, f"{name}-save", f"{name}-restore"):
            (alternatives / program).symlink_to(programs)
    monkeypatch.setenv("PATH", f"{alternatives}:{os.environ['PATH']}")
