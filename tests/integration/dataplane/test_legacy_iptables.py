# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firewall tests on the legacy backend, which is still `iptables` on some hosts."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import marks

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
    assert (found.used, dict(found.rules)) == ("legacy", {"nft": 0, "legacy": 0})


def test_mixed_backends_are_seen(kernel):
    converge(iptables, kernel, [NAT])
    run(kernel, ["iptables-nft-restore", "--noflush"], "*nat\n-A POSTROUTING -s 192.0.2.0/24 -j ACCEPT\nCOMMIT\n")
    found = iptables.backends(kernel)
    assert (found.rules["nft"], found.rules["legacy"]) == (1, 4)


def test_without_the_right_to_raw_sockets_the_tables_are_an_error_and_not_absent(kernel):
    """A process without CAP_NET_RAW gets an error; with no tables as the answer, foreign rules would go unnoticed."""
    converge(iptables, kernel, [NAT])
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from {marks.__name__} import legacy_tables
try:
    print([(program, table) for program, table, _info in legacy_tables()])
except OSError as error:
    print(type(error).__name__, error)
"""
    asked = [sys.executable, "-c", program]
    answers = [kernel.run([*without, *asked]) for without in ([], ["setpriv", "--bounding-set=-net_raw"])]
    assert [answer.code for answer in answers] == [0, 0], answers
    assert "('iptables', 'nat')" in answers[0].output
    assert answers[1].output == "KernelError open a raw socket for iptables's tables: Operation not permitted\n"
