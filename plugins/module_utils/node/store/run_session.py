# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From where the last run of Ansible came by SSH: the agent lets no live policy cut this way."""

from __future__ import annotations

import json
import os
import typing as t

from ...base.typed_json import Unreadable, table, text, whole
from ...files import bounded, replacement
from ..host import ssh_session
from ..host.ssh_session import SshSession

FILE = "run-session.json"
_PORT = whole(1, 65535)
_READ = table({"client": text(64), "server": text(64), "server_port": _PORT})
#: The port of the client, which is another one in each run.
_CLIENT_PORT = 50_000


def save(folder: str, session: SshSession) -> None:
    """Note the session of a run in `folder`, if it comes from elsewhere than the last one. Raise OSError."""
    known = load(folder)
    if known is None or known._replace(client_port=session.client_port) != session:
        body = {"client": session.client, "server": session.server, "server_port": session.server_port}
        replacement.replace(os.path.join(folder, FILE), json.dumps(body).encode(), 0o600)


def load(folder: str) -> t.Optional[SshSession]:
    """Return a session like that of the last run; None if there was none by SSH, or the file cannot be read."""
    try:
        found = _READ(bounded.read_json(os.path.join(folder, FILE)))
    except (OSError, ValueError, Unreadable):
        return None
    return ssh_session.parse(f"{found['client']} {_CLIENT_PORT} {found['server']} {found['server_port']}")
