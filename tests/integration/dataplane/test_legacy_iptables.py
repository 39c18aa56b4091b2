# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firewall tests on the legacy backend, which is still `iptables` on some hosts."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables

from tests.unit.dataplane.suites.drivers import converge
from tests.unit.dataplane.suites.suite_chains import *  # noqa: F403
from tests.unit.dataplane.suites.suite_firewall import *  # noqa: F403
from tests.unit.dataplane.suites.suite_firewall import NAT, run

_LEGACY = shutil.which("xtables-legacy-multi", path="/usr/sbin:/sbin")


@pytest.fixture(autouse=True)
def legacy(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The legacy `iptables` as the host's own, as after `update-alternatives --set iptables`."""
    assert _LEGACY, "install iptables to run these tests"
    folder = tmp_path / "alternatives"
    folder.mkdir()
    for family in ("iptables", "ip6tables"):
        for verb in ("", "-save", "-restore"):
            (folder / (family + verb)).symlink_to(_LEGACY)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_backend_is_the_hosts_own(kernel):
    found = iptables.backends(kernel)
    assert found.used == "legacy"
    assert not found.mixed


def test_mixed_backends_are_seen(kernel):
    converge(iptables, kernel, [NAT])
    assert not iptables.backends(kernel).mixed
    run(kernel, ["iptables-nft-restore", "--noflush"], "*nat\n-A POSTROUTING -s 192.0.2.0/24 -j ACCEPT\nCOMMIT\n")
    found = iptables.backends(kernel)
    assert found.mixed
    assert (found.rules["nft"], found.rules["legacy"]) == (1, 4)
