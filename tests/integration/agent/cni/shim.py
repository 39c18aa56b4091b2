# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shim as the role installs it, with its paths below a folder of the test, executed as by a runtime."""

from __future__ import annotations

import pathlib
import subprocess
import typing as t

from tests.unit.runtimes.cni.runtime import Answer

FILES = pathlib.Path(__file__).resolve().parents[4] / "roles" / "calico_node" / "files"
SOURCE = FILES / "cni" / "calico"
NETAVARK = FILES / "netavark" / "calico"


class Shim:
    """The shim, installed in `folder`, for the agent's socket at the path `socket`.

    `carrier` "python3" means a machine without netcat, "none" a machine without netcat and Python. `shell` is the
    program that runs it, `source` the shim: that of CNI or of netavark. Its `patience` is 3 seconds. Raise
    AssertionError if the role's shim lacks a text to replace.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        socket: str,
        carrier: str = "nc",
        shell: str = "/bin/sh",
        source: pathlib.Path = SOURCE,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.deleted = folder / "deleted"
        self.path = folder / "calico"
        text = source.read_text()
        changes = {
            "socket=/run/calico/agent.sock": f"socket={socket}",
            "deleted=/var/lib/calico/cni/deleted": f"deleted={self.deleted}",
            "patience=60": "patience=3",
            "#!/bin/sh": f"#!{shell}",
        }
        if carrier != "nc":
            changes["[ -x /bin/nc.openbsd ]"] = "false"
            changes["$(nc -h 2>&1)"] = "BusyBox"
        if carrier == "none":
            changes["set -- python3 "] = "set -- no-such-program "
        for before, after in changes.items():
            assert before in text, before
            text = text.replace(before, after, 1)
        self.path.write_text(text)
        self.path.chmod(0o755)

    def execute(
        self,
        environment: t.Mapping[str, str],
        stdin: bytes,
        prefix: t.Sequence[str] = (),
        arguments: t.Sequence[str] = (),
    ) -> Answer:
        done = subprocess.run(
            [*prefix, str(self.path), *arguments],
            input=stdin,
            env=dict(environment),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == b"", done.stderr
        return Answer(done.returncode, done.stdout)
