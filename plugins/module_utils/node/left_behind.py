# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that stays when this one and the connection that it came by are gone."""

from __future__ import annotations

import subprocess
import typing as t


def start(command: t.Sequence[str]) -> None:
    """In a session of its own, without the pipes of the connection: sshd waits for nobody else. Raises OSError."""
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd="/", start_new_session=True)
    process.returncode = 0  # nobody waits for it here
