# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BIRD with answers that a test defines, at a socket of its own."""

from __future__ import annotations

import pathlib
import socket
import threading
import typing as t

import pytest

GREETING = b"0001 BIRD 2.0.12 ready.\n"
SYNTAX_ERROR = b"9001 syntax error, unexpected CF_SYM_UNDEFINED\n"


class FakeBird:
    """A fake BIRD that serves one connection at a time.

    `answers` maps a command, or its first word, to one answer for each call; the last one serves all further calls. An
    answer is a list of pieces, and the piece b"hang up" ends the connection. `asked` has the received commands. A
    command without an answer gets BIRD's reply to a syntax error (9001).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.greeting = GREETING
        self.answers: dict[str, list[list[bytes]]] = {}
        self.asked: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return
            with connection:
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        connection.sendall(self.greeting)
        for line in connection.makefile("r"):
            command = line.rstrip("\n")
            self.asked.append(command)
            words = [command, *command.split()[:1]]
            answers = next((self.answers[word] for word in words if self.answers.get(word)), [[SYNTAX_ERROR]])
            for piece in answers.pop(0) if len(answers) > 1 else answers[0]:
                if piece == b"hang up":
                    return
                connection.sendall(piece)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


@pytest.fixture
def bird(tmp_path: pathlib.Path) -> t.Iterator[FakeBird]:
    fake = FakeBird(str(tmp_path / "bird.ctl"))
    yield fake
    fake.close()
