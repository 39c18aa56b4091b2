# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces of a process in its own mount namespace, as under systemd's ProtectSystem=strict."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# The outer mount namespace stands for the host's: its /run is shared, as systemd makes it. `ip netns add` mounts
# /run/netns onto itself, so that each namespace is mounted twice. The inner mount namespace is as systemd makes it for
# a unit. It sees the outer mounts, but the outer one does not see its mounts. It has /run mounted onto itself
# (ReadWritePaths).
HOST = """
import os, subprocess, sys
outer, folder = sys.argv[1:]
subprocess.run(["ip", "netns", "add", "fleet-earlier"], check=True)
program = f"mount --rbind /run /run && exec {sys.executable} {folder}/inside.py /proc/{outer}/ns/mnt"
inner = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", program]
seen = lambda: sorted(name for name in os.listdir("/run/netns") if os.path.ismount("/run/netns/" + name))
process = subprocess.Popen(inner, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for step in ("made", "deleted"):
    print(process.stdout.readline().strip(), seen(), flush=True)
    process.stdin.write("\\n")
    process.stdin.flush()
subprocess.run(["ip", "netns", "add", "fleet-later"], check=True)
process.stdin.write("\\n")
process.stdin.flush()
print(process.stdout.readline().strip(), flush=True)
process.wait()
subprocess.run(["ip", "netns", "delete", "fleet-later"], check=True)
"""
INSIDE = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from plugins.module_utils.dataplane.kernel.linux import LinuxKernel
kernel = LinuxKernel(mounts=sys.argv[1])
kernel.netns_add("fleet-sandbox", "")
inner = kernel.inside("fleet-sandbox")
print("made", [link.name for link in inner.links()], flush=True)
sys.stdin.readline()
kernel.netns_delete("fleet-sandbox")
kernel.netns_delete("fleet-earlier")
print("deleted", flush=True)
sys.stdin.readline()
sys.stdin.readline()
print("later", [link.name for link in kernel.inside("fleet-later").links()], flush=True)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_namespaces_are_visible_from_inside_and_outside_the_sandbox(tmp_path: pathlib.Path) -> None:
    (tmp_path / "inside.py").write_text(INSIDE)
    (tmp_path / "host.py").write_text(HOST)
    script = f"""
mount -t tmpfs none /run && mount --make-shared /run || exit 9
exec {sys.executable} {tmp_path}/host.py $$ {tmp_path}
"""
    os.makedirs("/run/netns", exist_ok=True)
    run = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert run.stdout.splitlines() == [
        "made ['lo'] ['fleet-earlier', 'fleet-sandbox']",
        "deleted []",
        "later ['lo']",
    ], run.stderr
    assert run.returncode == 0
