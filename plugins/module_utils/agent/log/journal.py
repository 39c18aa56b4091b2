# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's log: records as lines on stderr, which systemd passes to the journal, and the level that can change."""

from __future__ import annotations

import logging
import os
import sys
import typing as t

from ...base import terminal_text


class LineFormatter(logging.Formatter):
    """A formatter that puts a record's message on one line, whatever it contains. An exception may add lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging calls it so
        return terminal_text.line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text.text(super().format(record))


class JournalFormatter(LineFormatter):
    """A formatter for stderr under systemd: each line begins with its priority (sd-daemon(3))."""

    _PRIORITIES: t.ClassVar = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}

    def format(self, record: logging.LogRecord) -> str:
        priority = self._PRIORITIES.get(record.levelname, 6)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def log_to_stderr(level: str) -> None:
    """Write records of this level and above to stderr. `level` is one of wire.settings.LEVELS.

    Records do not say from where they come: no format here names that, and finding it out takes most of a line's time.
    """
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as in Python's "Logging HOWTO", Optimization
    handler = logging.StreamHandler(sys.stderr)
    under_systemd = "JOURNAL_STREAM" in os.environ
    handler.setFormatter(JournalFormatter("%(message)s") if under_systemd else LineFormatter("%(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def level() -> str:
    """Return the level in force, one of wire.settings.LEVELS."""
    return logging.getLevelName(logging.getLogger().level).lower()


def set_level(level: str) -> None:
    """Write records of this level and above from here on, until the agent ends."""
    logging.getLogger().setLevel(level.upper())
