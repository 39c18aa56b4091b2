# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the client's end of a socket of lines: the limit of a line."""

from __future__ import annotations

import pathlib
import socket
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets.line_socket import LineSocket, LineTooLong


@pytest.mark.parametrize("text", ["a" * 8, "\u00e4" * 4])
def test_a_line_has_at_most_as_many_bytes_as_the_limit_however_they_come(tmp_path: pathlib.Path, text: str) -> None:
    path = str(tmp_path / "socket")
    end = time.monotonic() + 60
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        for limit, rest in ((8, b"\n"), (7, b"\n"), (7, b"")):
            lines = LineSocket(limit)
            lines.connect(path, end)
            with listener.accept()[0] as peer:
                peer.sendall(text.encode() + rest)
                if limit == 8:
                    assert lines.line(end) == text.encode()
                else:
                    with pytest.raises(LineTooLong):
                        lines.line(end)
            lines.close()
