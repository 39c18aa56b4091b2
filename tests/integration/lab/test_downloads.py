# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages for tests on a machine where no lab was ever built."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.soak
def test_packages_are_fetched_with_an_empty_cache(tmp_path: pathlib.Path) -> None:
    """The packages of a cluster of etcd need no image that a lab has built before."""
    command = "from tests.lab.machines import downloads; print(downloads.debs('bookworm', ['etcd-server']))"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, env={**os.environ, "HOST_ROUTING_LAB_CACHE": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    folder = pathlib.Path(done.stdout.splitlines()[-1])
    assert folder.parent == tmp_path
    assert len(list(folder.glob("etcd-server_*.deb"))) == 1
