# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts of a lab need to be members of an etcd cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from ..handle import BaseLab
from ..topology import NODES, Places
from . import downloads


def prepare_members(lab: BaseLab, members: Sequence[str], release: str = "bookworm") -> None:
    """Let apt on these hosts install etcd of a Debian release, and let the lab's controller reach them.

    Raise CommandFailed if a host is off, and CalledProcessError if the lab has no controller.
    """
    packages = downloads.debs(release, ["etcd-server", "etcd-client"])
    control = Places(lab.name).netns("control")
    for member in members:
        downloads.give_repository(lab, member, packages)
        way = [f"{NODES[member].address}/32", "via", NODES[member].control_address]
        subprocess.run(["ip", "-n", control, "route", "replace", *way], check=True)
