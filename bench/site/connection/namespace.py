# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection plugin to a host made of namespaces on this machine: nsenter(1) instead of ssh(1)."""

from __future__ import annotations

import shlex
import typing as t

from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: namespace
short_description: Namespaces of this machine
description: Runs what Ansible asks for in the namespaces of a process. Files are this machine's, all but those that are
  mounted otherwise there.
extends_documentation_fragment: connection_pipelining
options:
  pid:
    description: A process in the namespaces.
    type: int
    required: true
    vars: [{name: simulated_host_pid}]
"""


class Connection(Local):
    transport = "namespace"
    has_pipelining = True

    def exec_command(self, cmd: str, in_data: t.Optional[bytes] = None, sudoable: bool = True) -> t.Any:
        enter = [
            "nsenter",
            f"--target={self.get_option('pid')}",
            "--mount",
            "--net",
            "--pid",
            "--",
            "/bin/sh",
            "-c",
            cmd,
        ]
        return super().exec_command(shlex.join(enter), in_data=in_data, sudoable=sudoable)

    def reset(self) -> None:
        """Do nothing, since each command is a connection of its own."""
