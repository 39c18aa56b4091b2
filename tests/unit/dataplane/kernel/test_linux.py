# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LinuxKernel without root: behaviour that does not depend on the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import linux, namespaces
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    KernelError,
    MissingLibrary,
    NewLink,
)


def test_writing_without_pyroute2_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.split(".")[0] == "pyroute2":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyroute2", None)  # None lets each import of pyroute2 fail.
    with pytest.raises(MissingLibrary) as caught:
        LinuxKernel().link_add(NewLink("vxlan.calico", "vxlan", vni=4096))
    assert str(caught.value) == (
        "The Python library pyroute2, which writes tunnel devices, neighbours and rules, is not installed for this"
        " interpreter. Install it with `apt-get install python3-pyroute2` (Debian), then run again."
    )


def test_observing_imports_nothing_but_the_standard_library():
    """Links, addresses, routes, rules and sockets of this machine are read while no other library can be imported."""
    package = linux.__name__.rpartition(".kernel.")[0]
    root = linux.__file__.split("/ansible_collections/")[0]
    program = f"""
import sys
sys.path.insert(0, {root!r})
import importlib
linux = importlib.import_module({package!r} + ".kernel.linux")
for name in ("planning.plan", "drivers.file"):
    importlib.import_module({package!r} + "." + name)
kernel = linux.LinuxKernel()
assert kernel.link("lo") in kernel.links()
kernel.addresses(), kernel.routes(), kernel.rules(), kernel.neighbors("lo"), kernel.fdb("lo")
kernel.sysctl_read("net/ipv4/ip_forward"), kernel.sockets_using("127.0.0.1"), kernel.netns_owners()
print("pyroute2" in sys.modules, any("site-packages" in entry for entry in sys.path))
"""
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (shown.stdout.strip(), shown.stderr) == ("False False", "")


def test_program_that_is_missing_or_slow():
    assert LinuxKernel().run(["no-such-program-here"]).code == 127
    done = LinuxKernel().run(["sleep", "5"], timeout=0.2)
    assert (done.code, done.errors) == (124, "sleep did not end within 0 s")


def test_program_that_cannot_be_started(tmp_path):
    program = tmp_path / "ipset"
    program.write_text("#!/bin/sh\n")  # No execute bit is set, so not even root may execute it.
    done = LinuxKernel().run([str(program), "save"])
    assert (done.code, done.output, done.errors) == (126, "", f"{program} cannot be started: Permission denied")


def test_namespace_that_does_not_exist(tmp_path):
    kernel = LinuxKernel(netns_folder=str(tmp_path / "none"), marker_folder=str(tmp_path / "neither"))
    assert (kernel.netns_list(), kernel.netns_owners()) == ([], {})
    with pytest.raises(OSError, match="open network namespace gone: No such file or directory"):
        kernel.inside("gone").links()


def test_marker_of_a_namespace_that_was_made_anew_does_not_count(tmp_path, monkeypatch):
    # This test uses plain files in place of namespaces.
    monkeypatch.setattr(namespaces, "device", lambda: tmp_path.stat().st_dev)
    folder, markers = tmp_path / "netns", tmp_path / "markers"
    folder.mkdir()
    markers.mkdir()
    (folder / "web").write_text("")
    (markers / "web").write_text('{"inode": 1, "owner": "default/web"}')
    (markers / "gone").write_text('{"inode": 1, "owner": "default/gone"}')
    (markers / "torn").write_text("{")
    kernel = LinuxKernel(netns_folder=str(folder), marker_folder=str(markers))
    assert kernel.netns_owners() == {}
    inode = (folder / "web").stat().st_ino
    (markers / "web").write_text(json.dumps({"inode": inode, "owner": "default/web"}))
    assert kernel.netns_owners() == {"web": "default/web"}


def test_a_namespace_file_left_by_a_kill_has_our_owner_and_is_not_listed(tmp_path):
    folder, markers = tmp_path / "netns", tmp_path / "markers"
    folder.mkdir()
    markers.mkdir()
    for name in ("ours", "theirs", "full"):
        (folder / name).write_text("text" if name == "full" else "")
    for name in ("ours", "full"):
        (markers / name).write_text(json.dumps({"inode": 1, "owner": f"default/{name}"}))
    kernel = LinuxKernel(netns_folder=str(folder), marker_folder=str(markers))
    assert kernel.netns_list() == ["full", "theirs"]
    assert kernel.netns_owners() == {"ours": "default/ours"}


def test_folder_that_cannot_be_read_is_a_refusal(tmp_path):
    (tmp_path / "file").write_text("")
    kernel = LinuxKernel(netns_folder=str(tmp_path / "file"), marker_folder=str(tmp_path / "file"))
    with pytest.raises(KernelError) as caught:
        kernel.netns_list()
    assert str(caught.value) == "list network namespaces: Not a directory"
    with pytest.raises(KernelError) as caught:
        kernel.netns_owners()
    assert str(caught.value) == "list the markers of network namespaces: Not a directory"


@pytest.mark.parametrize("folder", ["netns", "markers"])
def test_folder_in_which_nothing_can_be_made_is_a_refusal(tmp_path, monkeypatch, folder):
    monkeypatch.setattr(namespaces, "call", lambda *_arguments: None)  # A real call needs root.
    (tmp_path / folder).write_text("")
    kernel = LinuxKernel(netns_folder=str(tmp_path / "netns"), marker_folder=str(tmp_path / "markers"))
    with pytest.raises(KernelError) as caught:
        kernel.netns_add("web", "default/web")
    assert str(caught.value) == "make network namespace web: File exists"


def test_marker_that_cannot_be_removed_is_a_refusal(tmp_path, monkeypatch):
    monkeypatch.setattr(LinuxKernel, "_unmount", lambda *_arguments: None)
    os.makedirs(tmp_path / "markers" / "web")
    kernel = LinuxKernel(netns_folder=str(tmp_path / "netns"), marker_folder=str(tmp_path / "markers"))
    with pytest.raises(KernelError) as caught:
        kernel.netns_delete("web")
    assert str(caught.value) == "delete network namespace web: Is a directory"
