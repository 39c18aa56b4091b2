# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From where the last run came: noted once for each client, and nothing if it cannot be read."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host.ssh_session import SshSession
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import run_session

SESSION = SshSession("10.10.1.1", 51444, "10.10.1.11", 22)


def test_the_last_client_is_known_whatever_its_port_was(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    assert run_session.load(folder) is None
    run_session.save(folder, SESSION)
    found = run_session.load(folder)
    assert found is not None and found._replace(client_port=51444) == SESSION
    before = os.stat(tmp_path / run_session.FILE).st_ino
    run_session.save(folder, SESSION._replace(client_port=1))
    assert os.stat(tmp_path / run_session.FILE).st_ino == before
    run_session.save(folder, SESSION._replace(client="2001:db8::1", server="2001:db8::11"))
    assert run_session.load(folder) == SshSession("2001:db8::1", 50_000, "2001:db8::11", 22)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"client": "x", "server": "10.0.0.1", "server_port": 22}', '{"client": 1}', "\x00", "[" * 9999],
)
def test_a_file_that_cannot_be_read_names_nobody(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / run_session.FILE).write_text(text)
    assert run_session.load(str(tmp_path)) is None
