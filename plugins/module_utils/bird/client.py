# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of BIRD's control socket. It needs no birdc process and limits the time of each answer.

A line of an answer is a four-digit code, `-` (more lines follow) or a space (the last line), and text. A line that
starts with a space repeats the code before it. 0xxx means success, 1xxx and 2xxx are tables, 8xxx is a failure, 9xxx a
command that BIRD does not understand (BIRD's doc/reply_codes). Log messages, which start with `+`, are skipped.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
import types
import typing as t

from ..sockets.line_socket import Hangup, LineSocket, LineTooLong
from . import encoding
from .errors import CommandRefused, NotAnswering

SOCKET = "/run/calico/bird.ctl"

#: The most bytes of one line of an answer that are accepted. BIRD's own lines are shorter.
_LINE_LIMIT = 16 << 20
_LINE = re.compile(r"(\d{4})([- ])(.*)", re.DOTALL)


class BirdReply(t.NamedTuple):
    """The answer to a command.

    `code` is the last line's code as a number, `lines` the texts without codes; an empty last line is left out.
    """

    code: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class BirdClient:
    """A connection to BIRD, as a context manager. `timeout` is in seconds and limits each whole answer.

    Entering it raises NotAnswering if no BIRD answers at `path`, its control socket, or its greeting has no version.
    """

    def __init__(self, path: str = SOCKET, timeout: float = 10.0) -> None:
        self.path = path
        self.timeout = timeout
        self.version = ""  # BIRD's version as in its greeting, such as "2.0.12"; "" before the greeting
        self._lines = LineSocket(_LINE_LIMIT)

    def __enter__(self) -> BirdClient:
        with self._closed_on_failure():
            self._lines.connect(self.path, time.monotonic() + self.timeout)
            greeting = self._answer().text
            found = re.search(r"BIRD v?(\S*\d\.\d\S*) ready", greeting)  # a version that `version.parse` accepts
            if not found:
                raise NotAnswering(self.path, f"it greets with {greeting!r}")
        self.version = found.group(1)
        return self

    def __exit__(
        self,
        kind: t.Optional[type[BaseException]],
        value: t.Optional[BaseException],
        traceback: t.Optional[types.TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, if there is one."""
        self._lines.close()

    def ask(self, command: str) -> BirdReply:
        """Return the answer to one command in birdc's syntax.

        Raises CommandRefused for an answer of 8xxx or 9xxx, NotAnswering if the connection is closed, fails or times
        out, or the answer is not in BIRD's protocol or has a line of more than 16 MiB, and NotEncodable for a command
        that is not one line of at most 4000 printable ASCII characters. The connection is closed after NotAnswering.
        """
        encoded = encoding.command(command)
        if not self._lines.connected:
            raise NotAnswering(self.path, "the connection is closed")
        with self._closed_on_failure():
            self._lines.send(encoded, time.monotonic() + self.timeout)
            answer = self._answer()
        if answer.code >= 8000:
            raise CommandRefused(command, answer.code, answer.text)
        return answer

    @contextlib.contextmanager
    def _closed_on_failure(self) -> t.Iterator[None]:
        """Close the connection if the context raises NotAnswering, or OSError, which becomes NotAnswering.

        The rest of an answer may still arrive later. It must not be taken for the answer to the next command.
        """
        try:
            yield
        except NotAnswering:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise NotAnswering(self.path, error.strerror or str(error)) from error

    def _answer(self) -> BirdReply:
        lines: list[str] = []
        code = 0
        end = time.monotonic() + self.timeout
        while True:
            line = self._line(end)
            if line.startswith("+"):
                continue
            found = _LINE.fullmatch(line)
            if found:
                code = int(found.group(1))
                if found.group(3) or found.group(2) == "-":
                    lines.append(found.group(3))
                if found.group(2) == " ":
                    return BirdReply(code, tuple(lines))
            elif line.startswith(" "):
                lines.append(line[1:])
            else:
                raise NotAnswering(self.path, f"it answers with {line!r}, which is not BIRD's protocol")

    def _line(self, end: float) -> str:
        try:
            return self._lines.line(end).decode("utf-8", "replace")
        except socket.timeout:
            raise NotAnswering(self.path, f"no whole answer within {self.timeout:g} s") from None
        except LineTooLong:
            raise NotAnswering(self.path, f"a line of its answer is larger than {_LINE_LIMIT >> 20} MiB") from None
        except Hangup:
            raise NotAnswering(self.path, "the connection was closed in the middle of an answer") from None
