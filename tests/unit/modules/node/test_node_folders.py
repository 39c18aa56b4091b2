# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node module gives folders their modes, whatever the umask is, and corrects those of folders that are ours."""

from __future__ import annotations

import json
import os
import stat

import pytest
from ansible_collections.baremetal.host_routing.plugins.modules import node, teardown

from tests.unit.modules.node.test_node import PARAMS
from tests.unit.node.systemctl import Systemctl

FILES = [
    {"path": "/etc/calico/agent.json", "content": "{}\n", "mode": "0644"},
    {"path": "/etc/systemd/networkd.conf.d/10-calico.conf", "content": "[Network]\n", "mode": "0644"},
    {"path": "/opt/cni/bin/calico", "content": "#!/bin/sh\n", "mode": "0755"},
    {"path": "/etc/secret.d/calico", "content": "secret\n", "mode": "0600"},
]
WANTED = {
    **dict.fromkeys(("etc/calico", "etc/systemd/networkd.conf.d", "opt/cni", "opt/cni/bin"), 0o755),
    "etc/secret.d": 0o755,
}


@pytest.fixture
def root(host):
    """The folder that stands for /, with the host's own folders and what a hardened host has made of their modes."""
    host.machine.systemctl = str(Systemctl(host.folder / "systemd").program)
    root = host.folder / "root"
    for name in ("etc/systemd", "opt"):
        (root / name).mkdir(parents=True)
        (root / name).chmod(0o750)
    return root


def modes(root, names=WANTED):
    return {name: stat.S_IMODE((root / name).stat().st_mode) for name in names}


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_folders_have_their_modes_whatever_the_umask_is(host, root, umask):
    before = os.umask(umask)
    try:
        host.four_times(node, **{**PARAMS, "files": FILES})
    finally:
        os.umask(before)
    assert modes(root) == WANTED
    assert modes(root, ("etc/systemd", "opt")) == {"etc/systemd": 0o750, "opt": 0o750}
    assert stat.S_IMODE((host.folder / "calico").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "etc/calico/agent.json").stat().st_mode) == 0o644


@pytest.mark.parametrize("recorded", [True, False])
def test_a_folder_with_another_mode_is_a_change_and_mended(host, root, recorded):
    """A run of an earlier release, which has recorded no folders, left them closed: this one opens them."""
    host.run(node, **{**PARAMS, "files": FILES})
    if not recorded:
        (host.folder / "calico" / "folders.json").unlink()
    for name in WANTED:
        (root / name).chmod(0o700)
    (root / "opt/cni/bin/calico").chmod(0o700)
    planned, done = host.four_times(node, **{**PARAMS, "files": FILES})
    path = root / "etc/calico"
    assert f"~ file     {path}/  folder, mode 0700  ->  folder, mode 0755" in done["plan"]
    assert f"--- {path}/\n+++ {path}/\n-mode 0700\n+mode 0755\n" in planned["diff"]["prepared"]
    # Only root reads in the other one: nobody else has to enter it.
    assert modes(root) == {**WANTED, "etc/secret.d": 0o700}
    assert modes(root, ("etc/systemd", "opt")) == {"etc/systemd": 0o750, "opt": 0o750}


def test_an_own_folder_that_is_too_open_is_closed(host, root):
    host.run(node, **{**PARAMS, "files": FILES})
    (root / "var/lib/calico").mkdir(parents=True)
    for name in ("etc/calico", "var/lib/calico"):
        (root / name).chmod(0o777)
    host.four_times(node, **{**PARAMS, "files": FILES})
    assert modes(root, ("etc/calico", "var/lib/calico")) == {"etc/calico": 0o755, "var/lib/calico": 0o700}


def test_folders_of_others_keep_their_modes(host, root):
    """A folder that was there before, and in which others have files, is not ours."""
    (root / "opt/cni/bin").mkdir(parents=True)
    (root / "opt/cni/bin/bridge").write_text("")
    for name in ("opt/cni", "opt/cni/bin"):
        (root / name).chmod(0o750)
    host.run(node, **{**PARAMS, "files": FILES})
    assert modes(root, ("opt/cni/bin",)) == {"opt/cni/bin": 0o750}
    assert host.run(node, **{**PARAMS, "files": FILES})["changed"] is False


def test_more_rights_than_needed_stay_on_folders_that_others_use_too(host, root):
    host.run(node, **{**PARAMS, "files": FILES})
    (root / "opt/cni/bin").chmod(0o775)
    assert host.run(node, **{**PARAMS, "files": FILES})["changed"] is False


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]", '["relative", "/", "/etc/../etc/passwd"]', "[" * 9999])
def test_a_record_that_is_none_names_no_folder(host, root, text):
    host.run(node, **{**PARAMS, "files": FILES})
    record = host.folder / "calico" / "folders.json"
    assert json.loads(record.read_text()) == [
        "/etc/secret.d", "/etc/systemd/networkd.conf.d", "/opt/cni", "/opt/cni/bin"
    ]  # fmt: skip
    record.write_text(text)
    assert host.run(node, **{**PARAMS, "files": FILES})["changed"] is False


def test_a_teardown_removes_the_folders_that_were_made(host, root):
    (root / "etc/systemd/network").mkdir()
    host.run(
        node, **{**PARAMS, "files": [*FILES, {"path": "/etc/systemd/network/05-calico.network", "content": "x\n"}]}
    )
    (root / "opt/cni/bin/bridge").write_text("")
    planned, done = host.four_times(teardown)
    assert planned["plan"] == done["plan"]
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == [
        "etc", "etc/systemd", "etc/systemd/network", "opt", "opt/cni", "opt/cni/bin", "opt/cni/bin/bridge"
    ]  # fmt: skip
