# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of BIRD, with messages for the operator."""

from __future__ import annotations

import typing as t


class BirdError(Exception):
    """The base of all errors of BIRD."""


class NotAnswering(BirdError):
    """A control socket (its path is `socket`) that is closed or does not answer in time or in BIRD's protocol."""

    def __init__(self, socket: str, reason: str) -> None:
        self.socket = socket
        self.reason = reason
        super().__init__(
            f"BIRD does not answer. Its control socket is {socket}: {reason}. "
            "See `systemctl status calico-bird.service` and its journal."
        )

    @property
    def nobody_there(self) -> bool:
        """Whether no BIRD runs: there is no socket, or no process listens at it any more."""
        return isinstance(self.__cause__, (FileNotFoundError, ConnectionRefusedError))


class CommandRefused(BirdError):
    """A command that BIRD did not understand (`code` 9xxx), could not run (8xxx) or answered in an unknown way."""

    def __init__(self, command: str, code: int, answer: str) -> None:
        self.command = command
        self.code = code
        self.answer = answer
        super().__init__(
            f"BIRD refused a command. `birdc {command}` was answered with {code}: {answer}. "
            "Try the command by hand on the node."
        )


class ConfigurationRefused(BirdError):
    """A bird.cfg, or its file of passwords, that BIRD cannot read.

    `path` is the file and `reason` what BIRD says. `line` counts from 1 and is None if BIRD names none. `source` is the
    text of that line without passwords, "" if it is not shown.
    """

    def __init__(self, path: str, line: t.Optional[int], reason: str, source: str = "") -> None:
        self.path = path
        self.line = line
        self.reason = reason
        self.source = source
        super().__init__(self._said())

    def _said(self) -> str:
        return (
            f"BIRD cannot read its new configuration: {self.reason}. It is for {self._where()}. "
            "The one in force was left as it is; correct the variable that the line comes from and run again."
        )

    def _where(self) -> str:
        where = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{where} (`{self.source}`)" if self.source else where


class SnippetRefused(ConfigurationRefused):
    """An operator's file, included by bird.cfg, that BIRD cannot read."""

    def _said(self) -> str:
        return (
            f"BIRD cannot read a snippet of its configuration: {self.reason}. It stands in {self._where()}. "
            "The configuration in force was left as it is; correct that file, or take it away, and run again."
        )


class ReloadNotFinished(BirdError):
    """A reload that did not finish within `seconds`, for instance because an old protocol does not stop."""

    def __init__(self, socket: str, seconds: float) -> None:
        self.socket = socket
        self.seconds = seconds
        super().__init__(
            f"BIRD has not finished reading its new configuration after {seconds:g} s. Its control socket is {socket}. "
            f"Look at `birdc -s {socket} show protocols` for a protocol that is in state `stop`, and run again."
        )


class VersionUnknown(BirdError):
    """A program that should be BIRD and cannot be run or does not report its version.

    `answer` is its output, or the reason why it could not be run.
    """

    def __init__(self, program: str, answer: str) -> None:
        self.program = program
        self.answer = answer
        super().__init__(
            f"The version of BIRD could not be read. `{program} --version` says {answer!r}. "
            "Install the package bird2 of Debian 12 or 13."
        )
